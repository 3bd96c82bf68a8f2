"""What convolutions of bytes give: sums of NumPy's integers, tap by tap."""

from __future__ import annotations

from typing import Any

import numpy as np


def summed(x: Any, w: Any, zero: int, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The convolution of ``x - zero`` tap by tap, in int64."""
    rank, filters = x.ndim - 2, w.shape[0] // groups
    widths = [(0, 0), (0, 0), *[(p, p) for p in padding]]
    wide = np.pad(x.astype(np.int64) - zero, widths)
    axes = range(rank)
    reach = [(w.shape[2 + a] - 1) * dilation[a] for a in axes]
    size = [(wide.shape[2 + a] - reach[a] - 1) // stride[a] + 1 for a in axes]
    y = np.zeros((x.shape[0], w.shape[0], *size), np.int64)
    for tap in np.ndindex(*w.shape[2:]):
        at = [tap[a] * dilation[a] for a in axes]
        met = wide[(..., *[slice(i, i + (n - 1) * s + 1, s)
                           for i, n, s in zip(at, size, stride, strict=True)])]  # fmt: skip
        for g in range(groups):
            own = slice(g * filters, (g + 1) * filters)
            of_group = met[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            y[:, own] += np.einsum("nc...,oc->no...", of_group, w[(own, slice(None), *tap)] * 1)
    return y.astype(np.int32)
