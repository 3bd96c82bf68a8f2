"""Derivatives at degenerate places: ties, infinities, one element, powers of zero."""

import math

import numpy as np
import pytest

import hybrid as hy

INF, NAN = math.inf, math.nan


def f64(values):
    return hy.asarray(values, dtype=hy.float64)


def both(make):
    """What ``make`` makes of a function, run eagerly and hybridized: the same bits."""
    eager, captured = make(lambda f: f), make(hy.hybridize)
    np.testing.assert_array_equal(captured.numpy().view(np.int64), eager.numpy().view(np.int64))
    return eager.tolist()


def slopes(f, values, argument):
    """The derivative by one argument of scalars: in reverse, and forward."""
    primals = [f64(v) for v in values]

    def of(x):
        return f(*primals[:argument], x, *primals[argument + 1 :])

    x = primals[argument]
    reverse = both(lambda wrap: wrap(hy.grad(of))(x))
    forward = both(lambda wrap: wrap(lambda x: hy.jvp(of, (x,), (hy.ones_like(x),))[1])(x))
    return reverse, forward


# (a, b): the derivatives by a and by b
LOGADDEXP = {
    (1.0, 1.0): (0.5, 0.5),
    (0.0, -0.0): (0.5, 0.5),
    (1000.0, 1000.0): (0.5, 0.5),
    (INF, INF): (0.5, 0.5),
    (-INF, -INF): (0.5, 0.5),
    (INF, -INF): (1.0, 0.0),
    (-INF, 2.0): (0.0, 1.0),
    (2.0, INF): (0.0, 1.0),
    (NAN, 1.0): (NAN, NAN),
}
POWER = {
    (0.0, 0.0): (0.0, 0.0),
    (0.0, 1.0): (1.0, 0.0),
    (0.0, 2.0): (0.0, 0.0),
    (0.0, 0.5): (INF, 0.0),
    (0.0, -1.0): (-INF, NAN),
    (0.0, 3.0): (0.0, 0.0),
    (2.0, 0.0): (0.0, math.log(2)),
    (1e-320, 0.0): (0.0, math.log(1e-320)),
    (NAN, 0.0): (0.0, NAN),
    (INF, 0.0): (0.0, INF),
    (-2.0, 3.0): (12.0, NAN),
    (1.0, INF): (INF, 0.0),
    (INF, 2.0): (INF, INF),
}
CASES = [(hy.logaddexp, at, by) for at, by in LOGADDEXP.items()]
CASES += [(hy.pow, at, by) for at, by in POWER.items()]
OF_MINUS_ZERO = {  # the exponent: the derivatives
    0.0: (0.0, 0.0),
    1.0: (1.0, 0.0),
    2.0: (0.0, 0.0),
    3.0: (0.0, 0.0),
    0.5: (INF, 0.0),
    -1.0: (-INF, NAN),
    -2.0: (INF, NAN),
}
CASES += [(hy.pow, (-0.0, exponent), by) for exponent, by in OF_MINUS_ZERO.items()]


def named(value):
    """The text of a parameter, the same in every process."""
    if isinstance(value, tuple):
        return " ".join(map(named, value))
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("f", "at", "by"), CASES, ids=named)
def test_first_derivatives(f, at, by) -> None:
    for argument, wanted in enumerate(by):
        found = slopes(f, at, argument)
        np.testing.assert_allclose(found, (wanted, wanted), rtol=1e-14, err_msg=str(argument))


# (a, b): [by a and a, by a and b, by b and b]
SECOND = {
    (hy.logaddexp, 1.0, 1.0): (0.25, -0.25, 0.25),
    (hy.logaddexp, INF, INF): (0.0, 0.0, 0.0),
    (hy.logaddexp, -INF, 0.0): (0.0, 0.0, 0.0),
    (hy.pow, 2.0, 0.0): (0.0, 0.5, math.log(2) ** 2),
    (hy.pow, -0.0, 2.0): (2.0, 0.0, 0.0),
    (hy.pow, 0.0, 3.0): (0.0, 0.0, 0.0),
}


@pytest.mark.parametrize(("at", "wanted"), SECOND.items(), ids=named)
def test_second_derivatives(at, wanted) -> None:
    f, *values = at
    hessian = both(lambda wrap: wrap(hy.hessian(lambda x: f(x[0], x[1])))(f64(values)))
    (aa, ab), (ba, bb) = hessian
    np.testing.assert_allclose((aa, ab, bb), wanted, rtol=1e-14)
    assert ab == ba


@pytest.mark.parametrize(("power", "wanted"), [(0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)])
def test_second_derivatives_of_powers_of_zero(power, wanted) -> None:
    for exponent in (power, float(power)):
        second = hy.grad(hy.grad(lambda x, n=exponent: x**n))
        assert both(lambda wrap, f=second: wrap(f)(f64(0.0))) == wanted


# What is computed, of which elements, and its gradient.
NORMALIZED = {
    "std of one element": (hy.std, [3.0], [0.0]),
    "std of equal elements": (hy.std, [3.0, 3.0], [0.0, 0.0]),
    "std of a sample of one": (lambda x: hy.std(x, correction=1), [3.0], [NAN]),
    "std along axes of one": (lambda x: hy.sum(hy.std(x, axis=1)), [[1.0], [3.0]], [[0.0], [0.0]]),
    "std": (hy.std, [1.0, 3.0], [-0.5, 0.5]),
    "var of one element": (hy.var, [3.0], [0.0]),
    "layer_norm of one element": (
        lambda x: hy.sum(hy.nn.functional.layer_norm(x, (1,))), [[3.0], [4.0]], [[0.0], [0.0]],
    ),
    "layer_norm of equal elements": (
        lambda x: hy.nn.functional.layer_norm(x, (2,))[0, 0], [[3.0, 3.0]],
        [[0.5 / math.sqrt(1e-5), -0.5 / math.sqrt(1e-5)]],
    ),
    "layer_norm of one element and no eps": (
        lambda x: hy.sum(hy.nn.functional.layer_norm(x, (1,), eps=0.0)), [[3.0]], [[NAN]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("f", "values", "wanted"), NORMALIZED.values(), ids=NORMALIZED)
def test_one_element_and_equal_ones(f, values, wanted) -> None:
    x = f64(values)
    np.testing.assert_allclose(both(lambda wrap: wrap(hy.grad(f))(x)), wanted, rtol=1e-12)
    for place in np.ndindex(x.shape):
        along = np.zeros(x.shape)
        along[place] = 1.0
        tangent = f64(along)
        found = both(lambda wrap, t=tangent: wrap(lambda x: hy.jvp(f, (x,), (t,))[1])(x))
        np.testing.assert_allclose(found, np.array(wanted)[place], rtol=1e-12)
