"""What the derivative rules of several families share.

Families import this module, so it finds the few ops that it needs in the registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.core.open_numbers import size_of
from hybrid.core.sizes import Size
from hybrid.core.types import Shape
from hybrid.ir import Op, get_op


def unbroadcast(ct: Any, operand: Any) -> Any:
    """``ct`` summed over the axes along which ``operand`` (a tensor or type) was repeated."""
    have, want = ct.shape, operand.shape
    lead = len(have) - len(want)
    if _same(have, want):
        return ct
    axes = (*range(lead), *(lead + i for i, n in enumerate(want) if n != have[lead + i]))
    if not axes:  # sizes that are open, and equal here
        return reshaped(ct, want)
    return reshaped(get_op("sum")(ct, axis=axes, keepdims=False), want)


def reshaped(x: Any, to: Shape) -> Any:
    """``x`` itself when it has the shape."""
    return x if _same(x.shape, to) else get_op("reshape")(x, shape=to)


def _same(a: Shape, b: Shape) -> bool:
    """Whether they are known to be equal; of open sizes nothing is asked."""
    return len(a) == len(b) and all(map(_is_same, a, b))


def _is_same(a: Any, b: Any) -> bool:
    a, b = size_of(a), size_of(b)
    if type(a) is Size or type(b) is Size:
        return type(a) is type(b) and a.terms == b.terms
    return a == b


def widened(x: Any, to: Shape) -> Any:
    """``x`` broadcast to the shape; ``x`` itself when it has it."""
    return x if _same(x.shape, to) else get_op("broadcast_to")(x, shape=to)


def onto_zeros(ct: Any) -> Any:
    """``ct`` as a part of zeros that it was added to: no zero in it is negative.

    So the gradient of what was sliced has the same bits whether the slices were taken one by one,
    or rows by a loop, whose cotangents are stacked.
    """
    return ct + 0.0


def forced(entry: Any) -> Any:
    """A cotangent, computed now if the rule gave a function."""
    return entry() if callable(entry) else entry


def diagonal(op: Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the vjp of an elementwise op, and with it the jvp.

    Once the operands have the shape of the result, each Jacobian is a diagonal matrix, so it equals
    its transpose and one rule serves both directions.
    """

    def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
        def jvp(tangents: Any, result: Any, *operands: Any, **attrs: Any) -> Any:
            to = result.shape
            wide = [widened(x, to) for x in operands]
            total = None
            for i, tangent in enumerate(tangents):
                if tangent is None:
                    continue
                term = forced(rule(widened(tangent, to), result, *wide, **attrs)[i])
                if term is not None:
                    total = term if total is None else total + term
            return total

        op.vjp(rule)
        op.jvp(jvp)
        return rule

    return declare


def linear(op: Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the vjp of an op linear in its one differentiable operand, the first, and its jvp.

    The tangent of the result is the op applied to the tangent of that operand.
    """

    def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
        def jvp(tangents: Any, _result: Any, _operand: Any, *others: Any, **attrs: Any) -> Any:
            return None if tangents[0] is None else op(tangents[0], *others, **attrs)

        op.vjp(rule)
        op.jvp(jvp)
        return rule

    return declare
