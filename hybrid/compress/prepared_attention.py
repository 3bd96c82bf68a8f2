"""Attention that trains with the rounding of its products with weights in view.

``out_proj`` is a prepared layer by itself.  The projections of queries, keys and values go by int8
rows with scales of their own, as those of the quantized layer do, so no range of them is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np

from hybrid import nn, ops
from hybrid.compress.functional import fake_quantize, quantize
from hybrid.compress.quantized_sequences import QuantizedMultiheadAttention
from hybrid.compress.scheme import LEAST, Scheme, first_steps, greatest_steps
from hybrid.core.types import float32
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.nn.functions.multihead import project_heads
from hybrid.nn.modules.module import Module
from hybrid.nn.modules.parameter import Parameter

_WEIGHTS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_ROW = 127  # the largest activation


class PreparedMultiheadAttention(nn.MultiheadAttention):
    """MultiheadAttention that trains with its rounding in view.

    ``in_proj_weight_step`` [3 E], or one for each of the three weights, are the scales: parameters
    if they are learnt, else they follow the greatest weights.
    """

    scheme: Scheme

    def __init__(self, layer: nn.MultiheadAttention, scheme: Scheme, learned: bool) -> None:
        for name, value in vars(layer).items():
            if name not in ("_hooks", "_hybridized"):
                object.__setattr__(self, name, value)
        self.scheme, self.learned = scheme, learned
        for name in self._names() if learned else ():
            setattr(
                self, f"{name}_step", Parameter(asarray(first_steps(getattr(self, name), scheme)))
            )

    def _names(self) -> list[str]:
        return [name for name in _WEIGHTS if getattr(self, name) is not None]

    def _steps(self, name: str) -> Tensor:
        if self.learned:
            return ops.maximum(getattr(self, f"{name}_step"), LEAST)
        return greatest_steps(getattr(self, name), self.scheme)

    def _rounded(self, name: str) -> Tensor | None:
        """A weight as what its integers stand for, with gradients to train by."""
        weight, high = getattr(self, name), self.scheme.high
        if weight is None:
            return None
        return fake_quantize(
            weight, self._steps(name), axis=0, low=-high, high=high, learned=self.learned
        )

    def weight_at(self, name: str) -> tuple[Tensor, Tensor] | None:
        """Bytes and scale of a matrix; None if the layer has none of that name."""
        weight, high = getattr(self, name), self.scheme.high
        if weight is None:
            return None
        scale = self._steps(name)
        return quantize(weight, scale, axis=0, low=-high, high=high), scale

    def weights_at(self, *names: str) -> Iterator[tuple[Tensor, Tensor] | None]:
        """Matrices, each with its scales."""
        return map(self.weight_at, names)

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads."""
        if not self.training:
            return QuantizedMultiheadAttention.projected(self, query, key, value)  # type: ignore[arg-type]
        rows: dict[int, Tensor] = {}
        for x in (query, key, value):
            if id(x) not in rows:
                rows[id(x)] = _rounded_rows(x)
        whole, *weights = map(self._rounded, _WEIGHTS)
        separate = tuple(weights) if whole is None else None
        inputs = [rows[id(x)] for x in (query, key, value)]
        return project_heads(*inputs, whole, separate, self.in_proj_bias)

    def merged(self, found: Tensor) -> Tensor:
        """What all heads have found, projected."""
        return self.out_proj(found)

    def plain(self) -> Module:
        """The layer of floats, with the parameters of this one."""
        made = copy.copy(self)
        object.__setattr__(made, "__class__", nn.MultiheadAttention)
        for name in ("scheme", "learned", *[f"{name}_step" for name in _WEIGHTS]):
            if name in vars(made):
                delattr(made, name)
        return made

    def converted(self) -> QuantizedMultiheadAttention:
        """The layer of integers."""
        made = QuantizedMultiheadAttention(self.plain(), self.scheme, blank=True)
        for name in self._names():
            q, scale = self.weight_at(name)
            getattr(made, f"{name}_q").assign(q.detach())
            getattr(made, f"{name}_scale").assign(scale.detach())
        return made


def _rounded_rows(x: Tensor) -> Tensor:
    """``x`` as what int8 rows with scales of their own stand for; gradients go through."""
    x = x if x.dtype is float32 else ops.astype(x, float32)
    flat = ops.reshape(x, (-1, x.shape[-1]))
    most = ops.max(ops.abs(flat.detach()), axis=1)
    scale = ops.divide(most, np.float32(_ROW))
    scale = ops.where(ops.greater(most, 0.0), scale, np.float32(1))
    return ops.reshape(fake_quantize(flat, scale, axis=0, low=-_ROW, high=_ROW), x.shape)
