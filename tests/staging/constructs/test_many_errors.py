"""Errors of which there are too many to follow, or that are too deep: the function runs eagerly."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.staging.nodes import error_session
from hybrid.trace.regions import continuation
from tests.staging.harness import describe, f32


def root(v: Any) -> Any:
    if v < 0:
        raise ValueError("negative", v)
    return v * 0.5


def level(x: Any, k: int) -> Any:
    if k == 0:
        return root(x) + x
    y = x
    try:
        y = level(x - k, k - 1)
        y = root(y)
    finally:
        y = root(y + x)
    return y + x


def doubled_at_each_level(x: Any) -> Any:
    try:
        return level(x, 4)
    except ValueError:
        return x


def one_after_the_other(x: Any) -> Any:
    y = x
    try:
        y = root(root(root(y + 1) + x) + 2) + x
        y = root(root(root(y + 1) + x) + 2) + x
    except ValueError:
        y = x * 3
    return y


def deeper(x: Any, k: int) -> Any:
    return deeper(x, k + 1) + 1


def endless_in_a_try(x: Any) -> Any:
    try:
        y = deeper(x, 0)
    except Exception:
        y = x * 2
    return y


class Quiet:
    ended = 0

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return kind is not None


def endless_in_a_with(x: Any) -> Any:
    y = x
    with Quiet():
        y = deeper(x, 0)
    return y


def endless_in_classes(x: Any) -> Any:
    class Inner:
        try:
            y = deeper(x, 0)
        except Exception:
            y = x * 2

    return Inner.y


def endless_in_a_with_of_a_class(x: Any) -> Any:
    class Inner:
        y = x
        with Quiet():
            y = deeper(x, 0)

    return Inner.y


def warning_of(function: Any) -> str:
    """What is said at the first call; all calls give what eager code gives."""
    f = hy.hybridize(function)
    with pytest.warns(UserWarning) as warned:
        for value in (2.0, -2.0, 60.0):
            assert describe(f(f32(value))) == describe(function(f32(value)))
    assert len(warned) == 1
    return str(warned[0].message)


def line_of(function: Any, offset: int, text: str) -> str:
    line = function.__code__.co_firstlineno + offset
    return f"({__file__}:{line})\n    {line} | {text}\n"


def test_errors_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_session, "MOST_TAKEN", 20)
    assert warning_of(doubled_at_each_level) == (
        "doubled_at_each_level runs eagerly: more than 20 errors are to be followed to what "
        "takes them " + line_of(level, 4, "try:")
        + "What a clause, a finally or an __exit__ raises where it takes an error is one more, "
        "and a graph holds a way for each."
    )  # fmt: skip


def test_errors_after_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuation, "DEEPEST", 5)
    assert warning_of(one_after_the_other) == (
        "one_after_the_other runs eagerly: more than 5 errors may be raised one after the other "
        "in this block " + line_of(root, 1, "if v < 0:")
        + "What follows each is a branch in that which follows the one before."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("function", "kind", "offset", "text"),
    [
        (endless_in_a_try, "try", 3, "except Exception:"),
        (endless_in_a_with, "with", 2, "with Quiet():"),
        (endless_in_classes, "try", 4, "except Exception:"),
        (endless_in_a_with_of_a_class, "with", 3, "with Quiet():"),
    ],
)
def test_a_recursion_that_python_ends(function: Any, kind: str, offset: int, text: str) -> None:
    assert warning_of(function) == (
        f"{function.__name__} runs eagerly: what happens in this {kind} calls too deeply to be "
        f"captured " + line_of(function, offset, text)
        + "A capture takes some calls of Python for each of the author's."
    )  # fmt: skip


def test_as_many_as_are_followed() -> None:
    for function in (doubled_at_each_level, one_after_the_other):
        f = hy.hybridize(function, dynamic=False)
        for value in (2.0, -2.0, 60.0):
            assert describe(f(f32(value))) == describe(function(f32(value)))
        assert len(f.plans) == 1
