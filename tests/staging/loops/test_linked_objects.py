"""Loops over objects that lead from one to the next: of Python, so each iteration is traced."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import f32


class Node:
    """One of a linked list."""

    def __init__(self, value: Any, following: Any) -> None:
        self.value, self.following = value, following


class Holder:
    """Has the first of a linked list."""

    first: Any


HOLDER = Holder()


def linked(count: int, tensors: bool = False) -> Any:
    first = None
    for i in range(count):
        first = Node(hy.asarray(float(i)) if tensors else float(i), first)
    return first


def total(x: Any) -> Any:
    node, found = HOLDER.first, 0.0
    while node is not None:
        found = found + node.value
        node = node.following
    return x * found


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 300])
def test_a_loop_goes_over_all_of_them(count: int, tensors: bool) -> None:
    """More than 64 were refused: each iteration binds another object."""
    HOLDER.first = linked(count, tensors)
    function = hy.hybridize(total)
    expected = total(f32([1.0, 2.0])).tolist()
    assert [function(f32([1.0, 2.0])).tolist() for _ in range(2)] == [expected] * 2
    assert len(function.plans) == 1
    HOLDER.first = HOLDER.first.following
    assert function(f32([1.0, 2.0])).tolist() == total(f32([1.0, 2.0])).tolist()


def test_thousands_are_read() -> None:
    HOLDER.first = linked(1200)  # more than there may be calls of Python inside each other

    @hy.hybridize
    def function(x: Any) -> Any:
        return x * HOLDER.first.following.value

    assert function(f32([1.0])).tolist() == [1198.0]
    HOLDER.first.following.value = 2.0
    assert function(f32([1.0])).tolist() == [2.0]
    given = hy.hybridize(lambda node, x: x * node.value)
    assert given(linked(1200), f32([1.0])).tolist() == [1199.0]


def test_the_rest_of_a_long_loop_is_still_a_node() -> None:
    @hy.hybridize
    def function(x: Any) -> Any:
        count = 0
        while count < 500:
            x = x + 1
            count += 1
        return x

    assert function(f32([1.0])).tolist() == [501.0]
    assert "for" in str(function.graph(f32([1.0]))) or "while" in str(function.graph(f32([1.0])))
