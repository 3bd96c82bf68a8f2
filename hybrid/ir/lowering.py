"""View and Emit: how an op says which kernels compute it, without knowing memory or C.

A View is bytes of some buffer seen as a strided array.  An op's lowering rule gets the Views of its
operands and results and emits kernel steps over them; rearranging views costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from hybrid.core.dataclass import dataclass, replace
from hybrid.core.types import DType, Shape, TensorType, tensor_type


class NotDense(Exception):
    """A strided view was to be reshaped; the planner copies it and asks again."""


@dataclass(frozen=True, slots=True)
class View:
    """``buffer`` (whatever the planner uses to name memory) seen as a strided array; steps in
    elements.
    """

    buffer: Any
    dtype: DType
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def type(self) -> TensorType:
        return tensor_type(self.dtype, self.shape)

    @property
    def dense(self) -> bool:
        """Row-major without gaps; axes of size 1 may have any stride."""
        plain = row_major(self.shape)
        if self.strides == plain or self.size == 0:
            return True
        pairs = zip(self.shape, self.strides, plain, strict=True)
        return all(n == 1 or s == d for n, s, d in pairs)

    def permute(self, axes: Sequence[int]) -> View:
        return replace(
            self,
            shape=tuple(self.shape[a] for a in axes),
            strides=tuple(self.strides[a] for a in axes),
        )

    def swap(self, a: int, b: int) -> View:
        """Exchange two axes; negative ones count from the last."""
        axes = list(range(self.rank))
        axes[a], axes[b] = axes[b], axes[a]
        return self.permute(axes)

    def broadcast(self, shape: Shape) -> View:
        """Repeat along new leading axes and along axes of size 1 (stride 0)."""
        lead = len(shape) - self.rank
        strides = [0] * lead
        for have, want, stride in zip(self.shape, shape[lead:], self.strides, strict=True):
            strides.append(0 if have == 1 and want != 1 else stride)
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def slice(self, axis: int, start: int, size: int, step: int = 1) -> View:
        """``size`` elements along ``axis``, the first at ``start``, ``step`` apart."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + (start * strides[axis] if size else 0)
        shape[axis], strides[axis] = size, strides[axis] * step
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset)

    def reshape(self, shape: Shape) -> View:
        """Another shape for a dense view."""
        if not self.dense:
            raise NotDense
        return replace(self, shape=tuple(shape), strides=row_major(shape))

    def expand(self, axis: int) -> View:
        """A new axis of size 1 at ``axis``."""
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(axis, 1)
        strides.insert(axis, 0)
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def squeeze(self, axes: Sequence[int]) -> View:
        """Without ``axes``, all of size 1."""
        keep = [a for a in range(self.rank) if a not in axes]
        return self.permute(keep)


class Emit(Protocol):
    """What a lowering rule may ask of the planner."""

    def kernel(
        self,
        name: str,
        inputs: Sequence[View],
        outputs: Sequence[View],
        attrs: Sequence[int | float] = (),
    ) -> None:
        """Run kernel ``name`` (elementwise kernels take any strides and broadcast views)."""

    def offers(self, name: str, dtype: DType) -> bool:
        """Whether the instruction set has kernel ``name`` for ``dtype``."""

    def temporary(self, dtype: DType, shape: Shape) -> View:
        """A dense buffer that lives for this op alone."""

    def dense(self, view: View) -> View:
        """``view`` itself when dense, else a dense copy."""

    def transfer(
        self,
        kind: str,
        inputs: Sequence[View],
        outputs: Sequence[View],
        *,
        comm: str,
        ranks: int,
        root: int = 0,
        after: Sequence[View] = (),
    ) -> None:
        """Move dense views between processes, as the method ``kind`` of a channel does.

        It begins when ``after`` are there, too, which are not moved.
        """

    def constant(self, dtype: DType, value: float) -> View:
        """A constant element, rank 0."""


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a dense array of ``shape``."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def reduced_order(shape: Shape, axes: tuple[int, ...]) -> tuple[list[int], Shape]:
    """How a reduction over ``axes`` goes over ``shape``: as [A, R, B], with R the reduced axes.

    These are the axes that are not of size 1, in that order, and the three sizes.  They depend on
    shapes alone, so the order of summation does too.
    """
    long = [i for i, n in enumerate(shape) if n != 1]
    reduced = [i for i in long if i in axes]
    kept = [i for i in long if i not in axes]
    before = [i for i in kept if not reduced or i < reduced[0]]
    after = kept[len(before) :]
    if after and after[0] < (reduced or [-1])[-1]:  # a kept axis between reduced ones
        before, after = kept, []
    sizes = tuple([math.prod(shape[i] for i in group) for group in (before, reduced, after)])
    return [*before, *reduced, *after], sizes
