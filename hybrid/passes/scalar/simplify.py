"""Simplification: nodes that return what they were given, in one step or two, go.

Before::                                                  After::

    %a: f32[2,3] = negative %x                                %c: f32[3,2] = permute_dims %x {...}
    %b: f32[2,3] = negative %a
    %c: f32[3,2] = permute_dims %b {axes=(1, 0)}

Every rule is exact: same bits for every operand, zeros of both signs, infinities and NaN included.
So these are absent, however tempting: ``x + 0`` (-0.0 + 0 is 0.0), ``x * 0`` (NaN, infinities,
-0.0), ``x - x`` (NaN, infinities), ``x / c`` as ``x * (1 / c)`` (two roundings), and every
reordering of sums.
"""

from __future__ import annotations

from hybrid.core.types import DType
from hybrid.ir import Builder, Graph, Node, Value, rewrite, steady
from hybrid.ops.shapes.creation import fill
from hybrid.ops.support.dtypes import casts_at_once
from hybrid.passes.scalar.facts import Facts

# Ops that undo themselves: they flip a sign, or all bits, and lose nothing.
INVERSES = {"negative", "logical_not", "bitwise_invert"}
MANTISSA_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


@steady
def simplify(graph: Graph) -> Graph:
    """``graph`` without nodes that an exact rule makes superfluous."""
    facts = Facts()

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        if node.op.name in _RULED and len(node.results) == 1:
            same = _same_value(node, facts)
            # An operand that broadcasts, or of another dtype, is not yet the result.
            if same is not None and same.type is node.results[0].type:
                return (same,)
            merged = _decided(node, facts, builder) or _merged(node, facts, builder)
            if merged is not None:
                facts.add(builder.nodes[-1])
                return merged
        facts.add(node)
        return None

    return rewrite(graph, rule, regions=simplify)


def _same_value(node: Node, facts: Facts) -> Value | None:
    """The operand, or the operand's operand, whose elements ``node`` returns."""
    one, zero, by = facts.is_one, facts.is_zero, facts.by
    match node.op.name, node.operands:
        # The product of a number and 1 is that number, NaN payloads and signs included.
        case "multiply", (x, c) if one(c):
            return x
        case "multiply", (c, x) if one(c):
            return x
        case "divide", (x, c) if one(c):
            return x
        # x - (+0.0): -0.0 stays -0.0.  (Not x + 0.0, and not x - (-0.0), which are +0.0 there.)
        case "subtract", (x, c) if zero(c):
            return x
        # Integers have one zero, and nothing to round.
        case "add", (x, c) if zero(c) and _exact(x):
            return x
        case "add", (c, x) if zero(c) and _exact(x):
            return x
        case "floor_divide", (x, c) if one(c) and _exact(x):
            return x
        # Not floats: the kernel of pow may forget the sign of a NaN.
        case "pow", (x, c) if one(c) and _exact(x):
            return x
        # Chosen between equal values; chosen by a constant.
        case "where", (_, x, y) if x is y:
            return x
        case "where", (c, x, _) if one(c):
            return x
        case "where", (c, _, y) if zero(c):
            return y
        # The larger, or smaller, of a number and itself.  NaN is either of the two.
        case "maximum" | "minimum" | "logical_and" | "logical_or", (x, y) if x is y:
            return x
        case "logical_and" | "logical_or" | "logical_xor", (x, y):
            return _with_known_flag(node.op.name, x, y, facts)
        # A sign, or all bits, flipped twice.
        case name, (x,) if name in INVERSES and (inner := by(name, x)):
            return inner.operands[0]
        # Rounding what is already an integer.
        case "floor" | "ceil" | "trunc" | "round", (x,) if _exact(x):
            return x
        # The same elements in the same order.
        case "identity" | "fresh_variable" | "stop_gradient" | "known_alike", (x,):
            return x
        case "as_variable" | "made_of_integers", (x, _):
            return x
        case "reshape" | "broadcast_to" | "cast", (x,) if x.type is node.results[0].type:
            return x
        case "permute_dims", (x,) if _in_order(node.attributes["axes"]):
            return x
    return None


def _with_known_flag(name: str, x: Value, y: Value, facts: Facts) -> Value | None:
    """What is left of a logical op when one side is known."""
    for other, flag in ((x, y), (y, x)):
        known = facts.number(flag)
        if known is None:
            continue
        if bool(known) == (name == "logical_and"):
            return other
        if name != "logical_xor":
            return flag
    return None


def _decided(node: Node, facts: Facts, builder: Builder) -> tuple[Value, ...] | None:
    """``p and not p``, and ``p or not p``."""
    if node.op.name not in ("logical_and", "logical_or"):
        return None
    x, y = node.operands
    for flag, other in ((x, y), (y, x)):
        negation = facts.by("logical_not", other)
        if negation is not None and negation.operands[0] is flag:
            attrs = {"shape": flag.type.shape, "dtype": flag.type.dtype}
            return builder.apply(fill, (), attrs | {"value": node.op.name == "logical_or"})
    return None


def _merged(node: Node, facts: Facts, builder: Builder) -> tuple[Value, ...] | None:
    """One node in place of ``node`` and the one before it."""
    if len(node.operands) != 1:
        return None
    inner = facts.defining(node.operands[0])
    if inner is None or len(inner.operands) != 1:
        return None
    source = inner.operands[0]
    match inner.op.name, node.op.name:
        # Both keep the row-major order of the elements.
        case "reshape", "reshape":
            attrs = node.attributes
        # Repeating what was repeated repeats it as often as the last shape says.
        case "broadcast_to", "broadcast_to":
            attrs = node.attributes
        # Result axis i is the inner result's axis axes[i], which is the source's inner[axes[i]].
        case "permute_dims", "permute_dims":
            first, then = inner.attributes["axes"], node.attributes["axes"]
            attrs = {"axes": tuple([first[a] for a in then])}
        # The dtype between holds every value of the first one and converts like it.
        case "cast", "cast" if casts_at_once(
            source.type.dtype, node.attributes["dtype"]
        ) and _transparent(
            source.type.dtype, node.operands[0].type.dtype, node.attributes["dtype"]
        ):
            attrs = node.attributes
        case _:
            return None
    simple = builder.apply(node.op, (source,), attrs)
    same = _same_value(builder.nodes[-1], facts)
    return simple if same is None else (same,)


_RULED = {
    "multiply", "divide", "subtract", "add", "floor_divide", "pow", "where", "maximum", "minimum",
    "logical_and", "logical_or", "logical_xor", "floor", "ceil", "trunc", "round", "identity",
    "fresh_variable", "stop_gradient", "as_variable", "made_of_integers", "reshape",
    "broadcast_to", "cast", "permute_dims", *INVERSES,
}  # fmt: skip


def _exact(value: Value) -> bool:
    return value.type.dtype.kind != "float"


def _in_order(axes: tuple[int, ...]) -> bool:
    return axes == tuple(range(len(axes)))


def _transparent(source: DType, between: DType, target: DType) -> bool:
    """Whether going from ``source`` to ``target`` by way of ``between`` is going there at once."""
    if not _holds(between, source):
        return False
    # From integers to a narrower integer: an integer wraps where a float saturates.
    return (
        source.kind == between.kind
        or {source.kind, between.kind} == {"int", "uint"}
        or target.kind in ("bool", "float")
        or _holds(target, source)
    )


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of ``narrow`` is one of ``wide``."""
    bits = 8 * narrow.itemsize
    match narrow.kind, wide.kind:
        case ("bool", _):
            return True
        case ("int" | "uint", "float"):
            return bits - (narrow.kind == "int") <= MANTISSA_BITS[wide.short]
        case ("float", "float"):  # float16 and bfloat16 do not hold each other
            return wide is narrow or wide.itemsize > narrow.itemsize
        case ("uint", "int"):
            return wide.itemsize > narrow.itemsize
        case (a, b) if a == b:
            return wide.itemsize >= narrow.itemsize
    return False
