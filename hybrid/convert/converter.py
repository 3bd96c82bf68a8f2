"""Converter: the base of all constructs, and the filling of quoted templates.

A template is Python source whose placeholders are names in capitals::

    SESSION = hyb__.while_(SITE)        fill(template, SESSION="hyb_1", SITE=site, BODY=[...])

A placeholder is filled with an expression, a name, a tuple of names or, where it is a statement of
its own, with statements.
"""

from __future__ import annotations

import ast
import copy
import functools
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from hybrid.convert.rewriter import Rewriter

RUNTIME = "hyb__"  # what the run-time halves are found under
PREFIX = "hyb_"  # of all names that conversion adds

T = TypeVar("T", bound=ast.AST)
Filling = ast.expr | str | tuple[str, ...] | Sequence[ast.stmt]


class Converter:
    """One construct: ``convert`` is its template half, ``runtime`` the functions of its other."""

    nodes: ClassVar[tuple[type[ast.AST], ...]] = ()
    runtime: ClassVar[tuple[Callable[..., Any], ...]] = ()
    template: ClassVar[str] = ""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter

    def convert(self, node: Any) -> Any:
        """What takes the place of ``node``: an expression, or a list of statements."""
        raise NotImplementedError

    def before(self, node: ast.stmt) -> list[ast.stmt]:
        """Statements to put before ``node``, whatever it is converted to."""
        return []

    def function(self, node: ast.FunctionDef) -> None:
        """Rewrite a whole function in place before any of its parts is converted."""

    def fill(self, at: ast.AST, **placeholders: Filling) -> list[ast.stmt]:
        """This construct's template, filled; every new node is located at ``at``."""
        return fill(self.template, at, **placeholders)


def fill(template: str, at: ast.AST, **placeholders: Filling) -> list[ast.stmt]:
    """The statements of ``template`` with its placeholders filled, located at ``at``."""
    tree = copy.deepcopy(_parsed(template))
    for node in ast.walk(tree):
        if "lineno" in node._attributes:
            located(node, at)
    return _Filler(placeholders).statements(tree.body)


@functools.lru_cache(maxsize=256)
def _parsed(template: str) -> ast.Module:
    return ast.parse(textwrap.dedent(template))


class _Filler(ast.NodeTransformer):
    def __init__(self, placeholders: dict[str, Filling]) -> None:
        self.placeholders = placeholders

    def statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            found += result if isinstance(result, list) else [result]
        return found

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Name):
            filling = self.placeholders.get(node.value.id)
            if isinstance(filling, list):
                return filling
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.placeholders:
            return node
        filling = self.placeholders[node.id]
        if isinstance(filling, str):
            node.id = filling
            return node
        if isinstance(filling, tuple):
            names = [located(ast.Name(name, node.ctx), node) for name in filling]
            return located(ast.Tuple(names, node.ctx), node)
        assert isinstance(filling, ast.expr)
        return filling


# Small pieces --------------------------------------------------------------------------------


def located(node: T, at: ast.AST) -> T:
    """``node``, placed where ``at`` begins: on its first line, as far as that goes.

    What spans several lines would have the compiler count the call of a method to the last.
    """
    ast.copy_location(node, at)
    if node.end_lineno != node.lineno:  # type: ignore[attr-defined]
        node.end_lineno = node.lineno  # type: ignore[attr-defined]
        node.end_col_offset = node.col_offset  # type: ignore[attr-defined]
    return node


def name(at: ast.AST, identifier: str) -> ast.Name:
    """A load of ``identifier``, located at ``at``."""
    return located(ast.Name(identifier, ast.Load()), at)


def constant(at: ast.AST, value: Any) -> ast.Constant:
    return located(ast.Constant(value), at)


def call(at: ast.AST, function: str, *args: ast.expr) -> ast.Call:
    """``hyb__.function(*args)``, located at ``at``."""
    attribute = located(ast.Attribute(name(at, RUNTIME), function, ast.Load()), at)
    return located(ast.Call(attribute, list(args), []), at)


def thunk(at: ast.AST, body: ast.expr) -> ast.Lambda:
    """``lambda: body``, made at ``at``; the body keeps its place."""
    empty = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return located(ast.Lambda(empty, body), at)


def is_runtime_call(node: ast.AST) -> bool:
    """Whether ``node`` is ``hyb__.something(...)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == RUNTIME
    )
