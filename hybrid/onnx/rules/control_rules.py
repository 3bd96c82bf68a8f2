"""Branches and loops: If, Loop and Scan, whose graphs see the names around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.types import TensorType, bool_, int64, tensor_type
from hybrid.ir import Graph, Node, Value
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes

_COUNT = tensor_type(int64, ())
_FLAG = tensor_type(bool_, ())


@writes("cond", node=True)
def cond(g: GraphWriter, pred: Wire, *operands: Wire, node: Node) -> Any:
    if not node.results:
        return ()
    bodies = []
    for region in node.regions:
        inner = g.inner()
        for value, term in zip(region.params, operands, strict=True):
            inner.bind(value, term)
        results = inner.write(region)
        types = [value.type for value in region.results]
        bodies.append(inner.finished(region.name or "branch", [], _typed(results, types)))
    return _several(g, "If", [pred], node.results, then_branch=bodies[0], else_branch=bodies[1])


def _typed(terms: Sequence[Wire], types: Sequence[TensorType]) -> list[tuple[Wire, TensorType]]:
    return list(zip(terms, types, strict=True))


def _several(
    g: GraphWriter,
    op: str,
    inputs: Sequence[Wire | None],
    results: Sequence[Value],
    **rest: Any,
) -> tuple[Wire, ...]:
    """A node with a result for each of ``results``."""
    dtypes = tuple([value.type.dtype for value in results])
    found = g(op, *inputs, dtype=dtypes, outputs=len(results), **rest)
    return found if len(results) > 1 else (found,)


@writes("while", node=True)
def while_(
    g: GraphWriter, go: Wire, *operands: Wire, carried: int, length: Any, node: Node
) -> tuple[Wire, ...]:
    """One more carried value counts the iterations."""
    (body,) = node.regions
    loop = _Loop(g, body)
    going = loop.input("going", _FLAG)
    count = loop.input("count", _COUNT)
    loop.carry(operands[:carried], 0)
    loop.give(operands[carried:], carried)
    more, *results = loop.inner.write(body)
    counted = loop.inner("Add", count, g.constant(1, int64))
    outputs = [(more, _FLAG), (counted, _COUNT), *_typed(results, _types(body.results[1:]))]
    graph = loop.inner.finished(body.name or "body", loop.inputs, outputs)
    del going
    dtypes = [int64, *[v.type.dtype for v in body.results[1:]]]
    made = loop.run(None, go, [g.zero(int64), *operands[:carried]], dtypes, graph)
    trips, values, rows = made[0], made[1 : 1 + carried], made[1 + carried :]
    types = _types(body.results[1 + carried :])
    return (trips, *values, *[_stacked(g, r, t, length) for r, t in zip(rows, types, strict=True)])


@writes("for", node=True)
def for_(
    g: GraphWriter, count: Wire, *operands: Wire, carried: int, length: Any, reverse: bool,
    sliced: int, node: Node,
) -> tuple[Wire, ...]:  # fmt: skip
    (body,) = node.regions
    stacks = len(body.results) - carried
    all_of_them = _is_length(g, count, node, length)
    if sliced and all_of_them and not _reads(body, body.params[0]):
        return _scan(g, operands, body, carried, sliced, reverse)
    if (sliced or stacks) and not all_of_them:
        count = g("Min", count, g.scalar(length))
    loop = _Loop(g, body)
    loop.input("going", _FLAG)
    index = loop.turn
    if reverse:
        last = g("Sub", count, g.constant(1, int64))
        index = loop.inner("Sub", last, loop.turn)
    loop.inner.bind(body.params[0], index)
    loop.carry(operands[:carried], 1)
    for value, term in zip(
        body.params[1 + carried :], operands[carried : carried + sliced], strict=False
    ):
        loop.inner.bind(value, loop.inner("Gather", term, index, axis=0))
    loop.give(operands[carried + sliced :], 1 + carried + sliced)
    results = loop.inner.write(body)
    outputs = [(g.constant(True, bool_), _FLAG), *_typed(results, _types(body.results))]
    graph = loop.inner.finished(body.name or "body", loop.inputs, outputs)
    dtypes = [v.type.dtype for v in body.results]
    going = None if carried else g.constant(True, bool_)  # a Loop has two inputs at least
    made = loop.run(count, going, operands[:carried], dtypes, graph)
    values, rows = made[:carried], made[carried:]
    if reverse:
        rows = tuple([_flipped(g, row) for row in rows])
    if not all_of_them:
        types = _types(body.results[carried:])
        rows = tuple([_stacked(g, r, t, length) for r, t in zip(rows, types, strict=True)])
    return (*values, *rows)


class _Loop:
    """The inputs of a Loop's body, while they are named."""

    def __init__(self, g: GraphWriter, body: Graph) -> None:
        self.g, self.body, self.inner = g, body, g.inner()
        self.inputs: list[tuple[Wire, TensorType]] = []
        self.turn = self.input("turn", _COUNT)

    def input(self, hint: str, type_: TensorType) -> Wire:
        term = Wire(self.g.model.free_name(hint), type_.dtype, type_.shape)
        self.inputs.append((term, type_))
        return term

    def carry(self, operands: Sequence[Wire], first: int) -> None:
        """The parameters from ``first`` on are carried values."""
        for value in self.body.params[first : first + len(operands)]:
            self.inner.bind(value, self.input(value.hint or "carried", value.type))

    def give(self, operands: Sequence[Wire], first: int) -> None:
        """The parameters from ``first`` on are what the operands are outside."""
        for value, term in zip(self.body.params[first:], operands, strict=True):
            self.inner.bind(value, term)

    def run(
        self, count: Wire | None, go: Wire | None, carried: Sequence[Wire], dtypes: Sequence[Any],
        graph: Any,
    ) -> tuple[Wire, ...]:  # fmt: skip
        """The Loop: carried values, then what was stacked."""
        if not dtypes:
            return ()
        found = self.g("Loop", count, go, *carried, dtype=tuple(dtypes), outputs=len(dtypes),
                       body=graph)  # fmt: skip
        return found if len(dtypes) > 1 else (found,)


def _types(values: Sequence[Value]) -> list[TensorType]:
    return [value.type for value in values]


def _is_length(g: GraphWriter, count: Wire, node: Node, length: Any) -> bool:
    """Whether a loop certainly has ``length`` iterations."""
    known = g.array_of(count)
    if known is not None:
        return type(length) is int and int(known) == length
    maker = g.makers.get(node.operands[0])
    if maker is None or type(length) is int:
        return False
    value = maker.attributes.get("value")  # of an open size
    return getattr(value, "terms", None) == length.terms


def _reads(graph: Graph, value: Value) -> bool:
    return value in graph.results or any(value in node.operands for node in graph.nodes)


def _flipped(g: GraphWriter, rows: Wire) -> Wire:
    return g("Slice", rows, g.ints(-1), g.ints(-(2**62)), g.ints(0), g.ints(-1))


def _stacked(g: GraphWriter, rows: Wire, row: TensorType, length: Any) -> Wire:
    """``rows`` of the iterations that there were, with zeros behind them: ``length``."""
    room = g("Expand", g.zero(row.dtype), g.sizes((length, *row.shape)))
    found = g("Concat", rows, room, axis=0)
    return g("Slice", found, g.ints(0), g.sizes([length]), g.ints(0))


def _scan(
    g: GraphWriter,
    operands: Sequence[Wire],
    body: Graph,
    carried: int,
    sliced: int,
    reverse: bool,
) -> tuple[Wire, ...]:
    """A loop over all rows of its slices, which asks for no index."""
    inner = g.inner()
    inputs = []
    for value in body.params[1 : 1 + carried + sliced]:
        term = Wire(g.model.free_name(value.hint or "row"), value.type.dtype, value.type.shape)
        inputs.append((inner.bind(value, term), value.type))
    for value, term in zip(
        body.params[1 + carried + sliced :], operands[carried + sliced :], strict=True
    ):
        inner.bind(value, term)
    results = inner.write(body)
    graph = inner.finished(body.name or "body", inputs, _typed(results, _types(body.results)))
    stacks = len(body.results) - carried
    backwards = int(reverse)
    return _several(
        g, "Scan", operands[: carried + sliced], body.results, body=graph, num_scan_inputs=sliced,
        scan_input_directions=[backwards] * sliced if reverse else None,
        scan_output_directions=[backwards] * stacks if reverse and stacks else None,
    )  # fmt: skip
