"""Template of ``if``: one pass on a plain test, one per branch on a traced one."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.statement import StatementConverter
from hybrid.convert.converter import Filling, located


class IfConverter(StatementConverter):
    """Template of ``if``: the branches stay in the frame of the author's function.

    Each runs at most once per pass.

    ::

        if test:              hyb_1 = hyb__.if_(SITE, test)
            a = 1             if hyb_1.again(...):
        else:        ==>          if hyb_1.loads:
            a = 2                     a, = hyb_1.values
                                  with hyb_1:
                                      a = 1
                              if hyb_1.again(...):
                                  if hyb_1.loads:
                                      a, = hyb_1.values
                                  with hyb_1:
                                      a = 2
                              hyb_1.again(...)
                              if hyb_1.loads:
                                  a, = hyb_1.values

    The passes are written out, not looped over: the compiler lets blocks nest 20 deep only, and an
    ``elif`` counts.
    """

    nodes = (ast.If,)
    kind, head, blocks = "if", "test", 1
    template = """
        SESSION = hyb__.if_(SITE, TEST)
        if SESSION.again(VIEW):
            LOAD
            with SESSION:
                BODY
        if SESSION.again(VIEW):
            LOAD
            with SESSION:
                ORELSE
        SESSION.again(VIEW)
        LOAD
    """

    def native(self, node: ast.If) -> ast.If:
        rewriter = self.rewriter
        node.test = rewriter.native_test(node.test)
        node.body = rewriter.block(node.body)
        node.orelse = rewriter.block(node.orelse)
        return node

    def parts(self, node: ast.If, _session: str) -> dict[str, Filling]:
        at = node.test
        test = self.rewriter.test(node.test)
        body, orelse = self.body(node.body), self.body(node.orelse)
        return {"TEST": test, "BODY": body, "ORELSE": orelse or [located(ast.Pass(), at)]}
