"""bfloat16 in NumPy, which has no such dtype: its elements are the upper halves of float32's."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import DType
from hybrid.errors import DTypeError


def to_bfloat16(values: Any) -> np.ndarray:
    """The bits (uint16) of the nearest bfloat16 numbers, ties to even; NaN stays NaN."""
    with np.errstate(over="ignore"):
        wide = np.asarray(values, np.float32)
    bits = wide.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(wide), bits >> 16 | 0x40, rounded).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """The float32 numbers of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


# The memory of bfloat16 numbers as NumPy sees it: copies, views and reshaped arrays keep the mark.
BFLOAT16_BITS = np.dtype("uint16", metadata={"hybrid": "bfloat16"})


def memory_dtype(dtype: DType) -> np.dtype:
    """NumPy's dtype for the memory of elements, which may be the bits of bfloat16 numbers."""
    return BFLOAT16_BITS if dtype.numpy is None else dtype.numpy


def holds_bfloat16(array: np.ndarray) -> bool:
    """Whether the elements of ``array`` are the bits of bfloat16 numbers."""
    metadata = array.dtype.metadata
    return metadata is not None and metadata.get("hybrid") == "bfloat16"


def array_dtype(dtype: DType, asked: str) -> np.dtype:
    """NumPy's dtype for ``dtype``; raises DTypeError, about ``asked``, if there is none."""
    if dtype.numpy is None:
        raise DTypeError(
            f"{asked} of a {dtype.name} tensor",
            why="NumPy has no such dtype.",
            fix="convert it first: x.astype(hybrid.float32)",
        )
    return dtype.numpy
