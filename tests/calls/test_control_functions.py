"""cond, while_loop, scan and py_call by hand: eagerly, hybridized, and differentiated."""

import numpy as np
import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, describe, draw, f32, f64, flag, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


@table.runs(*NUMBERS)
def cond(x):
    return hy.cond(x > 0, lambda v: v * 2, lambda v: v - 1, x)


@table.runs(*NUMBERS)
def cond_of_trees(x):
    return hy.cond(
        x > 0,
        lambda d: {"a": d["x"] * 2, "b": [d["y"]]},
        lambda d: {"a": d["y"], "b": [d["x"]]},
        {"x": x, "y": x * 3},
    )


@table.runs(*NUMBERS)
def cond_that_closes_over(x):
    y = x * 3
    return hy.cond(x > 0, lambda: y * 2, lambda: x)


@table.runs(*NUMBERS)
def cond_in_cond(x):
    return hy.cond(
        x > 0, lambda v: hy.cond(v > 1, lambda u: u * 10, lambda u: u, v), lambda v: -v, x
    )


@table.runs((flag(True), X, X * 2), (flag(False), X, X * 2))
def cond_of_several_operands(p, x, y):
    return hy.cond(p, lambda a, b: (a, b), lambda a, b: (b, a), x, y)


@table.runs(*[f32(v) for v in (0.5, 3.0, 200.0)])
def while_loop(x):
    return hy.while_loop(lambda v: v < 100, lambda v: v * 2, x)


@table.runs(*[f32(v) for v in (0.5, 3.0, 200.0)])
def while_loop_of_a_tuple(x):
    return hy.while_loop(lambda c: c[0] < 100, lambda c: (c[0] * 2, c[1] + 1), (x, hy.asarray(0)))


@table.runs(*[f32(v) for v in (0.5, 3.0, 200.0)])
def while_loop_of_a_dict(x):
    k = x * 0 + 3
    return hy.while_loop(
        lambda c: c["x"] < 100, lambda c: {"x": c["x"] * k, "n": c["n"] + 1}, {"x": x, "n": x * 0}
    )


@table.runs(draw(5, 3), draw(5, 3, seed=1))
def scan(xs):
    return hy.scan(lambda h, x: (hy.tanh(h + x), h * x), hy.zeros(3), xs)


@table.runs((draw(5, 3), draw(5)), (draw(5, 3, seed=1), draw(5)))
def scan_of_trees(a, b):
    def body(carry, x):
        h, n = carry
        row, k = x["row"], x["k"]
        return (h * 0.5 + row * k, n + 1), {"h": h, "s": [hy.sum(row)]}

    return hy.scan(body, (hy.zeros(3), hy.asarray(0)), {"row": a, "k": b})


@table.runs(draw(5, 3), draw(5, 3, seed=1))
def scan_without_outputs(xs):
    return hy.scan(lambda h, x: (h + x, None), hy.zeros(3), xs)


@table.runs(draw(5, 3), draw(5, 3, seed=1))
def scan_with_branches(xs):
    def body(h, x):
        if hy.sum(x) > 0:
            h = h + x
        return h, h * 2

    return hy.scan(body, hy.zeros(3), xs)


@table.runs(draw(2, 3, 2), draw(2, 3, 2, seed=1))
def scan_in_scan(xs):
    def inner(h, x):
        return h * 0.5 + x, h

    def outer(h, rows):
        return hy.scan(inner, h, rows)

    return hy.scan(outer, hy.zeros(2), xs)


@table.runs(hy.zeros((0, 3)), covered=False)
def scan_of_nothing(xs):
    return hy.scan(lambda h, x: (h + x, h * 2), hy.ones(3), xs)


@table.runs(*NUMBERS, grad=False)
def py_call(x):
    def halves(a):
        return (a * np.float32(0.5),)

    return hy.py_call(lambda a: a * np.float32(2), x, result=x.type) + 1


@table.each()
def test_same(program: Program) -> None:
    program.check()


def test_gradients() -> None:
    def f(x):
        y = hy.cond(x[0] > 0, lambda v: v * v, lambda v: v * 3, x)
        y = hy.while_loop(lambda v: hy.sum(v * v) < 50, lambda v: v * 2 + 1, y)
        h, ys = hy.scan(lambda h, v: (hy.tanh(h * v), h + v), x[0], y)
        return h + hy.sum(ys * ys)

    for x in (f64([0.5, 1.0]), f64([-0.5, 1.0])):
        hy.check_grads(f, x)
        expected = describe(hy.grad(f)(x))
        assert describe(hy.grad(hy.hybridize(f))(x)) == expected
        assert describe(hy.hybridize(hy.grad(f))(x)) == expected


def test_scan_is_a_loop() -> None:
    xs, h = draw(5, 3), hy.zeros(3)
    rows = []
    for i in range(5):
        rows.append(h)
        h = hy.tanh(h + xs[i])
    carry, ys = hy.scan(lambda h, x: (hy.tanh(h + x), h), hy.zeros(3), xs)
    assert describe(carry) == describe(h)
    assert describe(ys) == describe(hy.stack(rows))


def test_one_node_each() -> None:
    assert str(hy.hybridize(cond).graph(f32(1.0))).count(" = cond ") == 1
    assert str(hy.hybridize(while_loop).graph(f32(1.0))).count(" = while ") == 1
    assert str(hy.hybridize(scan).graph(draw(50, 3))).count(" = for ") == 1


def test_the_side_not_taken_does_not_run() -> None:
    ran = []

    def noted(v):
        ran.append(1)
        return v

    hy.cond(flag(True), lambda v: v, noted, X)
    assert ran == []


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: hy.cond(flag(True), lambda v: v, lambda v: v),
        lambda: hy.while_loop(lambda v: v < 3, lambda v: (v, v), f32(1.0)),
        lambda: hy.while_loop(lambda v: v < 3, lambda v: v[None], f32(1.0)),
        lambda: hy.scan(lambda h, x: h, hy.zeros(()), X),
        lambda: hy.scan(lambda h, x: (h, x), hy.zeros(()), (X, draw(4))),
        lambda: hy.while_loop(lambda v: X > 0, lambda v: v, f32(1.0)),
    ],
)
def test_mistakes_are_refused(mistake) -> None:
    with pytest.raises((hy.HybridError, TypeError)):
        mistake()
    with pytest.raises((hy.HybridError, TypeError)):
        hy.hybridize(mistake)()


def test_calls_into_python_are_ordered() -> None:
    seen = []

    def note(a):
        seen.append(float(a))
        return a

    def f(x):
        for _ in range(3):
            x = hy.py_call(note, x, result=x.type) + 1
        return x

    hybridized = hy.hybridize(f)
    assert hybridized(f32(1.0)).item() == 4.0 and seen == [1.0, 2.0, 3.0]
    assert hybridized(f32(5.0)).item() == 8.0 and seen == [1.0, 2.0, 3.0, 5.0, 6.0, 7.0]
    assert len(hybridized.plans) == 1


def test_trips_may_be_none() -> None:
    assert hy.while_loop(lambda v: v < 0, lambda v: v - 1, i64(3)).item() == 3
