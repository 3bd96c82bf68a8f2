"""Parameter: a tensor that a module learns."""

from __future__ import annotations

from typing import Any

from hybrid.conversion import asarray
from hybrid.tensor import Tensor


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
