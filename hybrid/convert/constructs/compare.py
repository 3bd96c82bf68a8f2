"""Templates of comparisons: chains, which are lazy, and ``is`` and ``in``, which have no method."""

from __future__ import annotations

import ast

from hybrid.convert.constructs.defer import deferred
from hybrid.convert.constructs.variables import unchecked
from hybrid.convert.converter import Converter, call, constant, is_runtime_call

SYMBOLS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
STAGED = ("is", "is not", "in", "not in")
EQUAL = {"==": "equal", "!=": "unequal"}


class CompareConverter(Converter):
    """Template of a comparison: operands after the second become lambdas.

    ::

        a < b           stays
        a == b     ==>  hyb__.equal(a, b)
        a != b     ==>  hyb__.unequal(a, b)
        a < b < c  ==>  hyb__.compare(SITE, a, "<", b, "<", lambda: c)
        a is b     ==>  hyb__.compare(SITE, a, "is", b)
    """

    nodes = (ast.Compare,)

    def convert(self, node: ast.Compare) -> ast.expr:
        rewriter = self.rewriter
        symbols = [SYMBOLS[type(op)] for op in node.ops]
        first, *rest = node.comparators
        if not rest and symbols[0] not in STAGED:
            rewriter.children(node)
            operands = node.left, node.comparators[0]
            if symbols[0] in EQUAL and not any(isinstance(x, ast.Constant) for x in operands):
                return call(node, EQUAL[symbols[0]], *operands)
            return node
        if not rewriter.may_defer(*rest):
            # Only the walrus and its like lead here: each comparison decides on the spot.
            return rewriter.children(node)
        site = rewriter.site("comparison", node, unbound=rewriter.may_be_unbound(*rest))
        args = [rewriter.visit(node.left), constant(node, symbols[0]), rewriter.visit(first)]
        if symbols[0] in ("is", "is not"):
            args[0], args[2] = peeking(args[0]), peeking(args[2])
        for symbol, operand in zip(symbols[1:], rest, strict=True):
            args += [constant(node, symbol), deferred(rewriter, node, operand)]
        name = "compare_test" if rewriter.is_tested(node) else "compare"
        return call(node, name, site, *args)


def peeking(loaded: ast.expr) -> ast.expr:
    """A converted load without the check that the value is bound on all paths."""
    if is_runtime_call(loaded) and loaded.func.attr == "taken":
        return loaded.args[0]
    return unchecked(loaded)


def looked(left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Two operands with each wrapped in a look into containers; as they are beside a constant."""
    if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
        return left, right
    return call(left, "look", left), call(right, "look", right)
