"""Kept plans: what is loaded has the very bits of eager calls; what cannot be is not kept."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import random
import re
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls.files.lookup import build, environment
from tests.staging.harness import describe, draw, f32, i64

KEPT, LOADED = "kept in a file", "loaded from a file"
SCALE = 1.5
TABLE = {"a": 2.0, "b": (1, 2)}
CELL = hy.asarray(np.float32([1.0, 2.0, 3.0]))
ARRAY = np.float32([0.5, 1.5, 2.5])


class Mode(enum.Enum):
    UP = 1
    DOWN = 2


@dataclass(frozen=True)
class Settings:
    factor: float = 0.5
    mode: Mode = Mode.UP


SETTINGS = Settings()


class Net(hy.nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = hy.nn.Linear(3, 5), hy.nn.Linear(5, 3)
        self.norm, self.drop = hy.nn.BatchNorm1d(5), hy.nn.Dropout(dropout)
        self.seen, self.slope = hy.zeros(()), 1.0

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        self.seen = self.seen + 1.0
        return self.second(self.drop(hy.nn.functional.relu(self.norm(self.first(x)))))


def control(x, n):
    total = hy.zeros_like(x)
    for i in range(3):
        if hy.sum(x) > i:
            total = total + x * i
    while hy.sum(hy.abs(total)) < n:
        total = total * 2 + 1
    return total


def plain():
    return lambda x: hy.tanh(x * SCALE) + CELL


def array():
    return lambda x: x * ARRAY + np.pi


def closure():
    factor, shift = 2.5, hy.asarray(np.float32([1.0, -1.0, 0.5]))

    def function(x, power=2):
        return (x * factor + shift) ** power * TABLE["a"]

    return function


def settings():
    def function(x):
        if SETTINGS.mode is Mode.UP and SETTINGS.mode in (Mode.UP, Mode.DOWN):
            return x * SETTINGS.factor
        return x

    return function


def structures():
    def function(x):
        return {"a": (x + 1, [x, None]), "b": x.shape, "c": 1.5, "d": True, "e": "text", "f": x}

    return function


def partial():
    return functools.partial(control, n=50.0)


def literals():
    def function(x):
        odd = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1]
        return [x * value for value in odd], hy.asarray([1e-45, -0.0, math.nan])

    return function


def gradient():
    return hy.grad(lambda x: hy.sum(hy.exp(x) * CELL))


def training():
    net = Net()
    optimizer = hy.optim.AdamW(net.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = hy.mean(net(hy.stack([x, x * 2, x - 1])) ** 2)
        loss.backward()
        optimizer.step()
        return loss

    return step, net


def accumulating():
    net = hy.nn.Linear(3, 2)

    def step(x):
        loss = hy.sum(net(x) ** 2)
        loss.backward()
        return loss

    return step, net


def dropping():
    hy.random.seed(7)
    net = Net(0.5)
    return lambda x: net(hy.stack([x, x + 1])) + hy.random.normal(size=3)


def own_generator():
    generator = hy.random.Generator(3)
    return lambda x: x + generator.uniform(size=3)


def tied():
    net = hy.nn.Sequential(hy.nn.Linear(3, 3), hy.nn.Linear(3, 3))
    net[1].weight = net[0].weight
    return lambda x: net(x)


def membership():
    return lambda x, mode="up": x + 1 if mode in {"up", "down", "left"} else x


MAKERS = [
    plain, array, closure, settings, structures, partial, literals, gradient, training,
    accumulating, dropping, own_generator, tied, membership,
]  # fmt: skip


def outcome(make: Callable[[], Any], wrap: Callable[[Any], Any], runs: int) -> tuple[Any, Any]:
    """What some calls give, the gradients of their results too, and the function."""
    hy.random.seed(11)
    made = make()
    function, *state = made if isinstance(made, tuple) else (made,)
    call = wrap(function)
    found = []
    for i in range(runs):
        x = f32([0.5 + i, -1.0, 2.0])
        x.requires_grad = not state
        result = call(x)
        if isinstance(result, hy.Tensor) and x.requires_grad and result.requires_grad:
            hy.sum(result * result).backward()
            found.append(x.grad.numpy().copy())
        found.append(describe(result))
    for net in state:
        found.append({name: describe(value) for name, value in net.state_dict().items()})
        found.append([describe(p.grad) for p in net.parameters()])
    return found, call


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_loaded_plans_have_the_bits_of_eager_calls(make: Callable[[], Any], folder: Path) -> None:
    eager, _ = outcome(make, lambda function: function, 3)
    for expected in (KEPT, LOADED):
        found, call = outcome(make, lambda function: hy.hybridize(function), 3)
        assert str(found) == str(eager)
        told = [plan.filed for plan in call.plans]
        assert told and set(told) == {expected}, told
    assert len(list(folder.iterdir())) == len(told)


def test_a_loaded_plan_is_a_plan_like_others(folder: Path) -> None:
    function = hy.hybridize(control)
    x, other = draw(2, 3, seed=1), draw(4, seed=2)
    for expected in (KEPT, LOADED):
        function.clear()
        for n in (10.0, 20.0, 30.0):  # from the second call on any number will do
            assert describe(function(x, n)) == describe(control(x, n))
        assert describe(function(other, i64(3))) == describe(control(other, i64(3)))
        assert [plan.filed for plan in function.plans] == [expected] * 3
    assert describe(hy.vmap(function)(x, f32([5.0, 6.0]))) == describe(
        hy.stack([control(x[0], 5.0), control(x[1], 6.0)])
    )
    assert str(function.plans[0]).endswith("; built because: first call; loaded from a file")
    assert "while" in str(function.explain(x, 10.0))


def test_guards_hold_on_loaded_plans(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    function = hy.hybridize(lambda x: net(x) * SETTINGS.factor)
    x = draw(4, 3, seed=1)
    for expected in (KEPT, LOADED):
        function.clear()
        net.train()
        hy.random.seed(1)
        function(x)
        net.eval()
        assert describe(function(x)) == describe(net(x) * SETTINGS.factor)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), "SETTINGS", Settings(4.0))
            assert describe(function(x)) == describe(net(x) * 4.0)
        assert [plan.filed for plan in function.plans][:2] == [expected] * 2


def test_numbers_outside_become_inputs_of_loaded_plans(folder: Path) -> None:
    for expected in (KEPT, LOADED):
        net = Net().eval()
        function = hy.hybridize(lambda x, net=net: net(x) * net.slope)
        x = draw(4, 3, seed=1)
        for slope in (0.5, 1.5, 2.5, 3.5):
            net.slope = slope
            assert describe(function(x)) == describe(net(x) * slope)
        told = [plan.filed for plan in function.plans]
        assert told == [
            expected,
            "not kept in a file: numbers outside its arguments are inputs of it",
        ]


def test_a_number_that_decides_is_not_taken_for_any(folder: Path) -> None:
    """A family tries captures with numbers as inputs: what each gives is its own file."""

    def rows(x, n, scale, power):
        return hy.reshape(x, (n, -1)) * scale * (3.0 if power > 2 else 2.0)

    for _ in range(3):
        function = hy.hybridize(rows)
        for n, scale, power in ((2, 0.5, 3), (3, 1.5, 4), (6, 2.5, 1), (1, 3.5, 9), (2, 2.5, 1)):
            x = draw(12, seed=n)
            assert describe(function(x, n, scale, power)) == describe(rows(x, n, scale, power))
        assert all("file" in plan.filed for plan in function.plans)
    assert [plan.filed for plan in function.plans] == [LOADED] * len(function.plans)


def test_equal_objects_are_not_the_same(folder: Path) -> None:
    first, second = hy.nn.Linear(3, 3), hy.nn.Linear(3, 3)
    x = draw(2, 3, seed=1)
    for net in (first, second):  # of one digest, and of two weights
        function = hy.hybridize(lambda x, net=net: net(x) + 1)
        assert describe(function(x)) == describe(net(x) + 1)
    assert function.plans[0].filed == LOADED
    holder = types.SimpleNamespace(net=first)
    function = hy.hybridize(lambda x: holder.net(x))
    for net in (first, second, first):
        holder.net = net
        assert describe(function(x)) == describe(net(x))


# What is not kept, and why -----------------------------------------------------------------------

LOCK, RANDOM, BAG = threading.Lock(), random.Random(1), {"b", "a"}
HELD: list[Any] = []


class Point(NamedTuple):
    x: Any
    y: Any


class Caching:
    @functools.cached_property
    def factor(self) -> float:
        return 2.0


def with_cached_property():
    owner = Caching()
    return lambda x: x * owner.factor


@functools.lru_cache
def remembered() -> float:
    return 3.0


def fill(x):
    HELD.append(x)
    return x


def order(x):
    for name in {"a", "b"}:
        x = x + len(name)
    return x


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("a lock", lambda: lambda x: x if LOCK else x + 1, "the global LOCK is a lock"),
    (
        "a generator",
        lambda: lambda x: x if RANDOM else x + 1,
        "the global RANDOM is random.Random, which may differ from process to process",
    ),
    ("print", lambda: lambda x: (print(x), x)[1], "what it has become is the attributes of "),
    ("id", lambda: lambda x: x + (id(x) > 0), "the function is code that uses id()"),
    ("a set", lambda: lambda x: x + len(set(x.shape)), "the function is code that uses set()"),
    (
        "a loop over a set",
        lambda: lambda x: x + sum([v for v in {x.ndim, 2}]),
        "the function is code that makes a set, the order of whose items may differ",
    ),
    (
        "numpy.random",
        lambda: lambda x: x + (0 if np.pi else np.random.rand()),
        "code that may use numpy.random",
    ),
    ("a list that grows", lambda: fill, "it writes to lists, dicts, or plain variables"),
    (
        "a cached property",
        with_cached_property,
        "capturing it has changed what it reads: a cached property, say",
    ),
    (
        "a cache",
        lambda: lambda x: x * remembered(),
        "the global remembered is a function with a cache, whose content is another in each "
        "process",
    ),
    (
        "an object that each run makes",
        lambda: lambda x: Made(x),
        "it changes lists or dicts, or makes objects",
    ),
    ("a named tuple", lambda: lambda x: Point(x, x), "it gives a Point"),
    (
        "a mask that is a constant",
        lambda: lambda x: x[CHOSEN],
        "it counts on the content of a tensor (bool[3]) that elements are selected by",
    ),
    (
        "a counter",
        lambda: lambda x: x if COUNT else x + 1,
        "the global COUNT is a count",
    ),
]  # fmt: skip


@dataclass
class Made:
    value: Any


CHOSEN = hy.asarray([True, False, True])
COUNT: Any = itertools.count()


@pytest.mark.parametrize(
    ("make", "reason"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_is_not_kept(make: Callable[[], Any], reason: str, folder: Path) -> None:
    function = hy.hybridize(make())
    function(f32([1.0, 2.0, 3.0]))
    (plan,) = function.plans
    assert plan.filed.startswith(f"not kept in a file: {reason}"), plan.filed
    assert not folder.exists() or not list(folder.iterdir())


def test_sets_are_told_apart_by_their_order(folder: Path) -> None:
    function = hy.hybridize(order)
    function(f32([1.0]))
    assert function.plans[0].filed == KEPT  # the digest holds the order of this process


def test_off_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hybrid import config

    monkeypatch.setattr(config, "_plan_cache", [])
    monkeypatch.delenv("HYBRID_PLAN_CACHE", raising=False)
    function = hy.hybridize(lambda x: x + 1)
    function(f32([1.0]))
    assert function.plans[0].filed == "" and "file" not in str(function.plans[0])
    monkeypatch.setenv("HYBRID_PLAN_CACHE", str(tmp_path / "plans"))
    function.clear()
    function(f32([1.0]))
    assert function.plans[0].filed == KEPT
    hy.cache_plans(None)
    function.clear()
    function(f32([1.0]))
    assert function.plans[0].filed == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"directory": 3},
            "plans cannot be kept in 3\nFix: name a folder, or None for nowhere.",
        ),
        (
            {"directory": ""},
            "plans cannot be kept in ''\nFix: name a folder, or None for nowhere.",
        ),
        (
            {"directory": "x", "limit": 0},
            "limit is 0\nFix: give a number of bytes, an int >= 1.",
        ),
        (
            {"directory": "x", "limit": 1.5},
            "limit is 1.5\nFix: give a number of bytes, an int >= 1.",
        ),
    ],
)
def test_messages(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(hy.HybridError, match=f"^{re.escape(text)}$"):
        hy.cache_plans(**arguments)


def test_the_build_is_known_by_its_files(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "part").mkdir(parents=True)
    for name in ("a.py", "part/b.py", "_native.abi3.so", "notes.txt"):
        (package / name).write_text("1")
    seen = {build(str(package))}
    (package / "notes.txt").write_text("12")
    assert {build(str(package))} == seen
    for name in ("a.py", "part/b.py", "_native.abi3.so"):
        (package / name).write_text("12")
        seen.add(build(str(package)))
    assert len(seen) == 4
    assert build() in environment()


def test_what_is_computed_ahead_is_kept_apart(folder: Path) -> None:
    net = hy.nn.Conv2d(64, 64, 3, padding=1, bias=False).eval().requires_grad_(False)
    x = draw(1, 64, 28, 28, seed=3)
    expected = net(x).numpy().tobytes()
    call = hy.hybridize(net)._plan_cache()
    for filed in (KEPT, LOADED):
        call.clear()
        assert net(x).numpy().tobytes() == net(x).numpy().tobytes() == expected
        (plan,) = call.plans
        assert plan.filed == filed and plan.kept_nbytes > 64 * 64 * 16 * 4
    net.weight.assign(net.weight * 2)
    assert np.array_equal(net(x).numpy(), np.frombuffer(expected, np.float32).reshape(x.shape) * 2)
