"""Collect the names that a function's code refers to, nested code included.

The names are read off the instructions themselves: ``dis`` takes twenty times as long, for it also
says where each instruction comes from and what its argument looks like.
"""

from __future__ import annotations

import functools
import opcode
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_EXTENDED = opcode.EXTENDED_ARG
# Since when the lowest bits of the argument say something else, and how many they are.
_SHIFTS = {
    "LOAD_GLOBAL": ((3, 11), 1), "LOAD_ATTR": ((3, 12), 1), "LOAD_SUPER_ATTR": ((3, 12), 2),
}  # fmt: skip
_KINDS = {
    "LOAD_GLOBAL": "loaded",
    "LOAD_NAME": "loaded",
    "STORE_GLOBAL": "assigned",
    "LOAD_ATTR": "read",
    "LOAD_METHOD": "read",
    "LOAD_SUPER_ATTR": "read",
    "STORE_ATTR": "stored",
    "DELETE_ATTR": "read",
    "IMPORT_NAME": "modules",
}


def _shift(name: str) -> int:
    since, bits = _SHIFTS.get(name, ((99,), 0))
    return bits if sys.version_info >= since else 0


# What is done with a name, and how far its index is shifted, by instructions.
_NAMING = {
    opcode.opmap[name]: (kind, _shift(name))
    for name, kind in _KINDS.items()
    if name in opcode.opmap
}
_DEREFS = {op: name == "STORE_DEREF" for name, op in opcode.opmap.items() if "DEREF" in name}
_MARKS = bytes([op in _NAMING or op in _DEREFS for op in range(256)])

Place = tuple[Any, ...]  # of code: where it is written, which conversion does not change


class Names(NamedTuple):  # of which there are many
    """The names that code loads, assigns and imports, and its attribute names."""

    loaded: frozenset[str]  # global names
    assigned: frozenset[str]  # those, and variables of enclosing functions, that are set
    attributes: frozenset[str]  # of any object; also those spelled out for getattr()
    modules: frozenset[str]  # imported inside
    variables: frozenset[str]  # of enclosing functions; also what functions nested in it use
    read: frozenset[str]  # the attributes that it does not only set


def by_code(function: F) -> F:
    """``function`` of a code object, perhaps with more; results are kept as long as that lives.

    It is known by its identity, for equal code may be of different files.
    """
    known: dict[int, tuple[weakref.ref[types.CodeType], dict[tuple[Any, ...], Any]]] = {}

    @functools.wraps(function)
    def found(code: types.CodeType, *more: Any) -> Any:
        key = id(code)
        entry = known.get(key)
        if entry is None or entry[0]() is not code:
            entry = known[key] = weakref.ref(code, lambda _: known.pop(key, None)), {}
        results = entry[1]
        if more not in results:
            results[more] = function(code, *more)
        return results[more]

    return found  # type: ignore[return-value]


@by_code
def place_in(code: types.CodeType) -> Place:
    """Return the (file, line, ...) key of where ``code`` is written."""
    place = (code.co_filename, code.co_firstlineno, code.co_name)
    if code.co_name != "<lambda>":
        return place
    if not hasattr(code, "co_positions"):
        return (*place, id(code))  # lambdas on one line cannot be told apart
    spans = [(p[0], p[2]) for p in code.co_positions() if None not in p and p[2] != p[3]]
    return (*place, min(spans, default=None))


@by_code
def names_in(code: types.CodeType, hosted: frozenset[Place] = frozenset()) -> Names:
    """Return the Names of ``code`` and the code nested in it, except for the ``hosted`` places."""
    loaded: set[str] = set()
    assigned: set[str] = set()
    bound: set[str] = set()  # variables: an attribute or a global may have the same name
    read: set[str] = set()
    modules: set[str] = set()
    variables: set[str] = set()
    stored: set[str] = set()
    found = {
        "loaded": loaded, "assigned": assigned, "read": read, "stored": stored, "modules": modules,
    }  # fmt: skip
    data, names = code.co_code, code.co_names
    ops, arguments = data[::2], data[1::2]
    marks = ops.translate(_MARKS)
    at = marks.find(1)
    while at >= 0:
        op, argument, before = ops[at], arguments[at], at - 1
        if ops[before] == _EXTENDED and at:
            argument = _extended(ops, arguments, at)
        if op in _NAMING:
            kind, shift = _NAMING[op]
            found[kind].add(names[argument >> shift])
        else:
            name = _cells(code)[argument]
            variables.add(name)
            if _DEREFS[op]:
                bound.add(name)
        at = marks.find(1, at + 1)
    loaded.difference_update([name for name in loaded if not name.isidentifier()])  # no author's
    read.update([n for n in names if n not in loaded and n not in assigned | stored])
    assigned |= bound
    variables |= bound
    for constant in code.co_consts:
        kind = type(constant)
        if kind is str:
            if _is_name(constant):
                read.add(constant)
        elif kind is tuple:
            read.update([t for t in constant if isinstance(t, str) and _is_name(t)])
        elif kind is types.CodeType and place_in(constant) not in hosted:
            inner = names_in(constant, hosted)
            variables |= inner.variables
            loaded |= inner.loaded
            assigned |= inner.assigned
            read |= inner.read
            stored |= inner.attributes
            modules |= inner.modules
    return Names(
        loaded=frozenset(loaded), assigned=frozenset(assigned),
        attributes=frozenset(read | stored), modules=frozenset(modules),
        variables=frozenset(variables), read=frozenset(read),
    )  # fmt: skip


@by_code
def places_in(code: types.CodeType) -> frozenset[Place]:
    """Return the Places of ``code`` and of the code nested in it."""
    nested = [places_in(c) for c in code.co_consts if type(c) is types.CodeType]
    return frozenset([place_in(code)]).union(*nested)


def _is_name(text: str) -> bool:
    """Return whether ``text`` can be an attribute name (parts of containers are digits)."""
    return text.isidentifier() or text.isalnum()


def instructions(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield the opcode and the argument of each instruction."""
    high = 0
    for op, low in zip(code[::2], code[1::2], strict=True):
        if op == _EXTENDED:
            high = (high | low) << 8
        else:
            yield op, high | low
            high = 0


def _extended(ops: bytes, arguments: bytes, at: int) -> int:
    """Return the argument of the instruction at ``at``, including its EXTENDED_ARG prefixes."""
    argument, shift = arguments[at], 8
    while at > 0 and ops[at - 1] == _EXTENDED:
        at -= 1
        argument |= arguments[at] << shift
        shift += 8
    return argument


def _cells(code: types.CodeType) -> tuple[str, ...]:
    """Return the variable names that the arguments of cell instructions index."""
    cells = code.co_cellvars + code.co_freevars
    if sys.version_info < (3, 11):
        return cells
    variables = code.co_varnames
    return variables + tuple([name for name in cells if name not in variables])
