"""3x3 convolutions in float32 from fewer products: the error stays within the bound that
convolution/winograd.inc.c states, whatever meets what, and is none for small integers."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.ops.spatial.convolution import conv, conv_transpose

RANDOM = np.random.default_rng(17)
SOURCE = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], float)
WEIGHT = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
RESULT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], float)
HALF_ULP = 2.0**-24
DEPTH = 384  # of a chain, at most

# x, w, padding: one block and many, images that share a block, odd and even sizes, narrow and wide
# planes, more channels than a chain has terms, few rows, groups of channels, padding on all sides.
SHAPES = [
    ((1, 16, 8, 8), (16, 16, 3, 3), (1, 1)),
    ((1, 64, 14, 14), (70, 64, 3, 3), (1, 1)),
    ((9, 20, 7, 7), (33, 20, 3, 3), (1, 1)),
    ((2, 9, 13, 71), (8, 9, 3, 3), (0, 2)),
    ((1, 400, 9, 10), (12, 400, 3, 3), (2, 0)),
    ((12, 32, 16, 16), (64, 32, 3, 3), (1, 1)),
    ((2, 130, 40, 42), (128, 130, 3, 3), (1, 1)),
]


def tiled(x, w, padding):
    """The convolution from 2x2 tiles: ``w`` [O, C, 3, 3], ``x`` [N, C, H, W], by the definition."""
    return _tiled(x, w, padding, SOURCE, WEIGHT, RESULT)


def bound(x, w, padding):
    """Half an ulp times this is the largest error of each result."""
    parts = [np.abs(m) for m in (SOURCE, WEIGHT, RESULT)]
    channels = x.shape[1]
    blocks = math.ceil(channels / DEPTH)
    depth = min(channels, (math.ceil(channels / blocks) + 7) // 8 * 8)
    return (depth + blocks + 11) * _tiled(np.abs(x), np.abs(w), padding, *parts)


def _tiled(x, w, padding, source, weight, result):
    high, wide = (n + 2 * p - 2 for n, p in zip(x.shape[2:], padding, strict=True))
    edges = [(p, p + (n % 2)) for p, n in zip(padding, (high, wide), strict=True)]
    x = np.pad(x.astype(float), [(0, 0), (0, 0), *edges])
    windows = np.lib.stride_tricks.sliding_window_view(x, (4, 4), (2, 3))[:, :, ::2, ::2]
    d = np.einsum("ij,nchwjk,lk->nchwil", source, windows, source, optimize=True)
    g = np.einsum("ij,ocjk,lk->ocil", weight, w.astype(float), weight, optimize=True)
    sums = np.einsum("nchwil,ocil->nohwil", d, g, optimize=True)
    y = np.einsum("ai,nohwil,bl->nohawb", result, sums, result, optimize=True)
    return y.reshape(*y.shape[:2], 2 * y.shape[2], -1)[:, :, :high, :wide]


def convolved(x, w, padding):
    """The convolution tap by tap, in float64."""
    x = np.pad(x.astype(float), [(0, 0), (0, 0), *((p, p) for p in padding)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(float), optimize=True)


def flipped(w):
    """The kernels by which the transpose of a convolution is one."""
    return w[:, :, ::-1, ::-1].swapaxes(0, 1)


def even(shape):
    return RANDOM.uniform(-1, 1, shape)


def wild(shape):
    """Magnitudes over twelve decades."""
    return RANDOM.uniform(-1, 1, shape) * 10.0 ** RANDOM.uniform(-6, 6, shape)


def alternating(shape):
    """Neighbours that cancel, but for a little."""
    signs = (-1.0) ** np.indices(shape)[2:].sum(0)
    return signs * (1000 + RANDOM.uniform(-1, 1, shape))


def level(shape):
    """A mean that is large against what is added to it."""
    return 1e4 + RANDOM.uniform(-1, 1, shape)


def first_taps(shape):
    """Large items meet small ones: a window's first column against its last."""
    found = RANDOM.uniform(-1, 1, shape)
    found[..., 0] *= 1e6
    return found


DRAWS = [even, wild, alternating, level, first_taps]


def geometry(padding):
    return dict(stride=(1, 1), padding=padding, dilation=(1, 1), groups=1)


def runs(x, w, padding):
    """The convolution, and the transposed one that is the same sum, both as float64."""
    size = tuple(n + 2 * p - 2 for n, p in zip(x.shape[2:], padding, strict=True))
    yield conv(hy.asarray(x), hy.asarray(w), size=size, **geometry(padding)).numpy().astype(float)
    around = tuple(2 - p for p in padding)
    turned = hy.asarray(np.ascontiguousarray(flipped(w)))
    got = conv_transpose(hy.asarray(x), turned, size=size, **geometry(around))
    yield got.numpy().astype(float)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("x", "w", "padding"), SHAPES)
def test_the_error_is_within_the_bound(x, w, padding, draw):
    x, w = draw(x).astype(np.float32), draw(w).astype(np.float32)
    want, most = convolved(x, w, padding), bound(x, w, padding)
    for got in runs(x, w, padding):
        assert (np.abs(got - want) <= HALF_ULP * most).all()


@pytest.mark.parametrize(("x", "w", "padding"), SHAPES)
def test_the_error_is_that_of_a_chain_where_factors_are_of_even_size(x, w, padding):
    """As close as suites ask that compare with another library: 1e-6 of the terms' magnitudes."""
    x, w = even(x).astype(np.float32), even(w).astype(np.float32)
    terms = convolved(np.abs(x), np.abs(w), padding)
    for got in runs(x, w, padding):
        assert (np.abs(got - convolved(x, w, padding)) <= 1e-6 * terms).all()


def test_the_bound_is_not_idle():
    """Tiles are what runs: where large items meet small ones the error exceeds that of a chain."""
    x, w = first_taps((1, 16, 8, 8)), first_taps((16, 16, 3, 3))
    x[..., 1:] *= 1e-6
    w[..., 1:] *= 1e-6
    x, w = x.astype(np.float32), w.astype(np.float32)
    terms = convolved(np.abs(x), np.abs(w), (1, 1))
    chain = (9 * 16 + 1) * HALF_ULP * terms
    for got in runs(x, w, (1, 1)):
        assert (np.abs(got - convolved(x, w, (1, 1))) > chain).any()


@pytest.mark.parametrize(("x", "w", "padding"), SHAPES)
def test_small_integers_are_exact(x, w, padding):
    x = RANDOM.integers(-8, 9, x).astype(np.float32)
    w = RANDOM.integers(-8, 9, w).astype(np.float32)
    for got in runs(x, w, padding):
        np.testing.assert_array_equal(got, convolved(x, w, padding))


def test_the_definition_of_this_file():
    x, w = even((2, 3, 7, 8)), even((4, 3, 3, 3))
    np.testing.assert_allclose(tiled(x, w, (1, 2)), convolved(x, w, (1, 2)), atol=1e-14)


def test_groups_are_convolutions_of_their_own():
    x, w = even((2, 48, 12, 13)).astype(np.float32), even((36, 16, 3, 3)).astype(np.float32)
    together = hy.conv2d(x, w, padding=1, groups=3).numpy()
    for g in range(3):
        alone = hy.conv2d(x[:, 16 * g : 16 * g + 16], w[12 * g : 12 * g + 12], padding=1).numpy()
        assert alone.tobytes() == together[:, 12 * g : 12 * g + 12].tobytes()


@pytest.mark.parametrize(("x", "w", "padding"), SHAPES)
def test_threads_and_modes_do_not_change_a_bit(x, w, padding):
    x, w = even(x).astype(np.float32), even(w).astype(np.float32)

    def gradients(x, w):
        return hy.grad(lambda x, w: hy.sum(hy.conv2d(x, w, padding=padding) ** 2), (0, 1))(x, w)

    def everything(run):
        found = run(hy.asarray(x), hy.asarray(w))
        return [t.numpy().tobytes() for t in found]

    before = hy.num_threads()
    try:
        hy.set_num_threads(1)
        alone = everything(gradients)
        assert everything(hy.hybridize(gradients)) == alone
        hy.set_num_threads(3)
        assert everything(gradients) == alone
        assert everything(hy.hybridize(gradients)) == alone
    finally:
        hy.set_num_threads(before)


@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_what_meets_no_number_is_none(special):
    x, w = even((1, 8, 12, 12)).astype(np.float32), even((8, 8, 3, 3)).astype(np.float32)
    x[0, 3, 5, 6] = special
    got = hy.conv2d(x, w, padding=1).numpy()
    met = np.zeros((12, 12), bool)
    met[4:7, 5:8] = True
    assert not np.isfinite(got[:, :, met]).any()
    assert np.isfinite(got[:, :, ~met]).all()
