"""The arithmetic of quantized layers against NumPy's, and gradients against closed forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.compress import functional as F
from hybrid.errors import ArgumentError, DTypeError, ShapeError

EXTREMES = np.array(
    [0, -0.0, 1, -1, 0.5, 1.5, 2.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40]
)


def wide(value: Any, rank: int, axis: int | None) -> np.ndarray:
    value = np.asarray(value)
    return value if axis is None else value.reshape([-1 if i == axis else 1 for i in range(rank)])


def quantized(x, scale, zero, axis, low, high, dtype):
    """Whole numbers by NumPy's integers: what `quantize` means."""
    with np.errstate(all="ignore"):
        steps = np.rint(x.astype(np.float32) / wide(scale, x.ndim, axis).astype(np.float32))
    whole = np.clip(np.nan_to_num(steps, nan=0, posinf=1e9, neginf=-1e9), -1e9, 1e9)
    whole = whole.astype(np.int64) + wide(zero, x.ndim, axis).astype(np.int64)
    whole = np.where(np.isnan(steps), wide(zero, x.ndim, axis), whole)
    return np.clip(whole, low, high).astype(dtype)


def dequantized(q, scale, zero, axis):
    away = q.astype(np.int64) - wide(zero, q.ndim, axis).astype(np.int64)
    return away.astype(np.float32) * wide(scale, q.ndim, axis).astype(np.float32)


SHAPES = [((), None), ((0, 3), 1), ((7,), None), ((33, 5), 0), ((3, 17), 1), ((2, 3, 4, 5), -3)]
CASES = [
    (shape, axis, dtype, zero, limits)
    for shape, axis in SHAPES
    for dtype, zero, limits in [
        ("int8", 0, (None, None)), ("uint8", 128, (None, None)), ("int8", -5, (-7, 7)),
        ("uint8", 255, (0, 255)), ("int16", 300, (None, None)),
    ]
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis", "dtype", "zero", "limits"), CASES)
def test_both_ways_are_those_of_numpy(shape, axis, dtype, zero, limits) -> None:
    draw = np.random.RandomState(len(shape))
    x = np.asarray(draw.randn(*shape) * 3, np.float32)
    if x.size > EXTREMES.size:
        x.flat[: EXTREMES.size] = EXTREMES
    count = () if axis is None else (x.shape[axis],)
    scale = np.asarray(draw.rand(*count) + 0.01, np.float32)
    zeros = np.full(count, zero, dtype)
    info = np.iinfo(dtype)
    low, high = (
        (info.min if limits[0] is None else limits[0]),
        (info.max if limits[1] is None else limits[1]),
    )
    place = axis if axis is None or axis >= 0 else len(shape) + axis

    def run(x: hy.Tensor, scale: hy.Tensor, zeros: hy.Tensor) -> Any:
        q = F.quantize(x, scale, zeros, axis=axis, low=limits[0], high=limits[1], dtype=dtype)
        fake = F.fake_quantize(x, scale, zeros, axis=axis, low=low, high=high)
        return q, F.dequantize(q, scale, zeros, axis=axis), fake

    given = hy.asarray(x), hy.asarray(scale), hy.asarray(zeros)
    want = quantized(x, scale, zeros, place, low, high, dtype)
    back = dequantized(want, scale, zeros, place)
    for way in (run, hy.hybridize(run)):
        q, y, fake = [t.numpy() for t in way(*given)]
        assert q.dtype == want.dtype and (q == want).all()
        assert y.tobytes() == back.tobytes()
        assert fake.tobytes() == back.tobytes()


def test_ties_go_to_even_and_nan_to_the_zero_point() -> None:
    x = hy.asarray(np.float32([0.5, 1.5, 2.5, -0.5, -1.5, np.nan, np.inf, -np.inf]))
    assert F.quantize(x, 1.0).tolist() == [0, 2, 2, 0, -2, 0, 127, -128]
    assert F.quantize(x, 1.0, 9, dtype=hy.uint8).tolist() == [9, 11, 11, 9, 7, 9, 255, 0]
    assert F.dequantize(hy.asarray(np.uint8([9, 0])), 0.5, 9).tolist() == [0.0, -4.5]


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("zero", [0, 3])
def test_gradients_of_fake_quantize(hybridized: bool, zero: int) -> None:
    draw = np.random.RandomState(0)
    x = (draw.randn(4, 50) * 2).astype(np.float32)
    scale, low, high = np.float32([0.1, 0.3, 0.05, 0.7]), -8, 7
    ct = draw.randn(4, 50).astype(np.float32)

    def loss(x: hy.Tensor, scale: hy.Tensor) -> hy.Tensor:
        made = F.fake_quantize(x, scale, zero, axis=0, low=low, high=high, learned=True)
        return hy.sum(made * ct)

    loss = hy.hybridize(loss) if hybridized else loss
    by_x, by_scale = hy.grad(loss, argnums=(0, 1))(hy.asarray(x), hy.asarray(scale))
    v = x / scale[:, None]
    below, above = v + zero < low, v + zero > high
    assert np.array_equal(by_x.numpy(), np.where(below | above, 0, ct))
    slope = np.where(below, low - zero, np.where(above, high - zero, np.rint(v) - v))
    want = (ct.astype(np.float64) * slope).sum(axis=1) / np.sqrt(50 * high)
    assert np.allclose(by_scale.numpy(), want, rtol=1e-4, atol=1e-5)


def test_scales_that_are_not_learnt_get_no_gradient() -> None:
    scale = hy.asarray(np.float32(0.1))
    scale.requires_grad = True
    x = hy.ones(3)
    x.requires_grad = True
    hy.sum(F.fake_quantize(x, scale)).backward()
    assert x.grad.tolist() == [1, 1, 1] and scale.grad is None


def test_rows_of_vmap_and_open_sizes() -> None:
    x = hy.asarray(np.random.RandomState(1).randn(6, 5).astype(np.float32))
    rows = hy.vmap(lambda row: F.quantize(row, 0.1))(x)
    assert (rows.numpy() == F.quantize(x, 0.1).numpy()).all()
    opened = hy.hybridize(lambda x: F.fake_quantize(x, 0.1), dynamic={"x": {0: True}})
    for count in (3, 6, 1):
        assert (opened(x[:count]).numpy() == F.fake_quantize(x[:count], 0.1).numpy()).all()


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a float dtype": (lambda: F.quantize(hy.ones(3), 0.1, dtype="float32"), DTypeError, "float32"),
    "too wide": (lambda: F.quantize(hy.ones(3), 0.1, dtype="int32"), DTypeError, "int8 or uint8"),
    "limits beyond": (lambda: F.quantize(hy.ones(3), 0.1, high=200), ArgumentError, "-128 to 127"),
    "no limits": (lambda: F.fake_quantize(hy.ones(3), 0.1, low=5, high=5), ArgumentError, "low 5"),
    "scales": (lambda: F.quantize(hy.ones((3, 2)), hy.ones(2)), ShapeError, "give axis="),
    "their axis": (lambda: F.quantize(hy.ones((3, 2)), hy.ones(2), axis=0), ShapeError, "axis 0"),
    "a double": (
        lambda: F.quantize(hy.ones(3), hy.ones((), dtype="float64")), DTypeError, "give float32",
    ),
    "a float zero": (lambda: F.quantize(hy.ones(3), 0.1, hy.ones(())), DTypeError, "integers"),
    "floats back": (lambda: F.dequantize(hy.ones(3), 0.1), DTypeError, "give integers"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    call, error, text = REFUSED[what]
    with pytest.raises(error, match=text):
        call()
