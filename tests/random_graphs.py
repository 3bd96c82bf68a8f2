"""Random graphs over the registry, for hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from hybrid.errors import HybridError, Location
from hybrid.ir import REGISTRY, Builder, Graph, Op
from hybrid.ops.control import py_call
from hybrid.types import BY_SHORT, SUPPORTED, DType, TensorType, tensor_type

SHAPES = [(), (4,), (1, 4), (2, 4), (4, 2), (8,), (4, 4), (0, 4)]
HINTS = ["", "", "x", "x_1", "x_1_1", "a", "b", "0", "inf", "nan", "return", "graph", "not a name"]

types = st.builds(tensor_type, st.sampled_from(SUPPORTED), st.sampled_from(SHAPES))
numbers = st.one_of(
    st.sampled_from([0, 1, -1, 0.0, -0.0, 1.0, float("inf"), float("nan"), 1e-300, 0.1]),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
)


def exact_ops() -> list[Op]:
    """Ops whose NumPy references give the same bits for the same elements, however laid out."""
    names = (
        *("add", "subtract", "multiply", "divide", "negative", "abs", "square", "sqrt", "floor"),
        *("maximum", "minimum", "where", "cast", "equal", "less", "logical_not", "logical_and"),
        *("bitwise_xor", "bitwise_invert", "reshape", "permute_dims", "broadcast_to", "identity"),
        *("full", "flip", "sum", "max", "matmul"),
    )
    return [REGISTRY[name] for name in names]


def all_ops() -> list[Op]:
    """All without regions, but for ``py_call``: functions have no text."""
    ops = [op for _, op in sorted(REGISTRY.items()) if not op.has_regions]
    return [op for op in ops if op is not py_call]


def _sizes(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(0, 4)] * rank)


def _attribute(name: str, default: Any, operands: Sequence[TensorType]) -> st.SearchStrategy[Any]:
    """Values for the attribute ``name``, of the kind that its rule expects."""
    rank = operands[0].rank if operands else 1
    axes = st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank)
    known: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        "shape": lambda: st.sampled_from(SHAPES),
        "dtype": lambda: st.sampled_from(SUPPORTED),
        "value": lambda: st.sampled_from([0, 1, -0.0, 1.0, 2.5]),
        "axes": lambda: st.permutations(range(rank)).map(tuple),
        "axis": lambda: (
            (axes.map(sorted).map(tuple) if operands and rank else st.just((0,)))
            | st.integers(0, 1)
        ),
        "keepdims": st.booleans,
        "data": lambda: st.binary(max_size=16),
        "start": lambda: _sizes(rank),
        "size": lambda: _sizes(rank),
        "step": lambda: st.tuples(*[st.integers(1, 2)] * rank),
        "widths": lambda: st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * rank),
    }
    if name in known:
        return known[name]()
    return st.booleans() if isinstance(default, bool) else st.sampled_from([0.0, 0.5, -0.0, 1e-8])


@st.composite
def graphs(draw: Any, ops: Callable[[], list[Op]] = all_ops, nodes: int = 20) -> Graph:
    """A well-formed graph; nodes that a type rule refuses are left out."""
    builder = Builder("random")
    values = [
        builder.param(draw(types), draw(st.sampled_from(HINTS)))
        for _ in range(draw(st.integers(1, 4)))
    ]
    choice = ops()
    for line in range(draw(st.integers(0, nodes))):
        op = draw(st.sampled_from(choice))
        count = draw(st.integers(1, 3)) if op.variadic else len(op.operand_names)
        operands = [draw(st.sampled_from(values)) for _ in range(count)]
        if op.promotes or op.name == "matmul":  # promotion comes before graphs
            alike = [v for v in values if v.type.dtype is operands[0].type.dtype]
            operands[1:] = [draw(st.sampled_from(alike)) for _ in operands[1:]]
        given = {
            name: draw(_attribute(name, default, [v.type for v in operands]))
            for name, default in op.attr_defaults.items()
        }
        try:
            results = builder.apply(
                op,
                operands,
                given,
                location=Location("model.py", line),
                hints=[draw(st.sampled_from(HINTS))],
            )
        except (HybridError, TypeError):  # a rule may trust the kind of its attributes
            continue
        values.extend(results)
    return builder.finish(draw(st.lists(st.sampled_from(values), max_size=4)))


def attributes() -> st.SearchStrategy[Any]:
    """Anything that has a text form."""
    leaves = st.one_of(
        st.none(),
        numbers,
        st.text(),
        st.binary(),
        st.sampled_from(sorted(BY_SHORT.values(), key=_short)),
        types,
    )
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


def _short(dtype: DType) -> str:
    return dtype.short
