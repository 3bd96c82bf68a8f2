"""Leaves: what requires a gradient itself goes on to do so, whatever is written to it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, GradientError
from tests.helpers import leaf
from tests.staging.harness import f32, same

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


def under_an_alias(x, y, s, c):
    y.assign(s)
    s -= y
    return hy.sum(x * 1.0) + hy.sum(s) + hy.sum(y)


def in_a_branch(x, y, s, c):
    if c > 0:
        x.assign(s)
        z = hy.sum(x * 2)
    else:
        z = hy.sum(x * 3)
    return z + hy.sum(x)


def in_a_for(x, y, s, c):
    for i in range(3):
        x.assign(s * (i + 1.0))
        c = c + hy.sum(x * x)
    return c


def in_a_while(x, y, s, c):
    while c < 3:
        x.assign(s * x)
        c = c + hy.sum(x * y)
    return c * x


def on_one_path_of_a_loop(x, y, s, c):
    for _ in range(3):
        if c > 0:
            x.assign(x + s)
        c = c + hy.sum(hy.exp(x * 0.1)) - 6
    return c, x


def then_differentiated_inside(x, y, s, c):
    x.assign(s)
    (x * x * y).sum().backward()
    x.assign(x - 0.1 * x.grad)
    return hy.sum(x * x)


def returned(x, y, s, c):
    x.assign(s)
    return x, y, s


@pytest.mark.parametrize("alias", [False, True], ids=["apart", "aliased"])
@pytest.mark.parametrize(
    "program",
    [under_an_alias, in_a_branch, in_a_for, in_a_while, on_one_path_of_a_loop,
     then_differentiated_inside, returned],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_an_assigned_leaf_is_the_variable_of_what_comes_after(program, alias):
    def run(function):
        found = []
        for c in (1.0, -1.0, 2.5):
            x, s = hy.asarray([1.0, 2.0]), hy.asarray([3.0, 4.0])
            x.requires_grad = True
            y = x if alias else hy.asarray([0.5, -1.0])
            result = function(x, y, s, hy.asarray(c))
            results = result if isinstance(result, tuple) else (result,)
            sum(hy.sum(r * (n + 2.0)) for n, r in enumerate(results)).backward()
            every = [*results, x, y, s, x.grad]
            found.append([(t.requires_grad, t.numpy().tobytes()) for t in every])
        return found

    assert run(hy.hybridize(program)) == run(program)


def test_an_assigned_leaf_is_the_variable_of_second_derivatives_and_tangents():
    def f(x, s):
        w = hy.asarray([0.5, 2.0])
        w.requires_grad = True
        w.assign(s * w)
        return hy.sum(x**3 * w)

    x, s = hy.asarray([1.0, 2.0]), hy.asarray([3.0, 4.0])
    second = hy.grad(lambda x: hy.sum(hy.grad(f)(x, s)))
    assert hy.hybridize(second)(x).tolist() == second(x).tolist()
    for function in (f, hy.hybridize(f)):
        _, tangent = hy.jvp(function, (x, s), (hy.ones(2), hy.ones(2)))
        assert tangent.item() == hy.jvp(f, (x, s), (hy.ones(2), hy.ones(2)))[1].item()
    rows = hy.stack([x, x * 2])
    assert hy.vmap(hy.hybridize(f), in_axes=(0, None))(rows, s).tolist() == [
        f(row, s).item() for row in rows
    ]


# Variables that a function makes -----------------------------------------------------------------


def made(x):
    z = (x * 2).detach()
    z.requires_grad = True
    return [z], x * 3


def copied_variable(x):
    return copy.copy(x), copy.deepcopy([x, x])


def stored():
    state = SimpleNamespace(v=hy.ones(3))

    def run(x):
        state.v = x.detach()
        state.v.requires_grad = True
        return x * state.v.detach()

    return run, state


@pytest.mark.parametrize(
    ("function", "make"), [(made, False), (copied_variable, False), (stored, True)]
)
def test_variables_that_a_call_makes_are_variables(function, make):
    same(function, calls=[f32([1.0, 2.0, 3.0]), f32([0.5, -1.0, 2.0])], make=make)


def computed(x, w):
    z = w.detach()
    z.requires_grad = True
    return z, z * x


def computed_outside(x, w):
    return w, w * x


def with_gradient(x, w):
    z = w.detach()
    z.requires_grad = True
    hy.sum(z * x).backward()
    return z


def with_gradient_outside(x, w):
    hy.sum(w * x).backward()
    return w


@pytest.mark.parametrize(
    ("refused", "what", "instead"),
    [
        (computed, "what was computed of it", computed_outside),
        (with_gradient, "its gradient", with_gradient_outside),
    ],
)
def test_what_else_leads_to_variables_that_a_call_makes_is_refused(refused, what, instead):
    x = f32([1.0, 2.0, 3.0])
    with pytest.raises(CaptureError, match=f"made a variable, .* it and {what}") as caught:
        hy.hybridize(refused)(x, leaf(3, seed=1))
    assert "make the variable (requires_grad = True, a copy of one) outside" in str(caught.value)
    expected, found = leaf(3, seed=1), leaf(3, seed=1)
    for function, w in ((instead, expected), (hy.hybridize(instead), found)):
        result = function(x, w)
        hy.sum((result if isinstance(result, tuple) else (result, result))[1]).backward()
    assert found.grad.tolist() == expected.grad.tolist()
