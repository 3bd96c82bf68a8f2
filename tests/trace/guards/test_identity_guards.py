"""Which of several equal values a place holds, where code asks for that."""

from __future__ import annotations

import collections
import operator
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.trace.observed import Hybridize, Program, hybridized, require_same, t

KINDS = {
    "list": list,
    "dict": dict,
    "set": set,
    "deque": collections.deque,
    "ordered dict": collections.OrderedDict,
    "frozenset": lambda: frozenset([1, "a", 3]),
    "tuple": lambda: tuple([1000, 2]),
    "list of a tensor": lambda: [t(1.0)],
    "text": lambda: "".join(["a", "b" * 50]),
    "bytes": lambda: bytes([1] * 40),
    "int": lambda: int("12345678"),
    "float": lambda: float("1.5"),
    "object": SimpleNamespace,
    "function": lambda: lambda x: x,
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_place_that_each_call_turns(make: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        s = SimpleNamespace(a=make(), b=make())
        s.now, found = s.a, []

        def turn(x: Any) -> Any:
            first = s.now is s.a
            s.now = s.b if first else s.a
            return x if first else -x

        f = hybridize(turn)
        for _ in range(5):
            found += [f(t(1.0)), s.now is s.a, s.now is s.b]
        return found

    require_same(program)


ASKING = {
    "is": lambda s: s.now is s.a,
    "is not": lambda s: s.now is not s.b,
    "id": lambda s: id(s.now) == id(s.a),
    "a key": lambda s: {id(s.a): True, id(s.b): False}[id(s.now)],
    "operator": lambda s: operator.is_(s.now, s.a),
    "any": lambda s: any(s.now is one for one in [s.a]),
    "nested": lambda s: s.now is s.kept["a"],
}
HELD = ("list", "dict", "tuple", "text", "list of a tensor")


@pytest.mark.parametrize("kind", [*HELD, "tensor"])
@pytest.mark.parametrize("asks", ASKING.values(), ids=ASKING)
def test_a_place_that_is_changed_between_calls(asks: Any, kind: str) -> None:
    make = KINDS.get(kind, lambda: t(1.0))

    def program(hybridize: Hybridize) -> list[Any]:
        s = SimpleNamespace(a=make(), b=make())
        s.kept = {"a": s.a, "b": s.b}
        f, found = hybridize(lambda x: x if asks(s) else -x), []
        for name in "abbaab":
            s.now = getattr(s, name)
            found.append(f(t(1.0)))
        return found

    require_same(program)


FIRST = [1]
NOW = FIRST


def test_globals_and_variables() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        global NOW
        first, other = [1], [1]
        now = first

        def turn(to: Any) -> None:
            nonlocal now
            now = to

        f, found = hybridize(lambda x: (x if NOW is FIRST else -x) * (2 if now is first else 3)), []
        for one in (0, 1, 1, 0):
            NOW = (FIRST, [1])[one]
            turn((first, other)[one])
            found.append(f(t(1.0)))
        return found

    require_same(program)


def test_a_tensor_that_is_an_argument_or_not() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        s = SimpleNamespace(w=t(1.0))
        f = hybridize(lambda x: x * 2 if x is s.w else x)
        g = hybridize(lambda x: x * {id(s.w): 2.0}.get(id(x), 1.0))
        return [each for x in (t(1.0), s.w, t(1.0)) for each in (f(x), g(x))]

    require_same(program)


def test_tensors_that_were_met() -> None:
    def once(*tensors: Any) -> Any:
        met, total = set(), 0.0
        for tensor in tensors:
            if id(tensor) not in met:
                met.add(id(tensor))
                total = total + tensor
        return total

    def program(hybridize: Hybridize) -> list[Any]:
        f, a, b = hybridize(once), t(1.0), t(2.0)
        return [f(a, b), f(a, a), f(b, a), f(t(3.0), t(4.0))]

    require_same(program)


def test_the_reason() -> None:
    s = SimpleNamespace(a=[1], b=[1])
    s.now = s.a
    f = hy.hybridize(lambda x: x if s.now is s.a else -x, ledger=False)
    f(t(1.0))
    s.now = s.b
    f(t(1.0))
    assert f.plans[-1].why == "whether SimpleNamespace.a is SimpleNamespace.now has changed"


def test_lists_that_each_call_makes() -> None:
    """They are others than any that was there, so one plan serves."""
    s = SimpleNamespace(a=[1.0], now=None)

    def step(x: Any) -> Any:
        same = s.now is s.a
        s.now = [x]
        return x if same else -x

    f = hy.hybridize(step, ledger=False)
    assert [f(t(1.0)).item() for _ in range(5)] == [-1.0] * 5
    assert len(f.plans) == 2  # of no list, and of a list
    s.now = s.a
    assert [f(t(1.0)).item(), f(t(1.0)).item()] == [1.0, -1.0]


@pytest.mark.parametrize("kind", ["set", "tuple", "list"])
def test_what_is_written_is_the_object_itself(kind: str) -> None:
    make = KINDS[kind]

    def program(hybridize: Hybridize) -> list[Any]:
        s, found = SimpleNamespace(a=make(), b=make()), []

        def put(x: Any) -> Any:
            s.now = s.b
            return x

        s.now = s.a
        f = hybridize(put)
        for _ in range(3):
            s.now = s.a
            f(t(1.0))
            found.append(s.now is s.b)
        return found

    require_same(program)


def test_a_swap_of_equal_lists() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        s, found = SimpleNamespace(a=[1.0], b=[1.0]), []
        first = s.a

        def swap(x: Any) -> Any:
            s.a, s.b = s.b, s.a
            return x * s.a[0]

        f = hybridize(swap)
        for _ in range(4):
            found += [f(t(1.0)), s.a is first]
        return found

    require_same(program)


def test_nan_in_a_list() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        nan = float("nan")
        s = SimpleNamespace(value=nan, items=[nan])
        f = hybridize(lambda x: x if s.value in s.items else -x)
        found = [f(t(1.0))]
        s.value = float("nan")
        return [*found, f(t(1.0))]

    require_same(program)


def of_arguments(function: Any, *calls: Any) -> Program:
    return lambda hybridize: [hybridize(function)(*call) for call in calls]


LISTS = [1.0], [1.0]
TEXTS = "a" * 30, "".join(["a"] * 30)
COMPARED = "compared by `is`"
REFUSED = {
    "two lists": (lambda a, b, x: x if a is b else -x, (*LISTS, t(1.0)), "list", COMPARED),
    "a text": (lambda a, x: x if a is TEXTS[0] else -x, (TEXTS[0], t(1.0)), "str", COMPARED),
    "an id": (lambda a, x: x * id(a), (LISTS[0], t(1.0)), "list", "asked for its id"),
}  # fmt: skip


@pytest.mark.parametrize(("function", "call", "kind", "asked"), REFUSED.values(), ids=REFUSED)
def test_arguments_are_refused(function: Any, call: Any, kind: str, asked: str) -> None:
    with pytest.raises(CaptureError) as caught:
        hybridized(of_arguments(function, call))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"an argument, a {kind}, was {asked} (")
    assert lines[2:] == [
        f"A plan knows a {kind} among the arguments by what it holds, not by which one it is.",
        "Fix: compare what they hold (==), or pass a flag or an object of a class beside it.",
    ]


def test_the_advice() -> None:
    class Holder:
        def __init__(self, items: list[float]) -> None:
            self.items = items

    first, other = Holder([1.0]), Holder([1.0])
    require_same(
        of_arguments(
            lambda a, b, x: x if a is b else -x, (first, other, t(1.0)), (first, first, t(1.0))
        )
    )
    require_same(of_arguments(lambda a, b, x: x if a == b else -x, (*LISTS, t(1.0))))


def test_arguments_that_cannot_be_one() -> None:
    require_same(
        of_arguments(
            lambda a, b, x: x if a is b else -x, ([1.0], [1.0, 2.0], t(1.0)), ([1.0], None, t(1.0))
        )
    )
    require_same(of_arguments(lambda a, x: x if a is a else -x, ([1.0], t(1.0))))


def test_constants_of_the_code() -> None:
    """Each call has the very object: a number, or a tuple that a place then holds."""

    def program(hybridize: Hybridize) -> list[Any]:
        s = SimpleNamespace(number=None, pair=None, items=[None, None])

        def told(x: Any) -> Any:
            number, pair, items = s.number, s.pair, [*s.items]
            s.number, s.pair = 0.37, (1, 2.5)
            s.items[0], s.items[1] = (), (("a", 0.37), 7)
            if x > 0:
                x = x * 2
            same = [s.items[k] is item for k, item in enumerate(items)]
            return x, number is s.number, pair is s.pair, pair is not s.pair, same

        told = hybridize(told)
        return [told(t(v)) for v in (1.0, -1.0, 2.0)]

    require_same(program)
