"""Containers of the author's classes: what they hold is compared, not what their methods say."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import pytest

import hybrid as hy


def says_something_else(base: type) -> type:
    """A class derived from ``base`` whose own methods give other answers each time."""
    calls: list[int] = []  # in a closure of methods that no captured function calls

    class Lying(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            calls.append(1)
            return len(calls)

        def __iter__(self) -> Any:
            calls.append(1)
            return iter([len(calls)])

        def __eq__(self, other: object) -> bool:
            calls.append(1)
            return False

        def __hash__(self) -> int:
            return 0

        def __contains__(self, item: object) -> bool:
            return base.__contains__(self, item)

        def keys(self) -> Any:
            calls.append(1)
            return [len(calls)]

        def values(self) -> Any:
            calls.append(1)
            return [len(calls)]

        def items(self) -> Any:
            calls.append(1)
            return [(len(calls), len(calls))]

        def copy(self) -> Any:
            calls.append(1)
            return [len(calls)]

    return Lying


BASES: list[tuple[type, Any, Any]] = [  # with what is in there, and how it is read
    (list, [2.0, 3.0], lambda c: c[0]),
    (tuple, (2.0, 3.0), lambda c: c[0]),
    (deque, [2.0, 3.0], lambda c: c[0]),
    (dict, {"a": 2.0}, lambda c: c["a"]),
    (OrderedDict, {"a": 2.0}, lambda c: c["a"]),
    (set, {2.0}, lambda c: 2.0 if 2.0 in c else 3.0),
    (frozenset, {2.0}, lambda c: 2.0 if 2.0 in c else 3.0),
]


class Holder:
    """Has the container as an attribute."""

    held: Any


@pytest.mark.parametrize(
    ("base", "content", "read"), BASES, ids=lambda v: getattr(v, "__name__", "")
)
@pytest.mark.parametrize("place", ["global", "attribute", "variable", "argument"])
def test_methods_of_a_container_are_not_asked(
    base: type, content: Any, read: Any, place: str
) -> None:
    held = says_something_else(base)(content)
    holder = Holder()
    holder.held = held
    functions: dict[str, Any] = {
        "global": lambda x: x * read(GIVEN["held"]),
        "attribute": lambda x: x * read(holder.held),
        "variable": lambda x: x * read(held),
        "argument": lambda x, c: x * read(c),
    }
    GIVEN["held"] = held
    function = hy.hybridize(functions[place])
    given = (held,) if place == "argument" else ()
    for _ in range(3):
        assert function(hy.ones(2), *given).tolist() == [2.0, 2.0]
    assert len(function.plans) == 1


GIVEN: dict[str, Any] = {}


@pytest.mark.parametrize("base", [list, deque, dict, OrderedDict])
def test_a_change_past_the_methods_is_noticed(base: type) -> None:
    held = says_something_else(base)({0: 2.0} if issubclass(base, dict) else [2.0])

    @hy.hybridize
    def function(x: hy.Tensor) -> hy.Tensor:
        return x * held[0]

    for number in (2.0, 5.0, 7.0):
        base.__setitem__(held, 0, number)
        assert function(hy.ones(1)).tolist() == [number]


@pytest.mark.parametrize("base", [list, deque, dict, OrderedDict])
def test_tensors_are_written_past_the_methods(base: type) -> None:
    held = says_something_else(base)({0: hy.zeros(1)} if issubclass(base, dict) else [hy.zeros(1)])

    @hy.hybridize
    def function(x: hy.Tensor) -> hy.Tensor:
        held[0] = held[0] + x
        return held[0] * 2

    for number in (1.0, 2.0, 3.0):
        assert function(hy.ones(1)).tolist() == [2 * number]
        assert held[0].tolist() == [number]
