"""Trees of values: lists, tuples, named tuples and dicts (also ordered), anything else as a leaf.

``flatten`` gives the leaves and a hashable structure that tells ``[x]``, ``(x,)``, ``x`` and
``None`` apart; ``unflatten`` puts leaves back.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Container, Sequence
from typing import Any

from hybrid.errors import ArgumentTypeError

LEAF = "*"  # the structure of a leaf
Structure = Any


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of ``tree`` from left to right, and its structure."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> Structure:
    kind = type(tree)
    if tree is None:
        return None
    if kind is tuple or kind is list:
        return kind, tuple([_flatten(item, leaves) for item in tree])
    if kind is dict or kind is OrderedDict:
        return kind, tuple([(key, _flatten(item, leaves)) for key, item in tree.items()])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        kind, items = named_parts(tree)
        return kind, tuple([_flatten(item, leaves) for item in items])
    leaves.append(tree)
    return LEAF


def named_parts(tree: Any) -> tuple[type, Sequence[Any]]:
    """The class and the items of a named tuple; attributes that were set on it are further items.

    Called with all of these, the class gives such a named tuple.
    """
    own = getattr(tree, "__dict__", None)
    if not own:
        return type(tree), tree
    return _with_attributes(type(tree), tuple(own)), (*tree, *own.values())


@functools.lru_cache(maxsize=256)
def _with_attributes(kind: Any, names: tuple[str, ...]) -> type:
    """A stand-in for the class ``kind`` of named tuples on which attributes ``names`` are set."""
    count = len(kind._fields)

    def new(_: type, *values: Any) -> Any:
        made = tuple.__new__(kind, values[:count])
        vars(made).update(zip(names, values[count:], strict=True))
        return made

    members = {"__new__": new, "__slots__": (), "_fields": (*kind._fields, *names)}
    return type(kind.__name__, (tuple,), members)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of ``structure`` with ``leaves``."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Any) -> Any:
    if structure is None:
        return None
    if structure == LEAF:
        return next(leaves)
    kind, items = structure
    if kind is dict or kind is OrderedDict:
        return kind((key, _unflatten(item, leaves)) for key, item in items)
    values = [_unflatten(item, leaves) for item in items]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def flatten_until(tree: Any, stops: Container[int]) -> tuple[list[Any], Structure]:
    """``flatten``, where the objects whose ids are ``stops`` are leaves, whatever they hold."""
    leaves: list[Any] = []

    def structure(value: Any) -> Structure:
        if id(value) in stops:
            leaves.append(value)
            return LEAF
        kind = type(value)
        if kind is dict or kind is OrderedDict:
            return kind, tuple([(key, structure(item)) for key, item in value.items()])
        if kind is tuple or kind is list:
            return kind, tuple([structure(item) for item in value])
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            kind, items = named_parts(value)
            return kind, tuple([structure(item) for item in items])
        return _flatten(value, leaves)

    return leaves, structure(tree)


def flatten_once(tree: Any) -> tuple[list[Any], Structure]:
    """``flatten``, where a container inside itself is a leaf."""
    around: set[int] = set()
    leaves: list[Any] = []

    def structure(value: Any) -> Structure:
        kind = type(value)
        if id(value) in around:
            return _leaf(value, leaves)
        if not isinstance(value, (tuple, list, dict)):
            return _flatten(value, leaves)
        around.add(id(value))
        if kind is dict or kind is OrderedDict:
            found: Structure = kind, tuple([(key, structure(v)) for key, v in value.items()])
        elif kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            found = kind, tuple([structure(item) for item in value])
        else:
            found = _leaf(value, leaves)
        around.remove(id(value))
        return found

    return leaves, structure(tree)


def holds_itself(tree: Any) -> bool:
    """Return whether a list, tuple or dict in ``tree`` is inside itself."""
    around: list[int] = []
    rest: list[Any] = [tree]
    while rest:
        value = rest.pop()
        if value is _END:
            around.pop()
        elif isinstance(value, (tuple, list, dict)):
            if id(value) in around:
                return True
            around.append(id(value))
            rest += [_END, *stored_items(value)]
    return False


_END = object()  # behind the items of a container


# What containers hold, past any methods of a class of the author's --------------------------------

_BASES = (list, tuple, OrderedDict, dict, deque, set, frozenset)


def base_of(container: Any) -> Any:
    """The class of Python's own whose content ``container`` has."""
    return next(base for base in _BASES if isinstance(container, base))


def stored_items(container: Any) -> Collection[Any]:
    """What a container holds, of a dict its values; the author's ``__iter__`` is not called."""
    base = base_of(container)
    if issubclass(base, dict):
        return list(base.values(container))
    return container if type(container) is base else list(base.__iter__(container))


def stored_pairs(mapping: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The keys and values that a dict holds; the author's ``items`` is not called."""
    return list(base_of(mapping).items(mapping))


def stored_item(container: Any, key: Any) -> Any:
    """What a list, tuple, deque or dict holds at ``key``; ``__getitem__`` is not the author's."""
    return base_of(container).__getitem__(container, key)


def _leaf(value: Any, leaves: list[Any]) -> Structure:
    leaves.append(value)
    return LEAF


class Several(list):
    """Leaves in the place of one; as the value of a dict it says that the key is not there."""


def unflatten_several(structure: Structure, leaves: Sequence[Any]) -> Any:
    """``unflatten``, where a leaf may be Several."""
    return _spliced(structure, iter(leaves))


def _spliced(structure: Structure, leaves: Any) -> Any:
    if structure is None or structure == LEAF:
        return _unflatten(structure, leaves)
    kind, items = structure
    if kind is dict or kind is OrderedDict:
        made = [(key, _spliced(item, leaves)) for key, item in items]
        return kind((key, value) for key, value in made if type(value) is not Several)
    values: list[Any] = []
    for item in items:
        value = _spliced(item, leaves)
        values += value if type(value) is Several else [value]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """``function`` applied to each leaf of ``tree`` and the leaves at its place in ``others``."""
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        more, its_structure = flatten(other)
        if its_structure != structure:
            raise ArgumentTypeError("the trees have different structures")
        columns.append(more)
    return unflatten(structure, [function(*row) for row in zip(*columns, strict=True)])


def describe(structure: Structure) -> str:
    """``structure`` as one would write it: ``(*, [*, *], {'a': *})``."""
    if structure is None:
        return "None"
    if structure == LEAF:
        return "*"
    kind, items = structure
    if kind is dict or kind is OrderedDict:
        inner = "{" + ", ".join(f"{key!r}: {describe(item)}" for key, item in items) + "}"
        return inner if kind is dict else f"OrderedDict({inner})"
    inner = ", ".join(describe(item) for item in items)
    if kind is list:
        return f"[{inner}]"
    if kind is tuple:
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    return f"{kind.__name__}({inner})"
