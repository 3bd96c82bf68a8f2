"""Comparisons: chained ones are lazy; ``is`` and ``in`` have no method that a tensor could have."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from hybrid.convert.converter import Converter, call, constant, is_runtime_call
from hybrid.convert.defer import deferred, evaluate
from hybrid.convert.names import handed_on
from hybrid.convert.site import Site
from hybrid.convert.traced import is_traced, look, refuse_partial, tracing
from hybrid.ir.interpreter import current

SYMBOLS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
STAGED = ("is", "is not", "in", "not in")
EQUAL = ("==", "!=")


class CompareConverter(Converter):
    """Operands after the second are deferred.

    ::

        a < b           stays
        a == b     ==>  hyb__.compared(a) == hyb__.compared(b)
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
            if symbols[0] in EQUAL:
                node.left, node.comparators[0] = looked(node.left, node.comparators[0], "compared")
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
    """A converted load that takes what only some paths have bound as it is."""
    if is_runtime_call(loaded) and loaded.func.attr == "taken":
        return loaded.args[0]
    return handed_on(loaded)


def looked(left: ast.expr, right: ast.expr, function: str = "look") -> tuple[ast.expr, ast.expr]:
    """Operands that are looked into, should they be containers; none is if one is a constant."""
    if isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
        return left, right
    return call(left, function, left), call(right, function, right)


# The run-time half ------------------------------------------------------------------------------


def compared(value: Any) -> Any:
    """``value``, which is about to be compared with another by ``==``."""
    seen = look(value)
    if type(seen) in (list, tuple) and tracing() and current().grown:
        for item in value:
            refuse_partial(item, "compared")
    return seen


def _chained(name: str, tested: bool) -> Callable[..., Any]:
    """What gives ``left symbol right``, and so on while that is true.

    The chain is of symbols and thunks.  Where only the truth counts, ``tested``, a comparison that
    is not true is not handed back but False.
    """

    def chained(site: Site, left: Any, symbol: str, right: Any, *chain: Any) -> Any:
        result = _apply(site, symbol, left, right)
        if not chain:
            return result
        rest = _rest(chained, site, right, chain)
        if is_traced(result):
            from hybrid.convert import staged_logic

            return staged_logic.lazy(site, result, rest, False, tested)
        if result:
            return rest()
        return False if tested else result

    chained.__name__ = name
    return chained


compare = _chained("compare", tested=False)
compare_test = _chained("compare_test", tested=True)


def _rest(
    function: Callable[..., Any], site: Site, left: Any, chain: tuple[Any, ...]
) -> Callable[[], Any]:
    symbol, thunk, *further = chain
    return lambda: function(site, left, symbol, evaluate(site, thunk), *further)


def _apply(site: Site, symbol: str, left: Any, right: Any) -> Any:
    if symbol in STAGED and tracing():
        from hybrid.convert import staged_logic
        from hybrid.convert.effects import gone_over

        if symbol not in ("is", "is not"):
            gone_over(right, symbol, site.location)
        return staged_logic.compare(site, left, symbol, right)
    seen = compared if symbol in EQUAL else look
    return PLAIN[symbol](seen(left), seen(right))


PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda item, container: item in container,
    "not in": lambda item, container: item not in container,
}

CompareConverter.runtime = (compare, compare_test, compared, look)
