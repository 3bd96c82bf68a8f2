"""What the namespace tells of itself: its version, devices and dtypes, and the limits of these.

The names and meanings are those of the Python array API standard, ``__array_namespace_info__``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.types import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    DEVICE,
    MAX_RANK,
    SUPPORTED,
    DType,
    bfloat16,
    dtype_of,
    require_device,
)
from hybrid.errors import ArgumentError, DTypeError
from hybrid.ops.support.dtypes import KINDS, isdtype

ARRAY_API_VERSION = "2024.12"

# The functions of that version, but for those of complex numbers and Fourier transforms.
FUNCTIONS = frozenset(
    """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2
    atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    broadcast_arrays broadcast_to can_cast ceil clip concat copysign cos cosh count_nonzero
    cumulative_prod cumulative_sum diff divide empty empty_like equal exp expand_dims expm1 eye
    finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo
    isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and
    logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum
    moveaxis multiply negative nextafter nonzero not_equal ones ones_like permute_dims positive pow
    prod reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin
    sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot
    tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot
    where zeros zeros_like
    """.split()  # noqa: SIM905
)
LINALG = frozenset(
    """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class IntegerLimits:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


@dataclass(frozen=True)
class FloatLimits:
    """The limits of a floating dtype; ``eps`` is the gap between 1 and the next number."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


def _dtype_of(given: Any) -> DType:
    is_array = hasattr(given, "dtype") and not isinstance(given, type)
    return dtype_of(given.dtype if is_array else given)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype, given as such or by a tensor of it."""
    dtype = _dtype_of(type)
    if not dtype.is_integer:
        raise DTypeError(f"iinfo of {dtype!r}", why="It is no integer dtype.", fix="use finfo")
    limits = np.iinfo(dtype.numpy)
    return IntegerLimits(limits.bits, int(limits.max), int(limits.min), dtype)


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating dtype, given as such or by a tensor of it."""
    dtype = _dtype_of(type)
    if not dtype.is_floating:
        raise DTypeError(f"finfo of {dtype!r}", why="It is no floating dtype.", fix="use iinfo")
    if dtype is bfloat16:
        return BFLOAT16
    limits = np.finfo(dtype.numpy)
    return FloatLimits(
        bits=limits.bits,
        eps=float(limits.eps),
        max=float(limits.max),
        min=float(limits.min),
        smallest_normal=float(limits.smallest_normal),
        dtype=dtype,
    )


_GREATEST = (2 - 2**-7) * 2.0**127
BFLOAT16 = FloatLimits(
    bits=16,
    eps=2.0**-7,
    max=_GREATEST,
    min=-_GREATEST,
    smallest_normal=2.0**-126,
    dtype=bfloat16,
)


class NamespaceInfo:
    """What ``__array_namespace_info__`` gives."""

    def capabilities(self) -> dict[str, Any]:
        """What the standard leaves to each library; ``max dimensions`` bounds the rank."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAX_RANK}

    def default_device(self) -> str:
        return DEVICE

    def devices(self) -> list[str]:
        return [DEVICE]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of what is made of Python numbers, and of indices."""
        require_device(device)
        return {
            "real floating": DEFAULT_FLOAT,
            "integral": DEFAULT_INT,
            "indexing": DEFAULT_INT,
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes by their names; ``kind`` is one of those of ``isdtype``, or several."""
        require_device(device)
        return {d.name: d for d in SUPPORTED if kind is None or _is_of(d, kind)}


def _is_of(dtype: DType, kind: str | tuple[str, ...]) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    for each in kinds:
        if each not in KINDS:
            raise ArgumentError(f"no kind of dtypes {each!r}", fix=f"use one of {', '.join(KINDS)}")
    return isdtype(dtype, kinds)


def array_namespace_info() -> NamespaceInfo:
    """What the namespace tells of itself, as the standard's inspection functions."""
    return NamespaceInfo()
