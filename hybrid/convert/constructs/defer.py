"""Deferred operands: ``lambda: operand``, evaluated as if it stood in the author's own frame."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hybrid.convert.converter import call, name, thunk
from hybrid.convert.scope import FUNCTIONS

if TYPE_CHECKING:
    from hybrid.convert.rewriter import Rewriter


def deferred(rewriter: Rewriter, at: ast.AST, operand: ast.expr) -> ast.expr:
    """A converted operand as ``lambda: operand``, located at ``at``."""
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
