"""DLPack with bfloat16, the one dtype for which NumPy does not speak it.

A capsule of NumPy's over the bits of bfloat16 numbers is made to say what they are; one of another
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

from hybrid.memory.bfloat16 import BFLOAT16_BITS, holds_bfloat16

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
