"""Predicates, copies and marks of syntax trees, shared by the parts of the conversion."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from hybrid.convert.scope import FUNCTIONS, names_in, walk_scope

LOOPS = (ast.While, ast.For)
TRIES = (ast.Try, ast.TryStar) if hasattr(ast, "TryStar") else (ast.Try,)
_OTHER_BLOCKS = (ast.With, ast.AsyncWith, ast.AsyncFor)
_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await)


def copied(node: Any) -> Any:
    """A copy of a tree or list of trees, four times as fast as ``copy.deepcopy``."""
    if isinstance(node, list):
        return [copied(item) for item in node]
    if not isinstance(node, ast.AST) or isinstance(node, ast.expr_context):
        return node
    made = node.__class__.__new__(node.__class__)
    own = made.__dict__
    for name, value in node.__dict__.items():
        own[name] = copied(value) if isinstance(value, (ast.AST, list)) else value
    return made


def mark_dead(body: list[ast.stmt]) -> ast.If:
    """The statement ``if False: body``, which is never reached and makes names local."""
    node = ast.copy_location(ast.If(ast.Constant(False), body, []), body[0])
    ast.copy_location(node.test, body[0])
    return node


def is_dead(node: ast.AST) -> bool:
    """Whether ``node`` is ``if False``."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Constant)
        and node.test.value is False
        and not node.orelse
    )


def set_stops(loop: ast.stmt, flags: Sequence[str]) -> None:
    """Mark ``loop`` with the flags that end it."""
    loop.hyb_stops = tuple(flags)  # type: ignore[attr-defined]


def stops_of(loop: ast.stmt) -> tuple[str, ...]:
    """The flags that end ``loop``."""
    return getattr(loop, "hyb_stops", ())


def set_returned(guard: ast.stmt, line: int | None) -> None:
    """Mark ``guard`` with the line where the result is bound if it does not run."""
    guard.hyb_returned = line  # type: ignore[attr-defined]


def returned_of(guard: ast.stmt) -> int | None:
    """The line that ``set_returned`` has marked ``guard`` with, if any."""
    return getattr(guard, "hyb_returned", None)


TESTED = "hyb_tested"  # only whether the value is true is asked
MIXED = "hyb_mixed"  # it stands among operands of which one is handed on
JOINED = "hyb_joined"  # its items become those of a list or tuple
PLAIN = "hyb_plain"  # what it looks into must be known while a function is captured
AUGMENTED = "hyb_augmented"  # what an augmented assignment reads is written again


def mark(node: ast.AST, kind: str) -> None:
    """Mark ``node`` for the converters that see it later."""
    setattr(node, kind, True)


def is_marked(node: ast.AST, kind: str) -> bool:
    """Whether ``node`` has the mark ``kind``."""
    return getattr(node, kind, False)


def suspends(node: ast.AST) -> bool:
    """Whether ``node`` holds a yield or an await of its own function."""
    return any(isinstance(inner, _SUSPENDING) for inner in walk_scope(node)) and not isinstance(
        node, FUNCTIONS
    )


def blocks_of(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly inside ``node`` that belong to its own function."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if block:
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def leaves(body: Sequence[ast.stmt], looping: bool = False) -> bool:
    """Whether a jump leads out of ``body``, which is ``looping`` in a loop of its own or not."""
    for node in body:
        if isinstance(node, ast.Return if looping else (ast.Return, ast.Break, ast.Continue)):
            return True
        for block in blocks_of(node):
            inside = looping or (isinstance(node, LOOPS) and block is node.body)
            if leaves(block, inside):
                return True
    return False


def assigned_lines(body: Sequence[ast.stmt]) -> dict[str, int]:
    """For each name the first line of ``body`` that binds it."""
    found: dict[str, int] = {}
    for node in body:
        for inner in _simple(node):
            for name in sorted(names_in(inner).bound):
                found.setdefault(name, getattr(inner, "lineno", node.lineno))
    return found


def only_augmented(node: ast.AST) -> set[str]:
    """The names that ``node`` binds only by `+=` and its like."""
    inside = list(walk_scope(node))
    targets = [n.target for n in inside if isinstance(n, ast.AugAssign)]
    augmented = {id(target) for target in targets}
    plain = {
        n.id
        for n in inside
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in augmented
    }
    return {target.id for target in targets if isinstance(target, ast.Name)} - plain


def _simple(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of ``node`` that hold no statements, in order."""
    if isinstance(node, ast.stmt) and any(True for _ in blocks_of(node)):
        for child in ast.iter_child_nodes(node):
            yield from _simple(child)
    elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield ast.copy_location(ast.Name(node.name, ast.Store()), node)
        for child in ast.iter_child_nodes(node):
            yield from _simple(child)
    else:
        yield node


def height(node: ast.AST) -> int:
    """The number of blocks, as the compiler counts them, that ``node`` nests."""
    return blocks_in(node) + max([height(child) for child in _children(node)], default=0)


def blocks_in(node: ast.AST) -> int:
    """The number of blocks that ``node`` puts around what is inside."""
    return int(isinstance(node, (*TRIES, ast.ExceptHandler, *LOOPS, *_OTHER_BLOCKS)))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)) and not isinstance(
            child, (*FUNCTIONS, ast.ClassDef)
        ):
            yield child
