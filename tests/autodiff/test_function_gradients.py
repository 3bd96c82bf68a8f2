"""grad, value_and_grad, vjp and jvp: of eager and hybridized functions, alone and in each other."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, GradientError, ShapeError
from tests.helpers import leaf, same, tensor

X = np.linspace(0.3, 1.7, 6).reshape(2, 3)


def f64(*shape: int, seed: int = 0) -> hy.Tensor:
    return hy.asarray(np.random.default_rng(seed).uniform(0.3, 1.5, shape))


def in_place(x):
    y = x * 1
    y[0] = y[1] * x[0, 1]
    y[:, 1:] *= 2
    part = y[1]
    part += x[0]
    return y * y, part


def loop(x):
    for k in range(1, 4):
        x = hy.sin(x * k) + x / k
    return x


def attention(x):
    scores = x @ x.mT / 3**0.5
    return hy.softmax(scores, axis=-1) @ x


def composed(x):
    first, second = hy.chunk(hy.concat([x, x * x], axis=0), 2, axis=0)
    return hy.where(first > 0.8, hy.exp(first), hy.log(second)), hy.max(x, axis=1)


def gathered(x):
    rows = hy.take(x, hy.asarray([1, 0, 1]), axis=0)
    return rows * rows[:, hy.asarray([2, 1, 0])]


def unrecorded(x):
    with hy.no_grad():
        scale = hy.exp(x)
    return hy.sin(x) * scale


FUNCTIONS: dict[str, Callable[[hy.Tensor], Any]] = {
    "polynomial": lambda x: x**3 - 2 * x * x + 0.5 * x,
    "in place": in_place,
    "loop": loop,
    "attention": attention,
    "composed": composed,
    "gathered": gathered,
    "norm": lambda x: (x - hy.mean(x, axis=-1, keepdims=True)) / hy.std(x, axis=-1, keepdims=True),
    "log_softmax": lambda x: hy.log_softmax(x, axis=-1) * hy.cos(x),
    "broadcast": lambda x: x[:, None, :] * x[:, :, None] + hy.sum(x),
    "stopped": lambda x: hy.stop_gradient(hy.exp(x)) * x,
    "partly unrecorded": unrecorded,
    "partly constant": lambda x: (x * x, hy.ones((2, 3), dtype=hy.float64)),
}


def scalar(function: Callable[..., Any]) -> Callable[..., hy.Tensor]:
    """The sum of all results of ``function``, unevenly weighed."""

    def total(*args: Any) -> hy.Tensor:
        out = function(*args)
        parts = out if isinstance(out, tuple) else (out,)
        return sum((k + 1) * hy.sum(hy.sin(part)) for k, part in enumerate(parts))

    return total


WAYS: dict[str, Callable[[Callable], Callable]] = {
    "eager": lambda transform: transform,
    "of hybridized": lambda transform: lambda f: transform(hy.hybridize(f)),
    "hybridized": lambda transform: lambda f: hy.hybridize(transform(f)),
    "hybridized of hybridized": lambda transform: (
        lambda f: hy.hybridize(transform(hy.hybridize(f)))
    ),
}


def slopes(f: Callable) -> Callable:
    """The sum of squares of the gradient of ``f``: its own gradient is a second derivative."""
    return lambda x: hy.sum(hy.grad(f)(x) ** 2)


def hessian_times(f: Callable) -> Callable:
    return lambda x: hy.jvp(hy.grad(f), (x,), (hy.ones((2, 3), dtype=x.dtype),))[1]


def slope_of_tangent(f: Callable) -> Callable:
    return hy.grad(lambda x: hy.jvp(f, (x,), (hy.ones((2, 3), dtype=x.dtype),))[1])


def tangent_twice(f: Callable) -> Callable:
    ones = hy.ones((2, 3), dtype=hy.float64)
    inner = lambda x: hy.jvp(f, (x,), (ones,))[1]  # noqa: E731
    return lambda x: hy.jvp(inner, (x,), (ones,))[1]


TRANSFORMS: dict[str, Callable[[Callable], Callable]] = {
    "grad": hy.grad,
    "value_and_grad": hy.value_and_grad,
    "grad of grad": lambda f: hy.grad(slopes(f)),
    "grad of grad of grad": lambda f: hy.grad(slopes(slopes(f))),
    "jvp of grad": hessian_times,
    "grad of jvp": slope_of_tangent,
    "jvp of jvp": tangent_twice,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_derivatives_agree_with_differences(function) -> None:
    if function not in (FUNCTIONS["stopped"], unrecorded):
        hy.check_grads(scalar(function), X, order=2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", [w for w in WAYS if w != "eager"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_way_to_hybridize_gives_the_derivatives_of_eager(function, transform, way) -> None:
    target, make = scalar(FUNCTIONS[function]), TRANSFORMS[transform]
    x = hy.asarray(X)
    expected = make(target)(x)
    derived = WAYS[way](make)(target)
    for _ in range(2):
        found = derived(x)
        for a, b in zip(as_tuple(expected), as_tuple(found), strict=True):
            assert a.type is b.type
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-11, atol=1e-11)


def as_tuple(value: Any) -> tuple:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f != "partly constant"])
def test_first_gradients_have_the_same_bits(function) -> None:
    """Cotangents are added up in one order, whether ops run, are traced or are planned."""
    target = scalar(FUNCTIONS[function])
    x = hy.asarray(X.astype(np.float32)[:, :3])
    expected = hy.grad(target)(x)
    assert same(hy.grad(hy.hybridize(target))(x), expected)
    assert same(hy.hybridize(hy.grad(target))(x), expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jvp_and_vjp_are_transposes(function) -> None:
    target = FUNCTIONS[function]
    x, v = hy.asarray(X), f64(2, 3, seed=1)
    for f in (target, hy.hybridize(target)):
        out, tangent = hy.jvp(f, (x,), (v,))
        value, pullback = hy.vjp(f, x)
        cts = [f64(*t.shape, seed=i) for i, t in enumerate(as_tuple(value))]
        (back,) = pullback(tuple(cts) if isinstance(value, tuple) else cts[0])
        forward = sum(hy.sum(t * c).item() for t, c in zip(as_tuple(tangent), cts, strict=True))
        assert hy.sum(back * v).item() == pytest.approx(forward, rel=1e-9)
        for a, b, c in zip(as_tuple(out), as_tuple(value), as_tuple(target(x)), strict=True):
            assert same(a, c) and same(b, c)


# What is closed over ----------------------------------------------------------------------------

V = hy.asarray([1.0, 2.0, 3.0])
CLOSURES: dict[str, tuple[Callable[[hy.Tensor], hy.Tensor], list[float]]] = {
    "the value of vjp": (lambda w: hy.sum(hy.vjp(lambda y: y * w, V)[0]), [1, 2, 3]),
    "the cotangent of vjp": (lambda w: hy.sum(hy.vjp(lambda y: y * w, V)[1](V)[0]), [1, 2, 3]),
    "by the cotangent": (lambda w: hy.sum(hy.vjp(lambda y: y * y, V)[1](w)[0] * w), [4, 16, 36]),
    "the value of jvp": (lambda w: hy.sum(hy.jvp(lambda y: y * w, (V,), (V,))[0]), [1, 2, 3]),
    "the tangent of jvp": (lambda w: hy.sum(hy.jvp(lambda y: y * w, (V,), (V,))[1]), [1, 2, 3]),
    "by the tangent": (lambda w: hy.sum(hy.jvp(lambda y: y * y, (V,), (w,))[1]), [2, 4, 6]),
    "the value of value_and_grad": (
        lambda w: hy.value_and_grad(lambda y: hy.sum(y * w * w))(V)[0],
        [2, 8, 18],
    ),
    "the aux of value_and_grad": (
        lambda w: hy.sum(hy.value_and_grad(lambda y: (hy.sum(y), y * w), has_aux=True)(V)[0][1]),
        [1, 2, 3],
    ),
    "the gradient": (lambda w: hy.sum(hy.grad(lambda y: hy.sum(y * w * w))(V)), [2, 4, 6]),
    "both": (lambda w: hy.sum(w * hy.grad(lambda y: hy.sum(w + y))(V)), [1, 1, 1]),
}


@pytest.mark.parametrize(("function", "expected"), CLOSURES.values(), ids=CLOSURES)
def test_inner_transforms_keep_what_they_close_over(function, expected) -> None:
    for f in (function, hy.hybridize(function)):
        assert hy.grad(f)(V).tolist() == expected
        direction = hy.ones(3)
        assert hy.jvp(f, (V,), (direction,))[1].item() == sum(expected)


def test_parameters_are_closed_over_too() -> None:
    w = leaf(3)
    out, _ = hy.vjp(lambda y: y * w, V)
    hy.sum(out).backward()
    assert w.grad.tolist() == V.tolist()


def test_results_have_no_history_of_their_own() -> None:
    """Else a list of losses would keep every step's intermediate values alive."""
    value, gradient = hy.value_and_grad(lambda w: (hy.sum(w * w), w * 2), has_aux=True)(V)
    out, pullback = hy.vjp(lambda w: w * w, V)
    results = [*value, gradient, out, *pullback(V), *hy.jvp(lambda w: w * w, (V,), (V,))]
    assert not any(t.requires_grad for t in results)


def test_perturbations_are_not_confused() -> None:
    """The classic: d/da (a * d/db (a + b)) is 1, not 2."""
    a, b, one = hy.asarray(3.0), hy.asarray(2.0), hy.asarray(1.0)
    assert hy.grad(lambda a: a * hy.grad(lambda b: a + b)(b))(a).item() == 1.0
    assert (
        hy.jvp(lambda a: a * hy.jvp(lambda b: a + b, (b,), (one,))[1], (a,), (one,))[1].item()
        == 1.0
    )


# Arguments ---------------------------------------------------------------------------------------


class Weights(NamedTuple):
    w: hy.Tensor
    b: Any


def test_argnums() -> None:
    def f(a, b, *, k=1.0):
        return hy.sum(a * b * k)

    a, b = tensor(3), tensor(3, seed=1)
    assert same(hy.grad(f)(a, b), b)
    assert same(hy.grad(f, 1)(a, b), a)
    assert same(hy.grad(f, -1)(a, b, k=2.0), a * 2)
    both = hy.grad(f, (1, 0))(a, b)
    assert isinstance(both, tuple) and same(both[0], a) and same(both[1], b)
    assert hy.grad(f, ())(a, b) == ()
    value, (only,) = hy.value_and_grad(f, (0,))(a, b)
    assert same(value, f(a, b)) and same(only, b)


def test_gradients_have_the_tree_of_the_argument() -> None:
    def f(tree):
        return hy.sum(tree["x"][0] * tree["x"][1].w) + tree["y"] ** 2

    tree = {"y": 3.0, "x": [tensor(2), Weights(tensor(2, seed=1), None)]}
    for derived in (hy.grad(f), hy.grad(hy.hybridize(f)), hy.hybridize(hy.grad(f))):
        found = derived(tree)
        assert list(found) == ["y", "x"]
        assert found["y"].item() == 6.0
        assert same(found["x"][0], tree["x"][1].w)
        assert type(found["x"][1]) is Weights and found["x"][1].b is None
        assert same(found["x"][1].w, tree["x"][0])


def test_the_same_tensor_twice_is_two_variables() -> None:
    x = tensor(3)
    first, second = hy.grad(lambda pair: hy.sum(pair[0] * 2 + pair[1] * 3))((x, x))
    assert first.tolist() == [2.0] * 3 and second.tolist() == [3.0] * 3


def test_what_the_function_ignores_has_a_zero_gradient() -> None:
    grads = hy.grad(lambda a, b: hy.sum(a), (0, 1))(tensor(2), tensor(3))
    assert grads[1].tolist() == [0.0] * 3
    assert hy.grad(lambda a: hy.sum(hy.ones(2)))(tensor(2)).tolist() == [0.0] * 2
    assert hy.jvp(lambda a: hy.ones(2), (V,), (V,))[1].tolist() == [0.0] * 2


def test_has_aux() -> None:
    def f(w):
        return hy.sum(w * w), {"twice": w * 2, "note": "text"}

    for transform in (hy.value_and_grad, lambda f, **k: hy.hybridize(hy.value_and_grad(f, **k))):
        (value, aux), gradient = transform(f, has_aux=True)(V)
        assert value.item() == 14.0 and gradient.tolist() == [2.0, 4.0, 6.0]
        assert aux["twice"].tolist() == [2.0, 4.0, 6.0] and aux["note"] == "text"
    gradient, aux = hy.grad(f, has_aux=True)(V)
    assert gradient.tolist() == [2.0, 4.0, 6.0] and list(aux) == ["twice", "note"]


def test_an_argument_written_inside_is_not_written_outside() -> None:
    def f(w):
        w *= 2
        return hy.sum(w * w)

    w = hy.asarray([1.0, 2.0])
    assert hy.grad(f)(w).tolist() == [8.0, 16.0]
    assert hy.hybridize(hy.grad(f))(w).tolist() == [8.0, 16.0]
    assert w.tolist() == [1.0, 2.0]


# Pullbacks and modes ------------------------------------------------------------------------------


def test_a_pullback_can_be_called_again() -> None:
    for f in (hy.exp, hy.hybridize(lambda w: hy.exp(w))):
        out, pullback = hy.vjp(f, V)
        first, second = pullback(hy.ones(3))[0], pullback(hy.ones(3) * 2)[0]
        assert same(first, out) and same(second, out * 2)


def test_pullbacks_of_trees() -> None:
    def f(a, pair):
        return {"sum": a + pair[0], "rest": [pair[1] * 2, hy.argmax(a)]}

    out, pullback = hy.vjp(f, V, (V, V))
    assert out["rest"][1].item() == 2
    ct = {"sum": V, "rest": [V, hy.asarray(0)]}
    a, (b, c) = pullback(ct)
    assert same(a, V) and same(b, V) and same(c, V * 2)


def test_a_result_that_comes_twice_gets_both_cotangents() -> None:
    _, pullback = hy.vjp(lambda y: (y, y), V)
    assert pullback((V, V * 2))[0].tolist() == [3.0, 6.0, 9.0]


def test_modes_nest() -> None:
    w = leaf(2)
    seen = []
    with hy.no_grad():
        seen.append((w * 2).requires_grad)
        with hy.enable_grad():
            seen.append((w * 2).requires_grad)
            with hy.no_grad():
                seen.append((w * 2).requires_grad)
        seen.append((w * 2).requires_grad)
    assert seen == [False, True, False, False]
    with pytest.raises(KeyError), hy.no_grad():
        raise KeyError
    assert (w * 2).requires_grad


def test_modes_decorate() -> None:
    w = leaf(2)

    @hy.no_grad()
    def quiet(x):
        return x * 2

    assert not quiet(w).requires_grad and not quiet(w).requires_grad
    assert (w * 2).requires_grad


def test_transforms_record_inside_no_grad() -> None:
    with hy.no_grad():
        assert hy.grad(lambda w: hy.sum(w * w))(V).tolist() == [2.0, 4.0, 6.0]
        pullback = hy.vjp(lambda w: w * w, V)[1]
        assert pullback(hy.ones(3))[0].tolist() == [2.0, 4.0, 6.0]


def test_what_runs_under_no_grad_is_constant() -> None:
    def f(w):
        with hy.no_grad():
            a = w * 2
        return hy.sum(a * w)

    for derived in (hy.grad(f), hy.grad(hy.hybridize(f)), hy.hybridize(hy.grad(f))):
        assert derived(V).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("wrap", [lambda f: f, hy.hybridize])
def test_stop_gradient(wrap) -> None:
    assert hy.grad(wrap(lambda w: hy.sum(hy.stop_gradient(w) * w)))(V).tolist() == V.tolist()
    assert hy.jvp(wrap(lambda w: hy.stop_gradient(w) * w), (V,), (V,))[1].tolist() == [1, 4, 9]
    assert hy.stop_gradient(2.0).item() == 2.0


def test_hybridized_functions_take_gradients_inside() -> None:
    """A functional training step, captured whole."""
    data = tensor(8, 3)

    def loss(params, x):
        return hy.mean((hy.tanh(x @ params["w"]) + params["b"]) ** 2)

    def step(params, x):
        value, grads = hy.value_and_grad(loss)(params, x)
        return value, {name: params[name] - 0.1 * grads[name] for name in params}

    eager = planned = {"w": tensor(3, 2, seed=1), "b": tensor(2, seed=2)}
    hybridized = hy.hybridize(step)
    for _ in range(5):
        expected, eager = step(eager, data)
        found, planned = hybridized(planned, data)
        assert same(expected, found)
        assert same(eager["w"], planned["w"]) and same(eager["b"], planned["b"])
    assert len(hybridized.plans) == 1


# Errors ------------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an integer argument": (
        lambda: hy.grad(hy.sum)(hy.asarray([1, 2])),
        GradientError,
        "a gradient by argument 0 of i64[2] was asked for",
    ),
    "a Python int": (lambda: hy.grad(lambda a: a * a)(3), GradientError, "argument 0 of i64[]"),
    "an integer primal": (
        lambda: hy.vjp(hy.sum, hy.asarray([1, 2])),
        GradientError,
        "by a primal of i64[2]",
    ),
    "no scalar": (lambda: hy.grad(hy.exp)(V), ShapeError, "returned f32[3], not a scalar"),
    "no tensor": (lambda: hy.grad(lambda a: 1.0)(V), ArgumentTypeError, "returned float"),
    "no pair": (
        lambda: hy.grad(hy.sum, has_aux=True)(V),
        ArgumentTypeError,
        "the function returned *, not a pair",
    ),
    "argnums out of range": (
        lambda: hy.grad(hy.sum, 1)(V),
        ArgumentError,
        "argnums has 1, but 1 arguments were given",
    ),
    "argnums of text": (lambda: hy.grad(hy.sum, "x"), ArgumentTypeError, "argnums='x'"),
    "vjp of text": (lambda: hy.vjp(lambda a: "x", V), ArgumentTypeError, "str, not tensors"),
    "cotangent structure": (
        lambda: hy.vjp(lambda a: (a, a), V)[1](V),
        ArgumentTypeError,
        "structure *, the function's result (*, *)",
    ),
    "cotangent type": (lambda: hy.vjp(hy.exp, V)[1](hy.ones(2)), ShapeError, "not f32[2]"),
    "tangent structure": (
        lambda: hy.jvp(hy.exp, (V,), (V, V)),
        ArgumentTypeError,
        "tangents have structure (*, *), primals (*,)",
    ),
    "tangent type": (lambda: hy.jvp(hy.exp, (V,), (hy.ones(2),)), ShapeError, "not f32[2]"),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_errors(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_transforms_of_partials_and_methods() -> None:
    class Model:
        def __init__(self) -> None:
            self.k = 2.0

        def loss(self, w):
            return hy.sum(w * self.k)

    assert hy.grad(Model().loss)(V).tolist() == [2.0] * 3
    partial = functools.partial(lambda k, w: hy.sum(w * k), 3.0)
    assert hy.grad(partial)(V).tolist() == [3.0] * 3
