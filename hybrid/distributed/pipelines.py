"""Pipelines: a model cut into stages, each of which is computed by one rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from hybrid import ops
from hybrid.calls.hybridized import Hybridized
from hybrid.core.layouts import Held, MeshAxis
from hybrid.core.tree import flatten, tree_map, unflatten
from hybrid.core.types import int64
from hybrid.distributed.meshes import Mesh, channel_for
from hybrid.distributed.shared_tensors import hold_by
from hybrid.distributed.strategies.captured_step import captured_step, require_same
from hybrid.eager.execution import EAGER
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError, author_location
from hybrid.ir.interpreter import current
from hybrid.ir.record import AnyRecord, Record, is_recording, node_of, record_call
from hybrid.nn.modules import hooks
from hybrid.nn.modules.hooks import Hook
from hybrid.nn.modules.module import Module
from hybrid.ops.communication.pipeline_op import Pipe, pipeline_edge
from hybrid.ops.support.operand_checks import require_choice
from hybrid.ops.support.row_scope import entered, row_scope, stretch_of
from hybrid.passes.layouts.pipeline_stages import is_pipelined, pipe_of
from hybrid.passes.layouts.stage_program import stages_of_cells
from hybrid.random import default_generator

SCHEDULES = ("1f1b", "gpipe")
SHORT = Fraction(1, 10**12)  # of what lies between one step of a history and the next


def pipeline(
    model: Module,
    *,
    stages: int,
    microbatches: int,
    schedule: str = "1f1b",
    mesh: Mesh | None = None,
    axis: str | None = None,
    recompute: bool = False,
) -> Module:
    """``model``, of which each rank along ``axis`` computes one stage where it is hybridized.

    All ranks call it with the whole batch, and get the whole result and all gradients, unless
    ``hold_stages`` lets each hold its own.  A hybridized function that calls the model, a step of
    training say, is cut when it is captured: the batch (the first axis of the model's arguments)
    into ``microbatches``, what the model computes into ``stages`` that take about equally long,
    where few bytes cross; what goes back goes back through the same stages.  "gpipe" runs all
    microbatches forward, then all back; "1f1b" goes back as soon as it can, and has fewer
    activations to keep; both have the same bits.  ``recompute``: a stage keeps what it was given,
    and computes its activations again.

    An eager call computes all of the model on each rank, microbatch by microbatch, to the same
    bits; of parameters that ranks share, all rows at once.  What stands around the model, such as
    the loss, is computed of all rows in both: put layers into the model.  Numbers without rows that
    the model gives itself, such as a loss, are sums of microbatches where it is hybridized.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"model is a {type(model).__name__}", fix="give a module of hybrid.nn"
        )
    for name, value in (("stages", stages), ("microbatches", microbatches)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentTypeError(f"{name} is {value!r}", fix="give a number")
        if value < 1:
            raise ArgumentError(f"{name} is {value}", fix="give a number of at least 1")
    if not isinstance(recompute, bool):
        raise ArgumentTypeError(f"recompute is {recompute!r}", fix="give it True or False")
    require_choice("schedule", schedule, SCHEDULES)
    channel = channel_for(axis, mesh)
    if channel.ranks not in (1, stages):
        along = f"axis {axis!r} of the mesh" if axis is not None else "the job"
        raise ArgumentError(
            f"a pipeline of {stages} stages, and {along} has {channel.ranks} ranks",
            why="Each rank computes one stage.",
            fix=f"give stages={channel.ranks}, or a mesh with an axis of {stages} ranks",
        )
    pipe = Pipe(
        comm=channel.name,
        ranks=channel.ranks,
        rank=channel.rank,
        stages=stages,
        microbatches=microbatches,
        schedule=schedule,
        recompute=recompute,
    )
    model.register_forward_pre_hook(_Entrance(pipe), with_kwargs=True)
    model.register_forward_hook(_Exit(pipe))
    hooks.add(model, Hook("microbatches", EagerMicrobatches(pipe)))
    return model


def hold_stages(step: Any, *examples: Any) -> None:
    """Let each rank hold alone what its stage of a pipelined step reads and writes.

    ``step`` is the function that calls the pipelined model, takes gradients and makes the step of
    the optimizer, hybridized or not; ``examples`` are arguments like those that it is going to be
    called with.  It is captured, and not run.  Parameters, their gradients and moments then lie
    with the rank whose stage reads them first, so N ranks take about the N-th part of the memory,
    make the N-th part of the optimizer's step, and send no gradients to each other; all bits stay
    as they were.  ``hybrid.distributed.whole(p)`` is a parameter on all ranks, and ``save`` writes
    whole ones.  What two stages read (tied embeddings) is sent to the other one in each step.

    All ranks call it, before the first step or between steps.  ArgumentError: for a step without a
    pipeline, without parameters, with the pipeline in a loop, or with ``zero=3``.
    """
    captured = captured_step(step, examples, "held stages", plain=False)
    graph = captured.graph
    if not is_pipelined(graph):
        raise ArgumentError(
            "hold_stages of a step that has no stages",
            why="It calls no model that went through hybrid.distributed.pipeline, or calls it in a "
            "branch or a loop alone, where all ranks have all cells.",
            fix="give the function of one step that calls the pipelined model and backward()",
        )
    pipe = pipe_of(graph)
    axis = MeshAxis(pipe.comm, pipe.ranks, pipe.rank)
    held = stages_of_cells(graph, captured.cells, captured.weights)
    if not held:
        raise ArgumentError(
            "hold_stages of a step whose stages read no parameters of their own",
            why="Parameters are gathered before stages read them, as zero=3 of data_parallel does.",
            fix="use zero=1 or 2 beside a pipeline",
        )
    require_same("hold_stages", f"stages={held} of {[str(v.type) for v in graph.params]}")
    for at, stage in held.items():
        tensor = captured.tensors[at]
        others = [row for row in tensor.type.layout or () if row[0] != axis]
        hold_by(tensor, tuple(sorted([*others, (axis, Held(stage))], key=lambda row: row[0])))


class _Entrance:
    """Marks the arguments of the model, where a graph is made."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def __call__(self, model: Module, args: Any, kwargs: Any) -> Any:
        if not current().traces:
            return None
        microbatches = self.pipe.microbatches

        def mark(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.type.rank:
                return x
            require_rows(x, microbatches)
            return pipeline_edge(x, pipe=tuple(self.pipe), begins=True)

        return tree_map(mark, args), tree_map(mark, kwargs)


class _Exit:
    """Marks what the model returns."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def __call__(self, model: Module, args: Any, result: Any) -> Any:
        if not current().traces:
            return None
        return tree_map(
            lambda x: (
                pipeline_edge(x, pipe=tuple(self.pipe), begins=False)
                if isinstance(x, Tensor)
                else x
            ),
            result,
        )


# Eager calls -----------------------------------------------------------------------------------


class EagerMicrobatches:
    """What stands around the eager calls of a pipelined model.

    ::

        y = model(x)    ==>    y = concat([model(rows) for rows in split(x)])

    Gradients by the parameters are summed up within a microbatch, and these in their order: the
    bits of a hybridized step.  Random numbers are those that each row has in the whole batch.
    """

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def __call__(self, module: Module, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if current().traces:
            with _Twins(module, 1).standing_in():
                return call(*args, **kwargs)
        if self.pipe.microbatches == 1 or current().batches or row_scope() is not None:
            return call(*args, **kwargs)
        if isinstance(call, Hybridized):
            if not is_recording():
                return call(*args, **kwargs)
            call = module._call_forward  # the way back from a plan of the model is of all rows
        cells = [*module.parameters(), *module.buffers()]
        if any([cell.type.layout is not None for cell in cells]):  # bits are those of its ranks
            return call(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        parts = [_rows_of(leaf, self.pipe.microbatches) for leaf in leaves]
        if not any([isinstance(part, list) for part in parts]):
            return call(*args, **kwargs)
        state, kept = default_generator().state, [*module.buffers()]
        begun = [(cell, cell.detach()) for cell in (state, *kept)]
        twins = _Twins(module, self.pipe.microbatches)
        made = []
        for at in range(self.pipe.microbatches):
            given = [part[at] if isinstance(part, list) else part for part in parts]
            rows = next(part[at].shape[0] for part in parts if isinstance(part, list))
            if at:  # each draws and writes what one call for all rows would
                for cell, value in begun:
                    cell.assign(value)
            own_args, own_kwargs = unflatten(structure, given)
            with entered(_Microbatch(rows, at)), twins.standing_in():
                made.append(flatten(call(*own_args, **own_kwargs)))
            twins.tell_apart(made[-1][0], at)
            if not at and not _is_by_rows(made[0][0], rows):
                for cell, value in begun:
                    cell.assign(value)
                return call(*args, **kwargs)
        found = [
            ops.concat([leaves[i] for leaves, _ in made], axis=0)
            if isinstance(made[0][0][i], Tensor)
            else made[-1][0][i]
            for i in range(len(made[0][0]))
        ]
        return unflatten(made[0][1], found)


def _rows_of(leaf: Any, count: int) -> Any:
    """The rows of an argument by microbatch, a list; what has none is itself."""
    if not isinstance(leaf, Tensor) or not leaf.type.rank:
        return leaf
    require_rows(leaf, count)
    return ops.split(leaf, leaf.shape[0] // count) if leaf.shape[0] else [leaf] * count


def require_rows(x: Tensor, count: int) -> None:
    """Raise ShapeError unless the rows of ``x`` can be cut into ``count`` microbatches."""
    if x.shape[0] % count:
        raise ShapeError(
            f"a batch of {x.shape[0]} rows and {count} microbatches",
            at=author_location(),
            why="Each microbatch has equally many rows: of the first axis of arguments.",
            fix=f"give a multiple of {count} rows, or pad the batch",
        )


def _is_by_rows(results: Sequence[Any], rows: int) -> bool:
    """Whether results can be put together along their rows."""
    tensors = [result for result in results if isinstance(result, Tensor)]
    return all([t.type.rank and t.shape[0] % max(rows, 1) == 0 for t in tensors])


class _Microbatch:
    """The scope of the rows of one microbatch."""

    def __init__(self, rows: int, at: int) -> None:
        self.rows, self.at = rows, at

    def first_element(self, shape: tuple[Any, ...]) -> Tensor | None:
        """Where a draw of ``shape`` begins in that for the whole batch; None: it has other rows."""
        before = EAGER.lift(self.at * self.rows, int64)
        return stretch_of(shape, self.rows, lambda: ops.reshape(before, (1,)))

    def batch_norm(self, x: Tensor, *_given: Any) -> Any:
        """Raise: it looks at all rows."""
        raise ShapeError(
            "batch_norm in a pipelined model cannot be computed by microbatches",
            at=author_location(),
            why="It needs all of them at once, and a stage gets them one by one.",
            fix="leave it out of the pipelined model, or give microbatches=1",
        )


class _Twins:
    """Histories in place of those of the parameters, one for each microbatch.

    ``backward()`` goes back through the latest first: so those of the first microbatch are made
    last, and gradients are added in the order of the microbatches: of each use of a parameter by
    itself, for stages make the sums of their own uses.  What the program does with a parameter
    beside the model is added to the sum of these, in plans, too.
    """

    def __init__(self, module: Module, count: int) -> None:
        self.count = count
        self._entries: list[tuple[Any, Any, Tensor]] = []  # with their records, and a twin
        self._twins: dict[AnyRecord, _UsedParameter] = {}
        if not is_recording():
            return
        tracer: Any = current()
        for p in module.parameters():
            entry = tracer.cell(p) if tracer.traces else p
            if entry.record is not None:
                whole = _same(tracer.traced(p) if tracer.traces else p)
                self._entries.append((entry, entry.record, whole))
                self._twins[node_of(whole.record)[0]] = _UsedParameter(whole, count)

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """A context in which parameters have the histories of twins."""
        for entry, _, whole in self._entries:
            entry.record = whole.record
        try:
            yield
        finally:
            for entry, record, _ in self._entries:
                entry.record = record

    def tell_apart(self, results: Sequence[Any], at: int) -> None:
        """Let what microbatch ``at`` has done with parameters, for ``results``, be by itself."""
        stack = [x.record for x in results if isinstance(x, Tensor) and x.record is not None]
        seen: set[Any] = set()
        found: list[Record] = []
        while stack and self._twins:
            node = node_of(stack.pop())[0]
            if node in seen or type(node) is not Record or node in self._twins:
                continue
            seen.add(node)
            parents = [parent for parent in node.parents if parent is not None]
            if any([parent in self._twins for parent in parents]):
                found.append(node)
            stack += parents
        met = dict.fromkeys(self._twins, 0)
        for node in sorted(found, key=lambda node: node.sequence):
            parents = list(node.parents)
            for number, twin in enumerate(parents):
                if twin in self._twins:
                    parents[number] = self._twins[twin].record(met[twin], at)
                    met[twin] += 1
            node.parents = tuple(parents)


class _UsedParameter:
    """What microbatches do with one parameter, use by use."""

    def __init__(self, whole: Tensor, count: int) -> None:
        self.whole, self.count = whole, count
        self._sums: list[Tensor] = []  # of a use, over microbatches

    def record(self, use: int, at: int) -> AnyRecord:
        """The history of the use ``use`` by microbatch ``at``."""
        if use == len(self._sums):
            self._sums.append(self._next(self.whole, 2 * use + 1))
        last = (use + 2) * self.count  # the first microbatch comes first on the way back
        return self._next(self._sums[use], 2 * (last - at)).record

    def _next(self, x: Tensor, turn: int) -> Tensor:
        """``x`` with one more step, which is ``turn`` steps from the end on the way back."""
        made = _same(x)
        node_of(made.record)[0].sequence = node_of(self.whole.record)[0].sequence + turn * SHORT
        return made


def _same(x: Tensor) -> Tensor:
    """``x`` with a step of history of its own, and the same memory."""
    made = make_tensor(x.type, x.content)
    record_call(ops.identity, (x,), {}, (made,))
    return made
