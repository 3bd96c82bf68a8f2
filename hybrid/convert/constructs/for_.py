"""Template of ``for``: Python's iterations over plain iterables, else passes over the body."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.statement import StatementConverter
from hybrid.convert.constructs.while_ import native_loop
from hybrid.convert.converter import Filling, located, name


class ForConverter(StatementConverter):
    """Template of ``for``: target and body stay in the frame of the author's function.

    ::

        for x in xs:          hyb_1 = hyb__.for_(SITE, xs)
            body      ==>     while hyb_1.again(...):
                                  if hyb_1.loads:
                                      a, = hyb_1.values
                                  with hyb_1:
                                      x = hyb_1.item
                                      body
                              if hyb_1.loads:
                                  a, = hyb_1.values
    """

    nodes = (ast.For,)
    kind, blocks = "for", 2
    head = "iter"  # where Python itself says that iterating goes wrong
    template = """
        SESSION = hyb__.for_(SITE, ITERABLE)
        while SESSION.again(VIEW):
            LOAD
            with SESSION:
                BODY
        LOAD
    """

    def native(self, node: ast.For) -> ast.stmt:
        node.iter = self.rewriter.visit(node.iter)
        node.target = self.rewriter.visit(node.target)
        return native_loop(self.rewriter, node)

    def parts(self, node: ast.For, session: str) -> dict[str, Filling]:
        iterable = self.rewriter.visit(node.iter)
        item = located(ast.Attribute(name(node.target, session), "item", ast.Load()), node.target)
        target = located(ast.Assign([node.target], item), node.target)
        return {"ITERABLE": iterable, "BODY": self.body([target, *node.body])}
