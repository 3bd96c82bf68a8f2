"""Arguments with open axes: tensors that stand for them while a function is captured.

The author's code meets a tensor of an open type in place of the argument, everywhere it is handed
to.  Where it gets at the argument itself, by another way, its sizes are those of this call alone:
then there is no capture for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybrid.core.sizes import HIGHEST, LOWEST, OpenSizes, Size
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError
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
    return OpenAxes(sizes, tuple(places), types)


def stand_ins(leaves: Sequence[Any], axes: OpenAxes) -> list[Any]:
    """``leaves`` with a tensor of its open type for each that has one."""
    made: dict[int, Tensor] = {}
    found = []
    for i, leaf in enumerate(leaves):
        if i in axes.types:
            if id(leaf) not in made:
                made[id(leaf)] = make_tensor(axes.types[i], leaf.content)
                made[id(leaf)].record = leaf.record
            leaf = made[id(leaf)]
        found.append(leaf)
    return found


def require_apart(tracer: Tracer, leaves: Sequence[Any], axes: OpenAxes) -> None:
    """Raise where the function has met an argument that a stand-in was handed in for."""
    for i in axes.types:
        if id(leaves[i]) in tracer.cells:
            raise CaptureError(
                f"an argument of {tracer.builder.name} is also read from outside",
                why="Its sizes are there those of one call.",
            )
