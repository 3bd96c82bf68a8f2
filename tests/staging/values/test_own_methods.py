"""Special methods of the author's that return what only a run knows: truths, lengths, numbers."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy


class Vector:
    """Its truth, and whether it equals or contains something, is told by what it holds."""

    def __init__(self, v: Any) -> None:
        self.v, self.asked = v, 0

    def __bool__(self) -> bool:
        self.asked += 1
        return bool(self.v.sum() > 0)

    def __eq__(self, other: object) -> bool:
        return bool((self.v == other.v).all()) if isinstance(other, Vector) else NotImplemented

    def __contains__(self, value: Any) -> bool:
        return bool((self.v == value).any())

    __hash__ = None


class Counted:
    """Its length, and the numbers that it can be made, are told by what it holds."""

    def __init__(self, v: Any) -> None:
        self.v = v

    def __len__(self) -> int:
        return int((self.v > 0).sum())

    def __int__(self) -> int:
        return int(self.v.sum() * 2)

    def __index__(self) -> int:
        return int(self.v.sum())

    def __float__(self) -> float:
        return float(self.v.sum() / 4)


class Plain:
    def __len__(self) -> int:
        return 4

    def __int__(self) -> int:
        return 3

    def __float__(self) -> float:
        return 2.5

    def __index__(self) -> int:
        return 1


class Wrong(Vector):
    def __bool__(self) -> Any:
        return self.v.sum()

    def __int__(self) -> Any:
        return float(self.v.sum())

    def __float__(self) -> Any:
        return self.v

    def __len__(self) -> Any:
        return -1


class Letter(str, enum.Enum):
    A, B = "a", "b"


class Level(enum.IntEnum):
    LOW, HIGH = 1, 2


def in_a_while(x: Any) -> Any:
    v = Vector(x)
    while v:
        v, x = Vector(v.v - 1), x + 1
    return x


def in_an_if(x: Any) -> Any:
    v = Vector(x)
    y = x * 2 if v else x * 3
    if not v:
        y = y + 1
    return y, v.asked


def in_an_assert(x: Any) -> Any:
    assert Vector(x), "not above 0"
    return x


def in_a_range(x: Any) -> Any:
    total = x
    for i in range(Counted(x)):
        total = total + i
    return total


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "if": in_an_if,
    "while": in_a_while,
    "assert": in_an_assert,
    "and": lambda x: x * 2 if Vector(x) and x[0] > 1 else x * 3,
    "value of and": lambda x: (Vector(x) and Vector(x * 5)).v,
    "value of or": lambda x: (Vector(x) or Vector(x * 5)).v,
    "bool": lambda x: x * bool(Vector(x)),
    "any": lambda x: x * 2 if any([Vector(x), Vector(x - 1)]) else x * 3,
    "all": lambda x: x * 2 if all([Vector(x), Vector(x - 1)]) else x * 3,
    "comprehension": lambda x: x * len([v for v in [Vector(x), Vector(-x)] if v]),
    "==": lambda x: x * 2 if Vector(x) == Vector(x * x) else x * 3,
    "!=": lambda x: x * 2 if Vector(x) != Vector(x * x) else x * 3,
    "!= of another class": lambda x: x * 2 if Vector(x) != 3 else x * 3,
    "chain": lambda x: x * 2 if Vector(x) != Vector(x * x) != Vector(x) else x * 3,
    "in": lambda x: x * 2 if 1.0 in Vector(x) else x * 3,
    "not in": lambda x: x * 2 if 1.0 not in Vector(x) else x * 3,
    "in a list": lambda x: x * 2 if Vector(x) in [Vector(x * x), Vector(x * 9)] else x * 3,
    "len": lambda x: x * len(Counted(x)),
    "length as a truth": lambda x: x * 2 if Counted(x) else x * 3,
    "int": lambda x: x * int(Counted(x)),
    "float": lambda x: x * float(Counted(x)),
    "range": in_a_range,
    "plain": lambda x: x * (len(Plain()) + int(Plain()) + float(Plain()) + len(range(Plain()))),
    "plain truth": lambda x: x * 2 if Plain() else x,
    "no bool": lambda x: x * 2 if Wrong(x) else x * 3,
    "no int": lambda x: x * int(Wrong(x)),
    "no float": lambda x: x * float(Wrong(x)),
    "no length": lambda x: x * len(Wrong(x)),
}


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        found = function(*args)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error), str(error).partition("\n")[0] * isinstance(error, AssertionError)
    return [y.tolist() if isinstance(y, hy.Tensor) else y for y in _parts(found)]


def _parts(found: Any) -> Any:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_same(name: str) -> None:
    program = PROGRAMS[name]
    captured = hy.hybridize(program, ledger=False)
    for k in (1.0, -1.0, 2.0, 0.0):
        x = hy.ones((2,)) * k
        assert outcome(captured, x) == outcome(program, x), k


@pytest.mark.parametrize("kind", [Letter, Level])
def test_members_of_enumerations_are_compared_by_is(kind: Any) -> None:
    first, second = kind
    captured = hy.hybridize(lambda x, e: x * 2 if e is first else x * 3, ledger=False)
    x = hy.ones((2,))
    found = [captured(x, e).tolist() for e in (first, second, first)]
    assert found == [[2, 2], [3, 3], [2, 2]]


def test_a_layer_with_a_truth_of_its_own() -> None:
    class Gate(hy.nn.Module):
        def __init__(self) -> None:
            self.w = hy.nn.Parameter(hy.ones((2,)))

        def __bool__(self) -> bool:
            return bool(self.w.sum() > 0)

        def forward(self, x: Any) -> Any:
            return x * 2 if self else x * 3

    gate = Gate()
    captured = hy.hybridize(lambda x: gate(x))
    assert captured(hy.ones((2,))).tolist() == [2, 2]
    gate.w.assign(hy.ones((2,)) * -1)
    assert captured(hy.ones((2,))).tolist() == [3, 3]
