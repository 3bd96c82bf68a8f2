"""Arguments with open axes: tensors that stand for them while a function is captured.

The author's code meets a tensor of an open type in place of the argument, everywhere it is handed
to.  Where it gets at the argument itself, by another way, its sizes are those of this call alone:
then there is no capture for all sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hybrid.core.sizes import HIGHEST, LOWEST, OpenSizes, Size
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.ir.record import Leaf
from hybrid.trace.capture.captured_graph import OpenAxes
from hybrid.trace.regions.tracer import Tracer

_NAMES = "nmklpqrstuvw"


def open_axes(leaves: Sequence[Any], opened: Mapping[tuple[int, int], Any]) -> OpenAxes:
    """Symbols for the ``opened`` axes, those with one number, or one Dim, sharing theirs."""
    sizes, symbols, places = OpenSizes(), dict[Any, Size](), []
    taken = {getattr(number, "name", "") for number in opened.values()}
    names = [
        name for name in (*_NAMES, *[f"n{i}" for i in range(len(opened))]) if name not in taken
    ]
    shapes: dict[int, list[Any]] = {}
    for (leaf, axis), number in opened.items():
        value = leaves[leaf].type.shape[axis]
        if number not in symbols:
            if hasattr(number, "name"):  # a Dim
                low, high = max(number.low, LOWEST), min(number.high, HIGHEST)
                symbols[number] = sizes.symbol(number.name, value, low, high)
            else:
                symbols[number] = sizes.symbol(names.pop(0), value)
            places.append((leaf, axis))
        shapes.setdefault(leaf, list(leaves[leaf].type.shape))[axis] = symbols[number]
    types: dict[int, TensorType] = {
        i: leaves[i].type.with_shape(tuple(shape)) for i, shape in shapes.items()
    }
    closed = {
        i: leaf.type for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and i not in types
    }
    return OpenAxes(sizes, tuple(places), types, closed)


def stand_ins(leaves: Sequence[Any], axes: OpenAxes) -> list[Any]:
    """``leaves`` with a tensor of its open type for each that has one."""
    made: dict[int, Tensor] = {}
    variables: dict[int, Leaf] = {}
    given = {id(leaf) for leaf in leaves}
    for i, type_ in axes.types.items():
        leaf = leaves[i]
        if id(leaf) not in made:
            made[id(leaf)] = _stand_in(leaf, type_, variables)
    for i, type_ in axes.types.items():
        own, variable = getattr(leaves[i], "leaf", None), getattr(made[id(leaves[i])], "leaf", None)
        if own is None or own.grad is None or variable.grad is not None:
            continue
        if id(own.grad) not in made and id(own.grad) not in given:
            made[id(own.grad)] = _stand_in(own.grad, type_, variables)
        variable.grad = made.get(id(own.grad), own.grad)
    return [made[id(leaf)] if i in axes.types else leaf for i, leaf in enumerate(leaves)]


def _stand_in(tensor: Tensor, type_: TensorType, variables: dict[int, Leaf]) -> Tensor:
    """A tensor of ``type_`` like ``tensor``; ``variables``: what stands for its kind, by id."""
    made = object.__new__(type(tensor))
    made.type, made.content, made.record = type_, tensor.content, tensor.record
    if isinstance(tensor.record, Leaf):
        made.record = _variable(tensor.record, type_, variables)
    if getattr(tensor, "leaf", None) is not None:
        made.leaf = _variable(tensor.leaf, type_, variables)
    return made


def _variable(own: Leaf, type_: TensorType, variables: dict[int, Leaf]) -> Leaf:
    found = variables.get(id(own))
    if found is None:
        found = variables[id(own)] = Leaf(type_)
        found.sequence = own.sequence  # as old as the one it stands for
    return found


def require_apart(
    tracer: Tracer, leaves: Sequence[Any], axes: OpenAxes, outside: Collection[int]
) -> None:
    """Raise where the function can meet an argument that a stand-in was handed in for.

    ``outside`` are the ids of tensors that it reads from outside.
    """
    met = tracer.cells.keys() | tracer.attribute_sources.keys() | outside
    places = {owner for owner, _ in tracer.places}
    for i in axes.types:
        own = getattr(leaves[i], "leaf", None)
        grad = None if own is None else own.grad
        if id(leaves[i]) in met or id(own) in places or (grad is not None and id(grad) in met):
            raise CaptureError(
                f"an argument of {tracer.builder.name} is also read from outside",
                why="Its sizes are there those of one call.",
            )
