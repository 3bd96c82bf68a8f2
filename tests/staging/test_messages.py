"""What converted code refuses, in full."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.helpers import tensor


def guard(x: Any) -> Any:
    class Inner:
        match x.shape:
            case (n,) if x.sum() > 0:
                found = n

    return Inner.found


def walrus(x: Any) -> Any:
    return hy.abs((x > 0) and (y := x) + y)


def condition(x: Any) -> Any:
    return {y for y in (x, -x) if y.sum() > 0}


def message_that_binds(x: Any) -> Any:
    assert x.sum() > 0, (text := "negative")  # noqa: RUF018
    return x, text


LINES = {
    guard: (3, "case (n,) if x.sum() > 0:"),
    walrus: (1, "return hy.abs((x > 0) and (y := x) + y)"),
    condition: (1, "return {y for y in (x, -x) if y.sum() > 0}"),
    message_that_binds: (1, 'assert x.sum() > 0, (text := "negative")  # noqa: RUF018'),
}


@pytest.mark.parametrize("function", LINES)
def test_tests_that_python_itself_takes(function: Any) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(tensor(3) * 0 + 1)
    line, text = LINES[function]
    line += function.__code__.co_firstlineno
    assert str(caught.value) == (
        "a test on the value of a tensor stands where Python itself has to take the branch "
        f"({__file__}:{line})\n"
        f"    {line} | {text}\n"
        "Class bodies, conditions of set and dict comprehensions, operands with `yield` or, inside "
        "a larger expression, with `:=`, and what is nested more than 20 blocks deep are run as "
        "they are written.\n"
        "Fix: move the test into an if statement of its own, or choose with hybrid.where."
    )
