"""Plan: a lowered graph as the flat arrays that C executes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hybrid import native
from hybrid.errors import Location, NativeError
from hybrid.ir import Graph
from hybrid.plan.lower import Buffer, Lowered, Step, lower
from hybrid.plan.memory import ALIGNMENT, Placement, place
from hybrid.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """An executable graph; immutable, and safe to run from any number of threads.

    A run takes one array of pointers: the outputs, then the inputs.
    """

    graph: Graph
    handle: Any  # hyb_plan *
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    donations: dict[int, int]  # output -> the input whose bytes it may overwrite
    locations: tuple[Location | None, ...]  # of each step
    lowered: Lowered
    placement: Placement

    @property
    def arena_nbytes(self) -> int:
        return self.placement.arena_nbytes

    def location_of_failure(self) -> Location | None:
        """Where the author wrote the step at which this thread's last run failed."""
        step = native.failed_step()
        return self.locations[step] if 0 <= step < len(self.locations) else None

    def run(self, pointers: Any) -> None:
        """Run once; an error carries the author's line."""
        status = native.run_plan(self.handle, pointers)
        if status:
            self.fail(status)

    def fail(self, status: int) -> None:
        """Raise what ``status`` stands for, with the author's line."""
        try:
            native.check(status)
        except Exception as error:
            if getattr(error, "at", True) is None:
                error.at = self.location_of_failure()  # type: ignore[attr-defined]
            raise


def make_plan(graph: Graph) -> Plan:
    """Lower ``graph``, place its buffers, and build the C plan."""
    lowered = lower(graph)
    placement = place(lowered)
    return Plan(
        graph,
        _build(lowered, placement),
        tuple(v.type for v in graph.params),
        tuple(v.type for v in graph.results),
        placement.donations,
        tuple(step.location for step in lowered.steps),
        lowered,
        placement,
    )


def _build(lowered: Lowered, placement: Placement) -> Any:
    writer = native.PlanWriter()
    slots: dict[Buffer, int] = {}
    constants = bytearray()
    n_outputs = len(lowered.outputs)
    for buffer in lowered.outputs:
        slots[buffer] = writer.slot(native.EXTERNAL, buffer.index, 0, buffer.nbytes)
    for buffer in lowered.inputs:
        slots[buffer] = writer.slot(native.EXTERNAL, n_outputs + buffer.index, 0, buffer.nbytes)

    def slot_of(buffer: Buffer) -> int:
        found = slots.get(buffer)
        if found is None:
            if buffer.kind == "constant":
                constants.extend(bytes(-len(constants) % ALIGNMENT))
                found = writer.slot(native.CONSTANT, 0, len(constants), buffer.nbytes)
                constants.extend(buffer.data)
            else:
                last = placement.last_step[buffer]
                found = writer.slot(native.ARENA, 0, buffer.offset, buffer.nbytes, last)
            slots[buffer] = found
        return found

    for step in lowered.steps:
        _write_step(writer, step, slot_of)
    externals = n_outputs + len(lowered.inputs)
    return writer.build(bytes(constants), placement.arena_nbytes, externals)


def _write_step(writer: native.PlanWriter, step: Step, slot_of: Any) -> None:
    first = writer.n_operands
    for view in step.operands:
        size = view.dtype.itemsize
        writer.operand(
            slot_of(view.buffer),
            view.offset * size if view.size else 0,  # nothing lies anywhere
            view.dtype.code,
            view.shape,
            [stride * size for stride in view.strides],
        )
    first_op = writer.n_ops
    for op in step.ops:
        kernel = _kernel(op.kernel, op.dtype)
        writer.map_op(kernel, len(op.args) - op.n_out, op.n_out, op.attrs, op.args)
    counts = (len(step.inputs), len(step.outputs), len(step.extra))
    if step.kernel is None:
        writer.step(native.MAP_STEP, -1, first, counts, (), first_op)
    else:
        dtype = (step.inputs or step.outputs)[0].dtype
        kernel = _kernel(step.kernel, dtype)
        writer.step(native.KERNEL_STEP, kernel, first, counts, step.attrs, first_op)


def _kernel(name: str, dtype: Any) -> int:
    found = native.find_kernel(name, dtype.code)
    if found < 0:
        raise NativeError(
            f"no kernel {name} for {dtype.name}", fix="convert the operands with astype"
        )
    return found
