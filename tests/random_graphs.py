"""Random graphs over the registry, for hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from hybrid.core.sizes import OpenSizes
from hybrid.core.types import (
    BY_SHORT,
    SUPPORTED,
    DType,
    TensorType,
    bool_,
    float32,
    int64,
    tensor_type,
)
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import HybridError, Location
from hybrid.ir import REGISTRY, Builder, Graph, Op, Value
from hybrid.ops.flow.control import py_call
from hybrid.plan import Plan

# For tests that draw graphs: a busy machine makes no test fail.
unhurried = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)

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
    """All without regions, but for ``py_call``, whose functions have no text, and collectives."""
    ops = [op for _, op in sorted(REGISTRY.items()) if not (op.has_regions or op.communicates)]
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
        "k": lambda: st.integers(0, 4),
        "groups": lambda: st.integers(0, 4),
        "data": lambda: st.binary(max_size=16),
        "at": lambda: st.integers(0, 4),
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


OPENED = (4, 2)  # the sizes of SHAPES that become symbols


def opened(graph: Graph) -> tuple[Graph, OpenSizes]:
    """A closed ``graph`` of SHAPES with n for 4, 2 * n for 8 and m for 2; it may know less of them.

    Attributes that say sizes are opened, too, where the types then are those at ``OPENED``.
    """
    sizes = OpenSizes()
    n, m = (sizes.symbol(name, size) for name, size in zip("nm", OPENED, strict=True))
    symbols = {4: n, 8: 2 * n, 2: m}

    def open_(value: Any) -> Any:
        if type(value) is tuple:
            return tuple([open_(item) for item in value])
        return symbols.get(value, value) if type(value) is int else value

    builder = Builder(graph.name)
    known = {
        p: builder.param(tensor_type(p.type.dtype, open_(p.type.shape)), p.hint)
        for p in graph.params
    }
    for node in graph.nodes:
        operands = [known[v] for v in node.operands]
        wider = [
            (k, open_(v)) if k in ("shape", "size", "widths") else (k, v) for k, v in node.attrs
        ]
        for attrs in (tuple(wider), node.attrs):
            before, conditions = len(builder.nodes), dict(sizes.conditions)
            try:
                results = builder.apply(node.op, operands, attrs, location=node.location)
            except HybridError:
                results = ()
            if [sizes.bound(v.type.shape, OPENED) for v in results] == [
                v.type.shape for v in node.results
            ]:
                known.update(zip(node.results, results, strict=True))
                break
            del builder.nodes[before:]
            sizes.conditions = conditions
        else:
            raise AssertionError(f"{node.op.name} takes no open operands")
    return builder.finish([known[v] for v in graph.results]), sizes


# Control flow ------------------------------------------------------------------------------------

NUMBER, ROW, FLAG, COUNT = (
    tensor_type(dtype, shape)
    for dtype, shape in [(float32, ()), (float32, (3,)), (bool_, ()), (int64, ())]
)
KINDS = [NUMBER, ROW, FLAG, COUNT]
LOG: list[Any] = []  # what calls into Python have seen


def operands_of(types: Sequence[TensorType]) -> list[Any]:
    """Tensors of ``types``, the same ones at each call."""
    draw = np.random.default_rng(0)
    found = []
    for type_ in types:
        array = draw.standard_normal(type_.shape)
        array = array if type_.floating else np.abs(array) * 3
        found.append(as_tensor(np.asarray(array, type_.dtype.numpy)))
    return found


def outcome(plan: Plan) -> list[bytes] | str:
    """The bits of what ``plan`` gives for such operands, or the name of the error."""
    try:
        return [t.numpy().tobytes() for t in call_plan(plan, operands_of(plan.input_types))]
    except HybridError as error:  # what kernels refuse
        return type(error).__name__


def log_and_return(*arrays: Any) -> tuple[Any, ...]:
    """Remember the arrays; the first is the result."""
    LOG.append(tuple((str(a.dtype), np.shape(a), np.asarray(a).tobytes()) for a in arrays))
    return arrays[:1]


class _Maker:
    """Draws the nodes of one graph, or region, after the other."""

    def __init__(self, draw: Any, observable: bool) -> None:
        self.draw, self.observable = draw, observable

    def graph(self, name: str, given: Sequence[TensorType], depth: int, size: int) -> _Body:
        body = _Body(self, Builder(name))
        body.values = [body.builder.param(t, self.draw(st.sampled_from(HINTS))) for t in given]
        for _ in range(self.draw(st.integers(0, size))):
            body.step(depth)
        return body


class _Body:
    """A graph in the making."""

    def __init__(self, maker: _Maker, builder: Builder) -> None:
        self.maker, self.draw, self.builder = maker, maker.draw, builder
        self.values: list[Value] = []

    def apply(self, name: str, *operands: Value, regions: tuple = (), **attrs: Any) -> Value | None:
        results = self.builder.apply(REGISTRY[name], operands, attrs, regions=regions)
        self.values += results
        return results[0] if results else None

    def constant(self, type: TensorType, value: float) -> Value:
        return self.apply("full", shape=type.shape, dtype=type.dtype, value=value)

    def any_of(self, type: TensorType) -> Value:
        """A value of ``type``, most often one that is there."""
        there = [v for v in self.values if v.type is type]
        if there and self.draw(st.integers(0, 5)):
            return self.draw(st.sampled_from(there))
        choices = (
            [False, True] if type is FLAG else [0, 1, 2] if type is COUNT else [0.0, -0.0, 1.5]
        )
        return self.constant(type, self.draw(st.sampled_from(choices)))

    def some(self, most: int) -> list[Value]:
        kinds = self.draw(st.lists(st.sampled_from(KINDS), max_size=most))
        return [self.any_of(kind) for kind in kinds]

    def step(self, depth: int) -> None:
        kinds = ["map", "map", "logic", "reduce", "same"]
        kinds += ["cond", "cond", "for", "while"] * (depth > 0)
        kinds += ["call", "take"] * self.maker.observable
        getattr(self, "_" + self.draw(st.sampled_from(kinds)))(depth)

    def finish(self, wanted: Sequence[TensorType], *first: Value) -> Graph:
        return self.builder.finish([*first, *[self.any_of(t) for t in wanted]])

    def _map(self, _: int) -> None:
        kind = self.draw(st.sampled_from([NUMBER, ROW, COUNT]))
        name = self.draw(st.sampled_from(["add", "multiply", "subtract", "maximum", "negative"]))
        count = len(REGISTRY[name].operand_names)
        self.apply(name, *[self.any_of(kind) for _ in range(count)])

    def _logic(self, _: int) -> None:
        name = self.draw(st.sampled_from(["logical_and", "logical_or", "logical_not", "less"]))
        kind = COUNT if name == "less" else FLAG
        self.apply(name, *[self.any_of(kind) for _ in REGISTRY[name].operand_names])

    def _reduce(self, _: int) -> None:
        self.apply("sum", self.any_of(ROW), axis=(0,))

    def _same(self, _: int) -> None:
        """Once more what has been computed."""
        if self.builder.nodes:
            node = self.draw(st.sampled_from(self.builder.nodes))
            self.values += self.builder.apply(
                node.op, node.operands, node.attrs, regions=node.regions
            )

    def _call(self, _: int) -> None:
        operands = [self.any_of(NUMBER), *self.some(2)]
        self.apply("py_call", *operands, function=log_and_return, types=(NUMBER,))

    def _take(self, _: int) -> None:
        index = self.apply("reshape", self.any_of(COUNT), shape=(1,))
        taken = self.apply("take", self.any_of(ROW), index, axis=0)
        self.apply("reshape", taken, shape=())

    def _cond(self, depth: int) -> None:
        pred, operands = self.any_of(FLAG), self.some(4)
        wanted = self.draw(st.lists(st.sampled_from(KINDS), max_size=3))
        types = [v.type for v in operands]
        regions = [
            self.maker.graph(name, types, depth - 1, 4).finish(wanted) for name in ("then", "else")
        ]
        self.apply("cond", pred, *operands, regions=tuple(regions))

    def _for(self, depth: int) -> None:
        count = self.apply("minimum", self.any_of(COUNT), self.constant(COUNT, 4))
        length = self.draw(st.integers(0, 3))
        carried, invariants = self.some(3), self.some(3)
        slices = []
        for _ in range(self.draw(st.integers(0, 2))):
            attrs = {"shape": (length, 3)}
            slices.append(self.apply("broadcast_to", self.any_of(ROW), **attrs))
        types = [v.type for v in carried]
        rows = self.draw(st.lists(st.sampled_from(KINDS), max_size=2))
        given = [COUNT, *types, *[ROW] * len(slices), *[v.type for v in invariants]]
        body = self.maker.graph("body", given, depth - 1, 4).finish([*types, *rows])
        reverse = self.draw(st.booleans())
        self.apply(
            *("for", count, *carried, *slices, *invariants),
            regions=(body,),
            **{"carried": len(carried), "length": length, "reverse": reverse},
            sliced=len(slices),
        )

    def _while(self, depth: int) -> None:
        """At most three iterations: the first carried value counts them."""
        go, counter = self.any_of(FLAG), self.constant(COUNT, 0)
        carried, invariants = self.some(3), self.some(3)
        types = [v.type for v in carried]
        rows = self.draw(st.lists(st.sampled_from(KINDS), max_size=2))
        inside = self.maker.graph("body", [COUNT, *types, *[v.type for v in invariants]], 0, 0)
        counter_inside = inside.values[0]
        for _ in range(self.draw(st.integers(0, 4))):
            inside.step(depth - 1)
        further = inside.apply("add", counter_inside, inside.constant(COUNT, 1))
        limit = inside.constant(COUNT, self.draw(st.integers(0, 3)))
        test = inside.apply("less", further, limit)
        if self.draw(st.booleans()):
            test = inside.apply("logical_and", test, inside.any_of(FLAG))
        body = inside.finish([*types, *rows], test, further)
        attrs = {"carried": 1 + len(carried), "length": self.draw(st.integers(0, 3))}
        self.apply("while", go, counter, *carried, *invariants, regions=(body,), **attrs)


@st.composite
def control_graphs(draw: Any, depth: int = 3, nodes: int = 8, observable: bool = False) -> Graph:
    """Nested conds and loops over few types; with ``observable``, calls into Python and indices
    that may lie outside.
    """
    given = draw(st.lists(st.sampled_from(KINDS), max_size=6))
    body = _Maker(draw, observable).graph("random", given, depth, nodes)
    return body.finish(draw(st.lists(st.sampled_from(KINDS), max_size=5)))


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
