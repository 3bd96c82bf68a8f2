"""Layouts along one axis of a mesh: found by the search, or as people lay them out by hand.

By hand:

- ``replicated``: each rank computes all of it;
- ``data``: each computes some rows of the batch, and gradients are summed up;
- ``zero``: so it does, and holds its part of the parameters, moments and gradients alone
  (Rajbhandari, Rasley, Ruwase and He, 2020);
- ``tensor``: matrices by columns and rows in turn (Shoeybi et al., 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybrid.core.layouts import MeshAxis, Placement, Split
from hybrid.distributed.strategies.captured_step import CapturedStep
from hybrid.ir import Graph, Node, Value
from hybrid.passes.layouts.layout_choice import LayoutChoice, ways_of
from hybrid.passes.layouts.layout_search import ChosenLayouts, FoundLayouts, Prices

BY_HAND = ("replicated", "data", "zero", "tensor")
_FIRST, _TRANSPOSED = ("matmul", "matmul_tn"), "matmul_nt"  # with weights [in, out], [out, in]


def outers_of(step: CapturedStep) -> tuple[int, ...]:
    """The numbers of blocks that axes may be cut in: 3, where one layer makes queries, keys and
    values."""
    shapes = [step.graph.params[at].type.shape for at in step.weights]
    blocks = any([len(s) == 2 and (s[0] == 3 * s[1] or s[1] == 3 * s[0]) for s in shapes])
    return (1, 3) if blocks else (1,)


def by_hand(
    kind: str,
    step: CapturedStep,
    graph: Graph,
    axis: MeshAxis,
    prices: Prices,
    outers: Sequence[int],
    source: Graph | None = None,
) -> FoundLayouts | None:
    """The layouts of ``graph`` (the step, or what is left of it along other axes) that ``kind``
    says; None where nothing can be cut so.

    Of a stage of a pipeline ``source`` is the whole step: all stages hold cells alike.  Branches
    and loops are computed by every rank.
    """
    if kind != "replicated" and any([node.regions for node in graph.nodes]):
        return None
    rows = dict.fromkeys([graph.params[at] for at in step.batch], Split(0))
    rows = {v: p for v, p in rows.items() if p.fits(v.type.shape, axis.ranks)}
    held: dict[int, Placement] = {}
    if kind in ("data", "zero") and not rows:
        return None
    if kind == "zero":
        held = {cell.param: _first_cut(graph.params[cell.param], axis) for cell in step.cells}
    if kind == "tensor":
        held = columns_and_rows(step, source or graph, axis)
        types = {at: graph.params[at].type for at in held}
        held = {at: p for at, p in held.items() if p and p.fits(types[at].shape, axis.ranks)}
    if kind in ("zero", "tensor") and not any(held.values()):
        return None
    cells = {graph.params[at]: place for at, place in held.items()}
    ends: dict[int, Placement] = dict.fromkeys(range(len(graph.results)))
    for cell in step.cells:
        ends |= dict.fromkeys(cell.results, held.get(cell.param))
    given = cells | (rows if kind in ("data", "zero") else {})
    if kind == "replicated":
        ways = {node: ways_of(node, axis)[0] for node in graph.nodes}
        layouts = ChosenLayouts(graph, {}, ways)
    else:
        choice = LayoutChoice(graph, axis, given, ends, outers)
        layouts = ChosenLayouts(graph, cells, choice.ways)
    return FoundLayouts(layouts, ends, layouts.seconds(prices, axis, ends), exact=False)


def _first_cut(value: Value, axis: MeshAxis) -> Placement:
    """The first axis of ``value`` that can be cut."""
    splits = [Split(at) for at in range(value.type.rank)]
    return next((s for s in splits if s.fits(value.type.shape, axis.ranks)), None)


def columns_and_rows(step: CapturedStep, graph: Graph, axis: MeshAxis) -> dict[int, Placement]:
    """Where cells are if matrices are cut by outputs and by inputs in turn, in their order.

    The bias of one that is cut by outputs is cut, too.
    """
    numbers = {graph.params[cell.param]: cell.param for cell in step.cells}
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(node.operands):
            users.setdefault(value, []).append(node)
    found: dict[int, Placement] = {}
    by_outputs = True
    for node in graph.nodes:
        weight = node.operands[1] if node.op.name in (*_FIRST, _TRANSPOSED) else None
        at = numbers.get(weight) if weight is not None else None
        if at not in step.weights or at in found or weight.type.rank != 2:
            continue
        out = 0 if node.op.name == _TRANSPOSED else 1
        shape, whole = weight.type.shape, step.graph.params[at].type.shape
        blocks = 3 if by_outputs and whole[out] == 3 * whole[1 - out] else 1
        place = Split(out, blocks) if by_outputs else Split(1 - out)
        if not place.fits(shape, axis.ranks):
            continue
        found[at] = place
        if by_outputs:
            for other in users.get(node.results[0], ()):
                bias = [numbers.get(v) for v in other.operands if v.type.rank == 1]
                if other.op.name == "add" and bias and bias[0] in step.weights:
                    split = Split(0, blocks)
                    value = graph.params[bias[0]]
                    found[bias[0]] = split if split.fits(value.type.shape, axis.ranks) else None
        by_outputs = not by_outputs
    return found | _with_moments(step, graph, found, numbers)


def _with_moments(
    step: CapturedStep,
    graph: Graph,
    found: Mapping[int, Placement],
    numbers: Mapping[Value, int],
) -> dict[int, Placement]:
    """The places of what is updated together with parameters at ``found``."""
    more: dict[int, Placement] = {}
    for node in graph.nodes:
        held = [numbers[v] for v in node.operands if v in numbers]
        first = next((at for at in held if at in found), None)
        if first is None or len(node.results) < 2:
            continue
        shape = graph.params[first].type.shape
        for at in held:
            if at not in step.weights and graph.params[at].type.shape == shape:
                more[at] = found[first]
    return more
