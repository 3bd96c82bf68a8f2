"""Lists of loops whose items have other names, which only a run knows: the order of eager code."""

from __future__ import annotations

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32, i64, same

table = Table()
VALUES = (f32([0.5, -1.0, 2.0]), f32([-0.5, 0.35, 1.1]), f32([3.0, -2.0, 0.0]))
LIMITS = ((0.25, 2), (0.95, 4), (0.75, 3), (-1.5, 0), (-0.3, 1), (-0.1, 5))
SCALED = [(x, f32(s), i64(n)) for x, (s, n) in zip(VALUES * 2, LIMITS, strict=True)]


def used(v, ys):
    """``v`` and the items, by turns."""
    v = v * 0.5 + sum(ys, v * v) * v
    for y in ys:
        v = v * 0.5 + y * v * y
    return v


@table.runs(*SCALED)
def a_state_that_stays_on_some_steps(x, s, n):
    h, hs = x, []
    for _ in range(n):
        h = h if hy.sum(h) > s else hy.tanh(h) * x
        hs.append(h)
    return used(h, hs) + h * x


@table.runs(*SCALED)
def the_best_so_far_beside_all(x, s, n):
    h, best, hs = x, x, []
    for _ in range(n):
        h = hy.sin(h) * 1.5
        hs.append(h)
        best = h if hy.sum(h) > hy.sum(best) else best
    return used(best, hs) * s + best * h


@table.runs(*SCALED)
def two_states_that_swap(x, s, n):
    a, b, ys = x * 2.0, hy.sin(x), []
    for _ in range(n):
        a, b = b, a
        ys.append(a)
    return used(a * s, ys) + b * a


@table.runs(*SCALED)
def a_window_beside_the_list(x, s, n):
    xs, ys = [x * 3.0, x + 1.0], []
    for _ in range(n):
        xs = [*xs[1:], hy.sin(xs[0]) * s]
        ys.append(xs[0])
    return used(xs[0], ys) + sum(xs) * xs[1]


@table.runs(*SCALED)
def several_items_a_step(x, s, n):
    h, ys = x, []
    for _ in range(n):
        h = hy.tanh(h) * x
        ys.append(h * s)
        ys.append(h)
    return used(h, ys) + h * x


@table.runs(*SCALED)
def several_items_on_some_paths(x, s, n):
    v, w, ys = x, x * 0.5, []
    if x[0] > 0.3:
        for _ in range(n):
            v, w = w, v
            ys.append(v * s)
            if hy.sum(v) > s:
                ys.append(w)
    return used(v, ys) + w


@table.runs(*SCALED)
def an_item_that_a_condition_picks(x, s, n):
    v, ys = x * 2.0, []
    for _ in range(n):
        v = hy.tanh(x) * v
        ys.append(v)
    first = ys[0] if ys else x
    if len(ys) > 1:
        v = v * ys[1] + ys[-1] * ys[0] + ys[1] * s * v
    return v * first + first


@table.runs(*SCALED)
def an_item_that_a_loop_keeps(x, s, n):
    v, kept, ys = x, x * 0.1, []
    for _ in range(n):
        v = v + x * v
        ys.append(v * s)
    for y in ys:
        if hy.sum(y) > 0.4:
            kept = y
        v = v + y * kept
    return used(kept, ys) * v


@table.runs(*SCALED)
def a_list_that_a_branch_makes(x, s, n):
    v, ys = x * 2.0, []
    if s > 0:
        for _ in range(n):
            ys.append(v)
            v = hy.sin(v) * x
    return used(v, ys) + v * x


@table.runs(*SCALED)
def a_list_of_an_inner_loop(x, s, n):
    v, w = x, x * s
    for _ in range(2):
        ys = []
        for _ in range(n):
            v = v if hy.sum(w) > s else hy.tanh(v)
            ys.append(v)
        w = sum([y * v for y in ys], w * v)
    return used(w, [v, w])


@table.runs(*[(v, f32(s)) for v in VALUES for s in (-0.5, 0.25)], covered=False)
def a_loop_that_may_end(x, s):
    h, hs, k = x, [], 0
    while k < 5 and hy.sum(h) > s - k:
        k += 1
        hs.append(h)
        h = h if x[1] > 0.1 * k else h * 1.25
    return used(h, hs) + h * x


@table.runs(*[(v, f32(s)) for v in VALUES for s in (-0.5, 0.25)])
def a_loop_of_as_many_steps_as_are_unrolled(x, s):
    h, hs = x, []
    for _ in range(9):
        h = h if hy.sum(h) > s else hy.tanh(h) * x
        hs.append(h)
    return used(h, hs) + hs[3] * h


@table.runs(*[(v, f32(s)) for v in VALUES for s in (-0.5, 0.25)])
def a_loop_of_more_steps(x, s):
    h, hs = x, []
    for _ in range(70):
        h = h if hy.sum(h) > s else hy.tanh(h) * x
        hs.append(h)
    return used(h, hs[20:24]) + hs[3] * h


@table.each()
def test_same(program: Program) -> None:
    program.check()


# Those of which only a run tells the names of items, or might: the rest is captured.
EAGERLY = """
    a_state_that_stays_on_some_steps the_best_so_far_beside_all two_states_that_swap
    several_items_a_step several_items_on_some_paths an_item_that_a_condition_picks
    an_item_that_a_loop_keeps a_list_that_a_branch_makes a_list_of_an_inner_loop
    a_loop_that_may_end a_loop_of_more_steps
"""


@table.each()
def test_gradients_inside(program: Program) -> None:
    """A captured function that takes the gradient itself, as a training step does."""

    function = program.function

    def derivative(x, *rest):
        def loss(x):
            found = function(x, *rest)
            return hy.sum((found[0] if isinstance(found, tuple) else found) * x)

        return hy.grad(loss)(x)

    eagerly = program.name in EAGERLY.split()
    same(derivative, calls=program.calls, grad=False, runs_eagerly=eagerly, plans=9)


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_it_is_told() -> None:
    found = hy.hybridize(a_state_that_stays_on_some_steps).explain(*required(SCALED[0]))
    assert "backward op by op: only a run tells which items of a list are one tensor" in str(found)


def test_a_captured_function_that_cannot_take_a_gradient_itself() -> None:
    captured = hy.hybridize(derivative_of_states)
    with pytest.warns(UserWarning) as seen:
        first = captured(*SCALED[0])
    (warning,) = seen
    line = derivative_of_states.__code__.co_firstlineno
    loop = a_state_that_stays_on_some_steps.__code__.co_firstlineno + 3
    assert str(warning.message) == (
        "derivative_of_states runs eagerly: this gradient is one that a captured function cannot "
        f"take itself ({__file__}:{line + 1})\n    {line + 1} | return hy.grad(lambda v: "
        "hy.sum(a_state_that_stays_on_some_steps(v, s, n)))(x)\nItems of a list, with which a "
        f"loop goes ({__file__}:{loop}), may be tensors that have other names, too: only a run "
        "tells which, and so in which order the terms of their gradients are added.\nFix: append "
        "what has no other name (h + 0 for h), or take the gradient of the hybridized function "
        "from outside it."
    )
    again = captured(*SCALED[0])  # does not try once more, nor warn
    assert first.numpy().tobytes() == again.numpy().tobytes() and not captured.plans
    with pytest.raises(CaptureError, match="this gradient is one"):
        captured.explain(*SCALED[0])


def derivative_of_states(x, s, n):
    return hy.grad(lambda v: hy.sum(a_state_that_stays_on_some_steps(v, s, n)))(x)


def test_what_has_no_other_name_is_appended() -> None:
    """The advice of the refusal: then the captured function takes the gradient itself."""

    def of_copies(x, s, n):
        h, hs = x, []
        for _ in range(n):
            h = h if hy.sum(h) > s else hy.tanh(h) * x
            hs.append(h + 0)
        return used(h, hs) + h * x

    def derivative(x, s, n):
        return hy.grad(lambda v: hy.sum(of_copies(v, s, n)))(x)

    captured = hy.hybridize(derivative)
    for args in SCALED:
        assert captured(*args).numpy().tobytes() == derivative(*args).numpy().tobytes()
    assert captured.plans


def required(args):
    args = [hy.asarray(a, copy=True) for a in args]
    for a in args[:2]:
        a.requires_grad = True
    return args


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_outside(order: int) -> None:
    function = a_state_that_stays_on_some_steps
    captured = hy.hybridize(function)

    def derivative(f, x, s, n):
        first = hy.grad(lambda x: hy.sum(f(x, s, n)))
        if order == 1:
            return first(x)
        return hy.grad(lambda x: hy.sum(first(x) * x))(x)

    for args in SCALED:
        expected, found = derivative(function, *args), derivative(captured, *args)
        assert found.numpy().tobytes() == expected.numpy().tobytes()


def test_functions_of_the_author_are_called_once() -> None:
    seen = []

    def noted(array):
        seen.append(array.tolist())
        return array * 2

    def f(x, s, n):
        y = hy.py_call(noted, x.detach(), result=x.type)
        return a_state_that_stays_on_some_steps(x, s, n) + y

    args = required(SCALED[0])
    hy.sum(hy.hybridize(f)(*args)).backward()
    assert len(seen) == 1 and args[0].grad is not None
