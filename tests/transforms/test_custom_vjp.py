"""custom_vjp: the author's gradient holds wherever the function is differentiated."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from hybrid.ir import parse
from tests.helpers import same

X = hy.asarray(np.array([0.5, 1.0, 2.0]))
W = hy.asarray(np.array(1.5))


def leaf(value: hy.Tensor) -> hy.Tensor:
    made = hy.asarray(value.numpy().copy())
    made.requires_grad = True
    return made


@hy.custom_vjp
def wave(x, w):
    """sin(x) * w, with a gradient that says it is its own: twice, and three times the right one."""
    return hy.sin(x) * w


def wave_forward(x, w):
    s = hy.sin(x)
    return s * w, (hy.cos(x), w, s)


def wave_backward(residuals, ct):
    c, w, s = residuals
    return ct * c * w * 2, hy.sum(ct * s) * 3


wave.defvjp(wave_forward, wave_backward)


def programs(wave: Callable) -> dict[str, Callable]:
    """Functions that call ``wave``."""

    def straight(x, w):
        return hy.sum(wave(x, w) ** 2)

    def twice(x, w):
        return hy.sum(wave(wave(x, w), w) * wave(x, hy.sum(x)))

    def branches(x, w):
        for i in range(3):
            x = wave(x, w) + i if hy.sum(x) > 1 else x * 2 + wave(x, w)
        return hy.sum(x * x)

    def until(x, w):
        while hy.sum(x * x) > 0.5:
            x = wave(x, w) / 2
        return hy.sum(x * w)

    def scanned(x, w):
        carry, ys = hy.scan(lambda c, v: (wave(c, w) + v, c * v), w, x)
        return carry + hy.sum(ys)

    def forgotten(x, w):
        return hy.sum(hy.checkpoint(lambda y: wave(y, w) * y)(x) ** 2)

    return {
        "straight": straight,
        "twice": twice,
        "branches": branches,
        "until": until,
        "scan": scanned,
        "checkpoint": forgotten,
    }


FUNCTIONS = programs(wave)
straight = FUNCTIONS["straight"]


def slopes(function: Callable) -> Callable:
    return hy.grad(function, argnums=(0, 1))


def near(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.type is b.type
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-12)


def test_the_rule_is_what_counts() -> None:
    out, pullback = hy.vjp(wave, X, W)
    by_x, by_w = pullback(hy.ones((3,), dtype=hy.float64))
    x = X.numpy()
    np.testing.assert_allclose(out.numpy(), np.sin(x) * 1.5)
    np.testing.assert_allclose(by_x.numpy(), 2 * 1.5 * np.cos(x))
    np.testing.assert_allclose(by_w.numpy(), 3 * np.sin(x).sum())
    tangent = hy.jvp(wave, (X, W), (X, W))[1]  # the transpose of the rule
    np.testing.assert_allclose(tangent.numpy(), 3 * np.cos(x) * x + 4.5 * np.sin(x))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_have_the_bits_of_eager(function) -> None:
    expected = slopes(function)(X, W)
    for derived in (hy.hybridize(slopes(function)), slopes(hy.hybridize(function))):
        for a, b in zip(derived(X, W), expected, strict=True):
            assert same(a, b)


@hy.custom_vjp
def honest(x, w):
    return hy.sin(x) * w


honest.defvjp(wave_forward, lambda kept, ct: (ct * kept[0] * kept[1], hy.sum(ct * kept[2])))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_second_derivatives_go_through_backward(function) -> None:
    other = slopes_of_slopes(FUNCTIONS[function])
    for derived in (hy.hybridize(other), slopes(hy.hybridize(norm_of(FUNCTIONS[function])))):
        near(derived(X, W), other(X, W))
    norm = norm_of(programs(honest)[function])
    expected = slopes(norm)(X, W)
    near(expected, slopes(norm_of(programs(honest.function)[function]))(X, W))
    near(hy.hybridize(slopes(norm))(X, W), expected)


def norm_of(function: Callable) -> Callable:
    def norm(x, w):
        by_x, by_w = slopes(function)(x, w)
        return hy.sum(by_x * by_x) + by_w

    return norm


def slopes_of_slopes(function: Callable) -> Callable:
    return slopes(norm_of(function))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_tangents_are_those_of_the_gradient(function) -> None:
    by_x, by_w = slopes(function)(X, W)
    expected = hy.sum(by_x * X) + by_w * W
    transform = lambda x, w: hy.jvp(function, (x, w), (x, w))[1]  # noqa: E731
    inner = hy.jvp(hy.hybridize(function), (X, W), (X, W))[1]
    near((transform(X, W), hy.hybridize(transform)(X, W), inner), (expected,) * 3)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_rows(function) -> None:
    rows = hy.stack([X, X * 0.5, X + 1])
    each = [slopes(function)(row, W) for row in rows]
    by_x, by_w = (hy.stack(list(column)) for column in zip(*each, strict=True))
    mapped = hy.vmap(slopes(function), (0, None))
    total = lambda x, w: hy.sum(hy.vmap(function, (0, None))(x, w))  # noqa: E731
    near(hy.hybridize(mapped)(rows, W), (by_x, by_w))
    near(hy.hybridize(slopes(total))(rows, W), (by_x, hy.sum(by_w)))
    near(slopes(hy.hybridize(total))(rows, W), (by_x, hy.sum(by_w)))
    if function not in (FUNCTIONS["branches"], FUNCTIONS["until"]):  # whose rows differ
        near(mapped(rows, W), (by_x, by_w))
        near(slopes(total)(rows, W), (by_x, hy.sum(by_w)))


def test_backward_adds_to_grad() -> None:
    x, w = leaf(X), leaf(W)
    straight(x, w).backward()
    expected = slopes(straight)(X, W)
    near((x.grad, w.grad), expected)

    def step(x, w):
        straight(x, w).backward()

    y, v = leaf(X), leaf(W)
    hy.hybridize(step)(y, v)
    near((y.grad, v.grad), expected)


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_trees(wrap) -> None:
    @hy.custom_vjp
    def scaled(pair, n, index):
        return {"a": pair["x"] * n, "b": (pair["y"][0], index)}

    def forward(pair, n, index):
        return scaled.function(pair, n, index), (n, [pair["y"][0]])

    def backward(residuals, ct):
        n, _ = residuals
        return {"x": ct["a"] * n * 10, "y": [None]}, None, None

    scaled.defvjp(forward, backward)

    def loss(x, y):
        found = scaled({"x": x, "y": [y]}, n=3, index=hy.asarray(2))
        return hy.sum(found["a"]) + hy.sum(found["b"][0]) * found["b"][1]

    by_x, by_y = wrap(hy.grad(loss, argnums=(0, 1)))(X, X)
    assert by_x.tolist() == [30.0] * 3 and by_y.tolist() == [0.0] * 3
    assert wrap(loss)(X, X).item() == loss(X, X).item()


def test_the_function_itself_runs_where_nothing_is_recorded() -> None:
    called = []

    @hy.custom_vjp
    def f(x):
        called.append("function")
        return x * 2

    def forward(x):
        called.append("forward")
        return x * 2, None

    f.defvjp(forward, lambda _, ct: (ct,))
    with hy.no_grad():
        f(X)
    assert called == ["function"]
    assert same(f(X), X * 2) and called == ["function", "forward"]


def test_the_node_prints_and_parses_back() -> None:
    graph = hy.hybridize(straight).graph(X, W)
    assert "custom_vjp %0, %1 {cotangents=(0, 1), outs=1" in str(graph)
    assert parse(str(graph)) == graph


def test_a_gradient_that_clips() -> None:
    """What it is for: here the identity, whose gradient does not exceed a bound."""

    @hy.custom_vjp
    def clipped(x, bound):
        return x

    clipped.defvjp(
        lambda x, bound: (x, bound), lambda bound, ct: (hy.clip(ct, -bound, bound), None)
    )
    for grad in (
        hy.grad(lambda x: hy.sum(clipped(x, 0.5) ** 3)),
        hy.hybridize(hy.grad(lambda x: hy.sum(clipped(x, 0.5) ** 3))),
    ):
        assert grad(hy.asarray([0.1, 1.0, -2.0])).tolist() == pytest.approx([0.03, 0.5, 0.5])


# Errors -----------------------------------------------------------------------------------------


def made(forward: Any, backward: Any) -> Any:
    @hy.custom_vjp
    def f(x, n):
        return x * 2

    f.defvjp(forward, backward)
    return f


def good(x, n):
    return x * 2, None


def grad_of(backward: Any, forward: Any = good, n: Any = 3) -> Any:
    return lambda: hy.grad(lambda x: hy.sum(made(forward, backward)(x, n)))(X)


CLOSED = leaf(X)
MESSAGES: dict[str, tuple[Callable[[], Any], str]] = {
    "no rule": (
        lambda: hy.custom_vjp(wave.function)(X, W),
        "wave has no gradient yet",
    ),
    "no pair": (
        grad_of(lambda _, ct: (ct, None), lambda x, n: x),
        "the forward function of f returned *, not a pair\nFix: return (result, residuals).",
    ),
    "no tensors": (
        grad_of(lambda _, ct: (ct, None), lambda x, n: (3.0, None)),
        "the forward function of f returned the result float, not tensors\n"
        "Fix: return tensors, or trees of them.",
    ),
    "too few cotangents": (
        grad_of(lambda _, ct: (ct,)),
        "the backward function of f returned 1 cotangent for 2 arguments\n"
        "Fix: return a tuple with one cotangent for each argument, None for zero.",
    ),
    "one cotangent": (
        grad_of(lambda _, ct: ct),
        "the backward function of f returned Tensor for 2 arguments\n"
        "Fix: return a tuple with one cotangent for each argument, None for zero.",
    ),
    "shape": (
        grad_of(lambda _, ct: (hy.sum(ct), None)),
        "the backward function of f returned f64[] for argument 0, which holds f64[3]\n"
        "A cotangent has the type of what it belongs to.\n"
        "Fix: reshape or sum it, or convert it with astype.",
    ),
    "dtype": (
        grad_of(lambda _, ct: (hy.astype(ct, hy.float32), None)),
        "the backward function of f returned f32[3] for argument 0, which holds f64[3]\n"
        "A cotangent has the type of what it belongs to.\n"
        "Fix: reshape or sum it, or convert it with astype.",
    ),
    "a number": (
        grad_of(lambda _, ct: (2.0, None)),
        "the backward function of f returned float for argument 0\nFix: return a tensor, or None.",
    ),
    "structure": (
        grad_of(lambda _, ct: ([ct], None), n=X),
        "the backward function of f returned f64[3]",
    ),
    "of a number": (
        grad_of(lambda _, ct: (ct, ct)),
        "the backward function of f returned a cotangent for argument 1, which holds int\n"
        "Only float tensors have gradients.\n"
        "Fix: return None for it.",
    ),
    "of integers": (
        grad_of(lambda _, ct: (ct, ct), n=hy.asarray([1, 2])),
        "the backward function of f returned a cotangent for argument 1, which holds i64[2]\n"
        "Only float tensors have gradients.\n"
        "Fix: return None for it.",
    ),
    "closed over": (
        grad_of(lambda _, ct: (ct, None), lambda x, n: (x * CLOSED, None)),
        "f closes over a tensor that gradients are asked for",
    ),
    "no function": (
        lambda: hy.custom_vjp(3),
        "custom_vjp got a int in place of a function\nFix: pass a function.",
    ),
    "no functions": (
        lambda: made(good, 3),
        "defvjp got a int in place of a function\nFix: pass the forward and the backward function.",
    ),
}
MESSAGES["structure"] = (
    MESSAGES["structure"][0],
    "the backward function of f returned list for argument 0\nFix: return a tensor, or None.",
)
FIRST_LINE = ("no rule", "closed over")


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("way", ["eager", "hybridized"])
def test_the_text_of_a_message(kind, way) -> None:
    call, text = MESSAGES[kind]
    if way == "hybridized":
        call = hy.hybridize(call)
    with pytest.raises(hy.HybridError) as caught:
        call()
    found = str(caught.value)
    assert (found.splitlines()[0].split(" (/")[0] if kind in FIRST_LINE else found) == text


def test_a_tree_of_another_structure() -> None:
    @hy.custom_vjp
    def f(pair):
        return pair[0]

    f.defvjp(lambda pair: (pair[0], None), lambda _, ct: ((ct,),))
    with pytest.raises(hy.HybridError) as caught:
        hy.grad(lambda x: hy.sum(f([x, x])))(X)
    assert str(caught.value) == (
        "the backward function of f returned (*,) for argument 0, [*, *]\n"
        "Fix: return a tree like the argument, or None for zero."
    )


def test_keyword_only_arguments_are_refused() -> None:
    @hy.custom_vjp
    def f(x, *, n):
        return x * n

    f.defvjp(good, lambda _, ct: (ct,))
    with pytest.raises(hy.HybridError, match="f takes keyword-only arguments"):
        f(X, n=2)


def test_writes_are_refused_where_it_is_captured() -> None:
    held, cell = [], hy.asarray(0.0)

    def keeping(x, n):
        held.append(x)
        return x * 2, None

    def writing(x, n):
        cell.assign(cell + 1)
        return x * 2, None

    back = lambda _, ct: (ct, None)  # noqa: E731
    with pytest.raises(CaptureError, match="a list was written inside f"):
        hy.hybridize(lambda x: made(keeping, back)(x, 1))(X)
    with pytest.raises(hy.HybridError, match="f writes to a tensor from outside"):
        hy.hybridize(lambda x: made(writing, back)(x, 1))(X)


def calling_itself(keeps: bool, factor: float) -> Any:
    """A product whose forward function calls it, and may keep the result for its gradient."""
    f = hy.custom_vjp(lambda x, y: hy.sin(x) * y)

    def forward(x, y):
        result = f(x, y)
        return result, (hy.cos(x), hy.sin(x), y, result if keeps else None)

    def backward(residuals, ct):
        c, s, y, result = residuals
        return c * y * ct * factor + (0 if result is None else result * 0.5 * ct), s * ct

    f.defvjp(forward, backward)
    return f


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("factor", [1.0, 7.0])
def test_a_function_that_its_forward_function_calls(keeps, factor) -> None:
    f, x, y = calling_itself(keeps, factor), hy.asarray(2.0), hy.asarray(3.0)
    expected = [np.sin(2) * 3, np.cos(2) * 3 * factor + keeps * np.sin(2) * 1.5]
    expected.append(-np.sin(2) * 3 * factor + keeps * 0.5 * expected[1])
    differentiated = f
    for value in expected:
        np.testing.assert_allclose(differentiated(x, y).numpy(), value, rtol=1e-5)
        assert hy.hybridize(differentiated)(x, y).tolist() == differentiated(x, y).tolist()
        differentiated = hy.grad(differentiated)
    of_rows = hy.vmap(f)(hy.asarray([2.0, 2.0]), hy.asarray([3.0, 3.0]))
    assert of_rows.tolist() == [f(x, y).item()] * 2
    x.requires_grad = True
    for called in (f, hy.hybridize(f)):
        x.grad = None
        called(x, y).backward()
        np.testing.assert_allclose(x.grad.numpy(), expected[1], rtol=1e-5)


def test_a_recursive_function() -> None:
    @hy.custom_vjp
    def power(x, n):
        return x * power(x, n - 1) if n else hy.ones_like(x)

    def forward(x, n):
        return x * power(x, n - 1) if n else hy.ones_like(x), (x, n)

    def backward(residuals, ct):
        x, n = residuals
        return (n * power(x, n - 1) * ct if n else None), None

    power.defvjp(forward, backward)
    x, f = hy.asarray(3.0), lambda x: power(x, 5)
    for value in (243.0, 405.0, 540.0):
        assert f(x).item() == hy.hybridize(f)(x).item() == value
        f = hy.grad(f)
