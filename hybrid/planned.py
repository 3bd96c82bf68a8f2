"""Planned: one capture made executable: bind tensors, run the plan, write back, record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybrid import native, ops
from hybrid.autodiff.presence import Ct, perhaps
from hybrid.autodiff.tape import node_of, pulled_back
from hybrid.binding import bind
from hybrid.eager import EAGER, call_plan
from hybrid.ir import Graph, Op
from hybrid.ir.interpreter import current
from hybrid.passes import run_pipeline
from hybrid.plan import Plan, make_plan
from hybrid.record import Leaf, Output, Record, is_recording, recording
from hybrid.tensor import Tensor, make_tensor
from hybrid.trace.captured import Capture
from hybrid.trace.replay import replay
from hybrid.types import TensorType


def optimized_plan(graph: Graph) -> Plan:
    """``graph`` through the passes and lowered."""
    return make_plan(run_pipeline(graph, evaluate=_evaluate))


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


def _used_record() -> Record:
    """The record of a value whose history backward() has used up."""
    record = Record(None, {}, (), (), ())  # type: ignore[arg-type]
    record.saved = record.results = None
    return record


USED = _used_record()


class Planned:
    """An executable capture; safe to run from several threads."""

    def __init__(
        self, capture: Capture, keep: Sequence[Any], key: Any, numbers: frozenset[int]
    ) -> None:
        self.capture = capture
        self.guards = capture.guards
        self.plan = optimized_plan(capture.graph)
        self.backward_plan: Plan | None = None
        self.calls = self.last_used = self.made = 0
        self.key = key  # of the call that it was made for
        self.why = ""  # it was made
        self.description: tuple[str, ...] = ()
        self.numbers = numbers  # argument leaves that are numbers and inputs
        # Places outside that hold numbers which are inputs.
        self.places = tuple([s.address for s in capture.sources if s.is_outer_number])
        self.written_arguments = capture.written_arguments
        self.keep = [leaf for leaf in keep if not isinstance(leaf, Tensor)]  # ids in the key
        if capture.gradient is not None:
            self.vjp_op = _CallOp(self)
        record = None if capture.gradient is None else self._record
        self.run = bind(capture, self.plan, record, USED)
        self.holds = capture.guards.compiled(capture)

    def _record(
        self, tensors: list[Tensor], datas: list[Any], results: list[Tensor], buffers: list[Any]
    ) -> None:
        gradient = self.capture.gradient
        saved = [(t.type, data, t.record) for t, data in zip(tensors, datas, strict=True)]
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


class _CallOp:
    """Stands as the op of a call's record: its vjp is the planned backward graph."""

    differentiable = True
    jvp_rule = None
    name = "hybridized call"

    def __init__(self, planned: Planned) -> None:
        self.planned = planned

    def vjp_rule(self, cts: Any, _results: Any, *saved: Tensor) -> list[Ct | None]:
        """One cotangent per parent."""
        cts = cts if isinstance(cts, tuple) else (cts,)
        n_sources = len(self.planned.capture.sources)
        if is_recording():
            return self._replayed(cts, saved[:n_sources])
        return self._planned(cts, saved[n_sources:])

    def _planned(self, cts: Sequence[Tensor], residuals: Sequence[Tensor]) -> list[Ct | None]:
        planned = self.planned
        gradient = planned.capture.gradient
        found: list[Ct | None] = [None] * len(gradient.inputs)
        if current().traces:
            grads = replay(gradient.backward, [*residuals, *cts])
        else:
            if planned.backward_plan is None:
                planned.backward_plan = optimized_plan(gradient.backward)
            grads = call_plan(planned.backward_plan, [*residuals, *cts])
        for at, (position, flag) in enumerate(zip(gradient.reached, gradient.flags, strict=True)):
            found[position] = grads[at] if flag < 0 else perhaps(grads[at], grads[flag], True)
        return found

    def _replayed(self, cts: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Ct | None]:
        """Differentiable again: the forward ops once more, one by one, and back through them."""
        gradient = self.planned.capture.gradient
        variables = list(inputs)
        for i in gradient.inputs:
            variables[i] = ops.identity(inputs[i])
            if variables[i].record is None:
                variables[i].record = Leaf(variables[i].type)
        results = replay(self.planned.capture.graph, variables, gradient.recorded)
        seeds = [
            (results[i].record, ct)
            for i, ct in zip(gradient.outputs, cts, strict=True)
            if results[i].record is not None
        ]
        targets = [node_of(variables[i].record)[0] for i in gradient.inputs]
        with recording(True):
            return pulled_back(seeds, targets)


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """One cached plan, for reading."""

    arguments: tuple[str, ...]
    nodes: int
    steps: int
    arena_nbytes: int
    guards: tuple[str, ...]
    calls: int
    why: str  # it was built rather than another one used

    def __str__(self) -> str:
        return f"{self.sizes}; built because: {self.why}"

    @property
    def sizes(self) -> str:
        from hybrid.explain.words import counted

        parts = [
            counted(self.nodes, "node"),
            counted(self.steps, "step"),
            f"{counted(self.arena_nbytes, 'byte')} of scratch",
            counted(len(self.guards), "guard"),
            counted(self.calls, "call"),
        ]
        return f"({', '.join(self.arguments)}): {', '.join(parts)}"
