"""Floats by their parts: the sign bit, and the next number there is."""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType, bool_
from hybrid.ir import op
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.support.checks import broadcast_type, require_floating
from hybrid.ops.support.derivatives import diagonal, unbroadcast


@op(kernel="signbit", elementwise=True, differentiable=False, promotes="floating")
def signbit(x: TensorType) -> TensorType:
    """Whether the sign bit is set: of -0 and of some NaN, too."""
    require_floating("signbit", x=x)
    return x.with_dtype(bool_)


@signbit.reference
def signbit_reference(x):
    return np.signbit(x)


@op(kernel="copysign", elementwise=True, promotes="floating")
def copysign(a: TensorType, b: TensorType) -> TensorType:
    """The magnitude of ``a`` with the sign bit of ``b``."""
    require_floating("copysign", a=a, b=b)
    return broadcast_type("copysign", a, b)


@copysign.reference
def copysign_reference(a, b):
    return np.copysign(a, b)


@copysign.samples
def copysign_samples(draw):
    yield from draw.binary(floating=True, a_low=0.3, b_low=0.3)
    yield from draw.binary(floating=True, a_high=-0.3, b_low=0.3)
    yield from draw.binary(floating=True, a_low=0.3, b_high=-0.3)


@diagonal(copysign)
def copysign_vjp(ct, _y, a, b):
    return (lambda: unbroadcast(where(signbit(a) == signbit(b), ct, -ct), a)), None


@op(kernel="nextafter", elementwise=True, differentiable=False, promotes="floating")
def nextafter(a: TensorType, b: TensorType) -> TensorType:
    """The number next to ``a`` on the way to ``b``; ``b`` where they are equal."""
    require_floating("nextafter", a=a, b=b)
    return broadcast_type("nextafter", a, b)


@nextafter.reference
def nextafter_reference(a, b):
    return np.nextafter(a, b)
