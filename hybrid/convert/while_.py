"""``while``: Python's own iterations until a test is traced, then one pass over the body."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from hybrid.convert.converter import Filling, located
from hybrid.convert.session import Session, unrolled
from hybrid.convert.site import Site
from hybrid.convert.statement import StatementConverter
from hybrid.convert.traced import is_traced, look, tracing
from hybrid.convert.trees import stops_of
from hybrid.ir.interpreter import current


class WhileConverter(StatementConverter):
    """The test and the body stay in the author's frame.

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
    """A loop that stays as it is, its body converted; it ends by `break` when a flag is set."""
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


PATIENCE = 64  # iterations that are traced one by one before the rest becomes a node


class While(Session):
    """A ``while`` whose tests have been plain so far."""

    __slots__ = ("begun", "count", "more")

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.more = True
        self.begun = False
        self.count = 0

    @property
    def body(self) -> bool:
        """Whether this pass runs the body without a test."""
        return self.staged is not None and self.staged.body

    def test(self, value: Any) -> bool:
        """Whether the body runs, now that the test has given ``value``."""
        if self.staged is not None:
            return self.staged.test(value)
        if is_traced(value):
            return self._stage().test(value)
        self.more = bool(look(value))
        self.count += self.more
        return self.more

    def again(self, found: Mapping[str, Any]) -> bool:
        if self.staged is not None:
            return self.staged.again(found)
        if self.begun:
            for flag in self.site.stops:
                if is_traced(found[flag]):
                    return self._stage().stop_traced(found)
                self.more = self.more and not found[flag]
        self.begun = True
        if self.more and self.count >= PATIENCE and tracing() and not current().unrolls:
            return self._stage().stop_never(found)
        if not self.more and tracing():
            why = "its test is a Python value"
            current().note(self.site.location, unrolled(self.count, why))
        return self.more

    def _stage(self) -> Any:
        from hybrid.convert.staged_while import StagedWhile

        self.staged = StagedWhile(self.site)
        return self.staged


def while_(site: Site) -> While:
    """The session of a ``while`` that is about to begin."""
    return While(site)


WhileConverter.runtime = (while_,)
