"""Planned: one capture made executable: bind tensors, run the plan, write back, record."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import native, ops
from hybrid.autodiff.tape import cotangents, node_of
from hybrid.eager import EAGER, call_plan
from hybrid.ir import Graph, Op
from hybrid.passes import run_pipeline
from hybrid.plan import Plan, make_plan
from hybrid.record import Leaf, Output, Record, is_recording, recording
from hybrid.tensor import Tensor, make_tensor
from hybrid.trace.capture import Capture, Made
from hybrid.trace.replay import replay
from hybrid.tree import LEAF, unflatten
from hybrid.types import TensorType

# References to a buffer that only its cell, the binding that made it, a local name and
# getrefcount's own argument hold.
_UNSHARED = 4


def optimized_plan(graph: Graph) -> Plan:
    """``graph`` through the passes and lowered."""
    return make_plan(run_pipeline(graph, evaluate=_evaluate))


def _evaluate(
    op: Op, operands: Sequence[tuple[TensorType, bytes]], attrs: tuple
) -> list[tuple[TensorType, bytes]]:
    """Run ``op`` on constants: the same kernels as anywhere else."""
    tensors = [
        make_tensor(t, native.borrow(np.frombuffer(data or b"\0", np.uint8))) for t, data in operands
    ]
    results = EAGER.run(op, tensors, attrs)
    return [(r.type, bytes(native.view(r.data, r.type.nbytes))) for r in results]


class Planned:
    """An executable capture; safe to run from several threads."""

    def __init__(self, capture: Capture, keep: Sequence[Any]) -> None:
        self.capture = capture
        self.guards = capture.guards
        self.plan = optimized_plan(capture.graph)
        self.backward_plan: Plan | None = None
        self.calls = 0
        self.last_used = 0
        self.keep = [leaf for leaf in keep if not isinstance(leaf, Tensor)]  # ids in the key
        types = self.plan.output_types
        self.storage = [(*native.storage(t.nbytes), t) for t in types]
        self.n_outputs = len(types)
        written = dict(capture.writes)
        self.in_place = [
            (source, output)
            for source, output in written.items()
            if self.plan.donations.get(output) == source
        ]
        self.fresh = [j for j in range(self.n_outputs) if j not in dict(map(reversed, self.in_place))]
        self.made_buffers: dict[int, Any] = {}  # source -> the buffer the last run left there
        self.spare: list[Any] = []
        self.single = (
            capture.result.structure == LEAF and capture.result.leaves[0][0] == "output"
        )
        if capture.gradient is not None:
            self.vjp_op = _CallOp(self)

    def holds(self) -> bool:
        """Whether this plan is the right one now, as far as the world outside the arguments goes."""
        if not self.guards.hold():
            return False
        capture = self.capture
        for source, needs in zip(capture.sources, capture.requires, strict=True):
            if source.kind == "cell" and (source.tensor.record is not None) != needs:
                return False
        return all(
            getattr(owner, name) is None
            if original is None
            else isinstance(now := getattr(owner, name), Tensor) and now.type is original.type
            for owner, name, original in capture.slot_reads
        )

    def run(self, leaves: Sequence[Any]) -> Any:
        """One call."""
        capture = self.capture
        n_outputs = self.n_outputs
        tensors = [source.fetch(leaves) for source in capture.sources]
        try:
            externals = self.spare.pop()
        except IndexError:
            externals = native.pointers(n_outputs + len(tensors))
        datas = [t.data for t in tensors]
        at = n_outputs
        for data in datas:
            externals[at] = data
            at += 1
        buffers: list[Any] = [None] * n_outputs
        for j in self.fresh:
            make, ctype, _ = self.storage[j]
            externals[j] = buffers[j] = make(ctype)
        for source, j in self.in_place:
            data = tensors[source].data
            if data is self.made_buffers.get(source) and (
                sys.getrefcount(data) == _UNSHARED + 1  # and the list of this call
            ):
                externals[j] = buffers[j] = data
            else:
                make, ctype, _ = self.storage[j]
                externals[j] = buffers[j] = make(ctype)
                self.made_buffers[source] = buffers[j]
        status = native.run_plan(self.plan.handle, externals)
        if status:
            self.plan.fail(status)
        self.spare.append(externals)
        self.calls += 1
        results = [
            make_tensor(t, buffer)
            for t, buffer in zip(self.plan.output_types, buffers, strict=True)
        ]
        if capture.gradient is not None:
            self._record(tensors, datas, results, buffers)
        for output in capture.consumed:
            results[output].record = _USED
        for source, output in capture.writes:
            cell = tensors[source]
            cell.data = buffers[output]
            cell.record = getattr(cell, "leaf", None)
        for write in capture.slot_writes:
            setattr(write.owner, write.name, build(write.made, results, leaves))
        return results[capture.result.leaves[0][1]] if self.single else build(
            capture.result, results, leaves
        )

    def _record(
        self, tensors: list[Tensor], datas: list[Any], results: list[Tensor], buffers: list[Any]
    ) -> None:
        gradient = self.capture.gradient
        saved = [
            (t.type, data, t.record) for t, data in zip(tensors, datas, strict=True)
        ]
        types = self.plan.output_types
        for kind, index in gradient.residuals:
            if kind == "output":
                saved.append((types[index], buffers[index], None))
            else:
                saved.append((tensors[index].type, datas[index], None))
        outputs = [results[i] for i in gradient.outputs]
        record = Record(
            self.vjp_op,
            {},
            tuple(tensors[i].record for i in gradient.inputs),
            tuple(saved),
            tuple(t.type for t in outputs),
        )
        if len(outputs) == 1:
            outputs[0].record = record
        else:
            for index, t in enumerate(outputs):
                t.record = Output(record, index)


def build(made: Made, results: Sequence[Tensor], leaves: Sequence[Any]) -> Any:
    """The tree that ``made`` describes, for one call."""
    values = []
    for kind, what in made.leaves:
        if kind == "output":
            values.append(results[what])
        elif kind == "argument":
            values.append(leaves[what])
        elif kind == "slot":
            values.append(getattr(*what))
        else:
            values.append(what)
    return unflatten(made.structure, values)


class _CallOp:
    """Stands as the op of a call's record: its vjp is the planned backward graph."""

    differentiable = True
    jvp_rule = None
    name = "hybridized call"

    def __init__(self, planned: Planned) -> None:
        self.planned = planned

    def vjp_rule(self, cts: Any, _results: Any, *saved: Tensor) -> list[Tensor | None]:
        """One cotangent per parent."""
        cts = cts if isinstance(cts, tuple) else (cts,)
        n_sources = len(self.planned.capture.sources)
        if is_recording():
            return self._replayed(cts, saved[:n_sources])
        return self._planned(cts, saved[n_sources:])

    def _planned(
        self, cts: Sequence[Tensor], residuals: Sequence[Tensor]
    ) -> list[Tensor | None]:
        planned = self.planned
        gradient = planned.capture.gradient
        found: list[Tensor | None] = [None] * len(gradient.inputs)
        if ops_are_traced():
            grads = replay(gradient.backward, [*residuals, *cts])
        else:
            if planned.backward_plan is None:
                planned.backward_plan = optimized_plan(gradient.backward)
            grads = call_plan(planned.backward_plan, [*residuals, *cts])
        for position, grad in zip(gradient.reached, grads, strict=True):
            found[position] = grad
        return found

    def _replayed(
        self, cts: Sequence[Tensor], inputs: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Differentiable again: the forward ops once more, one by one, and back through them."""
        gradient = self.planned.capture.gradient
        variables = list(inputs)
        for i in gradient.inputs:
            variables[i] = ops.identity(inputs[i])
            if variables[i].record is None:
                variables[i].record = Leaf(variables[i].type)
        results = replay(self.planned.capture.graph, variables)
        seeds = [
            (results[i].record, ct)
            for i, ct in zip(gradient.outputs, cts, strict=True)
            if results[i].record is not None
        ]
        targets = [node_of(variables[i].record)[0] for i in gradient.inputs]
        return cotangents(seeds, targets, differentiable=True)


def ops_are_traced() -> bool:
    """Whether op calls of this thread are being traced."""
    from hybrid.ir.interpreter import current

    return current().traces


_USED: Any = None


def _used_record() -> Record:
    with recording(True):
        record = Record(None, {}, (), (), ())  # type: ignore[arg-type]
    record.saved = record.results = None
    return record


_USED = _used_record()
