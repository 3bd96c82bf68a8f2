"""Graphs as wholes: optimized plans, and array functions of several ops that run as one plan.

A function under ``remembered`` is watched at its first calls with some types and arguments.  What
it has come to is one launch from then on: that of its only op, or the optimized plan of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid import native
from hybrid.eager import EAGER, Eager, Launch, in_float32, prepare, stored_result
from hybrid.ir import Builder, Graph, Op, Value, get_op
from hybrid.ir.interpreter import interpreting
from hybrid.ops.remembered import set_watcher
from hybrid.passes import run_pipeline
from hybrid.plan import Plan, make_plan
from hybrid.tensor import Tensor, make_tensor
from hybrid.types import TensorType

MAX_CONSTANT = 4096  # bytes that a remembered call keeps


def optimized(graph: Graph) -> Graph:
    """``graph`` after all passes."""
    return run_pipeline(graph, evaluate=_evaluate)


def optimized_plan(graph: Graph) -> Plan:
    """The plan of the optimized ``graph``."""
    return make_plan(optimized(graph))


def _evaluate(
    op: Op, operands: Sequence[tuple[TensorType, bytes]], attrs: dict[str, Any]
) -> list[tuple[TensorType, bytes]]:
    """Run ``op`` on constants: the same kernels as anywhere else."""
    tensors = [
        make_tensor(t, native.borrow(np.frombuffer(data or b"\0", np.uint8)))
        for t, data in operands
    ]
    results = EAGER.run(op, tensors, op.attributes(attrs))
    return [(r.type, bytes(native.view(r.data, r.type.nbytes))) for r in results]


class _Watcher(Eager):
    """Eager, which notes what it does as a graph of the tensors given."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.builder = Builder()
        self.values: dict[int, Value] = {}
        self.kept: list[Tensor] = []  # alive, so that no id comes again
        self.only: Launch | None = None  # that of the only call, if it takes what is given
        self.whole = True  # as far as is known
        for tensor in given:
            self._note(tensor, self.builder.param(tensor.type))

    def _note(self, tensor: Tensor, value: Value) -> None:
        self.values[id(tensor)] = value
        self.kept.append(tensor)

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        narrow = stored_result(op, operands)
        if narrow is not None:
            return in_float32(self, op, operands, attrs, narrow)
        tensors, given = prepare(self, op, operands), op.attributes(attrs)
        if regions or not op.pure or any(t.record is not None for t in tensors):
            self.whole = False
            return super().apply(op, tensors, attrs, regions)
        results = self.run(op, tensors, given)
        if self.whole:
            self._add(op, tensors, given, results)
        return results[0] if len(results) == 1 else results

    def _add(
        self, op: Op, tensors: Sequence[Tensor], given: Any, results: Sequence[Tensor]
    ) -> None:
        values = [self._value(tensor) for tensor in tensors]
        self.whole = all(value is not None for value in values)
        if self.whole:
            for tensor, value in zip(results, self.builder.apply(op, values, given), strict=True):
                self._note(tensor, value)
            types = tuple([t.type for t in tensors])
            self.only = op.launches.get((types, given) if given else types)

    def _value(self, tensor: Tensor) -> Value | None:
        value = self.values.get(id(tensor))
        if value is not None or tensor.type.nbytes > MAX_CONSTANT:
            return value
        data = bytes(native.view(tensor.data, tensor.type.nbytes))
        attrs = {"shape": tensor.type.shape, "dtype": tensor.type.dtype, "data": data}
        [value] = self.builder.apply(get_op("literal"), (), attrs)
        self._note(tensor, value)
        return value

    def launch(self, result: Any, plan: bool) -> Launch | bool | None:
        """What gives ``result`` again of tensors like those given, as ``set_watcher`` says."""
        nodes, params = self.builder.nodes, self.builder.params
        value = self.values.get(id(result))
        if not self.whole or type(result) is not Tensor or value is None or value in params:
            return None
        if len(nodes) == 1 and nodes[0].operands == tuple(params) and len(nodes[0].results) == 1:
            return self.only
        return Launch(optimized(self.builder.finish([value]))) if plan else False


def watched(
    function: Callable[..., Any],
    tensors: tuple[Tensor, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    plan: bool,
) -> tuple[Any, Launch | bool | None]:
    """The result of ``function`` and its launch; see ``set_watcher``."""
    watcher = _Watcher(tensors)
    with interpreting(watcher):
        result = function(*tensors, *args, **kwargs)
    return result, watcher.launch(result, plan)


set_watcher(watched)
