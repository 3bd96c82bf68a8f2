"""Template of the ternary: one side is evaluated, both are staged when the test is traced."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.defer import deferred
from hybrid.convert.converter import Converter, call
from hybrid.convert.trees import TESTED, mark


class IfExpConverter(Converter):
    """Template of the ternary: both sides become lambdas, and the test comes first.

    ::

        a if test else b    ==>    hyb__.ifexp(SITE, test, lambda: a, lambda: b)
    """

    nodes = (ast.IfExp,)

    def convert(self, node: ast.IfExp) -> ast.expr:
        rewriter = self.rewriter
        tested = rewriter.is_tested(node)
        sides = node.body, node.orelse
        if tested:
            for side in sides:
                mark(side, TESTED)
        if not rewriter.may_defer(*sides):
            node.test = rewriter.native_test(node.test)
            node.body, node.orelse = [rewriter.visit(side) for side in sides]
            return node
        site = rewriter.site("ternary", node, unbound=rewriter.may_be_unbound(*sides))
        test = rewriter.test(node.test)
        return call(node, "ifexp", site, test, *[deferred(rewriter, node, side) for side in sides])
