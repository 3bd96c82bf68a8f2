"""Deferred operands: ``lambda: operand``, evaluated as if it stood in the author's own frame."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hybrid.convert.converter import call, name, thunk
from hybrid.convert.scope import FUNCTIONS
from hybrid.convert.site import Site
from hybrid.trace.maybe import unbound_error

if TYPE_CHECKING:
    from hybrid.convert.rewriter import Rewriter


def deferred(rewriter: Rewriter, at: ast.AST, operand: ast.expr) -> ast.expr:
    """``lambda: operand``, converted; it is made at ``at``."""
    tested = rewriter.is_tested(operand)
    operand = _Super(rewriter.first_parameter or "").visit(operand)
    return thunk(at, rewriter.test(operand) if tested else rewriter.visit(operand))


class _Super(ast.NodeTransformer):
    """``super()`` finds its arguments in the frame that calls it, so inside a lambda it is told.

    ::

        super()    ==>    hyb__.super_(super, __class__, self)
    """

    def __init__(self, first_parameter: str) -> None:
        self.first_parameter = first_parameter

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else super().visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        plain = isinstance(node.func, ast.Name) and not (node.args or node.keywords)
        if not plain or node.func.id != "super":
            return node
        names = [name(node, n) for n in ("super", "__class__", self.first_parameter)]
        return call(node, "super_", *names)


# The run-time half ------------------------------------------------------------------------------


def super_(function: Any, owner: type, instance: Any) -> Any:
    """``super()`` in a method of ``owner``."""
    return super(owner, instance) if function is super else function()


def evaluate(site: Site, thunk: Callable[[], Any]) -> Any:
    """The value of a deferred operand.

    A local variable that is not bound is none to the lambda but one of the function around it:
    Python says so, in other words than the author's expression would have got.
    """
    if not site.unbound:
        return thunk()
    try:
        return thunk()
    except NameError as error:
        found = error
    trace = found.__traceback__
    inside = trace.tb_next if trace is not None else None
    if inside is not None and inside.tb_next is None and type(found) is NameError:
        for variable in site.unbound:
            if f"'{variable}'" in str(found) and "free variable" in str(found):
                raise unbound_error(variable).with_traceback(inside)
    raise found
