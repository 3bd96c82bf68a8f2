"""Batch: one op, or a whole graph, applied to many rows at once.

Tensors come with a flag: whether they hold one value for each of the rows, along their first axis,
or one that is the same for all.  An op follows its own rule (``op.batch``); an elementwise op needs
none; any other is applied row by row: by a ``for`` node while a function is captured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid import ops
from hybrid.core.types import TensorType, int64, tensor_type
from hybrid.eager.tensor import Tensor
from hybrid.errors import HybridError
from hybrid.ir import Graph, Node, Op, Value
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of
from hybrid.ops.flow.control import CONTROL, for_
from hybrid.ops.support.batching import aligned, no_draws, with_rows
from hybrid.trace.regions.branch import apply_control
from hybrid.trace.regions.build import remembered
from hybrid.trace.regions.tracer import Tracer, region_of

Flags = tuple[bool, ...]


def row_type(type: TensorType, batched: bool) -> TensorType:
    """The type of one row."""
    return tensor_type(type.dtype, type.shape[1:]) if batched else type


def all_rows(type: TensorType, rows: int) -> TensorType:
    """The type of all rows together."""
    return tensor_type(type.dtype, (rows, *type.shape))


def apply_batched(
    op: Op,
    operands: Sequence[Tensor],
    batched: Flags,
    attrs: dict[str, Any],
    regions: tuple[Graph, ...],
    rows: int,
) -> tuple[Sequence[Tensor], Flags]:
    """The results of ``op``, and which of them are batched."""
    if not any(batched) and op.batch_rule is not no_draws:
        results = applied(op, operands, attrs, regions)
        return results, (False,) * len(results)
    types = tuple([row_type(t.type, b) for t, b in zip(operands, batched, strict=True)])
    of_row = op.infer(types, op.attributes(attrs), regions)  # what is wrong is said of one row
    if not rows and (regions or op.batch_rule is None):
        made = [ops.zeros((0, *t.shape), dtype=t.dtype) for t in of_row]
        return made, (True,) * len(made)
    if op.has_regions and op.batch_rule is not None:
        found = op.batch_rule(rows, batched, *operands, regions=regions, **attrs)
        if found is not NotImplemented:
            return found
    found = NotImplemented
    if op.batch_rule is not None and not op.has_regions:
        found = op.batch_rule(rows, batched, *operands, **attrs)
    elif op.elementwise and _broadcasts(op, types, batched, attrs, rows, of_row):
        found = aligned(op)(rows, batched, *operands, **attrs)
    if found is NotImplemented:
        found = by_rows(op, operands, batched, attrs, regions, rows)
    results = results_of(found)
    return results, (True,) * len(results)


def _broadcasts(
    op: Op,
    types: Sequence[TensorType],
    batched: Flags,
    attrs: dict[str, Any],
    rows: int,
    of_row: Sequence[TensorType],
) -> bool:
    """Whether an elementwise op takes operands of these types with rows in front.

    One that wants operands of one shape does not.
    """
    rank = max(t.rank for t in types)
    wide = [
        tensor_type(t.dtype, (rows, *(1,) * (rank - t.rank), *t.shape)) if b else t
        for t, b in zip(types, batched, strict=True)
    ]
    try:
        return op.infer(tuple(wide), op.attributes(attrs)) == tuple(
            [all_rows(t, rows) for t in of_row]
        )
    except HybridError:
        return False


def applied(
    op: Op, operands: Sequence[Tensor], attrs: dict[str, Any], regions: tuple[Graph, ...] = ()
) -> Sequence[Tensor]:
    """The results of ``op``, which are constants to gradients where its regions say so."""
    interpreter = current()
    if op in CONTROL and isinstance(interpreter, Tracer):
        return apply_control(interpreter, op, operands, attrs, regions)
    return results_of(interpreter.apply(op, tuple(operands), attrs, regions))


def by_rows(
    op: Op,
    operands: Sequence[Tensor],
    batched: Flags,
    attrs: dict[str, Any],
    regions: tuple[Graph, ...],
    rows: int,
) -> tuple[Tensor, ...]:
    """The results of ``op`` applied to one row after the other."""
    if current().traces:
        return _as_loop(op, operands, batched, attrs, regions, rows)
    columns: list[list[Tensor]] = []
    for at in range(rows):
        row = [t[at] if b else t for t, b in zip(operands, batched, strict=True)]
        columns.append(list(applied(op, row, attrs, regions)))
    return tuple([ops.stack(list(column)) for column in zip(*columns, strict=True)])


def _as_loop(
    op: Op,
    operands: Sequence[Tensor],
    batched: Flags,
    attrs: dict[str, Any],
    regions: tuple[Graph, ...],
    rows: int,
) -> tuple[Tensor, ...]:
    """The same as a ``for`` node, which slices the operands and stacks the results."""
    order = sorted(range(len(operands)), key=lambda at: not batched[at])
    types = [row_type(operands[at].type, batched[at]) for at in order]
    count = ops.full((), rows, dtype=int64)

    def row(_index: Tensor, *given: Tensor) -> Sequence[Tensor]:
        placed = dict(zip(order, given, strict=True))
        return applied(op, [placed[at] for at in range(len(operands))], attrs, regions)

    body = region_of("body", [count.type, *types], row)
    loop = {"carried": 0, "length": rows, "sliced": sum(batched)}
    return tuple(applied(for_, [count, *[operands[at] for at in order]], loop, (body,)))


# Graphs -----------------------------------------------------------------------------------------


def replay_batched(
    graph: Graph,
    operands: Sequence[Tensor],
    batched: Sequence[bool],
    rows: int,
    recorded: Collection[Value] | None = None,
) -> tuple[list[Tensor], Flags]:
    """The results of ``graph``, node by node, and which of them are batched.

    Values that are not in ``recorded`` are constants to gradients.
    """
    known = dict(zip(graph.params, zip(operands, batched, strict=True), strict=True))
    for node in graph.nodes:
        given = [known[v] for v in node.operands]
        with _located(node):
            results, flags = apply_batched(
                node.op,
                [t for t, _ in given],
                tuple([b for _, b in given]),
                node.attributes,
                node.regions,
                rows,
            )
        if recorded is not None:
            results = [
                t if v in recorded else t.detach()
                for v, t in zip(node.results, results, strict=True)
            ]
        known.update(zip(node.results, zip(results, flags, strict=True), strict=True))
    found = [known[v] for v in graph.results]
    return [t for t, _ in found], tuple([b for _, b in found])


@contextmanager
def _located(node: Node) -> Iterator[None]:
    """Let nodes that are traced meanwhile be at the author's line that ``node`` is of."""
    tracer = current()
    if not isinstance(tracer, Tracer):
        yield
        return
    before, tracer.located = tracer.located, node.location
    try:
        yield
    finally:
        tracer.located = before


def batched_region(
    graph: Graph, batched: Flags, rows: int, wanted: Flags | None = None
) -> tuple[Graph, Flags]:
    """``graph`` for many rows, and which of its results are batched: those ``wanted`` surely."""

    def derive() -> tuple[Graph, Flags]:
        flags: Flags = ()

        def function(*params: Tensor) -> list[Tensor]:
            nonlocal flags
            results, found = replay_batched(graph, params, batched, rows)
            flags = tuple([b or w for b, w in zip(found, wanted or found, strict=True)])
            return [
                with_rows(t, rows, b) if w else t
                for t, b, w in zip(results, found, flags, strict=True)
            ]

        types = [
            all_rows(v.type, rows) if b else v.type
            for v, b in zip(graph.params, batched, strict=True)
        ]
        return region_of(graph.name, types, function), flags

    return remembered((graph,), ("batched", batched, rows, wanted), derive)
