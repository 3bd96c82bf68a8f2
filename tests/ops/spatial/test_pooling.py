"""Pooling: against loops over every window, at its edges, and what it refuses."""

import itertools
import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import float32, tensor_type
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from hybrid.ir import get_op
from hybrid.nn import functional

RANDOM = np.random.default_rng(12)


def drawn(*shape, dtype=np.float64):
    return RANDOM.uniform(-1, 1, shape).astype(dtype)


def each(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def windows(n, k, s, p, d=1, ceil=False):
    """Along one axis, for every window: its places and how many it has with the padding."""
    found = []
    for start in itertools.count(-p, s):
        last = start + (k - 1) * d
        if last >= n + p and not (ceil and last - (n + p - 1) < s and start < n):
            return found
        places = [i for i in range(start, last + 1, d) if 0 <= i < n]
        found.append((places, min(last + 1, n + p) - start))


def adaptive_windows(n, size):
    spans = [(j * n // size, math.ceil((j + 1) * n / size)) for j in range(size)]
    return [(list(range(*span)), span[1] - span[0]) for span in spans]


def pooled(x, axes, reduce):
    """``reduce(window of x, its places in the plane, padded count)`` for every window."""
    plane = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    y = np.empty((*x.shape[:2], *map(len, axes)))
    for place in itertools.product(*(range(len(axis)) for axis in axes)):
        chosen = [axis[j] for axis, j in zip(axes, place, strict=True)]
        at = np.ix_(*[places for places, _ in chosen])
        for n, c in np.ndindex(x.shape[:2]):
            y[(n, c, *place)] = reduce(
                x[n, c][at].ravel(), plane[at].ravel(), math.prod(s for _, s in chosen)
            )
    return y


def greatest(window, places, _count):
    return window.max()


def place_of_greatest(window, places, _count):
    return places[window.argmax()]


RANKS = {1: (2, 3, 11), 2: (2, 2, 9, 14), 3: (1, 2, 5, 6, 9)}
GIVEN = [
    dict(kernel_size=3),
    dict(kernel_size=2, stride=1),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=4, stride=3, padding=2, ceil_mode=True),
    dict(kernel_size=2, stride=3, ceil_mode=True),
]


def axes_of(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    rank = x.ndim - 2
    kernel = each(kernel_size, rank)
    stride = kernel if stride is None else each(stride, rank)
    rest = zip(x.shape[2:], kernel, stride, each(padding, rank), each(dilation, rank), strict=True)
    return [windows(*axis, ceil_mode) for axis in rest]


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("given", [*GIVEN, dict(kernel_size=3, stride=2, dilation=2, padding=1)])
def test_max_pool(rank, given):
    x = drawn(*RANKS[rank]).round(1)  # with equals
    axes = axes_of(x, **given)
    function = getattr(hy, f"max_pool{rank}d")
    y, places = function(x, **given, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), pooled(x, axes, greatest))
    np.testing.assert_array_equal(places.numpy(), pooled(x, axes, place_of_greatest))
    assert places.dtype is hy.int64
    np.testing.assert_array_equal(function(x, **given).numpy(), y.numpy())


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("include", [True, False])
def test_avg_pool(rank, given, include):
    x = drawn(*RANKS[rank])

    def mean(window, _places, count):
        return window.sum() / (count if include else len(window))

    want = pooled(x, axes_of(x, **given), mean)
    got = getattr(hy, f"avg_pool{rank}d")(x, **given, count_include_pad=include)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-14)


def test_a_divisor_of_ones_own():
    x = drawn(1, 2, 5, 6)
    want = pooled(x, axes_of(x, 2), lambda window, _places, _count: window.sum() / 3)
    np.testing.assert_allclose(hy.avg_pool2d(x, 2, divisor_override=3).numpy(), want, rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((2, 3, 10), 4),
        ((2, 3, 10), 5),
        ((2, 3, 3), 7),
        ((2, 2, 7, 9), (3, None)),
        ((2, 2, 7, 9), 1),
        ((1, 2, 4, 5, 6), (3, 2, 6)),
        ((1, 2, 4, 6, 6), (2, 3, 1)),
    ],
)
def test_adaptive_pooling(shape, size):
    x, rank = drawn(*shape), len(shape) - 2
    sizes = size if isinstance(size, tuple) else (size,) * rank
    counts = [n if s is None else s for n, s in zip(shape[2:], sizes, strict=True)]
    axes = [adaptive_windows(n, s) for n, s in zip(shape[2:], counts, strict=True)]
    mean = getattr(hy, f"adaptive_avg_pool{rank}d")(x, size)
    want = pooled(x, axes, lambda window, _places, _count: window.mean())
    np.testing.assert_allclose(mean.numpy(), want, rtol=1e-12)
    y, places = getattr(hy, f"adaptive_max_pool{rank}d")(x, size, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), pooled(x, axes, greatest))
    np.testing.assert_array_equal(places.numpy(), pooled(x, axes, place_of_greatest))


def test_the_first_of_equals_gets_the_gradient():
    x = hy.asarray([[[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]]])
    gradient = hy.grad(lambda x: hy.sum(hy.max_pool1d(x, 3)))(x)
    np.testing.assert_array_equal(gradient.numpy(), [[[1, 0, 0, 1, 0, 0]]])


@pytest.mark.parametrize("width", [4, 40])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_nan_propagates(width, stride):
    x = drawn(1, 1, width, dtype=np.float32)
    x[0, 0, 3] = np.nan
    y, places = hy.max_pool1d(x, 3, stride, return_indices=True)
    want = pooled(x, axes_of(x, 3, stride), greatest)
    np.testing.assert_array_equal(y.numpy(), want)
    assert (places.numpy()[np.isnan(want)] == 3).all()
    mean = hy.avg_pool1d(x, 3, stride).numpy()
    np.testing.assert_array_equal(np.isnan(mean), np.isnan(want))


def test_infinities_are_found():
    x = np.full((1, 1, 8), -np.inf, np.float32)
    y, places = hy.max_pool1d(x, 2, padding=1, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), np.full((1, 1, 5), -np.inf))
    np.testing.assert_array_equal(places.numpy(), [[[0, 1, 3, 5, 7]]])


def test_an_input_without_a_batch_and_an_empty_batch():
    x = drawn(3, 6, 6)
    for function, *args in [
        (hy.max_pool2d, 2),
        (hy.avg_pool2d, 2),
        (hy.adaptive_avg_pool2d, 4),
        (hy.adaptive_max_pool2d, 4),
    ]:
        got = function(x, *args).numpy()
        np.testing.assert_array_equal(got, function(x[None], *args).numpy()[0])
        empty = function(x[None][:0], *args)
        assert empty.shape == (0, *got.shape)
        gradient = hy.grad(lambda x, f=function, args=args: hy.sum(f(x, *args)))
        assert gradient(hy.zeros((0, 3, 6, 6))).shape == (0, 3, 6, 6)


def test_threads_do_not_change_a_bit():
    x = drawn(3, 16, 40, 41, dtype=np.float32)

    def loss(x):
        y = hy.max_pool2d(x, 3, 2, 1) * hy.avg_pool2d(x, 3, 2, 1)
        return hy.sum(y * hy.adaptive_avg_pool2d(y, 5).sum())

    before = hy.num_threads()
    try:
        hy.set_num_threads(1)
        alone = hy.grad(loss)(x).numpy()
        hy.set_num_threads(3)
        assert hy.grad(loss)(x).numpy().tobytes() == alone.tobytes()
    finally:
        hy.set_num_threads(before)


def test_eager_and_hybridized_gradients_have_the_same_bits():
    def slope(x):
        def loss(x):
            y, places = hy.max_pool2d(x, 3, 2, 1, return_indices=True)
            return hy.mean(hy.avg_pool2d(y, 2, 1) ** 2) + hy.sum(places) * 0.0

        return hy.value_and_grad(loss)(x)

    x = hy.asarray(drawn(2, 3, 11, 12, dtype=np.float32))
    for a, b in zip(slope(x), hy.hybridize(slope)(x), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_the_functions_of_nn_are_these():
    for rank in RANKS:
        for kind in ["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"]:
            name = f"{kind}{rank}d"
            assert getattr(functional, name) is getattr(hy, name)


def f32(*shape):
    return hy.zeros(shape)


X = f32(2, 4, 8, 8)
RANGE = "from 1 to 2147483647.\nFix: give sizes in that range."
REFUSED = [  # (name, call, error, text)
    (
        "rank",
        lambda: hy.max_pool2d(f32(3, 4), 2),
        ShapeError,
        "max_pool2d cannot take f32[3,4] as input\n"
        "It must have 4 dimensions, or 3 without a batch.\n"
        "Fix: change its shape with reshape or expand_dims.",
    ),
    (
        "integers",
        lambda: hy.max_pool2d(hy.zeros((1, 1, 4, 4), dtype=hy.int64), 2),
        DTypeError,
        "max_pool2d cannot take i64[1,1,4,4]\n"
        "Its operand input must have a floating dtype; it has int64.\n"
        "Fix: convert it with astype, to float32 for example.",
    ),
    (
        "windows larger than the input",
        lambda: hy.avg_pool2d(X, (3, 9)),
        ShapeError,
        "avg_pool2d cannot take shape [8, 8] with windows [3, 9]\n"
        "Along spatial axis 1 a window spans 9 elements, and there are 8 with the padding.\n"
        "Fix: give a smaller one, or more padding.",
    ),
    (
        "an empty axis",
        lambda: hy.max_pool1d(f32(1, 1, 0), 1),
        ShapeError,
        "max_pool1d cannot take shape [0] with windows [1]\n"
        "Along spatial axis 0 a window spans 1 elements, and there are 0 with the padding.\n"
        "Fix: give a smaller one, or more padding.",
    ),
    (
        "windows of nothing",
        lambda: hy.max_pool2d(X, 0),
        ArgumentError,
        f"max_pool2d got kernel_size (0, 0)\nEach must be {RANGE}",
    ),
    (
        "stride 0",
        lambda: hy.avg_pool2d(X, 2, 0),
        ArgumentError,
        f"avg_pool2d got stride (0, 0)\nEach must be {RANGE}",
    ),
    (
        "negative padding",
        lambda: hy.max_pool2d(X, 2, padding=(0, -1)),
        ArgumentError,
        "max_pool2d got padding (0, -1)\nEach must be from 0 to 2147483647.\n"
        "Fix: give sizes in that range.",
    ),
    (
        "too much padding",
        lambda: hy.max_pool2d(X, 3, padding=2),
        ArgumentError,
        "max_pool2d got padding (2, 2) for windows of (3, 3)\n"
        "Padding may be half of a window at most.\nFix: pad the input with pad.",
    ),
    (
        "sizes that overflow",
        lambda: hy.max_pool2d(X, 2**40),
        ArgumentError,
        f"max_pool2d got kernel_size ({2**40}, {2**40})\nEach must be {RANGE}",
    ),
    (
        "a window without an element",
        lambda: hy.max_pool1d(f32(1, 1, 1), 2, dilation=2, padding=1),
        ShapeError,
        "max_pool cannot take f32[1,1,1]\n"
        "Along spatial axis 0, of 1, a window of 2 has no element.\n"
        "Fix: give less padding, or an input that is not empty.",
    ),
    (
        "a kernel of another rank",
        lambda: hy.max_pool2d(X, (2, 2, 2)),
        ArgumentError,
        "max_pool2d got kernel_size (2, 2, 2)\n"
        "There must be one for each spatial axis, or one for all.\n"
        "Fix: give an int, or a tuple of 2.",
    ),
    (
        "a flag",
        lambda: hy.max_pool2d(X, 2, ceil_mode=1),
        ArgumentTypeError,
        "max_pool2d got ceil_mode 1\nFix: give True or False.",
    ),
    (
        "divisor 0",
        lambda: hy.avg_pool2d(X, 2, divisor_override=0),
        ArgumentError,
        "avg_pool2d got divisor_override 0\nFix: give an int that is not 0, or None.",
    ),
    (
        "adaptive pooling of an empty axis",
        lambda: hy.adaptive_avg_pool2d(f32(1, 1, 0, 3), 2),
        ShapeError,
        "adaptive_avg_pool2d cannot take f32[1,1,0,3] as input\n"
        "Its spatial axes must not be empty.\nFix: give an input with elements.",
    ),
    (
        "a negative size",
        lambda: hy.adaptive_max_pool2d(X, (2, -1)),
        ArgumentError,
        "adaptive_max_pool2d got output_size (2, -1)\nEach must be from 0 to 2147483647.\n"
        "Fix: give sizes in that range.",
    ),
]


@pytest.mark.parametrize(
    ("call", "error", "text"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [(1, 1), (3, 7), (40, 1000)])
def test_one_window_that_is_all_of_the_input(rank, size) -> None:
    rows, elements = size
    shape = (1, rows, *(1,) * (rank - 1), elements)
    x = np.random.default_rng(rank).integers(-4, 4, shape).astype(np.float32)
    x[0, rows // 2, ..., elements // 3] = np.nan
    pool = getattr(functional, f"adaptive_max_pool{rank}d")
    y, places = pool(hy.asarray(x), 1, return_indices=True)
    flat = x.reshape(rows, elements)
    np.testing.assert_array_equal(y.numpy().reshape(rows), flat.max(1))
    np.testing.assert_array_equal(places.numpy().reshape(rows), flat.argmax(1))
    slope = hy.grad(lambda x: hy.sum(pool(x, 1)))(hy.asarray(x)).numpy().reshape(rows, elements)
    np.testing.assert_array_equal(slope, np.eye(elements, dtype=np.float32)[flat.argmax(1)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [2, 8, 16, 21, 67])
@pytest.mark.parametrize("threads", [1, 3])
def test_pools_beside_a_thin_axis_have_the_bits_of_planes(dtype, width, threads):
    """Images whose channels come last are pooled by vectors along them, in the same order."""
    x = drawn(2, 3, 9, 14, width, dtype=dtype)
    x[0, 1, 4, 5:7] = np.nan
    x[1, :, 2:5] = 0.0
    x[1, :, 3, ::2] = -0.0
    planes = np.moveaxis(x, -1, 2).reshape(2, 3 * width, 9, 14)
    before = hy.num_threads()
    hy.set_num_threads(threads)
    try:
        for kernel, stride, padding in [(3, 2, 1), ((2, 5), (1, 3), (0, 2)), (4, 4, 2)]:
            deep = [(*each(n, 2), one) for n, one in ((kernel, 1), (stride, 1), (padding, 0))]
            for flat, thin, more in (
                (functional.max_pool2d, functional.max_pool3d, {}),
                (functional.avg_pool2d, functional.avg_pool3d, {}),
                (functional.avg_pool2d, functional.avg_pool3d, {"count_include_pad": False}),
            ):
                want = flat(hy.asarray(planes), kernel, stride, padding, **more).numpy()
                got = np.moveaxis(thin(hy.asarray(x), *deep, **more).numpy(), -1, 2)
                got = got.reshape(want.shape)
                assert np.array_equal(got, want, equal_nan=True)
                assert np.array_equal(np.signbit(got), np.signbit(want))
        want = functional.adaptive_avg_pool2d(hy.asarray(planes), (4, 5)).numpy()
        got = functional.adaptive_avg_pool3d(hy.asarray(x), (4, 5, width)).numpy()
        assert np.array_equal(np.moveaxis(got, -1, 2).reshape(want.shape), want, equal_nan=True)
    finally:
        hy.set_num_threads(before)


def test_which_windows_have_no_element():
    max_pool = get_op("max_pool")
    choices = itertools.product(range(6), range(5), (1, 2, 3), (1, 2, 3), range(5), (1, 2, 3))
    for n, count, k, s, p, d in choices:
        starts = [j * s - p for j in range(count)]
        empty = any(not any(0 <= start + i * d < n for i in range(k)) for start in starts)
        one = {"kernel": (k,), "stride": (s,), "padding": (p,), "dilation": (d,)}
        attrs = max_pool.attributes({**one, "adaptive": False, "size": (count,)})
        types = (tensor_type(float32, (1, 1, n)),)
        if empty:
            with pytest.raises(ShapeError, match="has no element"):
                max_pool.infer(types, attrs)
        else:
            [found] = max_pool.infer(types, attrs)
            assert found.shape == (1, 1, count)
