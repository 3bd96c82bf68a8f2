"""Attributes that objects have from their class, and that some paths alone set on the object."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError


class State:
    """Its attributes are those of the class at first."""

    number = 5
    held: Any = None


STATE = State()


def on_one_path(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        STATE.number = 7
    return x


def a_tensor_on_one_path(x: hy.Tensor) -> Any:
    if x.sum() > 0:
        STATE.held = x * 2
    return x if STATE.held is None else x * STATE.held


def what_it_is_already(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        STATE.number = 5
    return x


def in_an_inner_branch(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        if x.sum() > 3:
            STATE.number = 7
    else:
        STATE.number = 8
    return x


def before_a_return(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        STATE.number = 7
        return x
    return x * 2


def behind_a_return(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        return x
    STATE.number = 7
    return x * 2


def in_a_loop(x: hy.Tensor) -> hy.Tensor:
    total = x.sum()
    while total > 0:
        STATE.held = total
        total = total - 1
    return x


def on_a_new_object(x: hy.Tensor) -> Any:
    made = State()
    if x.sum() > 0:
        made.number = 7
    return made


HALF = [
    on_one_path, a_tensor_on_one_path, what_it_is_already, in_an_inner_branch, before_a_return,
    behind_a_return, in_a_loop, on_a_new_object,
]  # fmt: skip


@pytest.mark.parametrize("function", HALF, ids=lambda function: function.__name__)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_it_is_refused(function: Any, sign: float) -> None:
    """The object itself had it afterwards whatever the path, which it has not eagerly."""
    vars(STATE).clear()
    name = "held" if function in (a_tensor_on_one_path, in_a_loop) else "number"
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(hy.full((2,), sign))
    assert (
        caught.value.what
        == f"State.{name} is set on one path only, and is that of the class on others"
    )
    assert str(caught.value).endswith(
        "\nWhether the State object itself has it would depend on the value of a tensor.\n"
        f"Fix: give the object itself the attribute {name} before the call."
    )
    assert caught.value.at.path == __file__
    assert vars(STATE) == {} and State.number == 5


@pytest.mark.parametrize("function", HALF[:-1], ids=lambda function: function.__name__)
def test_an_object_that_has_it_itself(function: Any) -> None:
    def outcome(call: Any) -> list[Any]:
        vars(STATE).update(number=5, held=hy.zeros(()) if function is in_a_loop else None)
        return [str((call(hy.full((2,), sign)), vars(STATE))) for sign in (-1.0, 1.0, 2.0, -1.0)]

    assert outcome(hy.hybridize(function)) == outcome(function)


def on_every_path(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        STATE.number = 7
    else:
        STATE.number = 5
    return x


def the_same_on_every_path(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        STATE.number = 5
    else:
        STATE.number = 5
    return x


def and_then_in_any_case(x: hy.Tensor) -> hy.Tensor:
    if x.sum() > 0:
        STATE.number = 7
    STATE.number = 8
    return x


def in_a_loop_that_runs(x: hy.Tensor) -> hy.Tensor:
    for row in x:
        STATE.held = row
    return x


def on_an_object_that_goes(x: hy.Tensor) -> hy.Tensor:
    made = State()
    if x.sum() > 0:
        made.number = 7
    return x * made.number


@pytest.mark.parametrize(
    "function",
    [
        on_every_path, the_same_on_every_path, and_then_in_any_case, in_a_loop_that_runs,
        on_an_object_that_goes,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_what_does_not_depend_on_the_path(function: Any) -> None:
    def outcome(call: Any) -> list[Any]:
        vars(STATE).clear()
        return [str((call(hy.full((2,), sign)), vars(STATE))) for sign in (-1.0, 1.0, -1.0)]

    assert outcome(hy.hybridize(function)) == outcome(function)
