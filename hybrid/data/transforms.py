"""Transforms of rows: what becomes of the rows of a tensor on their way into a batch.

::

    TensorDataset(images, labels, transforms=(Normalize(0.13, 0.31, scale=255), None))
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.calls.hybridized import Hybridized
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType, dtype_of
from hybrid.eager.execution import EAGER
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.fused_calls import optimized_plan
from hybrid.eager.launch import call_plan
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from hybrid.ir.interpreter import current
from hybrid.memory import native
from hybrid.plan import Plan

RowFunction = Callable[[Tensor], Tensor]
PLANS = 256  # that are kept, one for each transform and type of rows


class Transform:
    """Makes rows of rows, ``[n, ...]`` -> ``[n, ...]``, each of one row alone.

    Subclasses are frozen dataclasses of plain values whose ``__call__`` consists of ops on the rows
    and draws nothing.  It runs as a plan: for captured loops in C, in the thread that makes batches
    ahead of time.
    """

    def __call__(self, rows: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__()")


@dataclass(frozen=True)
class Cast(Transform):
    """The same values as ``dtype``."""

    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtype_of(self.dtype))

    def __call__(self, rows: Tensor) -> Tensor:
        return rows.astype(self.dtype)


@dataclass(frozen=True)
class Normalize(Transform):
    """``(rows / scale - mean) / std``, computed in ``dtype``, a floating one.

    ``mean`` and ``std`` are numbers, or have one for each index along ``axis`` of a sample: 0 is
    that of the channels of an image ``[channels, height, width]`` and of the columns of a table.
    ``scale=255`` brings bytes to [0, 1] first; None leaves rows as they are.
    """

    mean: Any
    std: Any
    scale: float | None = None
    axis: int = 0
    dtype: Any = "float32"

    def __post_init__(self) -> None:
        dtype = dtype_of(self.dtype)
        if not dtype.is_floating:
            raise DTypeError(f"Normalize to {dtype.name}", fix="give a floating dtype")
        if type(self.axis) is not int or self.axis < 0:
            raise ArgumentError(f"axis is {self.axis!r}", fix="give an axis of a sample, 0 or more")
        mean, std = _numbers("mean", self.mean), _numbers("std", self.std)
        scale = None if self.scale is None else _numbers("scale", self.scale)
        if isinstance(scale, tuple) or scale == 0:
            raise ArgumentError(f"scale is {self.scale!r}", fix="give one number, such as 255")
        if isinstance(mean, tuple) and isinstance(std, tuple) and len(mean) != len(std):
            raise ShapeError(
                f"{len(mean)} means and {len(std)} stds",
                fix="give one of each for each channel, or single numbers",
            )
        if 0 in (std if isinstance(std, tuple) else (std,)):
            raise ArgumentError(
                f"a std of {self.std!r}",
                why="Rows are divided by it.",
                fix="give 1 for channels that are constant",
            )
        for name, value in {"mean": mean, "std": std, "scale": scale, "dtype": dtype}.items():
            object.__setattr__(self, name, value)

    def __call__(self, rows: Tensor) -> Tensor:
        made = rows.astype(self.dtype)
        if self.scale is not None:
            made = made / self.scale
        return (made - self._along(self.mean, made)) / self._along(self.std, made)

    def _along(self, values: Any, rows: Tensor) -> Any:
        if not isinstance(values, tuple):
            return values
        axis = self.axis + 1
        if rows.ndim <= axis or rows.shape[axis] != len(values):
            raise ShapeError(
                f"Normalize has {len(values)} numbers along axis {self.axis} of samples of shape "
                f"{rows.shape[1:]}",
                fix="give one for each index along that axis, or name another one",
            )
        shape = [1] * rows.ndim
        shape[axis] = len(values)
        return asarray(np.array(values).reshape(shape)).astype(self.dtype)


def _numbers(name: str, given: Any) -> float | tuple[float, ...]:
    """A number, or one for each channel, as plain floats."""
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        found = np.asarray(np.nan)
    if found.ndim > 1 or not np.isfinite(found).all() or isinstance(given, (str, bool)):
        raise ArgumentError(f"{name} is {given!r}", fix="give a number, or one for each channel")
    return found.item() if found.ndim == 0 else tuple(found.tolist())


def transforms_of(
    tensors: Sequence[Tensor], given: Sequence[RowFunction | None] | None
) -> tuple[RowFunction | None, ...]:
    """One for each of ``tensors``; raises what is wrong with those given."""
    found = (None,) * len(tensors) if given is None else tuple(given)
    if len(found) != len(tensors):
        raise ArgumentError(
            f"{len(found)} transforms for {len(tensors)} tensors",
            fix="give one for each, or None in its place",
        )
    for transform in found:
        if transform is not None and not callable(transform):
            raise ArgumentTypeError(
                f"a {type(transform).__name__} is no transform",
                fix="give Cast, Normalize, another Transform, or a function of rows",
            )
    return found


def transformed(transform: RowFunction | None, rows: Tensor) -> Tensor:
    """What ``transform`` makes of ``rows``."""
    if transform is None:
        return rows
    if isinstance(transform, Transform) and current() is EAGER:
        return call_plan(plan_of(transform, rows.type), [rows])[0]
    made = transform(rows)
    return _checked(transform, made, len(rows))


@functools.lru_cache(PLANS)
def plan_of(transform: Transform, kind: TensorType) -> Plan:
    """The plan of ``transform`` for rows of type ``kind``: one input, one output."""
    example = make_tensor(kind, native.allocate(kind.nbytes))
    name = type(transform).__name__
    called = Hybridized(lambda rows: _checked(transform, transform(rows), kind.shape[0]), name=name)
    graph = called.graph(example)
    if len(graph.params) != 1 or not all(node.pure for node in graph.walk()):
        raise ArgumentError(
            f"{name} depends on more than the rows",
            why="A Transform is a plan that makes one tensor of one tensor.",
            fix="hold what it needs as plain numbers, or pass a function in place of a Transform",
        )
    return optimized_plan(graph)


def _checked(transform: RowFunction, made: Any, rows: int) -> Tensor:
    if not isinstance(made, Tensor) or made.shape[:1] != (rows,):
        found = str(made.type) if isinstance(made, Tensor) else f"a {type(made).__name__}"
        name = getattr(transform, "__name__", type(transform).__name__)
        raise ShapeError(
            f"{name} made {found} of {rows} rows",
            why="It is given several samples at once, along the first axis.",
            fix="return a tensor with one row for each",
        )
    return made
