"""quantize_rows: the bits of the steps that it is made of, and what it refuses."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.errors import DTypeError
from hybrid.ops.layers.quantized_rows import quantize_rows


def step_by_step(x: hy.Tensor) -> tuple[hy.Tensor, hy.Tensor]:
    scale = ops.divide(ops.max(ops.abs(x), axis=-1, keepdims=True), 127.0)
    scale = ops.where(ops.equal(scale, 0.0), 1.0, scale)
    steps = ops.round(ops.divide(x, scale))
    steps = ops.where(ops.isnan(steps), 0.0, steps)
    return ops.astype(ops.clip(steps, -127.0, 127.0), "int8"), scale


@pytest.mark.parametrize("threads", [1, 3])
def test_it_has_the_bits_of_its_steps(threads: int) -> None:
    draw = np.random.default_rng(0)
    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        for shape in [(1, 1), (3, 7), (5, 32), (300, 257), (2, 3, 65)]:
            for size in (1e-44, 1e-38, 1.0, 1e37):
                numbers = draw.standard_normal(shape).astype(np.float32) * np.float32(size)
                x = hy.asarray(numbers.astype(np.float32))
                for found, want in zip(quantize_rows(x), step_by_step(x), strict=True):
                    assert found.numpy().tobytes() == want.numpy().tobytes()
    finally:
        hy.set_num_threads(before)


def test_halves_are_rounded_to_the_even_number() -> None:
    halves = np.arange(-127, 127, dtype=np.float32) + np.float32(0.5)
    x = np.concatenate([halves, np.float32([127])])
    steps, scale = quantize_rows(x)
    assert scale.item() == 1.0
    assert np.array_equal(steps.numpy(), np.rint(x).astype(np.int8))


def test_what_is_no_number_counts_as_nothing() -> None:
    x = np.float32([[np.nan, 1, -2], [np.inf, 1, -np.inf], [0, -0.0, 0]])
    steps, scale = quantize_rows(x)
    assert not steps.numpy().any()
    assert np.isnan(scale.numpy()[0]) and scale.numpy()[1:].tolist() == [[np.inf], [1.0]]


def test_it_has_no_gradient() -> None:
    x = hy.asarray(np.float32([[1.0, 2.0]]), copy=True)
    x.requires_grad = True
    steps, scale = quantize_rows(x)
    assert not steps.requires_grad and not scale.requires_grad


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(DTypeError) as raised:
        quantize_rows(hy.zeros((2, 3), dtype=dtype))
    short = hy.zeros((), dtype=dtype).dtype.short
    assert str(raised.value) == (
        f"quantize_rows cannot take {short}[2,3]\nIt takes float32.\nFix: cast it with astype."
    )
