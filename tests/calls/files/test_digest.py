"""Digests: the same for what is as it was, and for nothing else."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls.files.digest import ReadsDigest
from hybrid.calls.files.purity import WORLDLY, is_pure, makes_sets, searched
from hybrid.trace.guards.reads import Reads


class Kind(enum.Enum):
    A = 1
    B = 2


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Box:
    value: Any


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def apart() -> Any:
    return [hy.zeros(2), hy.zeros(2)]


def together() -> Any:
    return [hy.zeros(2)] * 2


def learned() -> Any:
    x = hy.zeros(2)
    x.requires_grad = True
    return x


def with_gradient() -> Any:
    x = learned()
    hy.sum(x).backward()
    return x


def add(x):
    return x + 1


def subtract(x):
    return x - 1


NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]

# What makes a value; the values are all different, and made twice each of them is the same.
MAKERS: list[Callable[[], Any]] = [
    *[lambda value=value: value for value in (
        None, True, False, 0, 1, 2**70, 0.0, -0.0, 1.0, float("nan"), NAN, 1j, -1j, 0j, "1", b"1",
        "", "again", "missing", "('again', 0)\n", ...,
        NotImplemented, (None, 1), ("missing",), hy.float32, hy.float64, Kind.A, Kind.B, Kind,
        range(3), range(4), slice(1), slice(1, None), np.float32(1), np.float64(1), np.int32(1),
        np.dtype("f4"), add, subtract, hy.add, hy.multiply, abs, np.add, np.subtract, len,
        hy.nn.Linear, hy.nn.Conv1d, dict, list, Box, Pair,
    )],
    lambda: (), lambda: [], lambda: {}, lambda: OrderedDict(), lambda: deque(), set, frozenset,
    lambda: deque(maxlen=2), lambda: defaultdict(int), lambda: defaultdict(list), object,
    lambda: (1,), lambda: [1], lambda: [True], lambda: [1.0], lambda: ([1],), lambda: [(1,)],
    lambda: {1}, lambda: frozenset([1]), lambda: [1, 2], lambda: [2, 1], lambda: [[1], 2],
    lambda: {"a": 1}, lambda: {"a": 2}, lambda: {"b": 1}, lambda: {"a": 1, "b": 1},
    lambda: {"b": 1, "a": 1}, lambda: {1: "a"}, lambda: Pair(1, 2), lambda: Pair(2, 1),
    lambda: (1, 2), lambda: Box(1), lambda: Box(2), lambda: Box([1]), lambda: Slotted(1),
    lambda: Slotted(2), lambda: functools.partial(add), lambda: functools.partial(add, 1),
    lambda: functools.partial(add, x=1), lambda: functools.partial(subtract),
    lambda: np.zeros(2), lambda: np.ones(2), lambda: np.zeros((2, 1)), lambda: np.zeros(2, "f4"),
    lambda: hy.zeros(2), lambda: hy.zeros((2, 1)), lambda: hy.zeros(2, dtype=hy.float64), learned,
    with_gradient, apart, together, lambda: [[], []], lambda: [[]] * 2,
    lambda: hy.nn.Linear(2, 3), lambda: hy.nn.Linear(2, 3, bias=False),
    lambda: hy.nn.Linear(2, 3).eval(), lambda: hy.nn.Parameter([0.0, 0.0]),
    lambda: hy.hybridize(add), lambda: hy.hybridize(subtract),
    lambda: hy.hybridize(add, mode="trace"), lambda: hy.random.Generator(1),
]  # fmt: skip


def digest(value: Any) -> str:
    """Of a function that reads ``value`` from outside, with an attribute called value."""

    def function(x):
        return (value, getattr(value, "value", None), x)

    return ReadsDigest(Reads(function, []), [], []).digest


def test_different_values_have_different_digests() -> None:
    first = [digest(make()) for make in MAKERS]
    assert first == [digest(make()) for make in MAKERS]
    for (a, b), (make, other) in zip(
        itertools.combinations(first, 2), itertools.combinations(MAKERS, 2), strict=True
    ):
        assert a != b, (make(), other())


def test_arguments_and_what_else_is_said() -> None:
    def digest(*leaves: Any, about: Any = (), free: Any = ()) -> str:
        return ReadsDigest(Reads(add, list(leaves)), leaves, about, free).digest

    x = hy.zeros(2)
    found = [
        digest(), digest(1), digest(2), digest(1, free=[0]), digest(x),
        digest(x, x), digest(x, hy.zeros(2)), digest(about=[(1,)]),
        digest(about=[("1",)]), digest(1.0, free=[0]),
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert digest(2, free=[0]) == digest(1, free=[0])


def membership(x):
    return x in {"a", "b", "c"}


def iteration(x):
    return [y for y in {"a", "b", "c"}]


def both(x):
    return x in {"a", "b", "c"} and list({"a", "b", "c"})


def test_the_order_of_sets() -> None:
    code = membership.__code__
    assert [code.co_consts[i] for i in searched(code)] == [frozenset("abc")]
    for other in (iteration.__code__, both.__code__):
        assert frozenset("abc") not in [other.co_consts[i] for i in searched(other)]
    assert not makes_sets(code)
    assert makes_sets((lambda x: [*{x, 1}]).__code__)
    assert makes_sets((lambda x: {y for y in x}).__code__)
    assert makes_sets((lambda x: lambda y: {x, y}).__code__)
    assert not makes_sets((lambda x: x in {x, 1}).__code__)


@pytest.mark.parametrize(
    ("module", "name", "pure"),
    [
        ("math", "sin", True),
        ("builtins", "len", True),
        ("builtins", "id", False),
        ("numpy", "sum", True),
        ("numpy", "load", False),
        ("numpy.random.mtrand", "rand", False),
        ("time", "time", False),
        ("os", "getenv", False),
        ("hybrid.ops.elementwise.arithmetic", "add", True),
        ("hybrid.weights.read", "load", False),
        ("hybrid.eager.profile", "profile", False),
        ("hybrid.calls.files.store", "Store", False),
        ("hybrid.nn.functional", "relu", True),
        ("argparse", "Namespace", True),
        ("argparse", "ArgumentParser", False),
    ],
)
def test_what_is_the_same_in_every_process(module: str, name: str, pure: bool) -> None:
    assert is_pure(module, name) == pure


@pytest.mark.parametrize("part", sorted(WORLDLY))
def test_parts_that_look_at_the_world_are_there(part: str) -> None:
    """Under another name, after a move, such a part would count as pure."""
    assert find_spec(f"hybrid.{part}") is not None
