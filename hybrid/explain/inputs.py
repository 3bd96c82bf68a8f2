"""Inputs, guards and open sizes of a capture, by names that the author knows."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.explain.argument_names import given_name
from hybrid.explain.explanation import GuardRow, Input
from hybrid.explain.words import is_plain, is_telling, listed, shown
from hybrid.ir.printer import names_of
from hybrid.ir.record import Leaf, gradient_leaf
from hybrid.trace.capture.captured_graph import Capture, Item, OpenAxes, Source
from hybrid.trace.guards.matching import AnyNumber, AnyObject
from hybrid.trace.places.address import GIVEN, Address, ArgumentLeaf, HeldObject, keys_text
from hybrid.trace.places.code_owner import CONTAINERS
from hybrid.trace.places.place import CONTENT


def inputs_of(
    capture: Capture, names: Sequence[str], paths: Mapping[Any, str]
) -> tuple[Input, ...]:
    """The parameters of the graph."""
    graph = capture.graph
    printed = names_of(graph)
    written = {source for source, _ in capture.writes}
    return tuple(
        Input(f"%{printed[param]}", str(param.type), _source(source, names, paths), i in written)
        for i, (param, source) in enumerate(zip(graph.params, capture.sources, strict=True))
    )


def _source(source: Source, names: Sequence[str], paths: Mapping[Any, str]) -> str:
    if source.kind == "argument":
        return f"argument {names[source.index]}"
    if source.is_outer_number:
        return f"{slot_name(source.address, paths)}, any number"
    if source.kind == "number":
        return f"argument {names[source.index]}, any number"
    if source.kind == "cell":
        return paths.get(id(source.tensor), "a tensor from outside")
    if type(source.address.owner) is ArgumentLeaf:
        return slot_name(source.address, paths)
    return paths.get(id(source.address.read())) or slot_name(source.address, paths)


def slot_name(address: Address, paths: Mapping[Any, str], key: tuple[Any, ...] = ()) -> str:
    """``self.mean``, ``self.first.weight.grad``, ``state['h']``."""
    items = "".join(f"[{k.start}:]" if type(k) is slice else f"[{k!r}]" for k in key)
    if address.owner is GIVEN:
        return paths.get(address.keys, "an argument") + items
    if type(address.owner) is HeldObject:
        return f"{slot_name(address.owner.address, paths)}.{address.name}{items}"
    default = _default(address)
    if default:
        return f"the default of {default}"
    if _is_global(address):
        name, *keys = address.keys
        return str(name) + keys_text(keys) + items
    items = keys_text(address.keys) + items
    return _attribute(address.owner, address.name, paths) + items


def _is_global(address: Address) -> bool:
    """Whether ``address`` begins with a global name."""
    return type(address.owner) is dict and "__builtins__" in address.owner


def _default(address: Address) -> str:
    """The parameter whose default is at ``address``; empty for other places."""
    if address.name == "__kwdefaults__":
        return str(address.keys[0])
    if address.name != "__defaults__":
        return ""
    code, count = address.owner.__code__, len(address.owner.__defaults__)
    return code.co_varnames[: code.co_argcount][address.keys[0] - count]


def _is_of(name: str, guard: str) -> bool:
    """Whether the guard called ``guard`` is on what holds the input called ``name``."""
    return "defaults of " in guard if name[0] == "=" else guard.endswith(name)


def numbers_of(capture: Capture, paths: Mapping[Any, str]) -> list[tuple[str, str]]:
    """(name, what the author calls it) of each number from outside that is an input.

    The name has a space before it if it is a variable's, a dot if an attribute's, = if a
    parameter's.
    """
    found = []
    for source in capture.sources:
        address = source.address
        if address is None or not source.is_outer_number:
            continue
        text = slot_name(address, paths)
        if isinstance(address.owner, types.CellType) or _is_global(address):
            name = f" {text.partition('[')[0]}"
        else:
            default = _default(address)
            name = f"={default}" if default else f".{address.name}"
        found.append((name, text))
    return found


def place_names(
    places: Sequence[Address],
    capture: Capture,
    function: Callable[..., Any],
    leaves: Sequence[Any],
    names: Sequence[str],
) -> list[str]:
    """What the author calls ``places``."""
    paths = paths_of(capture, function, leaves, names)
    return [slot_name(place, paths) for place in places]


def outside_rows(axes: OpenAxes) -> tuple[str, ...]:
    """The tensors outside that have open ``axes``, with their types."""
    return tuple([f"{slot_name(place, {})} {type_}" for place, type_ in axes.outside.items()])


def _attribute(owner: Any, name: str, paths: Mapping[Any, str]) -> str:
    if isinstance(owner, types.CellType):  # a variable of an enclosing function
        return paths.get(id(owner), "a closure variable")
    known = paths.get(owner if type(owner) is ArgumentLeaf else id(owner))
    if known is None:
        known = "a tensor" if isinstance(owner, Leaf) else shown(owner).partition(" ")[2]
    return known if name == CONTENT else f"{known}.{name}"


def paths_of(
    capture: Capture, function: Callable[..., Any], leaves: Sequence[Any], names: Sequence[str]
) -> dict[Any, str]:
    """What the author calls tensors, their leaves, containers and the function's own object.

    They are found by their ids, containers among the arguments by the keys that lead to them.
    """
    instance = getattr(function, "__self__", None)
    paths: dict[Any, str] = {} if instance is None else {id(instance): "self"}
    plain = getattr(function, "__func__", function)
    if isinstance(plain, types.FunctionType):
        cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
        paths |= {id(cell): name for name, cell in cells}
    for frozen in (False, True):
        paths |= {ArgumentLeaf(index, frozen): name for index, name in enumerate(names)}
    roots = [("self", instance), *zip(names, leaves, strict=True)]
    if not _is_module(instance):
        roots += [(f"self.{n}", value) for n, value in getattr(instance, "__dict__", {}).items()]
    for guard in (*capture.guards.always, *capture.guards.by_epoch):
        roots.append((guard.name.rpartition(" ")[2], guard.expected))
    for write in capture.place_writes:
        if write.address.owner is GIVEN:
            paths[write.address.keys] = given_name(function, write.address.keys)
    seen: set[int] = set()
    for prefix, root in roots:
        for path, tensor in _held(prefix, root, seen):
            paths.setdefault(id(tensor), path)
            leaf = gradient_leaf(tensor)
            if leaf is not None:
                paths.setdefault(id(leaf), path)
    return paths


def _held(prefix: str, root: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """``root`` if it is a tensor or a container, what is in it, the tensors of a module.

    Each container is gone through once: ids of those that were are ``seen``.
    """
    if isinstance(root, Tensor):
        yield prefix, root
        return
    if isinstance(root, CONTAINERS):
        yield prefix, root
        if id(root) in seen:
            return
        seen.add(id(root))
    if isinstance(root, dict):
        for key, item in root.items():
            yield from _held(f"{prefix}[{key!r}]", item, seen)
        return
    if isinstance(root, (list, tuple)):
        for index, item in enumerate(root):
            yield from _held(f"{prefix}[{index}]", item, seen)
        return
    if _is_module(root):
        for path, tensor in (*root.named_parameters(), *root.named_buffers()):
            yield f"{prefix}.{path}", tensor


def _is_module(value: Any) -> bool:
    """Whether ``value`` is a tree of parameters and buffers: those are defined in a layer above."""
    names = ("named_parameters", "named_buffers")
    return all(callable(getattr(type(value), name, None)) for name in names)


def guard_rows(capture: Capture, inputs: Sequence[tuple[str, str]]) -> tuple[GuardRow, ...]:
    """What a call must find as it was, the telling ones first, by name; equal texts counted.

    Of what holds some of the ``inputs`` (each a name and what the author calls it) they are free.
    """
    counts: dict[tuple[str, str, bool], int] = {}
    for guard in (*capture.guards.always, *capture.guards.by_epoch):
        if guard.name.endswith(".*"):
            row = guard.name[:-2], "without attributes that hide those of its class", False
        elif guard.expected is type(capture.guards):  # a place for a tensor
            row = guard.name, "a tensor of the same type", False
        elif isinstance(guard.expected, AnyObject):
            row = guard.name, f"a {guard.expected.kind.__name__} that holds the same", False
        elif guard.name.startswith("keyword defaults of "):
            values = [shown(part) for part in guard.expected if part]
            row = guard.name, " ".join(values), is_plain(guard.expected)
        else:
            row = guard.name, shown(guard.expected), is_telling(guard)
        if not isinstance(guard.expected, AnyNumber):
            but = [text for name, text in inputs if _is_of(name, guard.name)]
            row = (row[0], f"{row[1]} with any {listed(but)}", row[2]) if but else row
        counts[row] = counts.get(row, 0) + 1
    rows = [GuardRow(*row, count) for row, count in counts.items()]
    return tuple(sorted(rows, key=lambda row: (not row.telling, row.name, row.value)))


def size_rows(
    captures: Iterable[Capture],
    fixing: Mapping[tuple[Item, int], Any],
    refusal: str,
    names: Sequence[str],
    paths: Callable[[Capture], Mapping[Any, str]],
) -> Iterator[str]:
    """A row for each open capture and its conditions, and for each axis that is fixed.

    ``fixing`` are axes of tensors with the conditions that fix them; ``names`` those of the leaves,
    ``paths`` what the author calls other tensors.
    """
    known: Mapping[Any, str] = {}
    for capture in captures:
        axes = capture.open_axes
        if axes is None:
            continue
        types = [f"{names[i]} {type_}" for i, type_ in sorted(axes.types.items())]
        types += [f"{names[i]} {size}" for i, size in sorted(axes.numbers.items())]
        if axes.outside:
            known = paths(capture)
        types += [f"{slot_name(place, known)} {type_}" for place, type_ in axes.outside.items()]
        yield f"open: {', '.join(types)}"
        for condition in axes.sizes.conditions.values():
            yield f"   where {condition}{_place(condition)}"
    rows = [
        (names[item] if isinstance(item, int) else slot_name(item, known), axis, condition)
        for (item, axis), condition in fixing.items()
    ]
    for name, axis, condition in sorted(rows, key=lambda row: row[:2]):
        yield f"axis {axis} of {name} is fixed: {condition}{_place(condition)}"
    if refusal:
        yield f"no axis is open: {refusal}"


def _place(condition: Any) -> str:
    at = condition.at
    return "" if at is None else f"  {os.path.basename(at.path)}:{at.line}"
