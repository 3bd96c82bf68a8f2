"""Layer: what the layers of this package share: attributes that repr shows, sizes, parameters."""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentError
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter


class Layer(Module):
    """A module whose ``repr`` shows the attributes that ``_shown`` names."""

    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        return ", ".join([f"{name}={getattr(self, name)!r}" for name in self._shown])


def require_sizes(least: int = 0, **sizes: Any) -> None:
    """Raise unless every size is an int of at least ``least``."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ArgumentError(f"{name} is {size!r}", fix=f"give an int >= {least}")


def new_parameter(*shape: int, dtype: Any = None, device: Any = None) -> Parameter:
    """A parameter of zeros, for an initialiser to write to; ``dtype`` is float32 unless given."""
    return Parameter(ops.zeros(shape, dtype=dtype, device=device))
