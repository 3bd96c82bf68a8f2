"""Source lookup: from a code object to the syntax tree of its function.

The file is parsed once.  The function is the one that begins where the code says; lambdas on one
line are told apart by the columns that the code's instructions come from, or by compiling them.
That the text still says what was compiled is checked by compiling it again.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import opcode
import types
from collections import deque
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

from hybrid.convert.rebuild import FACTORY, compiled
from hybrid.convert.scope import names_in, walk_scope
from hybrid.core.dataclass import dataclass

Function = ast.FunctionDef | ast.Lambda
_NOTHING = bytes([opcode.opmap["NOP"], 0])


@dataclass(frozen=True, slots=True)
class Definition:
    """A function's syntax tree, and what else its code depends on."""

    node: Function
    class_name: str | None  # of the class whose private names it mangles
    imports: tuple[str, ...]  # names that its module imports: calls through them compile otherwise
    file: _Parsed  # which is kept as long as something of it is converted


class NoSource(Exception):
    """The exception for a function without source; its text is for the author."""


class _Parsed:
    """A file's text, its tree, and the definitions in it by their lines, as far as known."""

    def __init__(self, path: str, text: str) -> None:
        self.text, self.tree = text, ast.parse(text, path)
        self.imports = _imports(self.tree)

    def at(self, line: int) -> list[Definition]:
        """The definitions that begin at ``line``."""
        return [
            definition
            for definition in _definitions(self, self.tree, None, line)
            if first_line(definition.node) == line
        ]


_files: WeakValueDictionary[str, _Parsed] = WeakValueDictionary()
_newest: deque[_Parsed] = deque(maxlen=16)  # most of the functions in a file come one by one


def definition_of(code: types.CodeType) -> Definition:
    """The definition of ``code``; raises NoSource."""
    path = code.co_filename
    if code.co_flags & 0x380:  # coroutine, iterable coroutine, asynchronous generator
        raise NoSource("asynchronous functions are not converted")
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        raise NoSource(f"{code.co_name} is not a function")
    found = _look(code)
    if isinstance(found, str):  # the file may have been read before it was written
        linecache.checkcache(path)
        found = _look(code)
    if isinstance(found, str):
        raise NoSource(found)
    return found


def ends_with_code(code: types.CodeType) -> bool:
    """Whether a generator of ``code`` runs code when it is closed: its yields are in a ``finally``.

    Or in a ``with``, or before handlers that take the GeneratorExit; not known without a source.
    """
    try:
        parsed = _parse(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    # Of what is converted, too, whose instructions are others than those of the source.
    same = [d.node for d in parsed.at(code.co_firstlineno) if _name(d.node) == code.co_name]
    around = [p for node in same for p in ast.walk(node) if isinstance(p, (ast.With, ast.Try))]
    return any(
        isinstance(inner, (ast.Yield, ast.YieldFrom))
        for part in around
        if isinstance(part, ast.With) or part.finalbody or any(map(_takes_any, part.handlers))
        for inner in ast.walk(part)
    )


def _takes_any(handler: ast.ExceptHandler) -> bool:
    names = [] if handler.type is None else ast.walk(handler.type)
    wide = {"BaseException", "GeneratorExit"}
    return handler.type is None or any(isinstance(n, ast.Name) and n.id in wide for n in names)


def _look(code: types.CodeType) -> Definition | str:
    """The definition, or why there is none."""
    path = code.co_filename
    text = "".join(linecache.getlines(path))
    if not text:
        return f"the source of {path} is not to be had"
    try:
        parsed = _parse(path, text)
    except (SyntaxError, ValueError, RecursionError):
        return f"{path} does not parse: it has changed since it was imported"
    candidates = parsed.at(code.co_firstlineno)
    same = [d for d in candidates if _name(d.node) == code.co_name]
    if len(same) > 1:
        same = _by_columns(same, code)
    same = [d for d in same if agrees(d, code)]
    if not same and path.startswith("<"):  # of other code that was no file: of `python -c`, say
        return f"the source of {path} is not to be had"
    if not same:
        return f"{path} has changed since it was imported, or was rewritten while it was"
    return same[0]


def _parse(path: str, text: str) -> _Parsed:
    known = _files.get(path)
    if known is None or known.text != text:
        known = _files[path] = _Parsed(path, text)
        _newest.append(known)
    return known


def _definitions(
    file: _Parsed, node: ast.AST, class_name: str | None, line: int
) -> Iterator[Definition]:
    """Those in ``node`` that may begin at ``line``: what does not go over it is passed by."""
    for child in ast.iter_child_nodes(node):
        end = getattr(child, "end_lineno", line)  # few kinds of nodes know no lines
        if end < line or first_line(child) > line:
            continue
        if isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield Definition(child, class_name, file.imports, file)
        inner = child.name if isinstance(child, ast.ClassDef) else class_name
        yield from _definitions(file, child, inner, line)


def _imports(tree: ast.Module) -> tuple[str, ...]:
    """The names that the module itself imports."""
    found = [n for n in walk_scope(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    return tuple(sorted(names_in(*found).bound))


def first_line(node: ast.AST) -> int:
    """The first line of the code of ``node``, as a code object says it; 0 if none."""
    decorators = getattr(node, "decorator_list", ())
    return decorators[0].lineno if decorators else getattr(node, "lineno", 0)


def _name(node: Function) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "<lambda>"


def _by_columns(definitions: list[Definition], code: types.CodeType) -> list[Definition]:
    """Those whose text holds the places that the instructions of ``code`` come from."""
    if not hasattr(code, "co_positions"):
        return definitions
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column)
    ]

    def holds(definition: Definition) -> bool:
        node = definition.node
        body = node.body if isinstance(node, ast.Lambda) else node
        start = body.lineno, body.col_offset
        end = body.end_lineno, body.end_col_offset
        # The first instructions of a function (RESUME and the like) are placed at its beginning.
        inside = [p for p in places if p[0] != p[1] and p[0][1] != p[1][1]]
        return bool(inside) and all(start <= a and b <= end for a, b in inside)

    return [d for d in definitions if holds(d)] or definitions


def agrees(definition: Definition, code: types.CodeType) -> bool:
    """Whether compiling ``definition`` gives ``code``, as far as that can be told."""
    try:
        again = compiled(definition.node, code, definition.class_name, definition.imports)
    except (SyntaxError, ValueError):
        return False
    if _same(again, code):
        return True
    # Test runners rewrite assert statements while they import: then only the names can be compared.
    asserts = any(isinstance(node, ast.Assert) for node in ast.walk(definition.node))
    return asserts and set(again.co_names) <= set(code.co_names) | set(code.co_varnames)


def _unpadded(instructions: bytes) -> bytes:
    """``instructions`` without those at their end that do nothing: profilers tell code by them."""
    while instructions.endswith(_NOTHING):
        instructions = instructions[: -len(_NOTHING)]
    return instructions


def _same(first: Any, second: Any) -> bool:
    """Whether code objects, or constants of theirs, are as good as equal."""
    if isinstance(first, types.CodeType) and isinstance(second, types.CodeType):
        names = ("co_names", "co_varnames")
        alike = all(getattr(first, name) == getattr(second, name) for name in names)
        return (
            alike
            and _unpadded(first.co_code) == _unpadded(second.co_code)
            and _same(first.co_consts, second.co_consts)
        )
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second):
        return all(itertools.starmap(_same, zip(first, second, strict=True)))
    if type(first) is not type(second):
        return False
    if isinstance(first, str):  # of which some are qualified names
        return first == second or first.startswith(FACTORY)
    return first == second if isinstance(first, frozenset) else repr(first) == repr(second)
