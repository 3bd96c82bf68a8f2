"""Tensors with open axes: what stands for them while a function is captured.

The author's code meets a tensor of an open type in place of an argument, everywhere it is handed
to, and at the places outside whose tensors have other sizes from call to call.  Where it gets at
the tensor itself, by another way, its sizes are those of this call alone: then there is no capture
for all sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hybrid.core.dataclass import replace
from hybrid.core.open_numbers import open_number
from hybrid.core.sizes import HIGHEST, LOWEST, OpenSizes, Size
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.ir import Graph
from hybrid.ir.graph import open_numbers
from hybrid.ir.record import Leaf, gradient_leaf
from hybrid.trace.capture.captured_graph import Item, OpenAxes, at_call, shape_of
from hybrid.trace.capture.number_inputs import InputStandIns
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.places.address import Address
from hybrid.trace.places.place import is_own
from hybrid.trace.regions.tracer import Tracer

_NAMES = "nmklpqrstuvw"


def open_axes(leaves: Sequence[Any], opened: Mapping[tuple[Item, int], Any]) -> OpenAxes:
    """Symbols for the ``opened`` axes, those with one number, or one Dim, sharing theirs."""
    tensors = {item: at_call(item, leaves) for item, _ in opened}
    sizes, symbols, places = OpenSizes(), dict[Any, Size](), []
    taken = {getattr(number, "name", "") for number in opened.values()}
    names = [
        name for name in (*_NAMES, *[f"n{i}" for i in range(len(opened))]) if name not in taken
    ]
    shapes: dict[Item, list[Any]] = {}
    for (item, axis), number in opened.items():
        value = shape_of(tensors[item])[axis]
        if number not in symbols:
            if hasattr(number, "name"):  # a Dim
                low, high = max(number.low, LOWEST), min(number.high, HIGHEST)
                symbols[number] = sizes.symbol(number.name, value, low, high)
            else:
                symbols[number] = sizes.symbol(names.pop(0), value)
            places.append((item, axis))
        shapes.setdefault(item, [*shape_of(tensors[item])])[axis] = symbols[number]
    types, outside, numbers = dict[int, TensorType](), dict[Address, TensorType](), {}
    for item, shape in shapes.items():
        if isinstance(tensors[item], int):
            (numbers[item],) = shape
            continue
        type_ = tensors[item].type.with_shape(tuple(shape))
        if isinstance(item, int):
            types[item] = type_
        else:
            outside[item] = type_
    closed = {
        i: leaf.type for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and i not in types
    }
    return OpenAxes(
        sizes=sizes, places=tuple(places), types=types, closed=closed, outside=outside,
        numbers=numbers,
    )  # fmt: skip


def stand_ins(leaves: Sequence[Any], axes: OpenAxes) -> tuple[list[Any], dict[Address, Tensor]]:
    """``leaves`` with a tensor of its open type for each that has one, and those elsewhere."""
    made: dict[int, Tensor] = {}
    variables: dict[int, Leaf] = {}
    given = {id(leaf) for leaf in leaves}
    for i, type_ in axes.types.items():
        leaf = leaves[i]
        if id(leaf) not in made:
            made[id(leaf)] = _stand_in(leaf, type_, variables)
    for i, type_ in axes.types.items():
        own, variable = gradient_leaf(leaves[i]), gradient_leaf(made[id(leaves[i])])
        if own is None or own.grad is None or variable.grad is not None:
            continue
        if id(own.grad) not in made and id(own.grad) not in given:
            made[id(own.grad)] = _stand_in(own.grad, type_, variables)
        variable.grad = made.get(id(own.grad), own.grad)
    outside = {}
    for address, type_ in axes.outside.items():
        tensor = address.read()
        if id(tensor) not in made:
            made[id(tensor)] = _stand_in(tensor, type_, variables)
        outside[address] = made[id(tensor)]
    found = [made[id(leaf)] if i in axes.types else leaf for i, leaf in enumerate(leaves)]
    for i, size in axes.numbers.items():
        found[i] = open_number(size)
    return found, outside


def _stand_in(tensor: Tensor, type_: TensorType, variables: dict[int, Leaf]) -> Tensor:
    """A tensor of ``type_`` like ``tensor``; ``variables``: what stands for its kind, by id."""
    made = object.__new__(type(tensor))
    made.type, made.content, made.record = type_, tensor.content, tensor.record
    if isinstance(tensor.record, Leaf):
        made.record = _variable(tensor.record, type_, variables)
    if getattr(tensor, "leaf", None) is not None:
        made.leaf = _variable(tensor.leaf, type_, variables)
    if getattr(tensor, "frozen_leaf", None) is not None:
        made.frozen_leaf = _variable(tensor.frozen_leaf, type_, variables)
    return made


def _variable(own: Leaf, type_: TensorType, variables: dict[int, Leaf]) -> Leaf:
    found = variables.get(id(own))
    if found is None:
        found = variables[id(own)] = Leaf(type_)
        found.sequence, found.frozen = own.sequence, own.frozen  # as old as what it stands for
    return found


def put_outside(
    tracer: Tracer, guards: Guards, placed: InputStandIns, outside: Mapping[Address, Tensor]
) -> set[int]:
    """Put the tensors that stand for those ``outside`` in their places; the ids of the latter.

    Where the guards do not know of a place nothing is written, and the tensor is always the same.
    """
    found = set()
    known = {address.key: made for address, made in outside.items()}
    for original, address in guards.attribute_sources.items():
        made = known.get(address.key)
        if made is not None:
            placed.put(_held_at(address), made)
            del tracer.attribute_sources[original]
            tracer.attribute_sources[id(made)] = address
            found.add(original)
            for _, further in [other for other in guards.repeated if other[0] == original]:
                placed.put(_held_at(further), made)
    return found


def _held_at(address: Address) -> Address:
    """Where what is read at ``address`` is kept: by a container, by an object or by its class."""
    stored = address.stored()
    if is_own(stored.owner, stored.name):
        return stored
    kind = stored.owner if isinstance(stored.owner, type) else type(stored.owner)
    holder = next(base for base in kind.__mro__ if stored.name in vars(base))
    return replace(stored, owner=holder)


def require_apart(
    tracer: Tracer, leaves: Sequence[Any], axes: OpenAxes, guards: Guards, placed: Collection[int]
) -> None:
    """Raise where the function can meet a tensor that another one stands for.

    ``placed`` are the ids of those that are not at their places outside.
    """
    if placed & tracer.cells.keys():
        raise CaptureError(
            f"a tensor that {tracer.builder.name} reads from outside is in two places",
            why="In one of them its sizes are those of one call.",
        )
    met = tracer.cells.keys() | tracer.attribute_sources.keys() | (guards.outside - placed)
    places = {owner for owner, _ in tracer.places}
    for i in axes.types:
        own = gradient_leaf(leaves[i])
        grad = None if own is None else own.grad
        if id(leaves[i]) in met or id(own) in places or (grad is not None and id(grad) in met):
            raise CaptureError(
                f"an argument of {tracer.builder.name} is also read from outside",
                why="Its sizes are there those of one call.",
            )


def needed_axes(axes: OpenAxes, graph: Graph, tracer: Tracer) -> OpenAxes:
    """``axes`` without the tensors outside of which nothing was asked, and without their symbols.

    They were written, perhaps, and their sizes make no difference.
    """
    sizes = axes.sizes
    read = {cell.address.key for cell in tracer.cells.values() if cell.address is not None}
    rest = {address: type_ for address, type_ in axes.outside.items() if address.key not in read}
    held = [type_ for address, type_ in axes.outside.items() if address not in rest]
    numbers = [n for type_ in (*axes.types.values(), *held) for n in type_.shape]
    numbers += axes.numbers.values()
    used = sizes.symbols_of([*numbers, *open_numbers(graph)]) | sizes.asked()
    unused = {a for a, type_ in rest.items() if used.isdisjoint(sizes.symbols_of(type_.shape))}
    if not unused:
        return axes
    kept = [at for at, (item, _) in enumerate(axes.places) if item not in unused]
    gone = [symbol for at, symbol in enumerate(sizes.symbols[: len(axes.places)]) if at not in kept]
    sizes.drop(gone)
    return replace(
        axes, places=tuple([axes.places[at] for at in kept]),
        outside={a: type_ for a, type_ in axes.outside.items() if a not in unused},
    )  # fmt: skip
