"""``assert``: Python's own on plain values, a check that the plan repeats on traced ones."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.defer import deferred
from hybrid.convert.converter import Converter, call, constant
from hybrid.convert.trees import copied


class AssertConverter(Converter):
    """Template of ``assert``: the statement stays, so that it raises where it stands.

    ::

        assert test, message  ==>  assert hyb__.checked(SITE, test, lambda: message), message
    """

    nodes = (ast.Assert,)

    def convert(self, node: ast.Assert) -> ast.stmt:
        rewriter = self.rewriter
        if rewriter.in_class or (node.msg is not None and not rewriter.may_defer(node.msg)):
            node.test = rewriter.native_test(node.test)
            node.msg = None if node.msg is None else rewriter.visit(node.msg)
            return node
        message = constant(node, None)
        site = rewriter.site("assert", node)
        test = rewriter.test(node.test)
        if node.msg is not None:
            message = deferred(rewriter, node, copied(node.msg))
            node.msg = rewriter.visit(node.msg)
        node.test = call(node, "checked", site, test, message)
        return node
