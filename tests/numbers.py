"""What tests of traced numbers share: a function of numbers, captured, and run by its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid.calls.executable import optimized_plan
from hybrid.core.tree import flatten, unflatten
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.eager.tensor import Tensor
from hybrid.ir import Builder, Graph, verify
from hybrid.ir.interpreter import interpreting
from hybrid.number import Number
from hybrid.number.staging import DTYPES
from hybrid.trace.regions.tracer import Tracer


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


@dataclass(frozen=True)
class Captured:
    """A graph, and where its inputs come from and its results go."""

    graph: Graph
    inputs: tuple[tuple[Tensor, int | None], ...]  # each a cell, or the number of an argument
    leaves: tuple[Any, ...]  # of the result: a Number or Tensor for each result of the graph
    structure: Any

    def build(self, arrays: Sequence[Any]) -> Any:
        rest = iter(arrays)
        return unflatten(
            self.structure,
            [
                np.asarray(next(rest)).item()
                if type(leaf) is Number
                else next(rest)
                if isinstance(leaf, Tensor)
                else leaf
                for leaf in self.leaves
            ],
        )


def capture(function: Callable[..., Any], *arguments: Any) -> Captured:
    """``function``, traced: Python numbers become Numbers, and tensors are cells."""
    tracer = Tracer(Builder("numbers"))
    cells = [_cell(argument) for argument in arguments]
    with interpreting(tracer):
        result = function(*map(_given, arguments, cells))
        leaves, structure = flatten(result)
        tensors = [
            tracer.traced(leaf.tensor if type(leaf) is Number else leaf)
            for leaf in leaves
            if type(leaf) is Number or isinstance(leaf, Tensor)
        ]
    entries = list(tracer.cells.values())
    place = {id(cell): at for at, cell in enumerate(cells) if cell is not None}
    graph = Graph(
        "numbers",
        tuple([entry.initial for entry in entries]),
        tuple(tracer.builder.nodes),
        tuple([t.content for t in tensors]),
    )
    verify(graph)
    inputs = tuple([(entry.tensor, place.get(id(entry.tensor))) for entry in entries])
    return Captured(graph, inputs, tuple(leaves), structure)


def _cell(argument: Any) -> Tensor | None:
    """The input for an argument that becomes a Number."""
    value = argument.value if isinstance(argument, Within) else argument
    if type(value) not in (bool, int, float):
        return None
    return as_tensor(np.asarray(value, DTYPES[type(value).__name__].numpy))


def _given(argument: Any, cell: Tensor | None) -> Any:
    if isinstance(argument, Fixed):
        return argument.value
    if isinstance(argument, Within):
        return Number("int", cell, argument.low, argument.high)
    return argument if cell is None else Number(type(argument).__name__, cell)


def compiled(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """``function``, captured for arguments like ``examples``, as a function that runs the plan."""
    captured = capture(function, *examples)
    plan = optimized_plan(captured.graph)

    def call(*arguments: Any) -> Any:
        inputs = [cell if at is None else _cell(arguments[at]) for cell, at in captured.inputs]
        return captured.build([t.numpy() for t in call_plan(plan, inputs)])

    return call


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of ``function``, captured and then computed by its plan."""
    return compiled(function, *arguments)(*arguments)
