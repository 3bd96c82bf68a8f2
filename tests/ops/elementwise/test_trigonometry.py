"""Trigonometric and hyperbolic functions: errors, special values, derivatives at the ends."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy

INF, NAN = np.inf, np.nan
DTYPES = ["float32", "float64"]
INVERSES = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
FUNCTIONS = {"sinh": np.sinh, "cosh": np.cosh, "log10": np.log10, **INVERSES}


def wide(dtype: str) -> np.ndarray:
    """Values of every size and both signs, near the ends of domains and overflow, and special."""
    rng, info = np.random.default_rng(3), np.finfo(dtype)
    sizes = 10.0 ** rng.uniform(np.log10(float(info.tiny)), np.log10(float(info.max)), 4000)
    near = 10.0 ** rng.uniform(np.log10(float(info.eps)), 0, 2000)
    even = rng.uniform(0, 3, 4000)
    limit = 89.4 if dtype == "float32" else 710.4
    large = np.concatenate([rng.uniform(0, limit + 1, 4000), limit + rng.uniform(-0.1, 0.1, 500)])
    special = [0.0, 0.5, 1.0, 2.0, INF, NAN, float(info.tiny) / 8, float(info.max)]
    x = np.concatenate([sizes, 1 + near, 1 - near, even, large, special]).astype(dtype)
    return np.concatenate([x, -x])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_below_two_ulp_for_values_of_every_size(name: str, dtype: str) -> None:
    x = wide(dtype)
    got = getattr(hy, name)(hy.asarray(x)).numpy()
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble))
        want = exact.astype(dtype)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    error = np.abs(got[finite] - exact[finite]) / np.spacing(np.abs(want[finite]))
    assert error.max() <= 2, x[finite][error.argmax()]
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_ten_have_whole_logarithms(dtype: str) -> None:
    exponents = np.arange(11 if dtype == "float32" else 23)
    powers = np.array([float(f"1e{n}") for n in exponents], dtype)
    np.testing.assert_array_equal(hy.log10(hy.asarray(powers)).numpy(), exponents)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_angle_of_every_point_is_that_of_c(dtype: str) -> None:
    x = wide(dtype)[::37]
    ends = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, 1e38], dtype)
    x = np.concatenate([ends, x])
    got = hy.atan2(hy.asarray(x[:, None]), hy.asarray(x)).numpy()
    with np.errstate(all="ignore"):
        exact = np.arctan2(x[:, None].astype(np.longdouble), x.astype(np.longdouble))
    want = exact.astype(dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
    error = np.abs(got[number] - exact[number]) / np.spacing(np.abs(want[number]))
    assert error.max() <= 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*FUNCTIONS, "tanh", "atan2", "pow"])
def test_an_element_has_the_same_bits_wherever_it_falls(name: str, dtype: str) -> None:
    function = getattr(hy, name)
    operands = [wide(dtype)[::61], wide(dtype)[1::61]][: 2 if name in ("atan2", "pow") else 1]
    length = len(operands[-1])
    operands = [x[:length] for x in operands]
    whole = function(*map(hy.asarray, operands)).numpy()
    for begin in range(0, length - 40, 7):
        for count in (1, 2, 7, 19):
            part = function(*(hy.asarray(x[begin : begin + count].copy()) for x in operands))
            assert part.numpy().tobytes() == whole[begin : begin + count].tobytes()
    large = [np.resize(x, 300_001) for x in operands]
    once = function(*map(hy.asarray, large)).numpy()
    assert once.tobytes() == np.resize(whole, 300_001).tobytes()
    captured = hy.hybridize(lambda *xs: function(*xs))
    assert captured(*map(hy.asarray, large)).numpy().tobytes() == once.tobytes()


# name, point, the true derivative there
SLOPES = [
    ("sinh", 0.0, 1.0),
    ("sinh", -0.0, 1.0),
    ("cosh", 0.0, 0.0),
    ("sinh", 5.0, np.cosh(5.0)),
    ("cosh", -5.0, -np.sinh(5.0)),
    ("asinh", 0.0, 1.0),
    ("asinh", 1e300, 1e-300),
    ("asinh", -1e300, 1e-300),
    ("asinh", INF, 0.0),
    ("acosh", 1.0, INF),
    ("acosh", 1.0 + 2.0**-52, 2.0**25.5),
    ("acosh", 1e300, 1e-300),
    ("acosh", INF, 0.0),
    ("atanh", 0.0, 1.0),
    ("atanh", 1.0, INF),
    ("atanh", -1.0, INF),
    ("atanh", -1.0 + 2.0**-53, 2.0**52),
    ("asin", 0.0, 1.0),
    ("asin", 1.0, INF),
    ("asin", -1.0, INF),
    ("asin", 1.0 - 2.0**-53, 2.0**26),
    ("acos", 0.0, -1.0),
    ("acos", 1.0, -INF),
    ("acos", -1.0, -INF),
    ("atan", 0.0, 1.0),
    ("atan", 1e300, 0.0),
    ("atan", -INF, 0.0),
    ("log10", 10.0, 0.1 / np.log(10.0)),
    ("log10", 0.0, INF),
]


@pytest.mark.parametrize("name, point, slope", SLOPES)
def test_derivatives_at_the_ends_are_the_true_ones(name: str, point: float, slope: float) -> None:
    function, x = getattr(hy, name), hy.asarray(np.array([point]))
    found = hy.grad(lambda x: hy.sum(function(x)))(x).numpy()
    np.testing.assert_allclose(found, [slope], rtol=1e-15 if slope else 0)
    ones = hy.ones((1,), dtype=hy.float64)
    tangent = hy.jvp(function, (x,), (ones,))[1].numpy()
    np.testing.assert_array_equal(tangent, found)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_become_the_default_float(name: str) -> None:
    found = getattr(hy, name)(hy.asarray([1, 1]))
    assert found.dtype is hy.float32
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.numpy(), FUNCTIONS[name](np.ones(2)), rtol=1e-6)
