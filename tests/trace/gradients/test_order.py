"""Terms of a gradient are added in the order of eager code, whatever a name stands for."""

# ruff: noqa: SIM108  the programs are about these forms

from __future__ import annotations

import pytest

import hybrid as hy
from tests.staging.harness import ITEMS_APART, Program, Table, draw, f32, i64

table = Table()
NUMBERS = (f32(0.7), f32(-1.3), f32(2.1))
POSITIVE = (f32(0.25), f32(4.0), f32(7.0))
VECTORS = (draw(3, seed=5), -draw(3, seed=5), draw(3, seed=6))
COUNTED = tuple([(v, i64(n)) for v, n in zip(VECTORS, (0, 1, 3), strict=True)])


def mixed(*xs):
    """Each of ``xs`` three times, by turns."""
    total = xs[0] * 0.1
    for k in (0.3, 0.7, 1.1):
        for j, x in enumerate(xs):
            total = total + hy.sin(x * (k + j)) * x
    return total


@table.runs(*VECTORS)
def one_branch_hands_on(x):
    y = x if hy.sum(x) > 0 else x * 2.0
    return mixed(x, y)


@table.runs(*VECTORS)
def uses_before_between_and_after(x):
    a = hy.tanh(x) * x
    y = x if hy.sum(x) > 0 else a
    b = x * a + y
    z = y if x[0] > 0 else b
    return mixed(z, x, y, b) + x * a


@table.runs(*VECTORS)
def branches_within_branches(x):
    a = x * 1.5
    if hy.sum(x) > 0:
        y = a if x[0] > 0.5 else x
        y = hy.sin(y) * y if x[1] > 0 else y
    else:
        y = x if x[2] > 0 else a * x
    return mixed(a, y, x)


@table.runs(*VECTORS)
def chains_of_swaps(x):
    a, b = x * 1.0, hy.sin(x)
    for k in range(4):
        if x[k % 3] > 0.1 * k:
            a, b = b, a
        a = a if hy.sum(b) > k else b
    return mixed(a, b, x)


@table.runs(*VECTORS)
def a_branch_that_uses_both(x):
    y = x if hy.sum(x) > 0 else x * 2.0
    if x[0] > 0:
        z = mixed(x, y)
        y = z
    else:
        z = x * y + y
    return z * x + y * x + mixed(y, x)


@table.runs(*VECTORS)
def a_branch_that_uses_one(x):
    y = x if hy.sum(x) > 0 else x * 2.0
    u = mixed(y, x)
    if x[0] > 0:
        z = hy.sin(y) * y * y
    else:
        z = y + 1.0
    return z * x + u * x


@table.runs(*VECTORS)
def one_value_in_two_names(x):
    if hy.sum(x) > 0:
        a = b = hy.sin(x)
    else:
        a, b = hy.sin(x), x
    return mixed(a, b, x)


@table.runs(*VECTORS)
def picks_of_builtins(x):
    a, b = x[0], x[1]
    return mixed(max(a, b), min(a, b), a, b)


@table.runs(*VECTORS)
def results_that_are_arguments(x):
    y = x if hy.sum(x) > 0 else x * 2.0
    z = y if x[0] > 0 else x
    return x, y, [z, x], y, {"z": z}


@table.runs(*VECTORS)
def results_that_are_each_other(x):
    a, b = hy.sin(x), hy.cos(x)
    y = a if hy.sum(x) > 0 else b
    z = b if x[0] > 0 else a
    return y, z, b, y, [z], y


def doubled(x):
    ys = []
    while x < 100:
        ys.append(x)
        x = x * 2
    return ys


@table.runs(*[f32(v) for v in (0.5, 3.0, 50.0, 200.0)], identity=ITEMS_APART)
def list_of_pairs(x):
    return list(zip(doubled(x), doubled(x * 3), strict=False))


@table.runs(*COUNTED)
def carried_becomes_an_old_value(x, n):
    a, y = x * 1.5, x * 0.5
    for _ in range(n):
        y = a
    return mixed(y, a, x)


@table.runs(*COUNTED)
def carried_is_kept_or_made(x, n):
    a, y = x * 1.5, x * 0.5
    for i in range(n):
        if x[0] * i > 0.3:
            y = a
        elif x[1] > 0:
            y = y * a
    return mixed(y, a, x)


@table.runs(*VECTORS)
def carried_until(x):
    a, b, k = x * 1.5, hy.sin(x), 0
    while hy.sum(b) < 2.0 + k and k < 4:
        a, b = b, a
        k += 1
    return mixed(a, b, x)


@table.runs(*COUNTED)
def a_loop_that_uses_a_choice(x, n):
    y = x if hy.sum(x) > 0 else x * 2.0
    u = mixed(y, x)
    z = x * 0.0
    for _ in range(n):
        z = hy.sin(z + y) * y
    return u + z


@table.runs(*COUNTED)
def one_value_carried_twice(x, n):
    a = b = x * 1.0
    for _ in range(n):
        a = hy.sin(a) * b
        b = a
    return mixed(a, b, x)


@table.runs(*COUNTED)
def carried_by_conditions(x, n):
    a, b = x * 1.5, hy.sin(x)
    for i in range(n):
        if a[0] > b[1] * i:
            a, b = b, a
        b = a if x[1] > 0.3 * i else b * a * a + b
    return mixed(a, b, x)


@table.runs(*COUNTED, (-VECTORS[0], i64(2)))
def a_loop_in_a_branch(x, n):
    a, y = x * 1.5, x * 0.5
    if hy.sum(x) > 0:
        for _ in range(n):
            y = a
    return mixed(a, y, x)


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_loop_that_uses_both(x, n):
    y = x if hy.sum(x) > 0 else x * 2.0
    z = x * 0.0
    for _ in range(n):
        z = hy.sin(z + y) * x + y * y * x
    return z * x + y * x


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_loop_that_begins_with_a_choice(x, n):
    y = x if hy.sum(x) > 0 else x * 2.0
    z = y
    for _ in range(n):
        z = hy.sin(z + y) * x + z * z * x
    return z * x + y * x


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_loop_of_two_choices(x, n):
    a, b = x * 1.5, hy.sin(x)
    y = a if hy.sum(x) > 0 else b
    z = a if x[0] > 0 else y
    u = mixed(y, z, a)
    for _ in range(n):
        u = hy.sin(u + y) * z + y * z * y
    return mixed(u, y, z, b)


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_while_that_uses_both(x, n):
    y = x if hy.sum(x) > 0 else x * 2.0
    z, k = x * 0.0, 0
    while k < n and hy.sum(z) < 9.0:
        z = hy.sin(z + y) * x + y * y * x
        k += 1
    return z * x + y * x


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def loops_in_a_loop_that_use_both(x, n):
    y = x if hy.sum(x) > 0 else x * 2.0
    z = x * 0.0
    for i in range(n):
        for _ in range(2):
            z = hy.sin(z + y) * x + y * y * x
        if z[0] > 0.1 * i:
            z = z * y + x * y
    return z * x + y * x


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def rows_of_a_carried_value(x, n):
    ys, y = [], x
    for i in range(n):
        y = y if x[0] > 0.3 * i else hy.sin(y)
        ys.append(y)
    return sum(ys, x * 0.1) + mixed(y, x)


@table.runs(
    *[(v, i64(n)) for v in (*VECTORS, f32([3.0, -2.0, 0.0])) for n in (0, 1, 3)], covered=False
)
def a_carried_value_that_is_one_tensor_either_way(x, n):
    y, xs = x, [x, x]
    for _ in range(n):
        if hy.any(x > 9.0):
            y = x
        else:
            xs = [*xs[1:], hy.tanh(y)]
    return sum(xs), x


SCALED = [(v, s) for v in VECTORS for s in (f32(0.7), f32(-0.3), f32(0.0))]


@table.runs(*SCALED)
def a_carried_value_that_stays_or_becomes_one_that_the_body_reads(x, s):
    kept, total = hy.sum(x), s
    for _ in range(3):
        total = kept + total
        kept = kept if s > 0 else s
    return x * 0.25 * kept, total


@table.runs(*SCALED)
def a_carried_value_with_two_uses_after_the_loop(x, s):
    kept, total, other = hy.sum(x), s, s * 3
    for _ in range(3):
        total = kept + total
        kept = s and kept if x[0] > 0 else other
    return x * 0.25 * kept, s + kept + total


@table.runs(*[(v, i64(n)) for v in VECTORS for n in (0, 1, 2, 3)])
def two_names_of_a_value_that_one_iteration_leaves_alone(x, n):
    y, a = x, x * 3.0
    for _ in range(n):
        y += 1
        y = a
    return a + 0


@table.runs(*VECTORS)
def rows_that_may_all_be_one_tensor(x):
    a, b, ys = x * 2.0, x * 3.0, []
    for _ in range(3):
        ys.append(a if hy.any(x > 0.3) else b)
    return ys[1] * x + ys[1] * ys[-1] + a * ys[2]


@table.runs(*POSITIVE)
def a_while_with_a_name_that_follows(x):
    t = x * 1
    last = t if t > 3 else hy.zeros(())
    while t < 6:
        t = t + x
        if t > 3:
            last = t
    return t, last


@table.runs(*POSITIVE)
def a_while_with_a_name_that_follows_or_is_the_argument(x):
    t = x * 1
    last = t if t > 3 else x
    while t < 6:
        t = t + x
        if t > 3:
            last = t
    return t, last


@table.runs(*POSITIVE)
def a_while_with_a_name_for_what_is_made_of_the_other(x):
    t = x * 1
    last = t if t > 3 else hy.zeros(())
    while t < 6:
        t = t + x
        last = t * 1
    return t, last


@table.runs(*POSITIVE)
def a_loop_with_a_name_that_follows(x):
    t = x * 1
    last = t if t > 3 else hy.zeros(())
    for _ in range(3):
        t = t + x
        if t > 3:
            last = t
    return t, last


@table.runs(*POSITIVE)
def a_loop_beside_a_name_for_what_it_begins_with(x):
    t = x * 1
    last = t if t > 3 else hy.zeros(())
    for _ in range(3):
        t = t + x
    return t, last


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_loop_with_names_that_follow_one_another(x, n):
    t = x * 1.5
    a = t if hy.sum(x) > 0 else hy.sin(x)
    b = a if x[0] > 0 else t
    for i in range(n):
        t = hy.sin(t) * b + t * x
        if t[1] > 0.1 * i:
            a, b = t * a, a
    return t * 0.3, mixed(a, b, t)


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_loop_that_may_not_run_after_a_choice(x, n):
    t = x * 1.5
    a = t if hy.sum(x) > 0 else hy.sin(x)
    for _ in range(n):
        t = hy.sin(t) + t * x
        a = t * a
    return mixed(a, t)


@table.runs(*VECTORS)
def a_loop_that_uses_what_a_name_keeps(x):
    v, w, z = x, x * 2.0, hy.sin(x)
    for _ in range(3):
        z = hy.sin(z) * x * z
        if hy.sum(v) > 0:
            v = w
    return v * 0.5 + z + hy.cos(v)


@table.runs(*COUNTED, *[(-v, n) for v, n in COUNTED])
def a_loop_that_carries_both(x, n):
    v = x * 2.0
    y = v if hy.sum(x) > 0 else x * 3.0
    for i in range(n):
        v = v + x * i
        y = y if x[0] > 0.2 * i else y * 2.0
    return y * v + v


@table.runs(*VECTORS)
def a_checkpointed_call_that_uses_both(x):
    y = x if hy.sum(x) > 0 else x * 2.0
    z = hy.checkpoint(mixed)(x, y)
    return z * x + y * z


@table.runs(*VECTORS)
def checkpointed_calls_in_a_loop(x):
    y = z = x
    for k in range(3):
        y = z if hy.sum(y) > 0.5 * k else y * 2.0
        z = hy.checkpoint(mixed)(z, y) * 0.1 + z * y
    return mixed(x, y, z)


@table.runs(*VECTORS)
def a_checkpointed_call_of_two_choices(x):
    a = hy.sin(x)
    y = a if hy.sum(x) > 0 else x * 2.0
    z = a if x[0] > 0 else y
    return hy.checkpoint(mixed)(z, y) * z + mixed(a, y)


@table.runs(*VECTORS)
def no_cotangent_at_all(x):
    y = hy.sqrt(x - x)
    z = x if hy.sum(x) > 0 else y
    return x * 2.0 if hy.sum(x) > 0 else z * 0.0 + x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def through_two_calls(function, x):
    """The gradient of x, which two calls use, and other code before, between and after."""
    x = x.detach()
    x.requires_grad = True
    first = x * 0.3
    a, _ = function(x, x * 0.7)
    between = x * a
    b, c = function(x * between, x)
    hy.sum(a * 1.3 + b + c * first * x).backward()
    return x.grad.numpy().tobytes()


def twice(x, y):
    return hy.sin(x) * x + y * x, hy.tanh(y) * x * y


@pytest.mark.parametrize("x", VECTORS, ids=range(len(VECTORS)))
def test_calls_go_on_adding(x) -> None:
    assert through_two_calls(hy.hybridize(twice), x) == through_two_calls(twice, x)


def test_an_unused_result_gets_nothing() -> None:
    def f(x):
        return x * 2.0, hy.sqrt(x)

    gradients = []
    for function in (f, hy.hybridize(f)):
        x = f32([0.0, 4.0])
        x.requires_grad = True
        hy.sum(function(x)[0]).backward()
        gradients.append(x.grad.tolist())
    assert gradients == [[2.0, 2.0], [2.0, 2.0]]


CHOICES = [one_branch_hands_on, chains_of_swaps, a_branch_that_uses_one, one_value_in_two_names]


@pytest.mark.parametrize("function", CHOICES, ids=lambda function: function.__name__)
def test_derivatives_of_both_orders(function) -> None:
    def first(x):
        return hy.grad(lambda x: hy.sum(function(x)))(x)

    def second(x):
        return hy.grad(lambda x: hy.sum(first(x) * x))(x)

    for derivative in (first, second):
        captured = hy.hybridize(derivative)
        for x in VECTORS:
            assert captured(x).numpy().tobytes() == derivative(x).numpy().tobytes()
