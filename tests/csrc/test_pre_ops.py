"""Reductions that make what they reduce: the very bits of those that find it stored."""

from __future__ import annotations

import numpy as np
import pytest
from hybrid._native import lib

from tests.csrc.specs import TILES, Spec, find, run
from tests.csrc.test_map import LAYOUTS

# [A, R, B]: around groups of rows, leaves, chunks, blocks of columns, and what is made at once.
SIZES = [
    (1, 1, 1), (1, 7, 1), (1, 63, 1), (1, 64, 1), (1, 65, 1), (1, 511, 1), (1, 4095, 1),
    (1, 4096, 1),
    (1, 4097, 1), (1, 8192 + 63, 1), (1, 30_011, 1), (40, 3, 1), (40, 100, 1), (9, 5000, 1),
    (2, 20_000, 1), (1, 9, 2), (3, 1000, 3), (1, 5000, 33), (2, 200, 64), (1, 300, 65),
    (1, 129, 1000),
    (1, 257, 1024), (1, 300, 1025), (2, 9, 2500), (0, 3, 2), (2, 0, 3),
]  # fmt: skip
KERNELS = ["sum", "prod", "max", "min", "mean"]


def reduced(kernel: str, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """By a kernel that finds ``x`` stored."""
    out = np.empty((shape[0], shape[2]), x.dtype)
    spec = Spec()
    slots = spec.external(out.nbytes), spec.external(x.nbytes)
    spec.step([(slots[1], x.reshape(shape))], [(slots[0], out)], find(kernel, x.dtype.name))
    run(spec.create(), out, x)
    return out


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("layout", ["dense", "row", "transposed"])
@pytest.mark.parametrize("threads", [1, 3])
def test_bits(kernel: str, shape: tuple[int, ...], layout: str, threads: int) -> None:
    """``x * x`` reduced, and ``-x`` stored on the way."""
    if 0 in shape and kernel in ("max", "min"):
        return  # undefined, and refused
    seen = (shape[0] * shape[1], shape[2])
    x = LAYOUTS[layout](seen)
    base = x if x.base is None else x.base
    if kernel == "prod":
        base[...] = np.exp(base / 100)
    out, stored = np.empty((shape[0], shape[2]), x.dtype), np.empty(seen, x.dtype)
    multiply, negative = find("multiply", x.dtype.name), find("negative", x.dtype.name)
    spec = Spec()
    slots = [spec.external(array.nbytes) for array in (out, stored, base)]
    ops = [(negative, [3], [TILES[0]]), (multiply, [TILES[0], TILES[0]], [0]), (negative, [3], [2])]
    made = (-1, np.empty(shape, x.dtype))
    results = [(slots[0], out), (slots[1], stored)]
    spec.step([made], results, find(kernel, x.dtype.name), ops, [(slots[2], x)])
    before = lib.hyb_num_threads()
    try:
        lib.hyb_set_num_threads(threads)
        run(spec.create(), out, stored, base)
    finally:
        lib.hyb_set_num_threads(before)
    dense = np.ascontiguousarray(x)
    assert out.tobytes() == reduced(kernel, dense * dense, shape).tobytes()
    assert stored.tobytes() == (-dense).tobytes()
