"""Generators end when the loop over them does, and run what their ``finally`` holds."""

# ruff: noqa: B007  loops that end at once

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hybrid as hy

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
