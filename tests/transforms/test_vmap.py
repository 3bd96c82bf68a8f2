"""vmap: the results are those of the function on each row, stacked, whichever way it runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from tests.helpers import same

ROWS = 4
X = hy.asarray(np.random.default_rng(0).uniform(0.3, 1.5, (ROWS, 3)))
W = hy.asarray(np.random.default_rng(1).uniform(-1, 1, (3, 2)))
TABLE = hy.asarray(np.arange(10.0))


def stacked(function: Callable, *args: Any) -> Any:
    """``function`` on one row after the other."""
    found = [function(*[a[i] for a in args]) for i in range(args[0].shape[0])]
    if isinstance(found[0], tuple):
        return tuple(hy.stack(list(column)) for column in zip(*found, strict=True))
    return hy.stack(found)


def assert_near(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for a, b in zip(found, expected, strict=True):
            assert_near(a, b)
        return
    assert found.type is expected.type
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)


WAYS: dict[str, Callable[[Callable], Callable]] = {
    "eager": hy.vmap,
    "hybridized": lambda f: hy.hybridize(hy.vmap(f)),
    "of hybridized": lambda f: hy.vmap(hy.hybridize(f)),
    "hybridized of hybridized": lambda f: hy.hybridize(hy.vmap(hy.hybridize(f))),
}


def python_loop(x):
    for k in range(1, 4):
        x = hy.sin(x * k) + x / k
    return x


def in_place(x):
    y = hy.zeros((3,), dtype=x.dtype)
    y[0] = x[1] * 2
    y[1:] += x[:2]
    x *= y
    return x, y


def unrecorded(x):
    with hy.no_grad():
        scale = hy.exp(x)
    return hy.sin(x) * scale


def scanned(x):
    return hy.scan(lambda c, v: (c * v + 1, c - v), hy.asarray(1.0, dtype=x.dtype), x)


FUNCTIONS: dict[str, Callable[[hy.Tensor], Any]] = {
    "polynomial": lambda x: x**3 - 2 * x * x + 0.5 * x,
    "matrices": lambda x: hy.tanh(x @ W) * x.sum(),
    "outer product": lambda x: x[:, None] * x @ hy.ones((3, 2), dtype=x.dtype),
    "statistics": lambda x: (x - x.mean()) / hy.std(x),
    "order": lambda x: (hy.sort(x, descending=True), hy.argmax(x), hy.cumulative_sum(x)),
    "softmax": lambda x: hy.log_softmax(x * 2) * hy.softmax(x),
    "shapes": lambda x: hy.concat([hy.flip(x), hy.tile(x, (2,)), W[:, 0]]).reshape((3, 4)).T,
    "constant": lambda x: (x * 2, W),
    "lookup": lambda x: hy.take(TABLE, hy.astype(x * 5, hy.int64)) * x,
    "own lookup": lambda x: hy.take(x, hy.argsort(x)) * x[hy.argmax(x)],
    "python loop": python_loop,
    "in place": in_place,
    "stopped": lambda x: hy.stop_gradient(hy.exp(x)) * x,
    "unrecorded": unrecorded,
    "scan": scanned,
    "checkpoint": lambda x: hy.checkpoint(lambda y: hy.sin(y) * y)(x) * 2,
    "gradient": lambda x: hy.grad(lambda y: hy.sum(hy.sin(y) * x * W[:, 0]))(x),
    "tangent": lambda x: hy.jvp(lambda y: hy.sin(y) * x, (x,), (W[:, 0],))[1],
}


def newton(x):
    guess = x
    while hy.max(hy.abs(guess * guess - x)) > 1e-9:
        guess = (guess + x / guess) / 2
    return guess


def branched(x):
    if hy.sum(x) > 3:
        return hy.sqrt(hy.sum(x) - 3) * x
    return x * x


def counted(x):
    steps = 0
    while hy.sum(x) < 20:
        x = x * 1.5
        steps += 1
    return x, x * steps


def ranged(x):
    total = x
    for i in range(hy.astype(x[0] * 4, hy.int64)):
        total = hy.sin(total) + i
    return total


def broken_off(x):
    for k in range(5):
        if hy.sum(x) > 5:
            break
        x = x * (k + 1)
    return x


def in_bounds(x):
    at = hy.astype(x[0] * 4, hy.int64)
    if at < 3:
        return x[at] * 2
    return x[1]


def nested_branches(x):
    if x[0] > 0.7:
        if x[1] > 0.7:
            return x * 2
        while hy.sum(x) < 8:
            x = x + 1
    return x


def grown(x):
    items = [x]
    while hy.sum(x) < 10:
        x = x * 1.5
        items.append(x)
    return sum(items) * items[-1] + items[0]


def sometimes_appended(x):
    items = [x]
    for i in range(4):
        if hy.sum(x) > 3:
            items.append(hy.sin(x) * i)
        x = x + 1
    return sum(items)


def returned_within(x):
    i = 0
    while True:
        x = x * 1.2
        i = i + 1
        if hy.sum(x) > 9:
            break
        if i > 4:
            return x * 100
    return x


def counting_elements(x):
    n = 0
    for v in x:
        if v < 0.9:
            continue
        n += 1
    return x * n


BY_ROW: dict[str, Callable[[hy.Tensor], Any]] = {
    "grown list": grown,
    "sometimes appended": sometimes_appended,
    "returned within": returned_within,
    "counting elements": counting_elements,
    "newton": newton,
    "branched": branched,
    "counted": counted,
    "ranged": ranged,
    "broken off": broken_off,
    "in bounds": in_bounds,
    "nested branches": nested_branches,
    "conditional": lambda x: hy.cond(x[0] > 0.8, hy.sin, hy.cos, x),
    "while_loop": lambda x: hy.while_loop(lambda y: hy.sum(y) < 9, lambda y: y * 1.3, x),
    "ternary": lambda x: x if x[0] > 0.8 and x[1] > 0.6 else -x,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_results_are_those_of_the_rows(function, way) -> None:
    found = WAYS[way](function)(X)
    assert_near(found, stacked(function, X))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "eager"])
@pytest.mark.parametrize("function", BY_ROW.values(), ids=BY_ROW)
def test_rows_go_their_own_ways(function, way) -> None:
    assert_near(WAYS[way](function)(X), stacked(function, X))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_hybridized_gives_the_bits_of_eager(function) -> None:
    expected, found = hy.vmap(function)(X), hy.hybridize(hy.vmap(function))(X)
    pairs = zip(expected, found, strict=True) if isinstance(found, tuple) else [(expected, found)]
    assert all(same(a, b) for a, b in pairs)


# Gradients --------------------------------------------------------------------------------------


def scalar(function: Callable) -> Callable[[hy.Tensor], hy.Tensor]:
    """The sum of all float results, unevenly weighed."""

    def total(x: hy.Tensor) -> hy.Tensor:
        out = function(x)
        parts = out if isinstance(out, tuple) else (out,)
        floats = [part for part in parts if part.dtype is hy.float64]
        return sum((k + 1) * hy.sum(hy.sin(part)) for k, part in enumerate(floats))

    return total


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_of_each_row(function, way) -> None:
    slope = hy.grad(scalar(function))
    assert_near(WAYS[way](slope)(X), stacked(slope, X))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "eager"])
@pytest.mark.parametrize("function", BY_ROW.values(), ids=BY_ROW)
def test_gradients_of_rows_that_go_their_own_ways(function, way) -> None:
    slope = hy.grad(scalar(function))
    assert_near(WAYS[way](slope)(X), stacked(slope, X))
    inner = hy.grad(scalar(hy.hybridize(function)))
    assert_near(WAYS[way](inner)(X), stacked(slope, X))


EITHER = [(f, way) for f in FUNCTIONS for way in WAYS]
EITHER += [(f, way) for f in BY_ROW for way in WAYS if way != "eager"]


@pytest.mark.parametrize(("function", "way"), EITHER)
def test_gradients_through_vmap(function, way) -> None:
    target = scalar({**FUNCTIONS, **BY_ROW}[function])
    slope = stacked(hy.grad(target), X)
    mapped = WAYS[way](target)
    total = lambda x: hy.sum(mapped(x))  # noqa: E731
    assert_near(hy.grad(total)(X), slope)
    assert_near(hy.hybridize(hy.grad(total))(X), slope)
    ones = hy.ones(X.shape, dtype=X.dtype)
    tangent = hy.jvp(mapped, (X,), (ones,))[1]
    assert_near(tangent, hy.sum(slope, axis=1))


@pytest.mark.parametrize("function", ["polynomial", "softmax", "scan", "gradient", "checkpoint"])
def test_second_derivatives(function) -> None:
    inner = scalar(FUNCTIONS[function])
    norm = lambda x: hy.sum(hy.grad(inner)(x) ** 2)  # noqa: E731
    expected = stacked(hy.grad(norm), X)
    for way in (hy.vmap, WAYS["hybridized"]):
        assert_near(way(hy.grad(norm))(X), expected)
        assert_near(hy.grad(lambda x, way=way: hy.sum(way(norm)(x)))(X), expected)
    outer = lambda x: hy.sum(hy.vmap(hy.grad(inner))(x) ** 2)  # noqa: E731
    assert_near(hy.grad(outer)(X), expected)
    assert_near(hy.hybridize(hy.grad(outer))(X), expected)


def test_what_is_closed_over_gets_the_sum_over_rows() -> None:
    def loss(w: hy.Tensor) -> hy.Tensor:
        return hy.sum(hy.vmap(lambda x: hy.tanh(x @ w).sum() ** 2)(X))

    def slopes(w: hy.Tensor) -> hy.Tensor:
        def of_row(x):
            return hy.grad(lambda v: hy.sum(hy.sin(v) * (w[:, 0] * v)))(x)

        return hy.sum(hy.vmap(of_row)(X) ** 2)

    def by_hand(w: hy.Tensor) -> hy.Tensor:
        return hy.sum(hy.stack([hy.tanh(x @ w).sum() ** 2 for x in X]))

    for f in (loss, slopes):
        hy.check_grads(f, W, order=2, rtol=1e-4, atol=1e-5)
        assert_near(hy.hybridize(hy.grad(f))(W), hy.grad(f)(W))
    assert_near(hy.grad(loss)(W), hy.grad(by_hand)(W))


def test_gradients_by_what_is_the_same_in_every_row() -> None:
    slope = hy.vmap(lambda x: hy.grad(lambda w: hy.sum(hy.sin(x @ w)))(W))
    expected = hy.stack([hy.grad(lambda w, x=x: hy.sum(hy.sin(x @ w)))(W) for x in X])
    assert_near(slope(X), expected)
    assert_near(hy.hybridize(slope)(X), expected)


def test_a_branch_that_a_row_does_not_take_adds_no_nan() -> None:
    def root(x, w):
        if x > 0:
            return hy.sqrt(x) * w
        return x * w

    x, w = hy.asarray([4.0, 0.0, -1.0]), hy.asarray(2.0)
    for f in (
        hy.hybridize(hy.vmap(root, in_axes=(0, None))),
        hy.vmap(hy.hybridize(root), (0, None)),
    ):
        total = lambda x, w, f=f: hy.sum(f(x, w))  # noqa: E731
        by_x, by_w = hy.grad(total, argnums=(0, 1))(x, w)
        assert by_x.tolist() == [0.5, 2.0, 2.0] and by_w.item() == 1.0
    none = hy.asarray([0.0, -1.0])
    assert hy.grad(lambda x: hy.sum(hy.hybridize(hy.vmap(root, (0, None)))(x, w)))(
        none
    ).tolist() == [2, 2]


def test_per_sample_gradients_of_a_module() -> None:
    layer = hy.nn.Linear(3, 2)
    x = hy.astype(X, hy.float32)

    def loss(weight, bias, row):
        return hy.sum(hy.tanh(row @ weight.T + bias) ** 2)

    slopes = hy.vmap(hy.grad(loss, argnums=(0, 1)), in_axes=(None, None, 0))
    by_weight, by_bias = slopes(layer.weight, layer.bias, x)
    assert by_weight.shape == (ROWS, 2, 3) and by_bias.shape == (ROWS, 2)
    for i in range(ROWS):
        want = hy.grad(loss, argnums=(0, 1))(layer.weight, layer.bias, x[i])
        np.testing.assert_allclose(by_weight[i].numpy(), want[0].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(by_bias[i].numpy(), want[1].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(hy.vmap(layer)(x).numpy(), layer(x).numpy(), rtol=1e-5, atol=1e-6)


# What the rows share ----------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_values_that_are_the_same_in_every_row_decide_as_usual(wrap) -> None:
    def f(x, flag):
        for _ in range(3):
            if flag > 0:
                x = x * 2
        return x

    mapped = wrap(hy.vmap(f, in_axes=(0, None)))
    assert mapped(hy.asarray([1.0, 2.0]), hy.asarray(1.0)).tolist() == [8.0, 16.0]
    assert mapped(hy.asarray([1.0, 2.0]), hy.asarray(-1.0)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_what_is_written_outside(wrap) -> None:
    count = hy.asarray(0.0)

    def counting(x):
        count.assign(count + 1)
        return x * count

    mapped = wrap(hy.vmap(counting))
    assert mapped(hy.asarray([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert mapped(hy.asarray([1.0, 2.0])).tolist() == [2.0, 4.0] and count.item() == 2

    def writing(x):
        count.assign(x)
        return x

    with pytest.raises(hy.HybridError, match="differs from row to row"):
        wrap(hy.vmap(writing))(hy.asarray([1.0, 2.0]))
    assert count.item() == 2


def test_python_is_called_for_each_row() -> None:
    seen = []

    def look(x):
        seen.append(float(x))
        return x * 2

    f = hy.vmap(lambda x: hy.py_call(look, x, result=hy.asarray(0.0).type) + 1)
    for mapped in (f, hy.hybridize(f)):
        seen.clear()
        assert mapped(hy.asarray([1.0, 2.0, 3.0])).tolist() == [3.0, 5.0, 7.0]
        assert seen == [1.0, 2.0, 3.0]


def test_rows_that_call_python_take_turns() -> None:
    seen = []

    def f(x):
        if x > 1:
            hy.py_call(lambda a: seen.append(float(a)), x)
            x = x * 2
        while x < 10:
            hy.py_call(lambda a: seen.append(float(a)), x)
            x = x * 3
        return x

    found = hy.hybridize(hy.vmap(f))(hy.asarray([1.0, 2.0]))
    assert found.tolist() == [27.0, 12.0]
    assert sorted(seen) == [1.0, 2.0, 3.0, 4.0, 9.0]


def test_nodes_are_at_the_lines_that_the_rows_run() -> None:
    graph = hy.hybridize(hy.vmap(branched)).graph(X)
    lines = {node.location.line for node in graph.walk() if node.location is not None}
    first = branched.__code__.co_firstlineno
    assert {first + 1, first + 2, first + 3} <= lines


def test_loops_keep_fewer_iterations_for_many_rows() -> None:
    """What the way back needs of a loop of unknown length is kept within one budget for all."""
    graph = hy.hybridize(hy.vmap(hy.grad(scalar(newton)))).graph(X)
    lengths = [node.attributes.get("length", 0) for node in graph.walk()]
    assert 0 < max(lengths) <= 512
    alone = hy.hybridize(hy.grad(scalar(newton))).graph(X[0])
    assert max(node.attributes.get("length", 0) for node in alone.walk()) > 512


def test_rows_have_a_plan_of_their_own() -> None:
    captured = hy.hybridize(lambda x: x * 2)
    captured(X[0])
    for _ in range(2):
        assert same(hy.vmap(captured)(X), X * 2)
    whys = [plan.why for plan in captured.plans]
    assert len(whys) == 2
    assert "vmap has 4 rows for each value, and had 1 before" in whys[1]
