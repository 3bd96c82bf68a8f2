"""Elementwise ops on a convolution run with it, part by part, and give the bits that they give
alone: whatever way the convolution goes, whatever else they read, on any number of threads."""

from functools import partial

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.fused_calls import optimized

RANDOM = np.random.default_rng(23)

WAYS = {  # x, w, what else is given
    "few channels of a group": ((3, 6, 11, 37), (6, 1, 3, 3), dict(groups=6, padding=1)),
    "rows of few channels in parts": ((1, 2, 700, 30), (2, 1, 5, 3), dict(groups=2)),
    "copies of planes": ((3, 5, 20, 33), (14, 5, 3, 3), dict(padding=1)),
    "copies of planes in blocks of channels": ((2, 90, 20, 20), (13, 90, 3, 3), dict(stride=2)),
    "long rows": ((1, 2, 1, 60_000), (6, 2, 1, 3), dict(padding=(0, 1))),
    "a product of columns": ((3, 40, 7, 7), (70, 40, 3, 3), dict(stride=2, padding=1)),
    "a product whose columns lie in one image": ((1, 512, 4, 4), (40, 512, 1, 1), {}),
    "few blocks of tiles": ((1, 20, 14, 15), (24, 20, 3, 3), dict(padding=1)),
    "many blocks of tiles": ((9, 64, 33, 32), (64, 64, 3, 3), dict(padding=1)),
    "small planes of tiles": ((8, 16, 7, 7), (32, 16, 3, 3), dict(padding=1)),
    "groups of tiles": ((2, 32, 12, 13), (24, 16, 3, 3), dict(groups=2, padding=1)),
    "three axes": ((2, 3, 4, 9, 10), (5, 3, 2, 3, 3), {}),
    "one axis": ((2, 3, 90), (5, 3, 3), {}),
}


def drawn(*shape, dtype=np.float32):
    return hy.asarray(RANDOM.uniform(-1, 1, shape).astype(dtype))


def forward(x, w, **given):
    return {3: hy.conv1d, 4: hy.conv2d, 5: hy.conv3d}[len(x.shape)](x, w, **given)


def backward(x, w, **given):
    back = {3: hy.conv_transpose1d, 4: hy.conv_transpose2d, 5: hy.conv_transpose3d}
    return back[len(x.shape)](x, w, **given)


def normalised(y, scale, shift, other):
    return (y * scale + shift, hy.relu(y * scale + shift + other))


def one_result(y, scale, shift, other):
    return (hy.relu((y - shift) * scale),)


def itself_too(y, scale, shift, other):
    return (y, hy.where(other > 0, y, 0.0))


def another_dtype(y, scale, shift, other):
    return (y > other,)


def turned(y, scale, shift, other):
    return (y + hy.flip(other, axis=-1) + shift,)


CHAINS = [normalised, one_result, itself_too, another_dtype, turned]


def bits(tensors):
    return [(t.dtype, t.numpy().tobytes()) for t in tensors]


def check(way, chain, x, w, given):
    y = way(x, w, **given)
    channels = (y.shape[1], *(1,) * (len(y.shape) - 2))
    rest = [drawn(*channels, dtype=y.dtype.numpy) for _ in range(2)]
    rest.append(drawn(*y.shape, dtype=y.dtype.numpy))

    def whole(x, w, *rest):
        return chain(way(x, w, **given), *rest)

    want = bits(whole(x, w, *rest))
    captured = hy.hybridize(whole)
    before = hy.num_threads()
    try:
        for threads in (1, 3):
            hy.set_num_threads(threads)
            assert bits(captured(x, w, *rest)) == want
    finally:
        hy.set_num_threads(before)
    assert "_map " in str(optimized(captured.graph(x, w, *rest)))


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("way", WAYS)
def test_post_ops_of_convolutions(way, chain):
    x, w, given = WAYS[way]
    check(forward, chain, drawn(*x), drawn(*w), given)


@pytest.mark.parametrize("dtype", [np.float64])
@pytest.mark.parametrize("way", WAYS)
def test_post_ops_in_another_dtype(way, dtype):
    x, w, given = WAYS[way]
    check(forward, normalised, drawn(*x, dtype=dtype), drawn(*w, dtype=dtype), given)


TRANSPOSES = {
    "one phase of planes": ((2, 14, 20, 33), (14, 5, 3, 3), dict(padding=1)),
    "one phase of tiles": ((2, 64, 20, 33), (64, 32, 3, 3), dict(padding=1)),
    "few channels": ((2, 4, 20, 33), (4, 1, 3, 3), dict(groups=4)),
    "phases": ((2, 14, 20, 33), (14, 5, 3, 3), dict(stride=2, padding=1)),
    "phases that no weight reaches": ((2, 14, 9, 9), (14, 5, 1, 1), dict(stride=(1, 3))),
    "a gap in a single phase": ((2, 14, 9, 1), (14, 5, 1, 1), dict(stride=(1, 3))),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("way", TRANSPOSES)
def test_post_ops_of_transposed_convolutions(way, chain):
    x, w, given = TRANSPOSES[way]
    check(backward, chain, drawn(*x), drawn(*w), given)


@pytest.mark.parametrize("way", [forward, backward])
def test_post_ops_of_nothing(way):
    """Where there is no convolution to run, the ops run on its zeros."""
    for x, w in [((2, 0, 5, 5), (0, 3, 3, 3)), ((0, 4, 5, 5), (4, 4, 3, 3))]:
        w = (w[1], w[0], *w[2:]) if way is forward and w[0] == 0 else w
        x, w, shift = hy.zeros(x), hy.zeros(w), drawn(w[1] if way is backward else w[0], 1, 1)
        run = hy.hybridize(partial(lambda x, w, shift: hy.relu(way(x, w) + shift)))
        got, want = run(x, w, shift), hy.relu(way(x, w) + shift)
        assert got.shape == want.shape
        assert got.numpy().tobytes() == want.numpy().tobytes()
