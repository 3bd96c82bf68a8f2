"""What tests of traced numbers share: run a function of numbers, traced, and run its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid.eager import as_tensor, call_plan
from hybrid.ir import Builder, Graph, verify
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.number.staging import DTYPES
from hybrid.ops.control import run_region
from hybrid.planned import optimized_plan
from hybrid.tensor import Tensor
from hybrid.trace.tracer import Tracer
from hybrid.tree import flatten, unflatten


def traced_numbers(values: Sequence[Any]) -> list[Number]:
    """A Number for each Python number, its value an input of the graph."""
    kinds = [type(v).__name__ for v in values]
    cells = [as_tensor(np.asarray(v, DTYPES[k].numpy)) for v, k in zip(values, kinds, strict=True)]
    return [Number(k, c) for k, c in zip(kinds, cells, strict=True)]


def capture(function: Callable[..., Any], *arguments: Any) -> tuple[Graph, list[Any], Any]:
    """The graph of ``function``, the inputs it read, and what it gave.

    Python numbers become Numbers, tensors are cells; ``Fixed`` values stay as they are.
    """
    tracer = Tracer(Builder("numbers"))
    with interpreting(tracer):
        result = function(*map(_given, arguments))
        leaves, structure = flatten(result)
        tensors = [_tensor(tracer, leaf) for leaf in leaves]
    cells = list(tracer.cells.values())
    params = [cell.initial for cell in cells]
    results = [t.data for t in tensors if t is not None]
    graph = Graph("numbers", tuple(params), tuple(tracer.builder.nodes), tuple(results))
    verify(graph)

    def rebuild(arrays: Sequence[Any]) -> Any:
        rest = iter(arrays)
        values = [
            leaf if tensor is None else _plain(leaf, next(rest))
            for leaf, tensor in zip(leaves, tensors, strict=True)
        ]
        return unflatten(structure, values)

    return graph, [cell.tensor for cell in cells], rebuild


@dataclass(frozen=True)
class Fixed:
    """An argument that stays a plain Python value."""

    value: Any


@dataclass(frozen=True)
class Within:
    """An int that is known to lie between ``low`` and ``high``."""

    value: int
    low: int
    high: int


def _given(argument: Any) -> Any:
    if isinstance(argument, Fixed):
        return argument.value
    if isinstance(argument, Within):
        return Number(
            "int", traced_numbers([argument.value])[0].tensor, argument.low, argument.high
        )
    return traced_numbers([argument])[0] if type(argument) in (bool, int, float) else argument


def _tensor(tracer: Tracer, leaf: Any) -> Tensor | None:
    if type(leaf) is Number:
        return tracer.traced(leaf.tensor)
    return tracer.traced(leaf) if isinstance(leaf, Tensor) else None


def _plain(leaf: Any, array: Any) -> Any:
    return np.asarray(array).item() if type(leaf) is Number else np.asarray(array)


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``function``, traced and then computed by its plan."""
    graph, cells, rebuild = capture(function, *arguments)
    return rebuild([t.numpy() for t in call_plan(optimized_plan(graph), cells)])


def referenced(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``function``, traced and then computed from its graph by the references."""
    graph, cells, rebuild = capture(function, *arguments)
    with np.errstate(all="ignore"):
        return rebuild(run_region(graph, [c.numpy() for c in cells]))
