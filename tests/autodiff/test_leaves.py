"""Leaves: what requires a gradient itself goes on to do so, whatever is written to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import GradientError
from tests.control.harness import f32, same
from tests.helpers import leaf

# Ways to change a tensor in place.
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "+=": lambda x, v: x.__iadd__(v),
    "-=": lambda x, v: x.__isub__(v),
    "*=": lambda x, v: x.__imul__(v),
    "/=": lambda x, v: x.__itruediv__(v),
    "**=": lambda x, v: x.__ipow__(v),
    "item": lambda x, v: x.__setitem__(0, v[0]),
    "slice": lambda x, v: x.__setitem__(slice(None, 2), v[:2]),
    "mask": lambda x, v: x.__setitem__(x > 0, 0.5),
    "relu in place": lambda x, v: hy.nn.functional.relu(x, inplace=True),
    "dropout in place": lambda x, v: hy.nn.functional.dropout(x, 0.5, inplace=True),
}
MODES: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "hybridized": hy.hybridize}
each_mode = pytest.mark.parametrize("mode", MODES)


@each_mode
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_place_is_refused_at_once(change: str, mode: str) -> None:
    x, before = leaf(3, seed=1), leaf(3, seed=1).tolist()
    function = MODES[mode](lambda x, v: CHANGES[change](x, v))
    with pytest.raises(GradientError, match="was changed in place") as caught:
        function(x, f32([1.0, 2.0, 3.0]))
    assert "hybrid.no_grad()" in str(caught.value) and "x.assign(...)" in str(caught.value)
    assert x.tolist() == before and x.requires_grad
    hy.sum(x * x).backward()
    assert x.grad is not None


@each_mode
@pytest.mark.parametrize("change", [name for name in CHANGES if "place" not in name])
def test_under_no_grad_it_is_a_plain_update(change: str, mode: str) -> None:
    def update(x, v):
        with hy.no_grad():
            CHANGES[change](x, v)
        return hy.sum(x * x)

    x, plain, v = leaf(3, seed=1), leaf(3, seed=1).detach(), f32([1.0, 2.0, 3.0])
    CHANGES[change](plain, v)
    for _ in range(2):
        x.grad = None
        MODES[mode](update)(x, v).backward()
        assert x.tolist() == plain.tolist() and x.requires_grad
        assert x.grad.tolist() == (plain * 2).tolist()
        CHANGES[change](plain, v)


@each_mode
def test_assign_takes_the_value_without_its_history(mode: str) -> None:
    def function(x, w):
        x.assign(w * 3.0)
        return hy.sum(x * x)

    for recording in (True, False):
        x, w = leaf(3, seed=1), leaf(3, seed=2)
        if recording:
            MODES[mode](function)(x, w).backward()
        else:
            with hy.no_grad():
                MODES[mode](function)(x, w)
            hy.sum(x * x).backward()
        assert x.tolist() == (w.detach() * 3.0).tolist()
        assert x.grad.tolist() == (x.detach() * 2).tolist()
        assert w.grad is None


@each_mode
def test_assign_is_a_training_step(mode: str) -> None:
    def step(w, x):
        w.grad = None
        loss = hy.sum((w * x - 1.0) ** 2)
        loss.backward()
        w.assign(w - 0.1 * w.grad)
        return loss

    eager, other = leaf(3, seed=1), leaf(3, seed=1)
    stepped = MODES[mode](step)
    for n in range(5):
        x = f32([0.5, 1.0, 1.5 + n])
        assert step(eager, x).item() == stepped(other, x).item()
        assert eager.tolist() == other.tolist() and other.requires_grad
        assert eager.grad.tolist() == other.grad.tolist()


@each_mode
def test_nothing_is_recorded_of_an_assignment_under_no_grad(mode: str) -> None:
    def function(x, y):
        with hy.no_grad():
            y.assign(x)
        return y

    x, y = leaf(2, seed=1), hy.zeros((2,))
    result = MODES[mode](function)(x, y)
    assert not result.requires_grad and not y.requires_grad
    assert result.tolist() == x.tolist()


@each_mode
def test_what_is_no_leaf_takes_the_history_too(mode: str) -> None:
    def function(x, y):
        y.assign(x * 2.0)
        y += x
        return hy.sum(y * y)

    x, y = leaf(2, seed=1), hy.zeros((2,))
    MODES[mode](function)(x, y).backward()
    assert x.grad.tolist() == pytest.approx((x.detach() * 18.0).tolist())


def changed_where_it_is_one(x, y):
    z = x if x[0] > 0 else y * 1.0
    z += 1
    return z


def test_what_a_run_finds_to_be_a_leaf_is_refused_by_the_run() -> None:
    same(changed_where_it_is_one, calls=[(f32([v, 2.0]), f32([3.0, 4.0])) for v in (1.0, -1.0)])
