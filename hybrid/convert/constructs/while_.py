"""Template of ``while``: Python's iterations until a test is traced, then one pass."""

from __future__ import annotations

import ast
from typing import Any

from hybrid.convert.constructs.statement import StatementConverter
from hybrid.convert.converter import Filling, located
from hybrid.convert.trees import stops_of


class WhileConverter(StatementConverter):
    """Template of ``while``: test and body stay in the frame of the author's function.

    ::

        while test:           hyb_1 = hyb__.while_(SITE)
            body      ==>     while hyb_1.again(...):
                                  if hyb_1.loads:
                                      a, = hyb_1.values
                                  with hyb_1:
                                      if hyb_1.body or hyb_1.test(test):
                                          body
                              if hyb_1.loads:
                                  a, = hyb_1.values
    """

    nodes = (ast.While,)
    kind, head, blocks = "while", "test", 2
    template = """
        SESSION = hyb__.while_(SITE)
        while SESSION.again(VIEW):
            LOAD
            with SESSION:
                if SESSION.body or SESSION.test(TEST):
                    BODY
        LOAD
    """

    def native(self, node: ast.While) -> ast.stmt:
        node.test = self.rewriter.native_test(node.test)
        return native_loop(self.rewriter, node)

    def parts(self, node: ast.While, _session: str) -> dict[str, Filling]:
        return {"TEST": self.rewriter.test(node.test), "BODY": self.body(node.body)}


def native_loop(rewriter: Any, node: ast.While | ast.For) -> ast.stmt:
    """A loop that stays a loop, with its body converted and ``break`` where a flag is set."""
    stops = stops_of(node)
    with rewriter.blocks(1):
        node.body = rewriter.block(node.body)
        if stops:
            flags = [located(ast.Name(s, ast.Load()), node) for s in stops]
            test = located(ast.BoolOp(ast.Or(), flags), node)
            test = flags[0] if len(flags) == 1 else test
            leave = located(ast.Break(), node)
            check = ast.If(rewriter.native_test(test), [leave], [])
            node.body.append(located(check, node))
    node.orelse = rewriter.block(node.orelse)
    return node
