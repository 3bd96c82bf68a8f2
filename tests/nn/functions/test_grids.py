"""Pictures read at places of a grid: against sums written out in NumPy, and closed forms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, DTypeError, ShapeError
from hybrid.nn import functional as F
from hybrid.nn.functions.grids import MODES, PADDINGS
from hybrid.ops.support.sampling import Draw
from tests.helpers import same

DRAW = Draw(17)
PICTURES = {2: DRAW("float64", 2, 3, 4, 5), 3: DRAW("float64", 2, 2, 3, 4, 3)}
GRIDS = {rank: DRAW("float64", 2, *(3,) * rank, rank, low=-1.7, high=1.7) for rank in PICTURES}


def kernel(distance: float, mode: str) -> float:
    d, a = abs(distance), -0.75
    if mode == "bilinear":
        return max(0.0, 1 - d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def element(index: int, length: int, padding: str, align: bool) -> int | None:
    """The element that stands at ``index``; None for a zero."""
    if 0 <= index < length:
        return index
    if padding == "zeros":
        return None
    if padding == "border":
        return min(max(index, 0), length - 1)
    period = 2 * (length - 1) if align else 2 * length
    if not period:
        return 0
    place = index % period
    return min(place, (period - place) if align else period - 1 - place)


def read(x: np.ndarray, places: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """``x`` [C, *spatial] at one place, by the definition: a sum over all elements around."""
    shape, axes = x.shape[1:], []
    for length, p in zip(shape, places[::-1], strict=True):
        at = (p + 1) / 2 * (length - 1) if align else ((p + 1) * length - 1) / 2
        if mode == "nearest":
            taps = [(round(at), 1.0)]
        else:
            taps = [(i, kernel(at - i, mode)) for i in range(math.floor(at) - 2, math.ceil(at) + 3)]
        axes.append([(element(i, length, padding, align), w) for i, w in taps])
    total = np.zeros(x.shape[0])
    for corner in itertools.product(*axes):
        index = tuple(i for i, _ in corner)
        if None not in index:
            total += x[(slice(None), *index)] * math.prod(w for _, w in corner)
    return total


CASES = [
    (rank, mode, padding, align)
    for rank in PICTURES
    for mode in MODES
    for padding in PADDINGS
    for align in (False, True)
    if not (rank == 3 and mode == "bicubic")
]


@pytest.mark.parametrize(("rank", "mode", "padding", "align"), CASES)
def test_against_the_definition(rank: int, mode: str, padding: str, align: bool) -> None:
    x, grid = PICTURES[rank], GRIDS[rank]
    want = np.zeros((2, x.shape[1], *grid.shape[1:-1]))
    for n, *place in itertools.product(range(2), *map(range, grid.shape[1:-1])):
        want[(n, slice(None), *place)] = read(x[n], grid[(n, *place)], mode, padding, align)

    def sampled(x: Any, grid: Any) -> Any:
        return F.grid_sample(x, grid, mode, padding, align)

    found = sampled(hy.asarray(x), hy.asarray(grid))
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-9, atol=1e-9)
    assert same(hy.hybridize(sampled)(hy.asarray(x), hy.asarray(grid)), found)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_of_pictures_and_places(mode: str) -> None:
    x, grid = PICTURES[2], GRIDS[2] * 0.5
    weight = DRAW("float64", 2, 3, 3, 3)

    def loss(x: Any, grid: Any) -> Any:
        return hy.sum(F.grid_sample(x, grid, mode, align_corners=False) * weight)

    both = hy.grad(loss, argnums=(0, 1))
    found = both(hy.asarray(x), hy.asarray(grid))
    for operand, grad in enumerate(found):
        step = DRAW("float64", *(x, grid)[operand].shape)
        ends = [[x, grid] for _ in range(2)]
        for end, sign in zip(ends, (1, -1), strict=True):
            end[operand] = end[operand] + sign * 1e-6 * step
        above, below = (float(loss(*map(hy.asarray, end)).item()) for end in ends)
        slope = float((grad.numpy() * step).sum())
        assert math.isclose(slope, (above - below) / 2e-6, rel_tol=1e-5)
    assert all(same(a, b) for a, b in zip(hy.hybridize(both)(x, grid), found, strict=True))


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("align", [False, True])
def test_the_identity_reads_the_picture(rank: int, align: bool) -> None:
    x = PICTURES[rank]
    theta = np.broadcast_to(np.eye(rank, rank + 1), (2, rank, rank + 1))
    grid = F.affine_grid(hy.asarray(np.ascontiguousarray(theta)), x.shape, align)
    assert grid.shape == (2, *x.shape[2:], rank)
    found = F.grid_sample(hy.asarray(x), grid, align_corners=align)
    np.testing.assert_allclose(found.numpy(), x, atol=1e-12)


def test_an_affine_grid_is_linear_in_theta() -> None:
    theta = DRAW("float64", 2, 2, 3)
    grid = F.affine_grid(hy.asarray(theta), (2, 1, 2, 3)).numpy()
    for y, x in itertools.product(range(2), range(3)):
        place = np.array([(2 * x - 2) / 3, (2 * y - 1) / 2, 1.0])
        np.testing.assert_allclose(grid[:, y, x], theta @ place, atol=1e-12)
    one = F.affine_grid(hy.asarray(theta), (2, 1, 1, 1), True).numpy()
    np.testing.assert_allclose(one[:, 0, 0], theta[:, :, 2], atol=1e-12)


WRONG = [
    (
        lambda: F.grid_sample(hy.ones((1, 1, 2, 2)), hy.ones((1, 2, 2, 3))),
        ShapeError,
        "grid_sample cannot take f32[1,1,2,2] and f32[1,2,2,3]\nIt takes [N, C, H, W] and "
        "[N, H', W', 2], or [N, C, D, H, W] and [N, D', H', W', 3], and no empty pictures.\n"
        "Fix: change a shape.",
    ),
    (
        lambda: F.grid_sample(hy.ones((1, 1, 2, 2, 2)), hy.ones((1, 2, 2, 2, 3)), "bicubic"),
        ArgumentError,
        'grid_sample got mode "bicubic" for f32[1,1,2,2,2]\nThat mode is for pictures.\n'
        'Fix: give "bilinear".',
    ),
    (
        lambda: F.grid_sample(hy.ones((1, 1, 2, 2)), hy.ones((1, 2, 2, 2)), padding_mode="wrap"),
        ArgumentError,
        'padding_mode=\'wrap\' is unknown\nFix: use "zeros" or "border" or "reflection".',
    ),
    (
        lambda: F.grid_sample(hy.ones((1, 1, 2, 2)), hy.asarray(np.zeros((1, 2, 2, 2), int))),
        DTypeError,
        "grid_sample cannot take f32[1,1,2,2] and i64[1,2,2,2]\nIts operand grid must have a "
        "floating dtype; it has int64.\nFix: convert it with astype, to float32 for example.",
    ),
    (
        lambda: F.affine_grid(hy.ones((1, 2, 3)), (2, 1, 2, 2)),
        ShapeError,
        "affine_grid cannot take f32[1,2,3] and size [2, 1, 2, 2]\nIt takes [N, 2, 3] and "
        "(N, C, H, W), or [N, 3, 4] and (N, C, D, H, W).\nFix: change the shape or the size.",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
