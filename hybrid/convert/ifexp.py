"""The ternary: one side is evaluated, both are staged when the test is traced."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from hybrid.convert.converter import Converter, call
from hybrid.convert.defer import deferred, evaluate, super_
from hybrid.convert.site import Site
from hybrid.convert.traced import is_traced, look
from hybrid.convert.trees import TESTED, mark


class IfExpConverter(Converter):
    """Both sides are deferred, the test comes first.

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


def ifexp(site: Site, test: Any, body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """``body()`` if ``test`` else ``orelse()``."""
    if is_traced(test):
        from hybrid.convert import staged_logic

        return staged_logic.ifexp(site, test, body, orelse)
    return evaluate(site, body if look(test) else orelse)


IfExpConverter.runtime = (ifexp, super_)
