"""Templates of ``and``, ``or`` and ``not``: lazy; each operand is asked for its truth once."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.defer import deferred
from hybrid.convert.constructs.variables import unchecked
from hybrid.convert.converter import Converter, call
from hybrid.convert.trees import MIXED, TESTED, is_marked, mark


class LogicConverter(Converter):
    """Template of ``and`` and ``or``: operands after the first become lambdas.

    ::

        a and b     ==>     hyb__.and_(SITE, a, lambda: b)
        if a or b:  ==>     ... hyb__.or_test(SITE, a, lambda: hyb__.known_truth(b)) ...

    Where only the truth counts, an operand that decides is not handed back: it would be asked for
    its truth again.  Operands that cannot be deferred (they hold ``yield``, ``locals()`` or, inside
    a larger expression, ``:=``) stay, and what stands left of them must not be traced.
    """

    nodes = (ast.BoolOp,)

    def convert(self, node: ast.BoolOp) -> ast.expr:
        rewriter = self.rewriter
        kind = "and" if isinstance(node.op, ast.And) else "or"
        tested = rewriter.is_tested(node)
        operands = _flat(node)
        site_facts = {"unbound": rewriter.may_be_unbound(*operands[1:])}
        if not rewriter.may_defer(*operands[1:]):
            node.values = [rewriter.native_test(v) for v in operands[:-1]]
            last = operands[-1]
            node.values.append(rewriter.test(last) if tested else rewriter.visit(last))
            return node
        for index, operand in enumerate(operands):
            mixed = isinstance(operand, ast.BoolOp) and index < len(operands) - 1
            if tested or mixed:
                mark(operand, TESTED)
            if (mixed and not tested) or is_marked(node, MIXED):
                mark(operand, MIXED)
        first, *rest = operands
        site = rewriter.site(kind, node, **site_facts)
        thunks = [deferred(rewriter, node, operand) for operand in rest]
        if tested and not is_marked(node, MIXED):
            thunks[-1].body = call(rest[-1], "known_truth", thunks[-1].body)
        name = f"{kind}_test" if tested else f"{kind}_"
        return call(node, name, site, unchecked(rewriter.visit(first)), *thunks)


class NotConverter(Converter):
    """Template of ``not``: a traced operand gives a traced truth.

    ::

        not a    ==>    hyb__.not_(SITE, a)
    """

    nodes = (ast.UnaryOp,)

    def convert(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.Not):
            return self.rewriter.children(node)
        site = self.rewriter.site("not", node)
        return call(node, "not_", site, self.rewriter.test(node.operand))


def _flat(node: ast.BoolOp) -> list[ast.expr]:
    """The operands, with those of a first operand of the same kind in its place."""
    first, *rest = node.values
    if isinstance(first, ast.BoolOp) and type(first.op) is type(node.op):
        return [*_flat(first), *rest]
    return [first, *rest]
