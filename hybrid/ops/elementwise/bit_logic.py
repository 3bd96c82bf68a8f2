"""Logic on bools and on the bits of integers, element by element."""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType, bool_
from hybrid.ir import op
from hybrid.ops.support.operand_checks import (
    broadcast_type,
    require_bool,
    require_integer,
    require_integral,
)


@op(kernel="logical_not", elementwise=True, differentiable=False)
def logical_not(x: TensorType) -> TensorType:
    """Whether ``x`` is zero."""
    return x.with_dtype(bool_)


@logical_not.reference
def logical_not_reference(x):
    return np.logical_not(x)


@op(kernel="logical_and", elementwise=True, commutative=True, differentiable=False)
def logical_and(a: TensorType, b: TensorType) -> TensorType:
    """Whether both hold."""
    require_bool("logical_and", a=a, b=b)
    return broadcast_type("logical_and", a, b)


@logical_and.reference
def logical_and_reference(a, b):
    return np.logical_and(a, b)


@op(kernel="logical_or", elementwise=True, commutative=True, differentiable=False)
def logical_or(a: TensorType, b: TensorType) -> TensorType:
    """Whether at least one holds."""
    require_bool("logical_or", a=a, b=b)
    return broadcast_type("logical_or", a, b)


@logical_or.reference
def logical_or_reference(a, b):
    return np.logical_or(a, b)


@op(kernel="logical_xor", elementwise=True, commutative=True, differentiable=False)
def logical_xor(a: TensorType, b: TensorType) -> TensorType:
    """Whether exactly one holds."""
    require_bool("logical_xor", a=a, b=b)
    return broadcast_type("logical_xor", a, b)


@logical_xor.reference
def logical_xor_reference(a, b):
    return np.logical_xor(a, b)


@op(kernel="bitwise_invert", elementwise=True, differentiable=False)
def bitwise_invert(x: TensorType) -> TensorType:
    """Every bit flipped; for bools, not."""
    require_integral("bitwise_invert", x=x)
    return x


@bitwise_invert.reference
def bitwise_invert_reference(x):
    return np.invert(x)


@op(
    kernel="bitwise_and",
    elementwise=True,
    commutative=True,
    promotes=True,
    differentiable=False,
)
def bitwise_and(a: TensorType, b: TensorType) -> TensorType:
    """The bits set in both; for bools, and."""
    require_integral("bitwise_and", a=a, b=b)
    return broadcast_type("bitwise_and", a, b)


@bitwise_and.reference
def bitwise_and_reference(a, b):
    return np.bitwise_and(a, b)


@op(
    kernel="bitwise_or",
    elementwise=True,
    commutative=True,
    promotes=True,
    differentiable=False,
)
def bitwise_or(a: TensorType, b: TensorType) -> TensorType:
    """The bits set in either; for bools, or."""
    require_integral("bitwise_or", a=a, b=b)
    return broadcast_type("bitwise_or", a, b)


@bitwise_or.reference
def bitwise_or_reference(a, b):
    return np.bitwise_or(a, b)


@op(
    kernel="bitwise_xor",
    elementwise=True,
    commutative=True,
    promotes=True,
    differentiable=False,
)
def bitwise_xor(a: TensorType, b: TensorType) -> TensorType:
    """The bits set in exactly one; for bools, exclusive or."""
    require_integral("bitwise_xor", a=a, b=b)
    return broadcast_type("bitwise_xor", a, b)


@bitwise_xor.reference
def bitwise_xor_reference(a, b):
    return np.bitwise_xor(a, b)


@op(kernel="bitwise_left_shift", elementwise=True, promotes=True, differentiable=False)
def bitwise_left_shift(a: TensorType, b: TensorType) -> TensorType:
    """The bits of ``a`` moved up by ``b``, which lies in [0, number of bits)."""
    require_integer("bitwise_left_shift", a=a, b=b)
    return broadcast_type("bitwise_left_shift", a, b)


@bitwise_left_shift.reference
def bitwise_left_shift_reference(a, b):
    return np.left_shift(a, b)


@bitwise_left_shift.samples
def bitwise_left_shift_samples(draw):
    yield from draw.binary(dtypes=draw.integers, b_low=0, b_high=7)


@op(kernel="bitwise_right_shift", elementwise=True, promotes=True, differentiable=False)
def bitwise_right_shift(a: TensorType, b: TensorType) -> TensorType:
    """The bits of ``a`` moved down by ``b``, in [0, number of bits); the sign is kept."""
    require_integer("bitwise_right_shift", a=a, b=b)
    return broadcast_type("bitwise_right_shift", a, b)


@bitwise_right_shift.reference
def bitwise_right_shift_reference(a, b):
    return np.right_shift(a, b)


@bitwise_right_shift.samples
def bitwise_right_shift_samples(draw):
    yield from draw.binary(dtypes=draw.integers, b_low=0, b_high=7)
