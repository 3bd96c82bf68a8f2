"""Template of ``with``: the capture knows which exceptions each manager may suppress."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.statement import LOAD
from hybrid.convert.converter import Converter, call, fill, located, name
from hybrid.convert.trees import leaves

_SESSION = "SESSION = hyb__.with_(SITE, MANAGER)"


class WithConverter(Converter):
    """Template of ``with``: the statement stays, over managers that take what is raised in it.

    ::

        with MANAGER as x:    ==>    hyb_1 = hyb__.with_(SITE, MANAGER)
            A                        with hyb_1.manager as x:
                                         A
                                     if hyb_1.loads:
                                         a, = hyb_1.values

    One in a class body stays as it is::

        with hyb__.managed(SITE, MANAGER) as x:
    """

    nodes = (ast.With,)

    def convert(self, node: ast.With) -> ast.stmt | list[ast.stmt]:
        rewriter = self.rewriter
        if rewriter.stays(node, 1) or leaves(node.body):
            rewriter.children(node)
            for item in node.items:
                site = rewriter.site("with", item.context_expr)
                item.context_expr = call(item.context_expr, "managed", site, item.context_expr)
            return node
        if len(node.items) > 1:
            inner = located(ast.With(node.items[1:], node.body), node.items[1].context_expr)
            rewriter.follows(inner, node)
            node.items, node.body = node.items[:1], [inner]
        [item] = node.items
        at = item.context_expr
        site, names = rewriter.statement_site("with", node)
        session = rewriter.fresh()
        rewriter.children(node)
        made = fill(_SESSION, at, SESSION=session, SITE=site, MANAGER=item.context_expr)
        item.context_expr = located(ast.Attribute(name(at, session), "manager", ast.Load()), at)
        load = fill(LOAD, at, SESSION=session, NAMES=names) if names else []
        return [*made, node, *load]
