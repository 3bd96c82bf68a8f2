"""Powers: errors, and every special case of C's ``pow``."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import hybrid as hy

INF, NAN = math.inf, math.nan
DTYPES = ["float32", "float64"]


def exact(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The powers, and as their dtype has them."""
    with np.errstate(all="ignore"):
        powers = np.power(a.astype(np.longdouble), b.astype(np.longdouble))
        return powers, powers.astype(a.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_cases_are_those_of_c(dtype: str) -> None:
    info = np.finfo(dtype)
    whole = [1.0, 2.0, 3.0, 4.0, 2.0 / float(info.eps) - 1, 2.0 / float(info.eps), 2.0**70]
    sizes = [0.0, float(info.smallest_subnormal), 0.5, 1.5, float(info.max), INF, *whole]
    near = [1 - float(info.epsneg), 1 + float(info.eps)]
    values = [sign * x for x in (*sizes, *near) for sign in (1.0, -1.0)] + [NAN]
    a, b = np.array(list(product(values, values)), dtype).T
    got = hy.pow(hy.asarray(a), hy.asarray(b)).numpy()
    truth, want = exact(a, b)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    limited = np.isinf(want) | (want == 0) | (np.abs(truth) == 1)
    np.testing.assert_array_equal(got[limited], want[limited])
    np.testing.assert_array_equal(np.signbit(got[limited]), np.signbit(want[limited]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_below_two_ulp(dtype: str) -> None:
    rng, info = np.random.default_rng(5), np.finfo(dtype)
    top = np.log2(float(info.max))
    a = np.exp2(rng.uniform(-top - 20, top, 20_000))  # subnormal bases among them
    b = rng.uniform(-top - 20, top + 1, 20_000) / np.log2(a)  # and subnormal results
    least = np.log10(float(info.eps))
    near = (1 + rng.uniform(-1, 1, 20_000) * 10.0 ** rng.uniform(least, -1, 20_000)).astype(dtype)
    with np.errstate(all="ignore"):
        large = rng.uniform(-top, top, 20_000) / np.log2(near.astype(np.float64))
        a = np.concatenate([a, near, rng.uniform(0, 4, 20_000)]).astype(dtype)
        b = np.concatenate([b, large, rng.uniform(-8, 8, 20_000)]).astype(dtype)
    used = np.isfinite(b) & (a > 0)
    a, b = a[used], b[used]
    got, (truth, want) = hy.pow(hy.asarray(a), hy.asarray(b)).numpy(), exact(a, b)
    finite = np.isfinite(want) & np.isfinite(got)
    assert (want[~finite] == got[~finite]).mean() > 0.99  # but next to the largest number
    error = np.abs(got[finite] - truth[finite]) / np.spacing(np.abs(want[finite]))
    assert error.max() <= 2, (a[finite][error.argmax()], b[finite][error.argmax()])


@pytest.mark.parametrize("dtype", DTYPES)
def test_whole_powers_of_small_whole_numbers_are_exact(dtype: str) -> None:
    base, exponent = np.meshgrid(np.arange(-60.0, 61.0), np.arange(0.0, 13.0))
    fits = np.abs(base) ** exponent <= 2 / float(np.finfo(dtype).eps)
    base, exponent = base[fits].astype(dtype), exponent[fits].astype(dtype)
    got = hy.pow(hy.asarray(base), hy.asarray(exponent)).numpy()
    np.testing.assert_array_equal(got, base.astype(np.int64) ** exponent.astype(np.int64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [2, 2.0, 0.5, -1, 3, -2.0, 0])
def test_python_numbers_as_exponents(dtype: str, exponent: float) -> None:
    x = np.array([0.25, 1.0, 3.0, 100.0, 0.1], dtype)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), exponent).astype(dtype)
    found = hy.asarray(x) ** exponent
    assert found.numpy().dtype == x.dtype
    np.testing.assert_array_max_ulp(found.numpy(), want, 1)
    captured = hy.hybridize(lambda x: x**exponent)
    assert captured(hy.asarray(x)).numpy().tobytes() == found.numpy().tobytes()
