"""Generators end when the loop over them does, and run what their ``finally`` holds."""

# ruff: noqa: B007  loops that end at once

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError

Make = Callable[[], Iterator[Any]]


def left_at_once(make: Make, x: Any) -> Any:
    for v in make():
        break
    return v


def left_later(make: Make, x: Any) -> Any:
    for i, v in enumerate(make()):
        if i == 1:
            break
    return v


def to_the_end(make: Make, x: Any) -> Any:
    for v in make():
        x = x + v
    return x


def returned_from(make: Make, x: Any) -> Any:
    for v in make():
        if v.shape[0] == 2:
            return v
    return x


def kept(make: Make, x: Any) -> Any:
    items = make()
    for _ in items:
        break
    return next(items)


def beside_another(make: Make, x: Any) -> Any:
    for v, k in zip(make(), [1, 2], strict=False):
        x = v * k
    return x


def raised_from(make: Make, x: Any) -> Any:
    try:
        for v in make():
            raise ValueError("so")
    except ValueError:
        pass
    return v


def one_in_the_other(make: Make, x: Any) -> Any:
    for v in make():
        for w in make():
            break
        if v.shape[0] == 2:
            break
    return v + w


def asked_once(make: Make, x: Any) -> Any:
    return next(make())


def unpacked(make: Make, x: Any) -> Any:
    first, *others = make()
    return first + sum(others)


LOOPS = [
    left_at_once, left_later, to_the_end, returned_from, kept, beside_another, raised_from,
    one_in_the_other, asked_once, unpacked,
]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_the_end_comes_with_the_loop(loop: Callable[..., Any]) -> None:
    def program(x: Any) -> Any:
        def make() -> Iterator[Any]:
            try:
                for k in range(4):
                    yield x * k
            finally:
                ended.append(hy.sum(x))

        ended: list[Any] = []
        result = loop(make, x)
        return result, len(ended), list(ended)

    captured = hy.hybridize(program, ledger=False)
    for values in ([1.0, 2.0], [-1.0, 0.5]):
        x = hy.asarray(values)
        assert repr(captured(x)) == repr(program(x))


def finally_at_the_end(x: Any, ended: list[Any]) -> Iterator[Any]:
    try:
        for k in range(4):
            yield x * k
    finally:
        ended.append(x)


def with_at_the_end(x: Any, ended: list[Any]) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        stack.callback(ended.append, x)
        for k in range(4):
            yield x * k


def handler_at_the_end(x: Any, ended: list[Any]) -> Iterator[Any]:
    try:
        for k in range(4):
            yield x * k
    except GeneratorExit:
        ended.append(x)


def no_end(x: Any, ended: list[Any]) -> Iterator[Any]:
    try:
        for k in range(4):
            yield x * k
    except ValueError:
        ended.append(x)


def left_by_a_tensor(make: Callable[..., Iterator[Any]], x: Any) -> Any:
    ended: list[Any] = []
    for v in make(x, ended):
        if hy.sum(v) > 2:
            break
    return v, len(ended)


@pytest.mark.parametrize("make", [finally_at_the_end, with_at_the_end, handler_at_the_end])
def test_an_end_in_an_iteration_that_a_run_finds_is_refused(make: Callable[..., Any]) -> None:
    x = hy.asarray([1.0, 0.5])
    with pytest.raises(CaptureError, match="whose yields are in a finally or with") as caught:
        hy.hybridize(lambda x: left_by_a_tensor(make, x))(x)
    assert "Fix: make a list of the items first" in str(caught.value)

    def followed(x: Any) -> Any:
        return left_by_a_tensor(lambda x, ended: list(make(x, ended)), x)

    assert repr(hy.hybridize(followed)(x)) == repr(followed(x))


def test_other_generators_may_be_left_by_a_tensor() -> None:
    captured = hy.hybridize(lambda x: left_by_a_tensor(no_end, x), ledger=False)
    for values in ([1.0, 0.5], [-1.0, 0.5], [4.0, 1.0]):
        x = hy.asarray(values)
        assert repr(captured(x)) == repr(left_by_a_tensor(no_end, x))
