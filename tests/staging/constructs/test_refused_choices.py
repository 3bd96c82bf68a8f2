"""What a tensor cannot choose between, and what a run cannot return: the messages name the line."""

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import f32

BY_VALUE = (
    "Which of the two it is depends on the value of a tensor, and a graph needs one type and "
    "structure.\n"
)
STRUCTURE = "The structure of what a plan computes cannot depend on the value of a tensor.\n"


def a_function_is_chosen(x):
    f = hy.sin if x > 0 else hy.cos
    return f(x)


def helper(x):
    return x


def an_own_function_is_chosen(x):
    f = helper if x > 0 else abs
    return f(x)


def a_text_is_chosen(x):
    state = "grow"
    if x > 3:
        state = "shrink"
    return x, state


def none_on_one_path(x):
    def loss(v):
        if v > 3:
            return v, v
        return v, None

    return hy.value_and_grad(loss, has_aux=True)(x)


MESSAGES: list[tuple[Callable[..., Any], int, str, str, str]] = [
    (
        a_function_is_chosen, 1,
        "the value of this expression is the function sin where the condition holds, and the "
        "function cos where it does not",
        "f = hy.sin if x > 0 else hy.cos",
        f"{BY_VALUE}Fix: call the one on the one path and the other on the other, and go on with "
        "what they return.",
    ),
    (
        an_own_function_is_chosen, 1,
        "the value of this expression is the function helper where the condition holds, and the "
        "function abs where it does not",
        "f = helper if x > 0 else abs",
        f"{BY_VALUE}Fix: call the one on the one path and the other on the other, and go on with "
        "what they return.",
    ),
    (
        a_text_is_chosen, 2,
        "state is 'shrink' (FILE:+3) where the condition holds, and 'grow' where it does not",
        "if x > 3:",
        f"{BY_VALUE}Fix: use an int in place of the text, and look the text up outside: "
        "NAMES[code].",
    ),
    (
        none_on_one_path, 2,
        "the result[1] is None on the path that this call takes, and a tensor on another",
        "if v > 3:",
        f"{STRUCTURE}Fix: let the result[1] be a tensor on every path, or test it with "
        "`is None` before it is used.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "line", "what", "text", "rest"), MESSAGES, ids=[m[0].__name__ for m in MESSAGES]
)
def test_messages(function: Callable[..., Any], line: int, what: str, text: str, rest: str) -> None:
    first = function.__code__.co_firstlineno
    what = what.replace("FILE:+3", f"{__file__}:{first + 3}")
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(f32(2.0))
    expected = f"{what} ({__file__}:{first + line})\n    {first + line} | {text}\n{rest}"
    assert str(caught.value) == expected
