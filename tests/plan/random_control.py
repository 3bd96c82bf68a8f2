"""Random graphs of control flow, for hypothesis, and what they mean: ops one by one, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import hybrid as hy
from hybrid.core.types import TensorType, bool_, float32, int64, tensor_type
from hybrid.ir import Builder, Graph, Value, get_op
from hybrid.ir.interpreter import current
from hybrid.ir.op import results_of

FLAG, COUNT = tensor_type(bool_, ()), tensor_type(int64, ())
LENGTHS = (0, 1, 3, 4)
CARRIED = [FLAG, COUNT] + [tensor_type(float32, s) for s in [(), (4,), (3, 4), (16,), (4, 16)]]
PARAMS = [*CARRIED, *(tensor_type(float32, (n, 4)) for n in LENGTHS)]


def run_by_hand(graph: Graph, tensors: Sequence[hy.Tensor]) -> list[hy.Tensor]:
    """The results of ``graph``: every op alone, branches and loops in Python."""
    values = dict(zip(graph.params, tensors, strict=True))
    for node in graph.nodes:
        operands = [values[v] for v in node.operands]
        if node.regions and node.op.name in _BY_HAND:
            results = _BY_HAND[node.op.name](node.regions, *operands, **node.attributes)
        else:
            results = results_of(
                current().apply(node.op, tuple(operands), node.attributes, node.regions)
            )
        values.update(zip(node.results, results, strict=True))
    return [values[v] for v in graph.results]


def _cond(regions: Any, pred: hy.Tensor, *operands: hy.Tensor) -> list[hy.Tensor]:
    return run_by_hand(regions[0 if pred.item() else 1], operands)


def _while(regions: Any, go: Any, *operands: Any, carried: int, length: int) -> list[hy.Tensor]:
    values, rest, trips = list(operands[:carried]), operands[carried:], 0
    types = [v.type for v in regions[0].results[1 + carried :]]
    rows: list[list[Any]] = [[None] * length for _ in types]
    while go.item():
        go, *found = run_by_hand(regions[0], (*values, *rest))
        values = found[:carried]
        if trips < length:
            for kept, row in zip(rows, found[carried:], strict=True):
                kept[trips] = row
        trips += 1
    return [hy.asarray(np.asarray(trips)), *values, *map(_stacked, rows, types)]


def _for(
    regions: Any, count: Any, *operands: Any, carried: int, length: int, reverse: bool, sliced: int,
    overruns: bool, **_facts: Any,
) -> list[hy.Tensor]:  # fmt: skip
    values, sources = list(operands[:carried]), operands[carried : carried + sliced]
    rest = operands[carried + sliced :]
    types = [v.type for v in regions[0].results[carried:]]
    rows: list[list[Any]] = [[None] * length for _ in types]
    n = max(count.item(), 0)
    if (sliced or types) and not overruns:
        n = min(n, length)
    for i in reversed(range(n)) if reverse else range(n):
        index = hy.asarray(np.asarray(i))
        found = run_by_hand(regions[0], (index, *values, *[s[i] for s in sources], *rest))
        values = found[:carried]
        for kept, row in zip(rows, found[carried:], strict=True):
            if i < length:
                kept[i] = row
    return [*values, *map(_stacked, rows, types)]


def _stacked(rows: list[Any], type: TensorType) -> hy.Tensor:
    """Rows never reached are anything: these are sevens."""
    filled = np.full((len(rows), *type.shape), 7, type.dtype.numpy)
    for i, row in enumerate(rows):
        if row is not None:
            filled[i] = row.numpy()
    return hy.asarray(filled)


_BY_HAND = {"cond": _cond, "while": _while, "for": _for}


# Graphs -----------------------------------------------------------------------------------------


class _Writer:
    """One graph or region under construction."""

    def __init__(self, draw: Any, name: str, params: Sequence[TensorType], depth: int) -> None:
        self.draw, self.depth = draw, depth
        self.builder = Builder(name)
        self.values = [self.builder.param(t) for t in params]

    def apply(self, name: str, *operands: Value, regions: Any = (), **attrs: Any) -> Any:
        results = self.builder.apply(get_op(name), operands, attrs, regions=regions)
        return results[0] if len(results) == 1 and not regions else results

    def pick(self, type: TensorType) -> Value:
        """A value of ``type``: one of those there are, or a constant."""
        found = [v for v in self.values if v.type is type]
        if found and self.draw(st.integers(0, 9)):
            return self.draw(st.sampled_from(found[-6:]))
        value = self.draw(st.sampled_from([0.0, 1.0, -0.5, 2.0]))
        if type.dtype is bool_:
            value = bool(value > 0)
        value = int(value) if type.dtype is int64 else value
        return self.apply("full", dtype=type.dtype, shape=type.shape, value=value)

    def node(self) -> None:
        """One more node, or several that belong together."""
        kinds = [self.compute, self.compute, self.compute, self.test, self.view, self.reduce]
        kinds += [self.update, self.join, self.join]
        if self.depth < 3:
            kinds += [self.cond, self.while_loop, self.for_loop]
        self.draw(st.sampled_from(kinds))()

    def compute(self) -> None:
        a = self.draw(st.sampled_from([v for v in CARRIED if v.dtype is not bool_]))
        name = self.draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum"]))
        self.values.append(self.apply(name, self.pick(a), self.pick(a)))

    def test(self) -> None:
        name = self.draw(st.sampled_from(["less", "greater_equal", "logical_not", "logical_and"]))
        type = FLAG if name.startswith("logical") else tensor_type(float32, ())
        operands = [self.pick(type) for _ in range(1 if name == "logical_not" else 2)]
        self.values.append(self.apply(name, *operands))

    def view(self) -> None:
        wide = [v for v in self.values if v.type.rank == 2]
        if not wide:
            return
        x = self.draw(st.sampled_from(wide))
        kind = self.draw(st.integers(0, 3))
        if kind == 0 and x.type.shape[0] == x.type.shape[1]:
            self.values.append(self.apply("permute_dims", x, axes=(1, 0)))
        elif kind == 1:
            self.values.append(self.apply("flip", x, axis=(0,)))
        elif kind == 2:
            self.values.append(self.apply("permute_dims", x, axes=(1, 0)))
        else:
            row = self.pick(tensor_type(x.type.dtype, (x.type.shape[1],)))
            self.values.append(self.apply("broadcast_to", row, shape=x.type.shape))

    def update(self) -> None:
        """Parts replaced, where they lie if nobody else needs what they were."""
        x = self.pick(
            self.draw(st.sampled_from([tensor_type(float32, s) for s in [(4,), (4, 16)]]))
        )
        if self.draw(st.booleans()):
            size = (2, *x.type.shape[1:])
            start = (self.draw(st.integers(0, 2)), *[0] * (x.type.rank - 1))
            value = self.apply("slice", self.pick(x.type), start=(0,) * x.type.rank, size=size,
                               step=(1,) * x.type.rank)  # fmt: skip
            attrs = {"start": start, "size": size, "step": (1,) * x.type.rank}
            self.values.append(self.apply("slice_assign", x, value, **attrs))
        else:
            three = self.apply("full", dtype=int64, shape=(), value=3)
            at = self.apply("bitwise_and", self.pick(COUNT), three)
            index = self.apply("reshape", at, shape=(1,))
            value = self.apply("slice", self.pick(x.type), start=(0,) * x.type.rank,
                               size=(1, *x.type.shape[1:]), step=(1,) * x.type.rank)  # fmt: skip
            name = self.draw(st.sampled_from(["scatter", "scatter_add"]))
            self.values.append(self.apply(name, x, index, value, axis=0))

    def join(self) -> None:
        """Rows side by side, or a row of what they were joined to."""
        shape, count = self.draw(st.sampled_from([((), 4), ((4,), 3), ((16,), 4)]))
        row = tensor_type(float32, shape)
        whole = tensor_type(float32, (count, *shape))
        if self.draw(st.booleans()):
            rows = [self.pick(row) for _ in range(count)]
            parts = [self.apply("reshape", x, shape=(1, *shape)) for x in rows]
            self.values.append(self.apply("concat", *parts, axis=0))
        else:
            at = self.draw(st.integers(0, count - 1))
            start, size = (at, *[0] * len(shape)), (1, *shape)
            attrs = {"start": start, "size": size, "step": (1,) * len(size)}
            found = self.apply("slice", self.pick(whole), **attrs)
            self.values.append(self.apply("reshape", found, shape=shape))

    def reduce(self) -> None:
        found = [v for v in self.values if v.type.rank and v.type.dtype is float32]
        if found:
            x = self.draw(st.sampled_from(found))
            axes = tuple(range(x.type.rank))
            self.values.append(self.apply("sum", x, axis=axes, keepdims=False))

    def region(self, params: Sequence[TensorType], results: Sequence[TensorType]) -> Graph:
        inner = _Writer(self.draw, "body", params, self.depth + 1)
        for _ in range(self.draw(st.integers(0, 5))):
            inner.node()
        return inner.builder.finish([inner.pick(t) for t in results])

    def types(self, most: int) -> list[TensorType]:
        return self.draw(st.lists(st.sampled_from(CARRIED), max_size=most))

    def outer(self) -> list[Value]:
        """Values that a region is given as they are."""
        if not self.values:
            return []
        return self.draw(st.lists(st.sampled_from(self.values), max_size=2))

    def cond(self) -> None:
        results = self.types(3)
        given = [self.pick(t) for t in results if self.draw(st.booleans())] + self.outer()
        types = [v.type for v in given]
        regions = (self.region(types, results), self.region(types, results))
        self.values += self.apply("cond", self.pick(FLAG), *given, regions=regions)

    def while_loop(self) -> None:
        """It ends: a counter is carried beside the other values."""
        carried, rows = [COUNT, *self.types(3)], self.types(2)
        start = self.apply("full", dtype=int64, shape=(), value=0)
        given = [start, *[self.pick(t) for t in carried[1:]], *self.outer()]
        inner = _Writer(self.draw, "body", [v.type for v in given], self.depth + 1)
        counter = inner.values.pop(0)
        for _ in range(self.draw(st.integers(0, 5))):
            inner.node()
        most = self.draw(st.integers(0, 5))
        following = inner.apply("add", counter, inner.apply("full", dtype=int64, shape=(), value=1))
        bound = inner.apply("full", dtype=int64, shape=(), value=most)
        go = inner.apply("less", following, bound)
        if self.draw(st.booleans()):
            go = inner.apply("logical_and", go, inner.pick(FLAG))
        body = inner.builder.finish(
            [go, following, *[inner.pick(t) for t in [*carried[1:], *rows]]]
        )
        length = self.draw(st.sampled_from(LENGTHS))
        trips, *results = self.apply(
            "while", self.pick(FLAG), *given, carried=len(carried), length=length, regions=(body,)
        )
        self.values += [trips, *results[: len(carried)]]
        self.stacks(results[len(carried) :], trips, length)

    def for_loop(self) -> None:
        carried, rows = self.types(3), self.types(2)
        length = self.draw(st.sampled_from(LENGTHS))
        wide = [v for v in self.values if v.type.rank == 2 and v.type.shape[0] == length]
        slices = self.draw(st.lists(st.sampled_from(wide), max_size=2)) if wide else []
        given = [self.pick(t) for t in carried]
        outer = self.outer()
        inside = [v.type for v in given]
        inside += [tensor_type(v.type.dtype, v.type.shape[1:]) for v in slices]
        inside += [v.type for v in outer]
        body = self.region([COUNT, *inside], [*carried, *rows])
        count = self.apply(
            "minimum",
            self.pick(COUNT),
            self.apply("full", dtype=int64, shape=(), value=self.draw(st.integers(-1, 6))),
        )
        results = self.apply(
            "for", count, *given, *slices, *outer, carried=len(carried), length=length,
            reverse=self.draw(st.booleans()), sliced=len(slices), regions=(body,),
            overruns=not slices and self.draw(st.booleans()),
        )  # fmt: skip
        self.values += results[: len(carried)]
        self.stacks(results[len(carried) :], count, length)

    def stacks(self, stacks: Sequence[Value], count: Value, length: int) -> None:
        """Stacks without what no iteration has written."""
        numbers = np.arange(length, dtype=np.int64)
        index = self.apply("literal", data=numbers.tobytes(), dtype=int64, shape=(length,))
        reached = self.apply("less", index, self.apply("broadcast_to", count, shape=(length,)))
        for stack in stacks:
            shape = stack.type.shape
            mask = self.apply("reshape", reached, shape=(length, *[1] * (len(shape) - 1)))
            mask = self.apply("broadcast_to", mask, shape=shape)
            zero = self.apply("full", dtype=stack.type.dtype, shape=shape, value=0)
            self.values.append(self.apply("where", mask, stack, zero))


@st.composite
def control_graphs(draw: Any, nodes: int = 8) -> Graph:
    """A graph of branches and loops that end."""
    params = draw(st.lists(st.sampled_from(PARAMS), min_size=1, max_size=4))
    writer = _Writer(draw, "random", params, 0)
    for _ in range(draw(st.integers(1, nodes))):
        writer.node()
    return writer.builder.finish(draw(st.lists(st.sampled_from(writer.values), max_size=4)))
