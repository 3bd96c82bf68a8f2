"""Branches and loops: If, Loop and Scan, whose graphs see the names around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.core.open_numbers import is_same
from hybrid.core.types import TensorType, bool_, int64, tensor_type
from hybrid.ir import Graph, Node, Value
from hybrid.onnx.graph_writer import GraphWriter, Wire
from hybrid.onnx.rule_table import writes
from hybrid.onnx.rules.shape_rules import flip, lengthened

_COUNT = tensor_type(int64, ())
_FLAG = tensor_type(bool_, ())


@writes("cond", node=True)
def cond(g: GraphWriter, pred: Wire, *operands: Wire, node: Node) -> tuple[Wire, ...]:
    if not node.results:
        return ()
    graphs = []
    for region in node.regions:
        branch = _Body(g, region)
        branch.give(operands, 0)
        results = branch.inner.write(region)
        graphs.append(branch.finished("branch", _typed(results, _types(region.results))))
    types = _types(node.results)
    return _several(g, "If", [pred], types, then_branch=graphs[0], else_branch=graphs[1])


@writes("while", node=True)
def while_(
    g: GraphWriter, go: Wire, *operands: Wire, carried: int, length: Any, node: Node
) -> tuple[Wire, ...]:
    """One more carried value counts the iterations."""
    (region,) = node.regions
    body = _Body(g, region)
    body.input("turn", _COUNT)
    body.input("going", _FLAG)
    count = body.input("count", _COUNT)
    body.take(carried, 0, "carried")
    body.give(operands[carried:], carried)
    more, *results = body.inner.write(region)
    counted = body.inner("Add", count, g.constant(1, int64))
    types = [_COUNT, *_types(region.results[1:])]
    graph = body.finished("body", [(more, _FLAG), *_typed([counted, *results], types)])
    given = [None, go, g.zero(int64), *operands[:carried]]
    made = _several(g, "Loop", given, types, body=graph)
    return (*made[: 1 + carried], *_stacked(g, made, types, 1 + carried, length))


@writes("for", node=True)
def for_(
    g: GraphWriter, count: Wire, *operands: Wire, carried: int, length: Any, reverse: bool,
    sliced: int, overruns: bool, node: Node, **_facts: Any,
) -> tuple[Wire, ...]:  # fmt: skip
    (region,) = node.regions
    stacks = len(region.results) - carried
    all_of_them = _is_length(g, count, node, length)
    if sliced and all_of_them and not _reads(region, region.params[0]):
        return _scan(g, operands, region, carried, sliced, reverse)
    if (sliced or stacks) and not (all_of_them or overruns):
        count = g("Min", count, g.scalar(length))
    body = _Body(g, region)
    index = turn = body.input("turn", _COUNT)
    body.input("going", _FLAG)
    if reverse:
        last = g("Sub", count, g.constant(1, int64))
        index = body.inner("Sub", last, turn)
    body.inner.bind(region.params[0], index)
    body.take(carried, 1, "carried")
    rows = [body.inner("Gather", x, index, axis=0) for x in operands[carried : carried + sliced]]
    body.give([*rows, *operands[carried + sliced :]], 1 + carried)
    types = _types(region.results)
    results = _typed(body.inner.write(region), types)
    graph = body.finished("body", [(g.constant(True, bool_), _FLAG), *results])
    going = None if carried else g.constant(True, bool_)  # a Loop has two inputs at least
    made = _several(g, "Loop", [count, going, *operands[:carried]], types, body=graph)
    if reverse:
        made = (*made[:carried], *[flip(g, rows, axis=(0,)) for rows in made[carried:]])
    if all_of_them:
        return made
    return (*made[:carried], *_stacked(g, made, types, carried, length))


def _scan(
    g: GraphWriter, operands: Sequence[Wire], region: Graph, carried: int, sliced: int,
    reverse: bool,
) -> tuple[Wire, ...]:  # fmt: skip
    """A loop over all rows of its slices, which asks for no index."""
    body = _Body(g, region)
    body.take(carried + sliced, 1, "row")
    body.give(operands[carried + sliced :], 1 + carried + sliced)
    types = _types(region.results)
    graph = body.finished("body", _typed(body.inner.write(region), types))
    stacks = len(types) - carried
    return _several(
        g, "Scan", operands[: carried + sliced], types, body=graph, num_scan_inputs=sliced,
        scan_input_directions=[1] * sliced if reverse else None,
        scan_output_directions=[1] * stacks if reverse and stacks else None,
    )  # fmt: skip


class _Body:
    """The graph of a branch or an iteration while it is written: its inputs, and what it sees."""

    def __init__(self, g: GraphWriter, region: Graph) -> None:
        self.region, self.inner = region, g.inner()
        self.inputs: list[tuple[Wire, TensorType]] = []

    def input(self, hint: str, type_: TensorType) -> Wire:
        """One more input."""
        term = Wire(self.inner.model.free_name(hint), type_.dtype, type_.shape)
        self.inputs.append((term, type_))
        return term

    def take(self, count: int, first: int, hint: str) -> None:
        """``count`` parameters from ``first`` on are inputs."""
        for value in self.region.params[first : first + count]:
            self.inner.bind(value, self.input(value.hint or hint, value.type))

    def give(self, terms: Sequence[Wire], first: int) -> None:
        """The parameters from ``first`` on are ``terms``."""
        for value, term in zip(self.region.params[first:], terms, strict=True):
            self.inner.bind(value, term)

    def finished(self, name: str, outputs: Sequence[tuple[Wire, TensorType]]) -> Any:
        """The GraphProto, called like the region or else ``name``."""
        return self.inner.finished(self.region.name or name, self.inputs, outputs)


def _several(
    g: GraphWriter, op: str, inputs: Sequence[Wire | None], types: Sequence[TensorType], **rest: Any
) -> tuple[Wire, ...]:
    """A node with a result of each of ``types``; none if there are none."""
    if not types:
        return ()
    dtypes = tuple([type_.dtype for type_ in types])
    found = g(op, *inputs, dtype=dtypes, outputs=len(types), **rest)
    return found if len(types) > 1 else (found,)


def _types(values: Sequence[Value]) -> list[TensorType]:
    return [value.type for value in values]


def _typed(terms: Sequence[Wire], types: Sequence[TensorType]) -> list[tuple[Wire, TensorType]]:
    return list(zip(terms, types, strict=True))


def _is_length(g: GraphWriter, count: Wire, node: Node, length: Any) -> bool:
    """Whether a loop certainly has ``length`` iterations."""
    known = g.array_of(count)
    if known is not None:
        return is_same(int(known), length)
    maker = g.makers.get(node.operands[0])
    return (
        maker is not None and maker.op.name == "full" and is_same(maker.attributes["value"], length)
    )


def _reads(graph: Graph, value: Value) -> bool:
    return value in graph.results or any(value in node.operands for node in graph.nodes)


def _stacked(
    g: GraphWriter, made: Sequence[Wire], types: Sequence[TensorType], first: int, length: Any
) -> list[Wire]:
    """What was stacked, from the result ``first`` on: ``length`` rows, zeros where none were."""
    return [
        lengthened(g, rows, length, type_.shape)
        for rows, type_ in zip(made[first:], types[first:], strict=True)
    ]
