"""Template of ``try``: one pass of the statement, and one for each error that is pending for it."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.defer import deferred
from hybrid.convert.constructs.statement import LOAD
from hybrid.convert.converter import Converter, call, constant, fill, located
from hybrid.convert.trees import LOOPS, TRIES, blocks_in, blocks_of, copied, leaves

_NAMES = (ast.Name, ast.Attribute, ast.Tuple, ast.expr_context)
_MARK = "MARK = hyb__.handled(SITE, TYPES)"
_BODY = """
    with MARK:
        BODY
"""
_LAST = """
    with MARK.last:
        BODY
"""
_SESSION = """
    SESSION = hyb__.try_(SITE, TYPES, ENDS)
    while SESSION.again(VIEW):
        LOAD
        with SESSION:
            TRY
    LOAD
"""
_BLOCKS = 2  # that this puts around a try
_TAKEN = """
    SESSION.enter()
    BODY
    SESSION.leave()
"""
_CLAUSE = "SESSION.clause()"
_END = """
    if SESSION.goes_on():
        with SESSION.last:
            BODY
"""


class TryConverter(Converter):
    """Template of ``try``: the statement stays, and its session says how often it runs.

    ::

        try:                        hyb_1 = hyb__.try_(SITE, lambda: (T, U), False)
            A                       while hyb_1.again(...):
        except T as e:                  if hyb_1.loads:
            B                               a, = hyb_1.values
        except U:          ==>          with hyb_1:
            C                               try:
                                                hyb_1.enter()
                                                A
                                                hyb_1.leave()
                                            except hyb_1.clause()(T) as e:
                                                B
                                            except hyb_1.clause()(U):
                                                C
                                    if hyb_1.loads:
                                        a, = hyb_1.values

    A ``finally`` gets a ``try`` of its own, for what the clauses raise goes through it, too::

        try:                        try:
            A                           try:
        except T:                           A
            B              ==>          except T:
        finally:                            B
            D                       finally:
                                        D

    Its session ends with it::

                                            finally:
                                                if hyb_1.goes_on():
                                                    with hyb_1.last:
                                                        D

    One in a class body runs once::

        try:                        hyb_1 = hyb__.handled(SITE, lambda: None)
            A                       try:
        finally:                        with hyb_1:
            D              ==>              A
                                    finally:
                                        with hyb_1.last:
                                            D

    A jump out of a ``finally`` (in a loop of a class body; elsewhere there are no jumps any more)
    swallows whatever is raised, by a clause as well; before it comes ``hyb__.refuse_again()``.
    """

    nodes = TRIES

    def function(self, node: ast.FunctionDef) -> None:
        _part_ends(node.body)

    def convert(self, node: ast.Try) -> list[ast.stmt]:
        rewriter = self.rewriter
        cost = _BLOCKS + blocks_in(node) + bool(node.finalbody)  # its end is in a block of its own
        if rewriter.stays(node, cost) or any(map(leaves, blocks_of(node))):
            return self._native(node)
        types = self._types(node)
        site, names = rewriter.statement_site("try", node)
        session = rewriter.fresh()
        view = rewriter.view(node, session)
        end, node.finalbody = node.finalbody, []
        with rewriter.blocks(_BLOCKS):
            rewriter.children(node)
        with rewriter.blocks(cost):
            end = rewriter.block(end)
        node.body = fill(_TAKEN, node, SESSION=session, BODY=node.body)
        if end:
            node.finalbody = fill(_END, end[0], SESSION=session, BODY=end)
        for handler in node.handlers:
            at = handler.type or handler
            caught = [] if handler.type is None else [handler.type]
            [clause] = fill(_CLAUSE, at, SESSION=session)
            handler.type = located(ast.Call(clause.value, caught, []), at)
        return fill(
            _SESSION,
            node,
            SESSION=session,
            SITE=site,
            TYPES=types,
            ENDS=constant(node, bool(end)),
            VIEW=view,
            LOAD=fill(LOAD, node, SESSION=session, NAMES=names) if names else [],
            TRY=[node],
        )

    def _native(self, node: ast.Try) -> list[ast.stmt]:
        rewriter = self.rewriter
        node.finalbody, jumps = _guarded(node.finalbody)
        caught = constant(node, None) if jumps else self._types(node)
        rewriter.children(node)
        site = rewriter.site("try", node)
        made: list[ast.stmt] = [node]
        if rewriter.in_class:  # where a variable would be seen
            mark: ast.expr | str = call(node, "handled", site, caught)
        else:
            mark = rewriter.fresh()
            made[:0] = fill(_MARK, node, MARK=mark, SITE=site, TYPES=caught)
        node.body = fill(_BODY, node, MARK=mark, BODY=node.body)
        if node.finalbody and not jumps and not rewriter.in_class:
            node.finalbody = fill(_LAST, node.finalbody[0], MARK=mark, BODY=node.finalbody)
        for handler in node.handlers:  # none catches a refusal
            types = [] if handler.type is None else [handler.type]
            handler.type = call(handler.type or handler, "catching", *types)
        return made

    def _types(self, node: ast.Try) -> ast.expr:
        """What gives the types that the handlers catch; the constant None when that is unclear."""
        found = [h.type for h in node.handlers if h.type is not None]
        plain = all(isinstance(inner, _NAMES) for type in found for inner in ast.walk(type))
        if len(found) < len(node.handlers) or not plain or self.rewriter.in_class:
            return constant(node, None)
        every = located(ast.Tuple([copied(t) for t in found], ast.Load()), node)
        return deferred(self.rewriter, node, every)


def _part_ends(body: list[ast.stmt]) -> None:
    """Put the clauses of each ``try`` in ``body`` that has a ``finally`` into one without."""
    for node in body:
        for block in [node.body] if isinstance(node, ast.ClassDef) else blocks_of(node):
            _part_ends(block)
        if isinstance(node, TRIES) and node.handlers and node.finalbody:
            clauses = type(node)(node.body, node.handlers, node.orelse, [])
            node.body, node.handlers, node.orelse = [located(clauses, node)], [], []


def _guarded(body: list[ast.stmt], looping: bool = False) -> tuple[list[ast.stmt], bool]:
    """The statements of a ``finally``, guarded; and whether a jump leads out of it."""
    made: list[ast.stmt] = []
    leaves = False
    for node in body:
        if isinstance(node, ast.Return if looping else (ast.Return, ast.Break, ast.Continue)):
            made.append(located(ast.Expr(call(node, "refuse_again")), node))
            leaves = True
        for block in blocks_of(node):
            inside = looping or (isinstance(node, LOOPS) and block is node.body)
            block[:], found = _guarded(block, inside)
            leaves = leaves or found
        made.append(node)
    return made, leaves
