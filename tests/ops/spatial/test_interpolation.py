"""Interpolation and folding: against loops over elements, at their edges, and what they refuse."""

import itertools
import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from hybrid.nn import functional
from tests.helpers import same

RANDOM = np.random.default_rng(13)
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def drawn(*shape, dtype=np.float64):
    return RANDOM.uniform(-1, 1, shape).astype(dtype)


def along(x, axis, count, scale, mode, align):
    """One axis of ``x`` as the documentation says, element by element."""
    n, rows = x.shape[axis], []
    for i in range(count):
        if mode == "nearest":
            place = min(math.floor(i * scale), n - 1)
            rows.append(np.take(x, place, axis))
        elif mode == "nearest-exact":
            place = min(math.floor((i + 0.5) * scale), n - 1)
            rows.append(np.take(x, place, axis))
        else:
            if align:
                place = i * (n - 1) / (count - 1) if count > 1 else 0
            else:
                place = min(max((i + 0.5) * scale - 0.5, 0), n - 1)
            low = min(math.floor(place), n - 1)
            weight = place - low
            high = np.take(x, min(low + 1, n - 1), axis)
            rows.append((1 - weight) * np.take(x, low, axis) + weight * high)
    return np.stack(rows, axis)


SIZES = [
    ((2, 3, 7), (11,)),
    ((2, 3, 16), (5,)),
    ((1, 2, 5, 8), (9, 3)),
    ((1, 2, 2, 3, 4), (3, 3, 7)),
]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "corners"])
@pytest.mark.parametrize(("shape", "size"), SIZES)
def test_sizes(shape, size, mode):
    x, rank = drawn(*shape), len(size)
    align = mode == "corners"
    mode = LINEAR[rank] if mode in ("linear", "corners") else mode
    want = x
    for axis, count in enumerate(size, 2):
        want = along(want, axis, count, x.shape[axis] / count, mode, align)
    got = hy.interpolate(x, size, mode=mode, align_corners=align)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)


def cubic(distance, a):
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def filtered(x, axis, count, scale, mode, align, antialias):
    """One axis of ``x`` by the sums that the documentation speaks of, element by element."""
    n, rows = x.shape[axis], []
    wide = max(scale, 1.0) if antialias else 1.0
    for i in range(count):
        place = i * scale if align and not antialias else (i + 0.5) * scale - 0.5
        around = range(math.floor(place - 2 * wide) - 1, math.ceil(place + 2 * wide) + 2)
        weights = {}
        for j in around:
            away = (place - j) / wide
            weight = cubic(away, -0.5 if antialias else -0.75)
            if mode == "bilinear":
                weight = max(0.0, 1 - abs(away))
            if not antialias:  # beyond the ends the last element counts
                j = min(max(j, 0), n - 1)
            elif not 0 <= j < n:
                continue
            weights[j] = weights.get(j, 0.0) + weight
        total = sum(weights.values()) if antialias else 1.0
        rows.append(sum(np.take(x, j, axis) * (w / total) for j, w in weights.items()))
    return np.stack(rows, axis)


@pytest.mark.parametrize(
    ("mode", "antialias"), [("bicubic", False), ("bicubic", True), ("bilinear", True)]
)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(5, 4), (14, 20), (1, 1), (7, 9), (3, 20)])
def test_filters(mode, antialias, align, size):
    x = want = drawn(2, 3, 7, 9)
    for axis, count in sorted(enumerate(size, 2), key=lambda a: a[1] / x.shape[a[0]]):
        n = x.shape[axis]
        scale = n / count if not align else (n - 1) / (count - 1) if count > 1 else 0.0
        if n != count:
            want = filtered(want, axis, count, scale, mode, align, antialias)

    def resized(x):
        return hy.interpolate(x, size, mode=mode, align_corners=align, antialias=antialias)

    got = resized(hy.asarray(x))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-11)
    assert same(hy.hybridize(resized)(hy.asarray(x)), got)
    hy.check_grads(resized, hy.asarray(x[:1, :1]))


def test_open_sizes_by_cubic_filters():
    @hy.hybridize(ledger=False)
    def doubled(x):
        return hy.interpolate(x, scale_factor=2.0, mode="bicubic")

    for n in range(3, 9):
        x = hy.asarray(drawn(1, 2, n, n + 1))
        assert same(doubled(x), hy.interpolate(x, scale_factor=2.0, mode="bicubic"))
    assert len(doubled.plans) <= 2


@pytest.mark.parametrize(("shape", "size"), [*SIZES, ((2, 3, 7, 8), (1, 1)), ((1, 1, 4), (4,))])
def test_areas(shape, size):
    x = hy.asarray(drawn(*shape))
    want = x.numpy()
    for axis, count in enumerate(size, 2):
        n = want.shape[axis]
        parts = [slice(j * n // count, -(-(j + 1) * n // count)) for j in range(count)]
        rows = [np.moveaxis(want, axis, 0)[part].mean(0) for part in parts]
        want = np.stack(rows, axis)
    got = hy.nn.functional.interpolate(x, size, mode="area")
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)
    assert same(hy.hybridize(lambda x: hy.interpolate(x, size, mode="area"))(x), got)
    hy.check_grads(lambda x: hy.interpolate(x, size, mode="area"), x)


def test_areas_by_a_factor():
    x = drawn(1, 2, 6, 9)
    got = hy.interpolate(x, scale_factor=0.5, mode="area")
    np.testing.assert_array_equal(got.numpy(), hy.nn.functional.adaptive_avg_pool2d(x, (3, 4)))
    np.testing.assert_array_equal(hy.nn.Upsample(scale_factor=0.5, mode="area")(hy.asarray(x)), got)


@pytest.mark.parametrize("factor", [2, 0.5, 1.7, 3.0])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_factors(factor, mode):
    x = drawn(2, 2, 6, 9)
    want = x
    for axis in (2, 3):
        want = along(want, axis, math.floor(x.shape[axis] * factor), 1 / factor, mode, False)
    got = hy.interpolate(x, scale_factor=factor, mode=mode)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)
    pair = hy.interpolate(x, scale_factor=(factor, 1.0), mode=mode)
    assert pair.shape == (2, 2, math.floor(6 * factor), 9)


def test_nearest_takes_any_dtype_and_keeps_it():
    x = np.arange(12).reshape(1, 1, 3, 4)
    got = hy.interpolate(x, (6, 8))
    assert got.dtype is hy.int64
    np.testing.assert_array_equal(got.numpy(), x.repeat(2, 2).repeat(2, 3))


def test_one_element_is_repeated_and_one_is_kept():
    x = drawn(1, 1, 1, 1)
    for align in (False, True):
        got = hy.interpolate(x, (3, 2), mode="bilinear", align_corners=align)
        np.testing.assert_array_equal(got.numpy(), np.broadcast_to(x, (1, 1, 3, 2)))
    x = drawn(1, 1, 5)
    one = hy.interpolate(x, 1, mode="linear", align_corners=True)
    np.testing.assert_array_equal(one.numpy(), x[..., :1])


def test_the_same_size_gives_another_tensor_with_the_same_elements():
    x = hy.asarray(drawn(1, 2, 4))
    for mode in ("nearest", "linear"):
        y = hy.interpolate(x, 4, mode=mode)
        assert y is not x
        np.testing.assert_array_equal(y.numpy(), x.numpy())


def test_an_empty_batch():
    x = hy.zeros((0, 3, 4, 4))
    assert hy.interpolate(x, 8).shape == (0, 3, 8, 8)
    assert hy.interpolate(x, 8, mode="bilinear").shape == (0, 3, 8, 8)
    assert hy.unfold(x, 2).shape == (0, 12, 9)
    assert hy.fold(hy.zeros((0, 12, 9)), 4, 2).shape == (0, 3, 4, 4)
    assert hy.pixel_shuffle(hy.zeros((0, 4, 2, 2)), 2).shape == (0, 1, 4, 4)


def unfolded(x, kernel, dilation, padding, stride):
    """The definition, window by window; also where every item comes from, -1 for a zero."""
    n, c, h, w = x.shape
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, d, p, s in zip((h, w), kernel, dilation, padding, stride, strict=True)
    ]
    y = np.zeros((n, c, *kernel, *counts))
    for i, j, p, q in itertools.product(*map(range, (*kernel, *counts))):
        row = p * stride[0] - padding[0] + i * dilation[0]
        column = q * stride[1] - padding[1] + j * dilation[1]
        if 0 <= row < h and 0 <= column < w:
            y[:, :, i, j, p, q] = x[:, :, row, column]
    return y.reshape(n, c * math.prod(kernel), math.prod(counts))


WINDOWS = [((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (1, 2), (2, 1), (2, 3))]


@pytest.mark.parametrize("window", WINDOWS)
def test_unfold_and_fold(window):
    x = drawn(2, 3, 7, 9)
    want = unfolded(x, *window)
    got = hy.unfold(x, *window)
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(hy.unfold(x[0], *window).numpy(), want[0])
    y = drawn(*want.shape)
    back = hy.fold(y, (7, 9), *window).numpy()
    np.testing.assert_allclose((back * x).sum(), (y * want).sum(), rtol=1e-12)
    np.testing.assert_array_equal(hy.fold(y[0], (7, 9), *window).numpy(), back[0])
    # Every place gets as many ones as windows have it.
    counts = hy.fold(hy.unfold(np.ones_like(x), *window), (7, 9), *window).numpy()
    np.testing.assert_allclose(hy.fold(want, (7, 9), *window).numpy(), counts * x, rtol=1e-12)


def test_a_convolution_is_a_product_with_windows():
    x, w = drawn(2, 3, 8, 8), drawn(5, 3, 3, 3)
    product = w.reshape(5, -1) @ hy.unfold(x, 3, padding=1).numpy()
    want = hy.conv2d(x, w, padding=1).numpy().reshape(2, 5, 64)
    np.testing.assert_allclose(product, want, rtol=1e-10, atol=1e-12)


def test_pixels_are_shuffled_and_back():
    x = drawn(2, 3, 8, 3, 5)
    y = hy.pixel_shuffle(x, 2).numpy()
    assert y.shape == (2, 3, 2, 6, 10)
    for c, i, j in itertools.product(range(2), range(2), range(2)):
        np.testing.assert_array_equal(y[..., c, i::2, j::2], x[..., 4 * c + 2 * i + j, :, :])
    np.testing.assert_array_equal(hy.pixel_unshuffle(y, 2).numpy(), x)


def test_threads_do_not_change_a_bit():
    x = drawn(5, 8, 30, 31, dtype=np.float32)

    def loss(x):
        y = hy.interpolate(x, (47, 20), mode="bilinear")
        return hy.sum(y * y) + hy.sum(hy.fold(hy.unfold(x, 3), (30, 31), 3) ** 2)

    before = hy.num_threads()
    try:
        hy.set_num_threads(1)
        alone = hy.grad(loss)(x).numpy()
        hy.set_num_threads(3)
        assert hy.grad(loss)(x).numpy().tobytes() == alone.tobytes()
    finally:
        hy.set_num_threads(before)


@pytest.mark.parametrize("batch", [1, 3, 4, 9])
def test_the_gradient_of_a_row_does_not_depend_on_the_others(batch):
    """Rows are worked on four at a time where there are four."""
    y = drawn(batch, 1, 13, dtype=np.float32)
    for size, align in [(5, False), (40, True), (1, False)]:

        def loss(x, y=y, size=size, align=align):
            stretched = hy.interpolate(x, 13, mode="linear", align_corners=align)
            return hy.sum(stretched * y[: len(x)])

        x = hy.zeros((batch, 1, size))
        together = hy.grad(loss)(x).numpy()
        alone = hy.grad(loss)(x[:1]).numpy()
        assert together[:1].tobytes() == alone.tobytes()


def test_eager_and_hybridized_gradients_have_the_same_bits():
    def slope(x):
        def loss(x):
            y = hy.interpolate(x, scale_factor=2, mode="bilinear")
            z = hy.interpolate(hy.pixel_unshuffle(y, 2), 5)
            return hy.mean(hy.unfold(z, 2, stride=2) ** 2)

        return hy.value_and_grad(loss)(x)

    x = hy.asarray(drawn(2, 3, 6, 7, dtype=np.float32))
    for a, b in zip(slope(x), hy.hybridize(slope)(x), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_the_functions_of_nn_are_these():
    for name in ["interpolate", "unfold", "fold", "pixel_shuffle", "pixel_unshuffle"]:
        assert getattr(functional, name) is getattr(hy, name)


def f32(*shape):
    return hy.zeros(shape)


X = f32(1, 4, 6, 6)
RANGE = "from 1 to 2147483647.\nFix: give sizes in that range."
RESHAPE = "Fix: change its shape with reshape or expand_dims."
REFUSED = [  # (name, call, error, text)
    (
        "rank",
        lambda: hy.interpolate(f32(3, 4), 2),
        ShapeError,
        "interpolate cannot take f32[3,4] as input\n"
        "It must have 3 to 5 dimensions: [N, C] and one to three more.\n" + RESHAPE,
    ),
    (
        "another mode",
        lambda: hy.interpolate(X, 2, mode="cubic"),
        ArgumentError,
        'mode=\'cubic\' is unknown\nFix: use "nearest" or "nearest-exact" or "area" or "linear" '
        'or "bilinear" or "trilinear" or "bicubic".',
    ),
    (
        "the mode of another rank",
        lambda: hy.interpolate(X, 2, mode="linear"),
        ArgumentError,
        'interpolate got mode "linear" for f32[1,4,6,6]\n'
        'With as many spatial axes it is called "bilinear".\nFix: give that mode.',
    ),
    (
        "corners of the nearest",
        lambda: hy.interpolate(X, 2, align_corners=True),
        ArgumentError,
        'interpolate got align_corners=True and mode "nearest"\n'
        "Only linear modes and bicubic align corners.\nFix: leave align_corners out.",
    ),
    (
        "corners of areas",
        lambda: hy.interpolate(X, 2, mode="area", align_corners=True),
        ArgumentError,
        'interpolate got align_corners=True and mode "area"\n'
        "Only linear modes and bicubic align corners.\nFix: leave align_corners out.",
    ),
    (
        "a cube of one axis",
        lambda: hy.interpolate(hy.ones((1, 2, 3)), 2, mode="bicubic"),
        ArgumentError,
        'interpolate got mode "bicubic" for f32[1,2,3]\nThat mode is for two spatial axes.\n'
        'Fix: give "linear".',
    ),
    (
        "areas of a wider filter",
        lambda: hy.interpolate(hy.ones((1, 2, 3, 3)), 2, mode="area", antialias=True),
        ArgumentError,
        'interpolate got antialias=True and mode "area"\nFilters of "bilinear" and "bicubic" can '
        "be wider, others cannot.\nFix: leave antialias out, or give one of these modes.",
    ),
    (
        "integers between integers",
        lambda: hy.interpolate(hy.zeros((1, 1, 4), dtype=hy.int64), 2, mode="linear"),
        DTypeError,
        "interpolate cannot take i64[1,1,4]\n"
        "Its operand input must have a floating dtype; it has int64.\n"
        "Fix: convert it with astype, to float32 for example.",
    ),
    (
        "no size",
        lambda: hy.interpolate(X),
        ArgumentError,
        "interpolate got size None and scale_factor None\nFix: give one of the two.",
    ),
    (
        "two sizes",
        lambda: hy.interpolate(X, 3, 2.0),
        ArgumentError,
        "interpolate got size 3 and scale_factor 2.0\nFix: give one of the two.",
    ),
    (
        "size 0",
        lambda: hy.interpolate(X, (3, 0)),
        ArgumentError,
        f"interpolate got size (3, 0)\nEach must be {RANGE}",
    ),
    (
        "a factor that leaves nothing",
        lambda: hy.interpolate(X, scale_factor=0.1),
        ArgumentError,
        f"interpolate got size (0, 0)\nEach must be {RANGE}",
    ),
    (
        "a factor that overflows",
        lambda: hy.interpolate(X, scale_factor=1e10),
        ArgumentError,
        f"interpolate got size (60000000000, 60000000000)\nEach must be {RANGE}",
    ),
    (
        "a negative factor",
        lambda: hy.interpolate(X, scale_factor=(1, -2)),
        ArgumentError,
        "interpolate got scale_factor (1, -2)\n"
        "It must be finite and above 0, for all axes or each of 2.\nFix: give such a number.",
    ),
    (
        "an infinite factor",
        lambda: hy.interpolate(X, scale_factor=math.inf),
        ArgumentError,
        "interpolate got scale_factor inf\n"
        "It must be finite and above 0, for all axes or each of 2.\nFix: give such a number.",
    ),
    (
        "a factor that is no number",
        lambda: hy.interpolate(X, scale_factor="2"),
        ArgumentTypeError,
        "interpolate got scale_factor '2'\nFix: give a number, or a tuple of them.",
    ),
    (
        "an empty axis",
        lambda: hy.interpolate(f32(1, 1, 0), 3),
        ShapeError,
        "interpolate cannot take f32[1,1,0] as input\nIts spatial axes must not be empty.\n"
        "Fix: give an input with elements.",
    ),
    (
        "rank of unfold",
        lambda: hy.unfold(f32(4, 4), 2),
        ShapeError,
        "unfold cannot take f32[4,4] as input\nIt must have 4 dimensions, or 3 without a batch.\n"
        + RESHAPE,
    ),
    (
        "windows larger than the input",
        lambda: hy.unfold(X, 7),
        ShapeError,
        "unfold cannot take shape [6, 6] with windows [7, 7]\n"
        "Along spatial axis 0 a window spans 7 elements, and there are 6 with the padding.\n"
        "Fix: give a smaller one, or more padding.",
    ),
    (
        "stride 0",
        lambda: hy.unfold(X, 2, stride=0),
        ArgumentError,
        f"unfold got stride (0, 0)\nEach must be {RANGE}",
    ),
    (
        "fold of other windows",
        lambda: hy.fold(f32(1, 12, 8), 4, 2),
        ShapeError,
        "fold cannot take f32[1,12,8] as input\n"
        "Windows of 4 items, of which 9 fit in [4, 4], are [N, C * 4, 9].\n"
        "Fix: give the sizes that unfold was called with.",
    ),
    (
        "fold of integers",
        lambda: hy.fold(hy.zeros((1, 12, 9), dtype=hy.int32), 4, 2),
        DTypeError,
        "fold cannot take i32[1,12,9]\n"
        "Its operand input must have a floating dtype; it has int32.\n"
        "Fix: convert it with astype, to float32 for example.",
    ),
    (
        "channels of pixel_shuffle",
        lambda: hy.pixel_shuffle(X, 3),
        ShapeError,
        "pixel_shuffle cannot split 4 channels by 3 * 3\n"
        "Each pixel becomes a square of as many.\nFix: give another factor.",
    ),
    (
        "sizes of pixel_unshuffle",
        lambda: hy.pixel_unshuffle(X, 4),
        ShapeError,
        "pixel_unshuffle cannot cut 6 x 6 in squares of 4\n"
        "Each square becomes a pixel.\nFix: give a factor that divides both.",
    ),
    (
        "a factor below 1",
        lambda: hy.pixel_shuffle(X, 0),
        ArgumentError,
        f"pixel_shuffle got a factor (0,)\nEach must be {RANGE}",
    ),
    (
        "rank of pixel_shuffle",
        lambda: hy.pixel_shuffle(f32(4, 4), 2),
        ShapeError,
        "pixel_shuffle cannot take f32[4,4] as input\n"
        "It must have at least 3 dimensions: [C, H, W].\n" + RESHAPE,
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "text"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
