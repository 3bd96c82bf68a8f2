"""Layouts: how the ranks of a mesh hold a tensor together, as part of its type.

A tensor with a layout has the shape of the whole, and the memory of this rank's part.  For each
axis of the mesh that it names, a layout says whether the ranks along it have parts of the tensor
(``Split``) or terms of a sum (``PARTIAL``), or which of them has it (``Held``); along all others
each rank has the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakValueDictionary

from hybrid.core.types import Shape, TensorType, tensor_type
from hybrid.errors import ShapeError


class MeshAxis(NamedTuple):
    """Ranks along one axis of a mesh: their channel, their number, and which of them this is."""

    comm: str
    ranks: int
    rank: int

    @property
    def name(self) -> str:
        """What the author calls it."""
        return self.comm.partition(" ")[0]


class Split(NamedTuple):
    """An axis of a tensor, of which each rank has one part of equal size.

    It is seen as ``outer`` blocks one behind the other, each of which is cut into the ranks' parts:
    so a rank has its heads of the queries, keys and values that lie in one axis.
    """

    axis: int
    outer: int = 1

    def fits(self, shape: Shape, ranks: int) -> bool:
        """Whether a tensor of ``shape`` can be cut so for ``ranks``."""
        n = shape[self.axis] if self.axis < len(shape) else None
        return type(n) is int and n > 0 and n % (self.outer * ranks) == 0


class Held(NamedTuple):
    """All of a tensor, on one of the ranks alone."""

    rank: int


PARTIAL = "partial"  # terms of a sum that is still to be made
Placement = Split | Held | str | None  # None: the whole, on each rank
Layout = tuple[tuple[MeshAxis, Split | Held | str], ...]  # in the order in which parts are cut


def placement_text(placement: Placement, name: str) -> str:
    """A placement along the axis ``name`` of a mesh, for people."""
    if placement is None:
        return "whole"
    if placement == PARTIAL:
        return f"partial over {name}"
    if isinstance(placement, Held):
        return f"on rank {placement.rank} of {name}"
    blocks = f" in {placement.outer} blocks" if placement.outer > 1 else ""
    return f"axis {placement.axis} by {name}{blocks}"


def layout_text(layout: Layout | None) -> str:
    """``layout`` for people."""
    return ", ".join([placement_text(p, axis.name) for axis, p in layout or ()]) or "whole"


def cut(type: TensorType, placement: Placement, ranks: int) -> TensorType:
    """The type of what one of ``ranks`` has of a tensor of ``type``."""
    if not isinstance(placement, Split):
        return type
    if not placement.fits(type.shape, ranks):
        raise ShapeError(f"axis {placement.axis} of {type} is not cut into {ranks} equal parts")
    sizes = list(type.shape)
    sizes[placement.axis] //= ranks
    return tensor_type(type.dtype, tuple(sizes))


def nothing_of(type: TensorType) -> TensorType:
    """The type of what a rank has of a tensor of ``type`` that another one holds: no element."""
    return tensor_type(type.dtype, (0,))


def part_of(type: TensorType, placement: Placement, axis: MeshAxis) -> TensorType:
    """The type of what this rank has of a tensor of ``type``."""
    if isinstance(placement, Held):
        return type if axis.rank == placement.rank else nothing_of(type)
    return cut(type, placement, axis.ranks)


class LaidType(TensorType):
    """The type of a tensor that has a layout: the shape of the whole, the bytes of the part."""

    __slots__ = ("layout", "local", "whole")

    layout: Layout  # type: ignore[assignment]
    whole: TensorType  # without the layout
    local: TensorType  # of what this rank holds

    def __reduce__(self):
        return laid_type, (self.whole, self.layout)


_interned: WeakValueDictionary[tuple[TensorType, Layout], LaidType] = WeakValueDictionary()
_interning = threading.Lock()


def laid_type(type: TensorType, layout: Iterable[tuple[MeshAxis, Placement]]) -> TensorType:
    """The one type of a tensor of ``type`` with ``layout``; without any it is the type itself."""
    whole = whole_of(type)
    layout = tuple([(axis, p) for axis, p in layout if p is not None and axis.ranks > 1])
    if not layout:
        return whole
    found = _interned.get((whole, layout))
    if found is not None:
        return found
    local = whole
    for axis, placement in layout:
        local = part_of(local, placement, axis)
        if isinstance(placement, Held) and axis.rank != placement.rank:
            break
    made = LaidType.__new__(LaidType)
    for name in ("dtype", "shape", "rank", "size", "floating", "is_open", "ints"):
        setattr(made, name, getattr(whole, name))
    made.kind = -1
    made.nbytes, made.layout, made.whole, made.local = local.nbytes, layout, whole, local
    with _interning:
        return _interned.setdefault((whole, layout), made)


def whole_of(type: TensorType) -> TensorType:
    """``type`` without its layout."""
    return type if type.layout is None else type.whole  # type: ignore[attr-defined]


def local_of(type: TensorType) -> TensorType:
    """The type of what this rank holds of a tensor of ``type``."""
    return type if type.layout is None else type.local  # type: ignore[attr-defined]


def placement_in(layout: Layout | None, axis: MeshAxis) -> Placement:
    """Where ``layout`` has a tensor along ``axis``."""
    return next((p for own, p in layout or () if own == axis), None)
