"""Templates: the base class of all constructs, and the filling of quoted Python code.

A template is Python source whose placeholders are names in capitals::

    SESSION = hyb__.while_(SITE)        fill(template, SESSION="hyb_1", SITE=site, BODY=[...])

A placeholder is filled with an expression, a name, a tuple of names or, where it is a statement of
its own, with statements.  The names that conversion adds are none that an author could write.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hybrid.core.own_names import PREFIX, RUNTIME

if TYPE_CHECKING:
    from hybrid.convert.rewriter import Rewriter

T = TypeVar("T", bound=ast.AST)
Filling = ast.expr | str | tuple[str, ...] | Sequence[ast.stmt]


class Converter:
    """The template of one construct: ``convert`` fills it with calls of staging functions."""

    nodes: ClassVar[tuple[type[ast.AST], ...]] = ()
    template: ClassVar[str] = ""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter

    def convert(self, node: Any) -> Any:
        """The syntax tree in the place of ``node``: an expression, or a list of statements."""
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
    return _filled(_parsed(template).body, at, {"hyb__": RUNTIME, **placeholders})


@functools.lru_cache(maxsize=256)
def _parsed(template: str) -> ast.Module:
    return ast.parse(textwrap.dedent(template))


def _filled(part: Any, at: ast.AST, placeholders: dict[str, Filling]) -> Any:
    """A copy of ``part`` of a template, filled."""
    if isinstance(part, list):
        found: list[Any] = []
        for item in part:
            made = _filled(item, at, placeholders)
            found += made if isinstance(made, list) else [made]
        return found
    if not isinstance(part, ast.AST):
        return part
    if isinstance(part, ast.Expr) and isinstance(part.value, ast.Name):
        filling = placeholders.get(part.value.id)
        if isinstance(filling, list):
            return filling
    if isinstance(part, ast.Name) and part.id in placeholders:
        filling = placeholders[part.id]
        if isinstance(filling, ast.expr):
            return filling
        if isinstance(filling, tuple):
            names = [located(ast.Name(name, part.ctx), at) for name in filling]
            return located(ast.Tuple(names, part.ctx), at)
        return located(ast.Name(filling, part.ctx), at)
    fields = {name: _filled(value, at, placeholders) for name, value in ast.iter_fields(part)}
    made = type(part)(**fields)
    return located(made, at) if "lineno" in part._attributes else made


# Small pieces --------------------------------------------------------------------------------


def located(node: T, at: ast.AST) -> T:
    """``node`` with the location of ``at``: its first line, from its first column on.

    What spans several lines would have the compiler count the call of a method to the last.
    """
    ast.copy_location(node, at)
    if node.end_lineno != node.lineno:  # type: ignore[attr-defined]
        node.end_lineno = node.lineno  # type: ignore[attr-defined]
        node.end_col_offset = node.col_offset  # type: ignore[attr-defined]
    return node


def name(at: ast.AST, identifier: str) -> ast.Name:
    """The syntax tree of a load of ``identifier``, located at ``at``."""
    return located(ast.Name(identifier, ast.Load()), at)


def constant(at: ast.AST, value: Any) -> ast.Constant:
    """The syntax tree of the constant ``value``, located at ``at``."""
    return located(ast.Constant(value), at)


def call(at: ast.AST, function: str, *args: ast.expr) -> ast.Call:
    """The syntax tree of ``hyb__.function(*args)``, located at ``at``."""
    attribute = located(ast.Attribute(name(at, RUNTIME), function, ast.Load()), at)
    return located(ast.Call(attribute, list(args), []), at)


def thunk(at: ast.AST, body: ast.expr) -> ast.Lambda:
    """The syntax tree of ``lambda: body``, located at ``at``; the body keeps its location."""
    empty = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return located(ast.Lambda(empty, body), at)


def readable(text: str) -> str:
    """Converted source with the names that documentation uses for those of conversion."""
    return text.replace(RUNTIME, "hyb__").replace(PREFIX, "hyb_")


def is_runtime_call(node: ast.AST) -> bool:
    """Whether ``node`` is ``hyb__.something(...)``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == RUNTIME
    )
