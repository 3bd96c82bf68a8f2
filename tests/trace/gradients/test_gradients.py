"""Transforms through control flow: grad, second order, forward mode, vjp, and backward()."""

# ruff: noqa: SIM108  the programs are about these forms

import numpy as np
import pytest

import hybrid as hy
from tests.staging.harness import describe, draw, f32, f64, i64

X = f64([0.3, -0.7, 1.1])


def escape(x, y):
    while x < y:
        x = x * x + 1
    return x


def branch(x):
    s = hy.sum(x)
    if s > 0:
        return hy.sum(hy.sin(x) * x)
    return hy.sum(x * x * x)


def branch_with_a_pole(x):
    s = hy.sum(x)
    if s > 0:
        y = hy.log(s)
    else:
        y = hy.sqrt(-s + 1)
    return y * s


def fixed_loop(x):
    w = x
    for i in range(5):
        x = hy.tanh(x * w) + i * 0.1
    return hy.sum(x * w)


def index_loop(x):
    total = 0.0
    for i in range(3):
        total = total * 0.5 + x[i] * x[(i + 1) % 3]
    return total * total


def row_loop(x):
    total = 1.0
    for v in x:
        total = total * hy.exp(v * 0.5)
    return total


def while_loop(x):
    while hy.sum(x * x) < 10:
        x = x * 1.3 + hy.sin(x)
    return hy.sum(x * x)


def nested_loops(x):
    total = hy.sum(x) * 0
    for i in range(3):
        while total < i:
            total = total + hy.sum(x * x)
        if x[i] > 0:
            total = total * hy.cos(x[i])
    return total


def breaking(x):
    total = hy.sum(x) * 0
    for i in range(10):
        total = total + hy.sum(hy.tanh(x * i)) + 0.5
        if total > 2:
            break
    return total * total


def early_return(x):
    for i in range(6):
        x = x * x + 0.5
        if hy.sum(x) > 6:
            return hy.sum(x * i)
    return hy.sum(hy.sqrt(x))


def stacked(x):
    h = hy.zeros_like(x)
    hs = []
    for i in range(4):
        h = hy.tanh(h + x * (i + 1))
        hs.append(h)
    y = hy.stack(hs)
    return hy.sum(y * y * y)


def grown(x):
    hs = []
    y = x
    while hy.sum(y * y) < 20:
        hs.append(y)
        y = y * 1.5
    total = hy.sum(y)
    for h in hs:
        total = total + hy.sum(h * h)
    return total


def written_in_place(x):
    y = x * 1
    for i in range(3):
        y[i] *= y[(i + 1) % 3]
        y += x
    return hy.sum(y * y)


def unused_branch(x):
    y = hy.sum(x)
    if y > 100:
        y = hy.sum(hy.log(x))
    return y * hy.sum(x * x)


def constant_branch(x):
    if hy.sum(x) > 0:
        return hy.sum(x) * 0 + 1.5
    return hy.asarray(2.5, dtype=hy.float64)


def helper_functions(x):
    def f(v, k):
        return v * k if v > 0 else v * v * k

    return f(x[0], 2.0) * f(x[1], 3.0) + f(x[2], x[0])


def logic(x):
    a, b = x[0], x[1]
    c = (a and b) + (b or a)
    if 0 < a < 1 and not b > 0:
        c = c * a
    return c * c


def carried_dict(x):
    state = {"h": x, "c": x * 0}
    for _ in range(4):
        state["c"] = state["c"] * 0.9 + hy.tanh(state["h"])
        state["h"] = hy.sin(state["c"])
    return hy.sum(state["h"] * state["c"])


def none_first(x):
    cache = None
    for v in x:
        cache = v if cache is None else hy.sin(cache) * v
    return cache


def weights_used_twice_each_trip(x):
    h = x * 0 + 0.1
    while hy.sum(h) < 4:
        h = h + hy.sigmoid(h * x) * hy.exp(x * 0.1)
    return hy.sum(h * x)


FUNCTIONS = [
    branch, branch_with_a_pole, fixed_loop, index_loop, row_loop, while_loop, nested_loops,
    breaking, early_return, stacked, grown, written_in_place, unused_branch, constant_branch,
    helper_functions, logic, carried_dict, none_first, weights_used_twice_each_trip,
]  # fmt: skip
INPUTS = [X, -X, X * 2, f64([0.01, 0.02, -0.05])]

functions = pytest.mark.parametrize("function", FUNCTIONS, ids=[f.__name__ for f in FUNCTIONS])


def same(left, right) -> None:
    assert describe(left) == describe(right)


@functions
def test_the_functions_are_differentiable(function) -> None:
    for x in INPUTS:
        hy.check_grads(function, x)


@functions
def test_grad_of_hybridized(function) -> None:
    hybridized = hy.hybridize(function)
    for x in INPUTS:
        same(hy.value_and_grad(hybridized)(x), hy.value_and_grad(function)(x))
    assert len(hybridized.plans) == 1


@functions
def test_hybridized_grad(function) -> None:
    hybridized = hy.hybridize(hy.value_and_grad(function))
    for x in INPUTS:
        same(hybridized(x), hy.value_and_grad(function)(x))
    assert len(hybridized.plans) == 1


@functions
def test_backward_into_grad(function) -> None:
    hybridized = hy.hybridize(function)
    for x in INPUTS:
        grads = []
        for f in (function, hybridized):
            leaf = x * 1
            leaf.requires_grad = True
            value = f(leaf) * 3
            if value.requires_grad:  # of a constant branch, eagerly, it does not
                value.backward()
            grads.append(hy.zeros_like(x) if leaf.grad is None else leaf.grad)
        same(*grads)


@functions
def test_backward_inside(function) -> None:
    def step(x):
        x = x * 1
        x.requires_grad = True
        value = function(x)
        if value.requires_grad:
            value.backward()
        return value.detach(), hy.zeros_like(x) if x.grad is None else x.grad

    hybridized = hy.hybridize(step)
    for x in INPUTS:
        same(hybridized(x), step(x))


def twice(function):
    """The gradient of the squared norm of the gradient."""

    def norm(x):
        g = hy.grad(function)(x)
        return hy.sum(g * g)

    return hy.grad(norm)


@functions
def test_second_order(function) -> None:
    outside, inside = twice(hy.hybridize(function)), hy.hybridize(twice(function))
    for x in INPUTS:
        expected = twice(function)(x)
        np.testing.assert_allclose(outside(x).numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(inside(x).numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@functions
def test_forward_mode(function) -> None:
    hybridized = hy.hybridize(function)
    v = f64([0.5, -1.0, 0.25])
    inside = hy.hybridize(lambda x, v: hy.jvp(function, (x,), (v,)))
    for x in INPUTS:
        value, tangent = hy.jvp(function, (x,), (v,))
        for found in (hy.jvp(hybridized, (x,), (v,)), inside(x, v)):
            same(found[0], value)
            np.testing.assert_allclose(found[1].numpy(), tangent.numpy(), rtol=1e-12, atol=1e-14)


@functions
def test_vjp(function) -> None:
    hybridized = hy.hybridize(function)
    for x in INPUTS:
        (value, pull), (found, pulled) = hy.vjp(function, x), hy.vjp(hybridized, x)
        same(found, value)
        same(pulled(f64(2.5)), pull(f64(2.5)))


def test_the_known_value() -> None:
    x, y = f64(1.1), f64(8.0)
    expected = 114.433983
    for grads in (
        hy.grad(hy.hybridize(escape), (0, 1))(x, y),
        hy.hybridize(hy.grad(escape, (0, 1)))(x, y),
        hy.grad(escape, (0, 1))(x, y),
    ):
        assert abs(grads[0].item() - expected) < 1e-5
        assert describe(grads[1]) == describe(f64(0.0))
    _, tangent = hy.jvp(hy.hybridize(escape), (x, y), (f64(1.0), f64(0.0)))
    assert abs(tangent.item() - expected) < 1e-5


def test_no_trips_and_many_share_a_plan() -> None:
    hybridized = hy.hybridize(hy.grad(escape))
    for x in (9.0, 1.1, 0.0, -0.5, 7.9):
        same(hybridized(f64(x), f64(8.0)), hy.grad(escape)(f64(x), f64(8.0)))
    assert len(hybridized.plans) == 1


def test_the_branch_not_taken_gives_zeros() -> None:
    def f(x, w):
        if x > 0:
            return hy.log(x) * w
        return x * 2

    found = hy.grad(hy.hybridize(f), (0, 1))(f32(-1.0), f32(3.0))
    assert [g.item() for g in found] == [2.0, 0.0]
    found = hy.grad(hy.hybridize(f), (0, 1))(f32(0.0), f32(3.0))
    assert [g.item() for g in found] == [2.0, 0.0]


def test_a_tree_of_parameters() -> None:
    def loss(params, x):
        for w, b in params["layers"]:
            x = hy.tanh(x @ w + b)
            if hy.sum(x) < 0:
                x = x * params["leak"]
        return hy.sum(x * x)

    params = {
        "layers": [(draw(3, 3, seed=i), draw(3, seed=i + 9)) for i in range(3)],
        "leak": f32(0.1),
    }
    hybridized = hy.hybridize(loss)
    for x in (draw(2, 3), -draw(2, 3)):
        same(hy.value_and_grad(hybridized)(params, x), hy.value_and_grad(loss)(params, x))
    assert len(hybridized.plans) == 1


def test_gradients_by_what_is_closed_over() -> None:
    w = f32([1.0, 2.0])
    w.requires_grad = True

    def loss(x):
        while hy.sum(x) < 10:
            x = x + w * w
        return hy.sum(x)

    hybridized = hy.hybridize(loss)
    for x in (f32([0.0, 1.0]), f32([-5.0, 1.0])):
        grads = []
        for f in (loss, hybridized):
            w.grad = None
            f(x).backward()
            grads.append(w.grad)
        same(*grads)


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_loops_of_a_traced_length(n) -> None:
    def f(x, n):
        for i in range(n):
            x = hy.sin(x) * 1.01 + i * 0.001
        return hy.sum(x)

    hybridized = hy.hybridize(f)
    same(hy.grad(hybridized)(X, i64(n)), hy.grad(f)(X, i64(n)))


def test_a_long_loop() -> None:
    def f(x):
        n = hy.asarray(0)
        while n < 3000:
            x = hy.sin(x) + 0.0001
            n += 1
        return hy.sum(x)

    same(hy.grad(hy.hybridize(f))(X), hy.grad(f)(X))


def test_stop_gradient_and_no_grad_inside() -> None:
    def f(x):
        for i in range(3):
            with hy.no_grad():
                scale = hy.sum(x * x)
            if scale > 1:
                x = x / scale
            x = x + hy.stop_gradient(x) * i
        return hy.sum(x * x)

    for x in INPUTS:
        same(hy.grad(hy.hybridize(f))(x), hy.grad(f)(x))


def test_gradients_inside_a_loop() -> None:
    """Gradient descent: a gradient in each iteration of a loop that is a node."""

    def minimise(x):
        n = 0
        g = hy.grad(branch)(x)
        while hy.sum(g * g) > 1e-4 and n < 50:
            x = x - 0.1 * g
            g = hy.grad(branch)(x)
            n += 1
        return x, n

    hybridized = hy.hybridize(minimise)
    for x in (X, -X):
        same(hybridized(x), minimise(x))


def test_jacobians_row_by_row() -> None:
    def f(x):
        if x[0] > 0:
            return x * x
        return x * x[1]

    hybridized = hy.hybridize(f)
    for x in (X, -X):
        rows = []
        for g in (f, hybridized):
            _, pull = hy.vjp(g, x)
            rows.append([pull(hy.asarray(np.eye(3)[i])) for i in range(3)])
        same(*rows)


def test_an_argument_that_is_read_from_outside_as_well() -> None:
    """Its gradient so far counts once, where the way back follows the run op by op."""

    def gradients(wrap):
        outside = hy.ones(3)
        outside.requires_grad = True

        @wrap
        def f(x, s):
            y, z, total = x, s * 1.0, hy.sum(x)
            if s > -1.0:
                if hy.sum(outside):
                    pass
            else:
                for _ in range(3):
                    if total:
                        break
                    y = y + x
                    return y, z
            return y, z

        found = []
        for x in (f32([0.3, -0.7, 1.1]), outside):
            s = hy.zeros(())
            x.requires_grad = s.requires_grad = True
            y, z = f(x, s)
            (hy.sum(y * hy.asarray([1.0, 2.0, 3.0])) + z * 3).backward()
            found.append((x.grad, s.grad, y is x))
        return found

    same(gradients(lambda f: f), gradients(lambda f: hy.hybridize(f, dynamic=False)))
