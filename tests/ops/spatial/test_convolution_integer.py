"""conv_integer: exact for any geometry, zero point and number of threads, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.compress.functional import conv_integer
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.memory import native
from hybrid.ops.spatial.convolution_integer import conv_integer_prepare, conv_integer_prepared
from tests.helpers import part_of, parts
from tests.ops.spatial.integer_sums import summed

LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}


def drawn(draw: np.random.Generator, dtype: str, shape: Any, extreme: bool) -> np.ndarray:
    low, high = LIMITS[dtype]
    numbers = draw.choice([low, high], shape) if extreme else draw.integers(low, high + 1, shape)
    return numbers.astype(dtype)


def geometry(draw: np.random.Generator) -> tuple[Any, ...]:
    """Groups, batch, channels, rows, and of each axis size, kernel, stride, padding, dilation."""
    rank = int(draw.integers(1, 4))
    most = {1: 90, 2: 20, 3: 7}[rank]
    plain = draw.random() < 0.5
    kernel = [3] * rank if draw.random() < 0.4 else draw.choice([1, 2, 3, 4, 7], rank).tolist()
    stride = [1] * rank if plain else draw.choice([1, 2, 3], rank).tolist()
    dilation = [1] * rank if plain else draw.choice([1, 2, 3], rank).tolist()
    padding = draw.integers(0, 4, rank).tolist()
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    sizes = [
        int(draw.integers(max(1, r - 2 * p), most + r)) for r, p in zip(reach, padding, strict=True)
    ]
    groups, batch = int(draw.choice([1, 1, 2, 8])), int(draw.integers(1, 4))
    channels = int(draw.choice([1, 1, 2, 3, 5, 16, 33, 150]))
    rows = int(draw.choice([1, 2, 5, 6, 7, 12, 17, 33]))
    return groups, batch, channels, rows, sizes, kernel, stride, padding, dilation


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_channels_by_themselves_are_exact_at_every_width(stride: int) -> None:
    """Rows are copied by vectors, with what padding brings around them."""
    draw = np.random.default_rng(stride)
    for width in range(1, 41):
        dtype = ("int8", "uint8")[width % 2]
        x = drawn(draw, dtype, (2, 3, 5, width), extreme=False)
        w = drawn(draw, "int8", (3, 1, 3, 3), extreme=False)
        zero, steps = int(draw.integers(*LIMITS[dtype])), ([stride] * 2, [1, 2], [1, 1])
        attrs = dict(zip(("stride", "padding", "dilation"), steps, strict=True))
        found = conv_integer(hy.asarray(x), hy.asarray(w), zero=zero, groups=3, **attrs)
        np.testing.assert_array_equal(found.numpy(), summed(x, w, zero, *steps, 3))


@pytest.mark.parametrize("part", parts(20))
def test_it_is_exact(part: int) -> None:
    before = native.num_threads()
    for seed in part_of(range(200), part, 20):
        draw = np.random.default_rng(seed)
        groups, batch, channels, rows, sizes, kernel, *steps = geometry(draw)
        dtype, extreme = str(draw.choice(list(LIMITS))), draw.random() < 0.3
        x = drawn(draw, dtype, (batch, groups * channels, *sizes), extreme)
        w = drawn(draw, "int8", (groups * rows, channels, *kernel), extreme)
        zero = int(draw.choice([0, *LIMITS[dtype], draw.integers(*LIMITS[dtype])]))
        names = ("stride", "padding", "dilation")
        attrs = dict(zip(names, steps, strict=True), groups=groups, zero=zero)
        wanted = summed(x, w, zero, *steps, groups)
        for threads in (1, 3):
            native.set_num_threads(threads)
            found = conv_integer(hy.asarray(x), hy.asarray(w), **attrs)
            assert np.array_equal(found.numpy(), wanted), (x.shape, w.shape, attrs)
    native.set_num_threads(before)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(
    "shape", [(1, 64, 9, 9), (3, 600, 5, 4), (1, 1, 30, 40), (1, 1792, 12, 12)]
)
def test_the_extremes_are_exact(dtype: str, shape: tuple[int, ...]) -> None:
    for weight in (-128, 127):
        w = np.full((13, shape[1], 3, 3), weight, np.int8)
        for zero in LIMITS[dtype]:
            x = np.full(shape, sum(LIMITS[dtype]) - zero, dtype)
            found = conv_integer(hy.asarray(x), hy.asarray(w), zero=zero, padding=1)
            wanted = summed(x, w, zero, (1, 1), (1, 1), (1, 1), 1)
            assert np.array_equal(found.numpy(), wanted)


def test_strides_beyond_any_memory_are_exact() -> None:
    """Copies of planes for them would be as large as the strides."""
    draw = np.random.default_rng(0)
    for channels in (1, 3):
        x = drawn(draw, "uint8", (1, channels, 3, 9), False)
        w = drawn(draw, "int8", (2, channels, 2, 2), False)
        far = dict(stride=(2**30, 2**29), padding=(2**28, 2**27), dilation=(2**27 + 1, 2**26 + 3))
        found = conv_integer(hy.asarray(x), hy.asarray(w), zero=7, **far).numpy()
        assert found.shape == (1, 2, 1, 1)
        assert (found == 0).all()  # of a window that meets nothing but padding
        far = dict(stride=(2**30, 2), dilation=(2, 2**3))
        found = conv_integer(hy.asarray(x), hy.asarray(w), zero=7, **far).numpy()
        wanted = summed(x, w, 7, (2**30, 2), (0, 0), (2, 2**3), 1)
        assert np.array_equal(found, wanted)


def test_weights_are_read_as_they_were_prepared() -> None:
    draw = np.random.default_rng(2)
    x, w = drawn(draw, "uint8", (2, 20, 11, 12), False), drawn(draw, "int8", (15, 20, 3, 3), False)
    attrs = dict(stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1, size=(11, 12))
    p = conv_integer_prepare(w, source=x.shape, **attrs)
    for other in (w, np.zeros_like(w)):  # which has the shape alone
        found = conv_integer_prepared(x, other, np.uint8(9), p, **attrs)
        assert np.array_equal(found.numpy(), summed(x, w, 9, (1, 1), (1, 1), (1, 1), 1))


def test_what_follows_is_the_same_in_a_graph() -> None:
    draw = np.random.default_rng(1)
    x = hy.asarray(drawn(draw, "uint8", (2, 6, 9, 10), False))
    w = hy.asarray(drawn(draw, "int8", (7, 6, 3, 3), False))
    scale = hy.asarray(draw.standard_normal((7, 1, 1)).astype(np.float32))

    def layer(x: hy.Tensor, w: hy.Tensor, zero: hy.Tensor, scale: hy.Tensor) -> hy.Tensor:
        y = conv_integer(x, w, zero=zero, padding="same")
        return hy.maximum(y.astype(hy.float32) * scale, 0.0)

    zero = hy.asarray(np.uint8(100))
    eager, captured = layer(x, w, zero, scale), hy.hybridize(layer)(x, w, zero, scale)
    assert eager.numpy().tobytes() == captured.numpy().tobytes()


def test_a_zero_point_and_an_image_come_as_users_have_them() -> None:
    x, w = hy.ones((2, 5), dtype="uint8"), hy.ones((3, 2, 2), dtype="int8")
    wanted = conv_integer(hy.expand_dims(x, 0), w, zero=3)
    assert wanted.shape == (1, 3, 4) and wanted.numpy()[0, 0, 0] == -8
    for zero in (3, np.uint8(3), hy.asarray(np.uint8(3)), hy.asarray(np.array([3], np.uint8))):
        assert np.array_equal(conv_integer(x, w, zero=zero).numpy(), wanted.numpy()[0])


@pytest.mark.parametrize("x, w", [("float32", "int8"), ("int8", "uint8"), ("int16", "int8")])
def test_other_dtypes_are_refused(x: str, w: str) -> None:
    x, w = hy.zeros((1, 2, 5), dtype=x), hy.zeros((3, 2, 3), dtype=w)
    with pytest.raises(DTypeError) as raised:
        conv_integer(x, w)
    assert str(raised.value) == (
        f"conv_integer cannot take {x.type} and {w.type}\n"
        "It multiplies int8 or uint8 with int8.\n"
        "Fix: cast them with astype, or use conv2d."
    )


@pytest.mark.parametrize("zero", [-1, 256, 0.5])
def test_zero_points_that_are_none_are_refused(zero: Any) -> None:
    with pytest.raises(ArgumentError) as raised:
        conv_integer(
            hy.zeros((1, 2, 5), dtype="uint8"), hy.zeros((3, 2, 3), dtype="int8"), zero=zero
        )
    assert str(raised.value) == (
        f"conv_integer got zero {zero!r} for u8[1,2,5]\n"
        "It is one of the integers of uint8.\n"
        "Fix: give a number from 0 to 255."
    )


@pytest.mark.parametrize("zero", [np.int8(0), np.zeros(2, np.uint8)])
def test_zero_points_of_other_types_are_refused(zero: Any) -> None:
    zero = hy.asarray(zero)
    with pytest.raises(ShapeError) as raised:
        conv_integer(
            hy.zeros((1, 2, 5), dtype="uint8"), hy.zeros((3, 2, 3), dtype="int8"), zero=zero
        )
    assert str(raised.value) == (
        f"conv_integer cannot take a zero point {zero.type} of u8[1,2,5]\n"
        "It is one element of the same dtype.\n"
        "Fix: give a number, or a tensor without dimensions."
    )


def test_weights_without_space_are_refused() -> None:
    with pytest.raises(ShapeError) as raised:
        conv_integer(hy.zeros((1, 2, 5), dtype="uint8"), hy.zeros((3, 2), dtype="int8"))
    assert str(raised.value) == (
        "conv_integer cannot take a weight i8[3,2]\n"
        "It has axes of results and channels, and one to three of space.\n"
        "Fix: change its shape with reshape or expand_dims."
    )


def test_there_must_be_something_to_prepare() -> None:
    attrs = dict(stride=(1,), padding=(0,), dilation=(1,), groups=1, size=(3,))
    with pytest.raises(ShapeError) as raised:
        conv_integer_prepare(np.zeros((4, 0, 1), np.int8), source=(1, 0, 3), **attrs)
    assert str(raised.value) == (
        "there is nothing to prepare in the convolution of u8[1,0,3] with i8[4,0,1]\n"
        "It is empty.\n"
        "Fix: use conv_integer."
    )
    x, w = np.zeros((1, 2, 3), np.uint8), np.zeros((4, 2, 1), np.int8)
    with pytest.raises(ShapeError, match=r"^i32\[3\] is not what is prepared of i8\[4,2,1\] for"):
        conv_integer_prepared(x, w, np.uint8(0), np.zeros(3, np.int32), **attrs)
