"""Templates of f-strings, ``%`` and ``|``, whose operands may be traced."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.compare import looked
from hybrid.convert.converter import Converter, call


class FormattedConverter(Converter):
    """Template of an f-string.

    ::

        f"{x}"     ==>    hyb__.text(f"{x}")
    """

    nodes = (ast.JoinedStr,)

    def convert(self, node: ast.JoinedStr) -> ast.expr:
        self._parts(node)
        return call(node, "text", node)

    def _parts(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.rewriter.visit(part.value)
                if isinstance(part.format_spec, ast.JoinedStr):  # has to remain one
                    self._parts(part.format_spec)


class OperatorConverter(Converter):
    """Template of ``%`` and ``|``.

    ::

        a % b      ==>    hyb__.template(a) % b
        a | b      ==>    hyb__.look(a) | hyb__.look(b)
    """

    nodes = (ast.BinOp,)

    def convert(self, node: ast.BinOp) -> ast.expr:
        rewriter = self.rewriter
        left = node.left
        rewriter.children(node)
        number = isinstance(left, ast.Constant) and not isinstance(left.value, (str, bytes))
        if isinstance(node.op, ast.Mod) and not number:
            node.left = call(left, "template", node.left)
        if isinstance(node.op, ast.BitOr):
            node.left, node.right = looked(node.left, node.right)
        return node
