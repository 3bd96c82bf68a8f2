"""Template of ``try``: the capture knows the handlers, and refuses what only a run can decide."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.defer import deferred
from hybrid.convert.converter import Converter, call, constant, fill, located
from hybrid.convert.trees import LOOPS, blocks_of, copied

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


class TryConverter(Converter):
    """Template of ``try``: the statement stays, and its handlers are known to its body.

    ::

        try:                        hyb_1 = hyb__.handled(SITE, lambda: (T, U))
            A                       try:
        except T as e:                  with hyb_1:
            B                               A
        except U:          ==>      except hyb__.catching(T) as e:
            C                           B
        finally:                    except hyb__.catching(U):
            D                           C
                                    finally:
                                        with hyb_1.last:
                                            D

    A jump in ``finally`` swallows whatever is raised, by a clause as well; before it comes
    ``hyb__.refuse_again()``.
    """

    nodes = (ast.Try, *((ast.TryStar,) if hasattr(ast, "TryStar") else ()))

    def convert(self, node: ast.Try) -> list[ast.stmt]:
        rewriter = self.rewriter
        node.finalbody, leaves = _guarded(node.finalbody)
        if leaves and node.handlers:
            inner = type(node)(node.body, node.handlers, node.orelse, [])
            node.body, node.handlers, node.orelse = [located(inner, node)], [], []
        caught = constant(node, None) if leaves else self._types(node)
        rewriter.children(node)
        site = rewriter.site("try", node)
        made: list[ast.stmt] = [node]
        if rewriter.in_class:  # where a variable would be seen
            mark: ast.expr | str = call(node, "handled", site, caught)
        else:
            mark = rewriter.fresh()
            made[:0] = fill(_MARK, node, MARK=mark, SITE=site, TYPES=caught)
        node.body = fill(_BODY, node, MARK=mark, BODY=node.body)
        if node.finalbody and not leaves and not rewriter.in_class:
            node.finalbody = fill(_LAST, node.finalbody[0], MARK=mark, BODY=node.finalbody)
        for handler in node.handlers:
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
