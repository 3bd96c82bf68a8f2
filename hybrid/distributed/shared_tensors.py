"""Tensors that ranks share: ``shard``, and ``whole``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.config import advance_epoch
from hybrid.core.layouts import PARTIAL, Layout, MeshAxis, Placement, Split
from hybrid.core.types import TensorType
from hybrid.distributed.meshes import Mesh
from hybrid.errors import ArgumentError, ArgumentTypeError, AxisError, GradientError, ShapeError
from hybrid.ir.interpreter import current
from hybrid.ir.record import gradient_leaf
from hybrid.nn.modules.parameter import SLICED
from hybrid.ops.communication.layout_op import laid_out, rows_of


class _Partial:
    """In place of an axis of a mesh: what ranks have are terms of a sum that is still to come."""

    def __repr__(self) -> str:
        return "hybrid.distributed.partial"


partial = _Partial()


class Blocks:
    """An axis of a mesh, of which each rank has its part of each of ``count`` equal blocks."""

    def __init__(self, axis: str, count: int) -> None:
        if not isinstance(axis, str):
            raise ArgumentTypeError(f"axis is {axis!r}", fix="give the name of an axis of the mesh")
        if isinstance(count, bool) or not isinstance(count, int):
            raise ArgumentTypeError(f"count is {count!r}", fix="give the number of blocks")
        if count < 1:
            raise ArgumentError(f"count is {count}", fix="give the number of blocks, 1 or more")
        self.axis, self.count = axis, count

    def __repr__(self) -> str:
        return f"hybrid.distributed.blocks({self.axis!r}, {self.count})"


def blocks(axis: str, count: int) -> Blocks:
    """For a spec: ``axis`` of the mesh cuts each of ``count`` blocks that lie one behind the other.

    So weights that make queries, keys and values at once, ``blocks("tp", 3)``, are cut by heads.
    """
    return Blocks(axis, count)


def shard(x: Any, mesh: Mesh, spec: Sequence[Any]) -> Any:
    """Let the ranks of ``mesh`` hold ``x`` together, which all of them have.

    ``spec`` has an entry for each axis of ``x``: the name of an axis of the mesh, whose ranks get
    equal parts of that axis of ``x``; ``blocks(name, n)``; None, for all of it; or ``partial``:
    nothing is cut there, and what ranks have along the axes that the spec does not name are terms
    of a sum (one has ``x``, the others zeros).

    A tensor outside gradients' histories, a parameter say, is changed itself, and returned: shard
    parameters before the optimizer is made.  While a function is captured, and of what was computed
    from variables, a new tensor is returned.  It has the shape of ``x`` and all its values; this
    rank has the memory of its part.
    """
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError(
            f"mesh is a {type(mesh).__name__}", fix="give it what hybrid.distributed.mesh returns"
        )
    x = current().lift(x)
    layout = layout_of_spec(x.type, mesh, spec)
    if current().traces or current().batches:
        return laid_out(x, layout=rows_of(layout))
    leaf = getattr(x, "leaf", None)
    if x.record is not None and x.record is not leaf:
        return laid_out(x, layout=rows_of(layout))
    if leaf is not None and leaf.grad is not None:
        raise GradientError(
            "a tensor that has a gradient already is to be sharded",
            fix="shard parameters before backward(), or set their grad to None",
        )
    hold_by(x, layout)
    return x


def hold_by(x: Any, layout: Layout) -> None:
    """Let this rank hold its part of ``x``, a whole tensor outside gradients' histories.

    So it does of the gradient, if there is one.
    """
    leaf = gradient_leaf(x)
    made = laid_out(x.detach(), layout=rows_of(layout))
    x.type, x.content = made.type, made.content
    if leaf is not None:
        leaf.type = made.type  # others know it by itself: who has slices of its gradient
        if leaf.grad is not None:
            leaf.grad = laid_out(leaf.grad.detach(), layout=rows_of(layout))
    advance_epoch()  # what was captured reads whole ones


def whole(x: Any) -> Any:
    """The tensor of which ranks share the parts, on each of them; they all call it.

    So it is of the slices that ranks have of parameters and gradients by ``data_parallel``'s
    ``zero=2`` and 3.
    """
    x = current().lift(x)
    if SLICED:
        found = _of_slices(x)
        if found is not None:
            return found
    if not current().traces and x.type.layout is None:
        return x
    return laid_out(x, layout=())


def _of_slices(x: Any) -> Any:
    """The whole of a parameter or gradient of which ``x`` is this rank's slice; None of others."""
    leaf = getattr(x, "leaf", None)
    slices = None if leaf is None else SLICED.get(leaf)
    if slices is not None:
        kind = slices.kind_of(x)
        return None if x.type.shape == kind.shape else slices.wholes([x.detach()], [kind])[0]
    for leaf, slices in SLICED.items():
        if leaf.grad is x:
            kind = slices.kind_of_leaf(leaf)
            return None if kind is None else slices.wholes([x], [kind])[0]
    return None


def layout_of_spec(type: TensorType, mesh: Mesh, spec: Sequence[Any]) -> Layout:
    """The layout that ``spec`` asks for of a tensor of ``type``; raises where there is none."""
    if isinstance(spec, _Partial):
        spec = (spec,) * max(type.rank, 1)
    if isinstance(spec, str) or not isinstance(spec, Sequence):
        raise ArgumentTypeError(
            f"spec is {spec!r}", fix="give a tuple with an entry for each axis of the tensor"
        )
    is_sum = any([isinstance(entry, _Partial) for entry in spec])
    if len(spec) != type.rank and not (is_sum and not type.rank and len(spec) == 1):
        raise ArgumentError(
            f"a spec of {len(spec)} entries for {type}, which has {type.rank} axes",
            why="There is an entry for each axis of the tensor.",
            fix="add None for axes that are whole on each rank",
        )
    found: dict[str, Placement] = {}
    for axis, entry in enumerate(spec):
        if entry is None or isinstance(entry, _Partial):
            continue
        name, outer = (entry.axis, entry.count) if isinstance(entry, Blocks) else (entry, 1)
        ranks = mesh.size(name)
        if name in found:
            raise AxisError(
                f"the spec names the axis {name!r} of the mesh twice",
                why="Its ranks can cut one axis of a tensor.",
                fix="name another axis of the mesh, or None",
            )
        found[name] = Split(axis, outer)
        if type.shape[axis] % (ranks * outer):
            parts = f"{outer} blocks of {ranks}" if outer > 1 else str(ranks)
            raise ShapeError(
                f"axis {axis} of {type} is not divided by {parts} ranks along {name!r}",
                why="Each rank is to have an equal part.",
                fix=f"make it a multiple of {ranks * outer}, or cut another axis",
            )
    if is_sum:
        found |= {name: PARTIAL for name in mesh.names if name not in found}
    axes = [
        (MeshAxis(mesh.channel(name).name, mesh.size(name), mesh.coordinate(name)), placement)
        for name, placement in sorted(found.items())
    ]
    return tuple([(axis, p) for axis, p in axes if axis.ranks > 1 and p is not None])
