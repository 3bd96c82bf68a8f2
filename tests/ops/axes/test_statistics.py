"""Variances and standard deviations near the ends of their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as hy
from tests.helpers import same

BASE = np.array([[1.0, 3.0, 2.0, 7.0], [5.0, 5.0, 5.0, 5.0], [-4.0, 0.0, 2.5, 1.0]])


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(d, s) for d, ends in (("float32", (1e-44, 1e-38, 1e-22, 1e-10, 1.0, 1e18, 1e25, 4e36)),
                            ("float64", (5e-324, 1e-300, 1e-160, 1.0, 1e150, 1e200, 4e306)),
                            ("float16", (1e-6, 1e-3, 1.0, 300.0, 8000.0)),
                            ("bfloat16", (1e-38, 1.0, 1e25, 4e36))) for s in ends],
)  # fmt: skip
def test_deviations_at_every_scale(dtype: str, scale: float, correction: int) -> None:
    exact = BASE.astype(np.longdouble) * np.longdouble(scale)
    x = hy.asarray(exact.astype(np.float64)).astype(getattr(hy, dtype))
    exact = x.astype(hy.float64).numpy().astype(np.longdouble)
    for axis in (None, 1):

        def found(x: Any, axis: int | None = axis) -> Any:
            return hy.std(x, axis=axis, correction=correction)

        y = found(x)
        plan = hy.hybridize(found)(x)
        assert y.dtype is plan.dtype is x.dtype
        assert same(plan.astype(hy.float64), y.astype(hy.float64))
        want = np.std(exact, axis=axis, ddof=correction)
        near = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
        least = {"float32": 1.5e-45, "float64": 5e-324, "float16": 6e-8}.get(dtype, 1e-40)
        np.testing.assert_allclose(
            y.astype(hy.float64).numpy(), want.astype(np.float64), rtol=near, atol=3 * least
        )


@pytest.mark.parametrize(("dtype", "large"), [("float32", 5e18), ("float64", 3e153)])
def test_variances_that_fit(dtype: str, large: float) -> None:
    x = np.zeros(101, dtype)
    x[0] = 10 * large  # its square does not fit, the mean of squares does
    want = np.var(x.astype(np.longdouble))
    assert np.isfinite(want.astype(dtype))
    np.testing.assert_allclose(hy.var(hy.asarray(x)).numpy(), want.astype(dtype), rtol=1e-5)
    assert hy.var(hy.asarray(np.array([0, 1e4 * large], dtype))).item() == np.inf


def test_gradients_are_those_of_other_units() -> None:
    x = BASE.astype(np.float32)[0]
    slope = hy.grad(hy.std)
    for unit in (1.0, 2.0**80, 2.0**-120):
        assert slope(hy.asarray(x * np.float32(unit))).tolist() == slope(hy.asarray(x)).tolist()
    assert slope(hy.ones(3)).tolist() == [0.0] * 3


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_no_number_stays_none(value: float) -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(hy.std(hy.asarray([1.0, value])).item())
    assert np.isnan(hy.var(hy.zeros((0,))).item())


@pytest.mark.parametrize("correction", [0, 1, 1.5])
def test_one_capture_serves_all_sizes(correction: float, tmp_path: Any) -> None:
    def function(x: Any) -> Any:
        return hy.var(x, axis=0, correction=correction)

    captured = hy.hybridize(function, ledger=False)
    for n in range(3, 11):
        x = hy.asarray(np.arange(3.0 * n).reshape(n, 3))
        assert same(captured(x), function(x))
    assert len(captured.plans) <= 2
    path = tmp_path / "var.hyb"
    hy.export({"f": (function, hy.ones((4, 3)))}, path, dynamic={"x": {0: hy.Dim("n", 2, 64)}})
    assert same(hy.load_exported(path)["f"](hy.ones((9, 3))), function(hy.ones((9, 3))))
