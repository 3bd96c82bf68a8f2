"""vmap: a function of one row made one of many.

Eagerly the function runs once, under a ``Batcher``, which applies each of its ops to all rows.
While a function is captured its row is captured too, into a graph of its own, and that graph is
applied to all rows: so what the rows do in an ``if`` or ``while`` may differ.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.core.tree import Structure, flatten, unflatten
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, author_location
from hybrid.ir.interpreter import current, interpreting, outward, stack
from hybrid.ops.support.batching import with_rows
from hybrid.trace.capture.surroundings import above_handlers
from hybrid.trace.places.frames import roots_of
from hybrid.trace.regions.branch import params_of, write_cell
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.tracer import Tracer
from hybrid.transforms import batch_control as batch_control
from hybrid.transforms.axes import Axis, mapped_tensors, out_axis, spread
from hybrid.transforms.batch import replay_batched, row_type
from hybrid.transforms.batcher import Batcher


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """``function``, which is written for one row, applied to all rows of its arguments at once.

    ``in_axes`` says along which axis an argument holds its rows, None if it is the same in every
    row: one for all positional arguments, or a sequence with one for each, itself a tree of them
    where the argument is a tree.  Keyword arguments are mapped along axis 0.  ``out_axes`` says
    where the rows go in the results.  The results are those of ``function`` on each row, stacked.

    A value that differs from row to row cannot decide a Python ``if`` or ``while``; in a hybridized
    function it can.  Nothing random may be drawn inside.
    """
    if not callable(function):
        raise ArgumentTypeError(
            f"vmap got a {type(function).__name__} in place of a function", fix="pass a function"
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        try:
            leaves, structure = flatten((args, kwargs))
            _, positional = flatten(args)
            axes = _in_axes(in_axes, args, positional)
            axes += [0] * (len(leaves) - len(axes))
            names = _names(function, args, kwargs)
            leaves, axes, rows = mapped_tensors(leaves, axes, names)
            leaves = [
                leaf if axis is None else ops.moveaxis(leaf, axis, 0)
                for leaf, axis in zip(leaves, axes, strict=True)
            ]
            run = _traced if isinstance(current(), Tracer) else _eager
            found, batched, out_structure = run(function, leaves, axes, structure, rows)
            places = spread(out_axes, out_structure, "out_axes", "the result")
            return unflatten(out_structure, _placed(found, batched, places, rows))
        except Exception as error:
            outward(error)
            raise

    functools.update_wrapper(mapped, function, updated=())
    return mapped


def _in_axes(in_axes: Any, args: tuple[Any, ...], structure: Structure) -> list[Axis]:
    if isinstance(in_axes, (tuple, list)) and len(in_axes) != len(args):
        raise ArgumentError(
            f"in_axes={in_axes!r} has {len(in_axes)} entries for {len(args)} arguments",
            fix="give one entry for each positional argument, or one int for all",
        )
    return spread(in_axes, structure, "in_axes", "the arguments")


def _names(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> list[str]:
    """What messages call each leaf of the arguments."""
    try:
        own = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        own = []
    found = []
    for at, arg in enumerate(args):
        label = f"argument {own[at]!r}" if at < len(own) else f"argument {at}"
        count = len(flatten(arg)[0])
        found += [label] if count == 1 else [f"leaf {i} of {label}" for i in range(count)]
    for name, arg in kwargs.items():
        count = len(flatten(arg)[0])
        label = f"argument {name!r}"
        found += [label] if count == 1 else [f"leaf {i} of {label}" for i in range(count)]
    return found


Found = tuple[Sequence[Tensor], Sequence[bool], Structure]


def _eager(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    axes: Sequence[Axis],
    structure: Structure,
    rows: int,
) -> Found:
    batcher = Batcher(rows)
    given = [
        leaf if axis is None else batcher.row_of(leaf, True)
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    args, kwargs = unflatten(structure, given)

    def mapped() -> tuple[list[Any], Structure]:
        with interpreting(batcher):
            outputs, out_structure = flatten(function(*args, **kwargs))
            _require_tensors(outputs)
            return [batcher.traced(t).content for t in outputs], out_structure

    lanes, out_structure = mapped() if stack() else above_handlers(mapped)
    return [lane.outer for lane in lanes], [lane.batched for lane in lanes], out_structure


def _traced(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    axes: Sequence[Axis],
    structure: Structure,
    rows: int,
) -> Found:
    parent: Tracer = current()
    region = Region(parent, "row", roots_of({"function": function, "leaves": leaves}))
    region.many *= max(rows, 1)
    region.refuses = None  # eagerly rows that part are staged, too
    given, params, operands = [], [], []
    for leaf, axis in zip(leaves, axes, strict=True):
        if axis is not None:
            operands.append(parent.traced(leaf))
            kind = row_type(leaf.type, True)
            leaf = region.param(kind, record=parent.record_of(leaf))
            params.append(leaf.content)
        given.append(leaf)
    args, kwargs = unflatten(structure, given)
    try:
        with interpreting(region):
            outputs, out_structure = flatten(region.converted(function)(*args, **kwargs))
            _require_tensors(outputs)
            values = [region.traced(t).content for t in outputs]
    finally:
        region.mark.undo()
    refuse_writes(
        region, "vmap", "The function runs once for all rows, and there is one such place."
    )
    cells = {key: cell.tensor for key, cell in region.cells.items()}
    written = [cell for cell in region.cells.values() if cell.written]
    graph = region.close(
        [*params, *params_of(region, cells)], [*values, *[cell.value for cell in written]]
    )
    operands += [parent.traced(tensor) for tensor in cells.values()]
    flags = [True] * len(params) + [False] * len(cells)
    with parent.minding():
        found, batched = replay_batched(graph, operands, flags, rows)
    for cell, value, differs in zip(
        written, found[len(values) :], batched[len(values) :], strict=True
    ):
        if differs:
            raise ArgumentError(
                "a tensor from outside was written inside vmap with a value that differs from "
                "row to row",
                at=author_location(),
                why=f"There is one place for the values of {rows} rows.",
                fix="return the value from the function; in place of backward() call hybrid.grad",
            )
        write_cell(parent, cell.tensor, value, region)
    return found[: len(values)], batched[: len(values)], out_structure


def refuse_writes(region: Region, where: str, why: str) -> None:
    """Raise if the code of ``region`` has written to attributes, lists and the like."""
    for place in region.places.values():
        if place.written:
            raise CaptureError(
                f"{place.label or place.name} was written inside {where}",
                at=author_location(),
                why=why,
                fix="return the value from the function",
            )


def _require_tensors(outputs: Sequence[Any]) -> None:
    for out in outputs:
        if not isinstance(out, Tensor):
            raise ArgumentTypeError(
                f"the function that vmap got returned {type(out).__name__}, not tensors",
                fix="return tensors, or trees of them",
            )


def _placed(
    found: Sequence[Tensor], batched: Sequence[bool], axes: Sequence[Axis], rows: int
) -> list[Tensor]:
    """Results with their rows where ``axes`` say."""
    placed = []
    for at, (t, is_batched, axis) in enumerate(zip(found, batched, axes, strict=True)):
        name = "the result" if len(found) == 1 else f"result {at}"
        if axis is None and is_batched:
            raise ArgumentError(
                f"vmap got out axis None for {name}, which differs from row to row",
                fix="give an int, the axis for its rows",
            )
        if axis is not None:
            rank = t.type.rank - is_batched
            t = ops.moveaxis(with_rows(t, rows, is_batched), 0, out_axis(axis, rank, name))
        placed.append(t)
    return placed
