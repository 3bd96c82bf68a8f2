"""bfloat16 beside NumPy, which has no such dtype: its bits as float32's upper halves, and DLPack.

The elements are the upper halves of float32's.  NumPy speaks DLPack for all other dtypes; a capsule
of NumPy's over the bits of bfloat16 numbers is made to say what they are, and one of another
library that says so is read as bits.  The dtype is the third field of a ``DLTensor``::

    data, (device type, device id), ndim, (code: u8, bits: u8, lanes: u16), shape, strides, offset

which a capsule "dltensor" begins with, and "dltensor_versioned" has after its version, context,
deleter and flags (dlpack.h of DLPack 1.0).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
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


_UINT, _BFLOAT = 1, 4  # codes of kinds of dtypes
_BITS = 16


class _Tensor(ctypes.Structure):
    """The first fields of a ``DLTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


def exported(array: np.ndarray, **options: Any) -> Any:
    """A DLPack capsule over the memory of ``array``, which may hold bits of bfloat16 numbers.

    The options are those of ``__dlpack__``.  Raises BufferError where these ask for more than can
    be told of read-only memory.
    """
    if not holds_bfloat16(array):
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _tensor_of(capsule).code = _BFLOAT
    return capsule


def imported(x: Any, **options: Any) -> np.ndarray:
    """An array over the memory of ``x``, an object with ``__dlpack__``, or a copy of it.

    The options are those of ``numpy.from_dlpack``, and so are the errors.
    """
    bits = _Bits(x)
    array = np.from_dlpack(bits, **options)
    return array.view(BFLOAT16_BITS) if bits.are_bfloat16 else array


class _Bits:
    """``x``, whose bfloat16 numbers are exported as their bits."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.are_bfloat16 = False
        self.__dlpack_device__: Callable[[], tuple[int, int]] = x.__dlpack_device__

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.x.__dlpack__(**options)
        tensor = _tensor_of(capsule)
        if (tensor.code, tensor.bits, tensor.lanes) == (_BFLOAT, _BITS, 1):
            tensor.code = _UINT
            self.are_bfloat16 = True
        return capsule


def _tensor_of(capsule: Any) -> _Tensor:
    """What a capsule that nobody has consumed describes."""
    api = ctypes.pythonapi
    pointer = api.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    is_valid = api.PyCapsule_IsValid
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    if is_valid(capsule, b"dltensor_versioned"):
        return _Versioned.from_address(pointer(capsule, b"dltensor_versioned")).tensor
    return _Tensor.from_address(pointer(capsule, b"dltensor"))
