"""Parameter: a tensor that a module learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from hybrid import ops
from hybrid.core.types import DType, float32, float64
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.ir.record import Leaf, gradient_leaf
from hybrid.trace.values.optional import OptionalValue


class Parameter(Tensor):
    """A tensor that gradients are asked for; a module that it is assigned to lists it.

    ``values`` is a tensor, an array or nested lists; they are copied, so that nobody else's writes
    reach the parameter.
    """

    __slots__ = ()

    def __init__(self, values: Any, requires_grad: bool = True) -> None:
        source = asarray(values, copy=True)
        self.type, self.content, self.record = source.type, source.content, None
        if requires_grad:
            self.requires_grad = True

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


SLICED: WeakKeyDictionary[Leaf, Any] = WeakKeyDictionary()  # leaves whose gradients are slices


def whole_gradients(parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of ``parameters``, whole also where ranks have slices of them."""
    found = []
    for p in parameters:
        slices = SLICED.get(gradient_leaf(p))
        grad = present(p.grad)
        found.append(grad if slices is None else slices.whole_gradient(p, grad))
    return tuple(found)


def present(grad: Any) -> Tensor:
    """A gradient as a tensor.

    One that a captured function has on some paths only counts for nothing on the others.
    """
    return grad.or_nothing() if isinstance(grad, OptionalValue) else grad


def put_gradient(p: Tensor, new: Tensor) -> None:
    """Let ``new`` be the gradient of ``p`` where it has one."""
    grad: Any = p.grad
    if isinstance(grad, OptionalValue):
        current().write_tensor_attribute(gradient_leaf(p), "grad", grad.of(new, grad.flag))
    elif SLICED and gradient_leaf(p) in SLICED:
        current().write_tensor_attribute(gradient_leaf(p), "grad", new)
    else:
        p.grad = new


def working_dtype(dtype: DType) -> DType:
    """What a step of a parameter of ``dtype`` is computed in: float32 for those of 16 bits."""
    return float64 if dtype is float64 else float32


def in_dtype(tensor: Tensor, dtype: DType) -> Tensor:
    """``tensor`` in ``dtype``: itself when it has it."""
    return tensor if tensor.dtype is dtype else ops.astype(tensor, dtype)
