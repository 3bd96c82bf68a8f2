"""jacobian, hessian and hvp: against differences and each other, whichever way they run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from tests.helpers import same

X = hy.asarray(np.array([0.5, 1.0, 2.0]))
V = hy.asarray(np.array([1.0, -1.0, 0.5]))
M = hy.asarray(np.random.default_rng(0).uniform(0.3, 1.5, (2, 3)))


def newton(x):
    guess = x
    while hy.sum(hy.abs(guess * guess - x)) > 1e-9:
        guess = (guess + x / guess) / 2
    return guess


def branches(x):
    for i in range(4):
        x = hy.sin(x) * x[i % 3] if hy.sum(x) > 1 else x * 2 + x[0]
    return x


def scanned(x):
    return hy.scan(lambda c, v: (c * v, hy.sin(c) + v), x[0], x)[1]


FUNCTIONS: dict[str, Callable[[hy.Tensor], hy.Tensor]] = {
    "elementwise": lambda x: hy.sin(x) * x,
    "dense": lambda x: hy.exp(x) * hy.sum(x),
    "matrix": lambda x: x[:, None] * hy.cumulative_sum(x),
    "scalar": lambda x: hy.sum(x * x) * x[1],
    "softmax": hy.softmax,
    "while": newton,
    "branches": branches,
    "scan": scanned,
    "constant": lambda x: hy.ones((2,), dtype=x.dtype),
    "empty": lambda x: x[:0],
}
WAYS: dict[str, Callable[[Callable, Callable], Callable]] = {
    "eager": lambda transform, f: transform(f),
    "hybridized": lambda transform, f: hy.hybridize(transform(f)),
    "of hybridized": lambda transform, f: transform(hy.hybridize(f)),
}


def differences(function: Callable[[hy.Tensor], hy.Tensor], x: hy.Tensor) -> np.ndarray:
    """The Jacobian by central differences, shape result + argument."""
    array, eps = x.numpy(), 1e-6
    columns = []
    for at in np.ndindex(array.shape):
        step = np.zeros_like(array)
        step[at] = eps
        ahead, behind = (function(hy.asarray(array + s)).numpy() for s in (step, -step))
        columns.append((ahead - behind) / (2 * eps))
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape((*stacked.shape[:-1], *array.shape))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_jacobians_agree_with_differences(function, way) -> None:
    found = WAYS[way](hy.jacobian, function)(X)
    assert found.type is hy.asarray(differences(function, X)).type
    np.testing.assert_allclose(found.numpy(), differences(function, X), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_hybridized_gives_the_bits_of_eager(function) -> None:
    expected = hy.jacobian(function)(X)
    assert same(hy.hybridize(hy.jacobian(function))(X), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_hessians_agree_with_differences_of_jacobians(function, way) -> None:
    found = WAYS[way](hy.hessian, function)(X)
    want = differences(hy.jacobian(function), X)
    assert found.shape == want.shape
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f not in ("constant", "empty")])
def test_products_are_those_with_the_hessian(function, way) -> None:
    def scalar(x):
        return hy.sum(FUNCTIONS[function](x) ** 3)

    expected = hy.hessian(scalar)(X) @ V
    transform = lambda f: lambda x, v: hy.hvp(f, (x,), (v,))  # noqa: E731
    (found,) = WAYS[way](transform, scalar)(X, V)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_trees(wrap) -> None:
    def f(pair, scale):
        return {"sum": pair["a"] * scale, "rest": [hy.sum(pair["b"] * scale, axis=1)]}

    pair = {"a": X, "b": M}
    found = wrap(hy.jacobian(f))(pair, X)
    assert {k: v.shape for k, v in found["sum"].items()} == {"a": (3, 3), "b": (3, 2, 3)}
    assert found["rest"][0]["a"].tolist() == [[0.0] * 3] * 2
    assert np.array_equal(found["rest"][0]["b"].numpy(), np.eye(2)[:, :, None] * X.numpy())
    by_both = wrap(hy.jacobian(f, argnums=(0, 1)))(pair, X)
    assert np.array_equal(by_both["sum"][1].numpy(), np.diag(X.numpy()))
    assert by_both["sum"][0]["a"].shape == (3, 3)
    second = wrap(hy.hessian(lambda p, s: hy.sum(f(p, s)["sum"] ** 2)))(pair, X)
    assert np.array_equal(second["a"]["a"].numpy(), np.diag(2 * X.numpy() ** 2))
    assert second["a"]["b"].shape == (3, 2, 3) and second["b"]["a"].shape == (2, 3, 3)


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize], ids=["eager", "hybridized"])
def test_products_of_trees(wrap) -> None:
    def loss(pair, scale):
        return hy.sum(hy.sin(pair["a"] * scale)) + hy.sum(pair["b"] ** 2 * scale)

    def product(primals, tangents):
        return hy.hvp(loss, primals, tangents)

    primals, tangents = ({"a": X, "b": M}, V), ({"a": V, "b": M}, X)
    found = wrap(product)(primals, tangents)
    eps = 1e-6
    slope = hy.grad(loss, argnums=(0, 1))
    ahead, behind = (slope({"a": X + e * V, "b": M + e * M}, V + e * X) for e in (eps, -eps))
    for a, b, got in (
        (ahead[0]["a"], behind[0]["a"], found[0]["a"]),
        (ahead[0]["b"], behind[0]["b"], found[0]["b"]),
        (ahead[1], behind[1], found[1]),
    ):
        np.testing.assert_allclose(got.numpy(), ((a - b) / (2 * eps)).numpy(), rtol=1e-6, atol=1e-8)


def test_jacobians_in_each_other() -> None:
    """Rows of Hessians, gradients by what a Jacobian closes over, and of what it gives."""
    f = FUNCTIONS["dense"]
    rows = hy.stack([X, V])
    want = hy.stack([hy.hessian(f)(row) for row in rows])
    for mapped in (hy.vmap(hy.hessian(f)), hy.hybridize(hy.vmap(hy.hessian(f)))):
        np.testing.assert_allclose(mapped(rows).numpy(), want.numpy(), rtol=1e-12)

    def closed(w):
        return hy.sum(hy.jacobian(lambda x: hy.sin(x * w))(X) ** 2)

    def norm(x):
        return hy.sum(hy.jacobian(branches)(x) ** 2)

    for function in (closed, norm):
        hy.check_grads(function, V, order=1, rtol=1e-4, atol=1e-5)
        slope = hy.grad(function)(V).numpy()
        np.testing.assert_allclose(hy.hybridize(hy.grad(function))(V).numpy(), slope, rtol=1e-10)


MESSAGES: dict[str, tuple[Callable[[], Any], str]] = {
    "integers": (
        lambda: hy.jacobian(lambda x: x * 2)(hy.asarray([1, 2])),
        "a gradient by argument 0 of i64[2] was asked for\n"
        "Only float tensors have gradients.\n"
        "Fix: convert it with astype.",
    ),
    "no tensor": (
        lambda: hy.jacobian(lambda x: 3.0)(X),
        "the function returned float, not tensors\nFix: return tensors, or trees of them.",
    ),
    "integer result": (
        lambda: hy.jacobian(lambda x: (x, hy.argmax(x)))(X),
        "the derivatives of a result of type i64[] were asked for\n"
        "Only float tensors have derivatives.\n"
        "Fix: return it from another function, or convert it with astype.",
    ),
    "argnums": (
        lambda: hy.hessian(lambda x: x, argnums=1)(X),
        "argnums has 1, but 1 arguments were given",
    ),
    "argnums of another type": (
        lambda: hy.jacobian(lambda x: x, argnums=0.5),
        "argnums=0.5\n"
        "They are the positions of the arguments to differentiate by.\n"
        "Fix: give an int or a tuple of ints.",
    ),
    "structure of tangents": (
        lambda: hy.hvp(hy.sum, (X,), (X, X)),
        "tangents have structure (*, *), primals (*,)",
    ),
    "shape of tangents": (
        lambda: hy.hvp(hy.sum, (X,), (hy.ones((2,), dtype=hy.float64),)),
        "a tangent of f64[3] must have that type, not f64[2]",
    ),
    "no scalar": (
        lambda: hy.hvp(lambda x: x, (X,), (V,)),
        "the function returned f64[3], not a scalar\n"
        "A gradient belongs to one number.\n"
        "Fix: sum the result, or use hybrid.vjp.",
    ),
}


@pytest.mark.parametrize(("call", "text"), MESSAGES.values(), ids=MESSAGES)
def test_the_text_of_a_message(call, text) -> None:
    with pytest.raises(hy.HybridError) as caught:
        call()
    assert str(caught.value) == text
