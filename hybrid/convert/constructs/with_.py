"""Template of ``with``: the capture knows which exceptions each manager may suppress."""

from __future__ import annotations

import ast

from hybrid.convert.converter import Converter, call


class WithConverter(Converter):
    """Template of ``with``: the statement stays, over managers that are looked at.

    ::

        with MANAGER as x:    ==>    with hyb__.managed(SITE, MANAGER) as x:
    """

    nodes = (ast.With,)

    def convert(self, node: ast.With) -> ast.stmt:
        self.rewriter.children(node)
        for item in node.items:
            site = self.rewriter.site("with", item.context_expr)
            item.context_expr = call(item.context_expr, "managed", site, item.context_expr)
        return node
