"""``and``, ``or``, ``not``: lazy, returning operands, asking each operand for its truth once."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from hybrid.convert.converter import Converter, call
from hybrid.convert.defer import deferred, evaluate
from hybrid.convert.site import Site
from hybrid.convert.traced import is_traced, look, tracing
from hybrid.convert.trees import MIXED, TESTED, is_marked, mark

Thunk = Callable[[], Any]


LOADS = (ast.Name, ast.Attribute, ast.Subscript)


class LogicConverter(Converter):
    """Operands after the first are deferred.

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
        if tested and not is_marked(node, MIXED) and isinstance(rest[-1], LOADS):
            thunks[-1].body = call(rest[-1], "known_truth", thunks[-1].body)
        name = f"{kind}_test" if tested else f"{kind}_"
        return call(node, name, site, rewriter.visit(first), *thunks)


class NotConverter(Converter):
    """``not a`` asks a traced operand for a traced truth.

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


# The run-time half ------------------------------------------------------------------------------


def _lazy(name: str, decisive: bool, tested: bool) -> Callable[..., Any]:
    """What evaluates operands until the truth of one is ``decisive``.

    That operand is the result, else the last; where only the truth counts, ``tested``, it is the
    truth that was decisive instead.
    """

    def evaluated(site: Site, first: Any, *rest: Thunk) -> Any:
        value = first
        for index, thunk in enumerate(rest):
            if is_traced(value):
                from hybrid.convert import staged_logic

                remaining = _remaining(evaluated, site, rest[index:])
                return staged_logic.lazy(site, value, remaining, decisive, tested)
            if bool(look(value)) is decisive:
                return decisive if tested else value
            value = evaluate(site, thunk)
        return value

    evaluated.__name__ = name
    return evaluated


def known_truth(value: Any) -> Any:
    """The truth of ``value`` in its place, if it is known while a function is captured."""
    return value if is_traced(value) or not tracing() else bool(look(value))


and_ = _lazy("and_", decisive=False, tested=False)
or_ = _lazy("or_", decisive=True, tested=False)
and_test = _lazy("and_test", decisive=False, tested=True)
or_test = _lazy("or_test", decisive=True, tested=True)


def _remaining(function: Callable[..., Any], site: Site, thunks: tuple[Thunk, ...]) -> Thunk:
    """One operand in place of several."""
    return lambda: function(site, evaluate(site, thunks[0]), *thunks[1:])


def not_(site: Site, value: Any) -> Any:
    """The opposite of the truth of ``value``."""
    if is_traced(value):
        from hybrid.convert import staged_logic

        return staged_logic.not_(site, value)
    return not look(value)


LogicConverter.runtime = (and_, or_, and_test, or_test, known_truth)
NotConverter.runtime = (not_,)
