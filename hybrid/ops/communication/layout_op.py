"""The op that says how ranks are to hold a tensor: to all that is computed, the tensor itself."""

from __future__ import annotations

from typing import Any

from hybrid.core.layouts import PARTIAL, Held, Layout, MeshAxis, Placement, Split
from hybrid.core.types import TensorType
from hybrid.errors import GraphError
from hybrid.ir import Graph, op
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.derivatives import linear

Rows = tuple[tuple[str, int, int, int, int], ...]
_PARTIAL, _HELD = -1, -2  # in place of an axis


@op(name="laid_out", moves=True)
def laid_out(x: TensorType, *, layout: Rows) -> TensorType:
    """``x``, of which each rank is to have its part: see ``rows_of``."""
    rows = layout if isinstance(layout, tuple) else (layout,)
    for row in rows:
        if not isinstance(row, tuple) or [type(item) for item in row] != [str, int, int, int, int]:
            raise GraphError(f"no part of a layout: {row!r}")
        for number, placement in layout_of((row,)):
            if isinstance(placement, Split) and not placement.fits(x.shape, number.ranks):
                raise GraphError(f"{x} is not cut as {row!r} says")
    return x


def rows_of(layout: Layout) -> Rows:
    """``layout`` as an attribute: (channel, ranks, rank, axis, blocks) each.

    In place of the axis there is -1 for terms of a sum; -2 for what one rank holds, whose number
    stands in place of the blocks then.
    """
    return tuple([(*axis, *_numbers(placement)) for axis, placement in layout])


def _numbers(placement: Placement) -> tuple[int, int]:
    if isinstance(placement, Split):
        return placement.axis, placement.outer
    return (_HELD, placement.rank) if isinstance(placement, Held) else (_PARTIAL, 1)


def layout_of(rows: Rows) -> list[tuple[MeshAxis, Placement]]:
    """The layout that an attribute says."""
    kinds = {_PARTIAL: lambda _: PARTIAL, _HELD: Held}
    return [
        (MeshAxis(comm, ranks, rank), kinds[axis](n) if axis in kinds else Split(axis, n))
        for comm, ranks, rank, axis, n in rows
    ]


def is_laid(graph: Graph) -> bool:
    """Whether ranks share tensors of ``graph``."""
    if any([v.type.layout is not None for v in graph.params]):
        return True
    return any([node.op is laid_out for node in graph.walk()])


def in_layout(value: Any, type: TensorType) -> Any:
    """``value``, held as tensors of ``type`` are."""
    if value.type.layout == type.layout:
        return value
    return laid_out(value, layout=rows_of(type.layout or ()))


@laid_out.reference
def laid_out_reference(x: Any, *, layout: Rows) -> Any:
    return x


@laid_out.view
def laid_out_view(x: Any, *, layout: Rows) -> Any:
    return x


@linear(laid_out)
def laid_out_vjp(ct: Any, _y: Any, _x: Any, *, layout: Rows) -> tuple[Any, ...]:
    return (laid_out(ct, layout=layout),)


laid_out.couples(axis_ties.everywhere)
laid_out.shares(shared_work.tied(axis_ties.everywhere, linear=[(0,)]))


@laid_out.batch
def laid_out_batch(_rows: int, _batched: Any, x: Any, *, layout: Rows) -> Any:
    moved = [(*row[:3], row[3] if row[3] < 0 else row[3] + 1, row[4]) for row in layout]
    return laid_out(x, layout=tuple(moved))


@laid_out.samples
def laid_out_samples(draw: Any) -> Any:
    for dtype in draw.all:
        yield (draw(dtype, 4, 2),), {"layout": ()}
