"""The graph of one rank: a graph of whole tensors with the layouts that were chosen for it.

Before, of two ranks that have columns of ``w``::      After, on each of them::

    %y: f32[8,6] = matmul %x, %w                        %a: f32[8,3] = matmul %x, %w
    %z: f32[6] = sum %y {axis=(0,)}                     %b: f32[3] = sum %a {axis=(0,)}

The axes of meshes are gone through one after the other: the parts along one are the whole for the
next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hybrid.core.layouts import (
    PARTIAL,
    Held,
    Layout,
    MeshAxis,
    Placement,
    Split,
    laid_type,
    part_of,
    placement_in,
    placement_text,
    whole_of,
)
from hybrid.core.types import TensorType
from hybrid.errors import Location, ShapeError
from hybrid.ir import Builder, Graph, Node, Value, inlined
from hybrid.ir.interpreter import apart
from hybrid.ops.communication.layout_op import laid_out, layout_of
from hybrid.ops.support.shared_work import SharedWay
from hybrid.passes.layouts.layout_choice import LayoutChoice, has_rule
from hybrid.passes.layouts.work import Work


class LayoutRow(NamedTuple):
    """What became of one node: where its results are, and what was moved for it."""

    op: str
    results: tuple[TensorType, ...]
    places: tuple[Placement, ...]
    moved: tuple[tuple[str, TensorType], ...]
    gathered: bool  # operands were put together, for the op has no rule
    location: Location | None


class LocalGraph(NamedTuple):
    """The graph of one rank, the types of its results with their layouts, and what was chosen."""

    graph: Graph
    results: tuple[TensorType, ...]
    rows: tuple[tuple[MeshAxis, tuple[LayoutRow, ...]], ...]


def laid_like(graph: Graph, types: Sequence[TensorType]) -> Graph:
    """``graph`` with parameters of ``types``, which may have other layouts than its own."""
    if all([v.type is t for v, t in zip(graph.params, types, strict=True)]):
        return graph
    return _with_params(graph, types)


class AxisChoice(Protocol):
    """Where values are along one axis of a mesh: what ``LayoutChoice`` finds."""

    place: dict[Value, Placement]
    ways: dict[Node, SharedWay]
    inner: dict[Node, list[tuple[list[Placement], list[Placement]]]]

    def is_filled(self, value: Value) -> bool:
        """Whether ``value`` is one number everywhere."""


Choose = Callable[..., AxisChoice]  # (graph, axis, given, asked, outers) -> AxisChoice


def local_graph(
    graph: Graph,
    wanted: dict[int, TensorType],
    choose: Choose = LayoutChoice,
    further: Sequence[MeshAxis] = (),
) -> LocalGraph:
    """What each rank runs for ``graph``; ``wanted`` are types, with layouts, of some results.

    ``choose`` says where values are along an axis: of layouts, and along the ``further`` ones.
    """
    graph = inlined(graph)
    axes: dict[MeshAxis, None] = dict.fromkeys(further)
    outers = {1: None}
    for layout in _layouts(graph, wanted):
        axes.update(dict.fromkeys([axis for axis, _ in layout]))
        outers.update(dict.fromkeys([p.outer for _, p in layout if isinstance(p, Split)]))
    params = [v.type.layout or () for v in graph.params]
    wanted = asked_layouts(graph) | wanted
    # What one rank holds may be shared along other axes: these come first.
    layouts = [*params, *[t.layout or () for t in wanted.values()]]
    held = {axis for layout in layouts for axis, p in layout if isinstance(p, Held)}
    ends: list[list[tuple[MeshAxis, Placement]]] = [[] for _ in graph.results]
    graph = _with_params(graph, [whole_of(v.type) for v in graph.params])
    rows = []
    for axis in sorted(axes, key=lambda axis: (axis in held, axis)):
        given = {v: placement_in(p, axis) for v, p in zip(graph.params, params, strict=True)}
        asked = {at: placement_in(t.layout, axis) for at, t in wanted.items()}
        graph, places, found = along(graph, axis, given, asked, tuple(outers), choose)
        rows.append((axis, found))
        for end, place in zip(ends, places, strict=True):
            end.append((axis, place))
    types = [
        wanted[at] if any([isinstance(p, Held) for _, p in end]) else _result_type(v.type, end)
        for at, (v, end) in enumerate(zip(graph.results, ends, strict=True))
    ]
    return LocalGraph(graph, tuple(types), tuple(rows))


def asked_layouts(graph: Graph) -> dict[int, TensorType]:
    """The types of those results that nodes of the graph lay out."""
    made = {v: node for node in graph.nodes for v in node.results if node.op is laid_out}
    return {
        at: laid_type(v.type, layout_of(made[v].attributes["layout"]))
        for at, v in enumerate(graph.results)
        if v in made
    }


def _layouts(graph: Graph, wanted: Mapping[int, TensorType]) -> list[Layout]:
    types = [*[v.type for v in graph.params], *wanted.values()]
    found = [t.layout for t in types if t.layout is not None]
    for node in graph.walk():
        if node.op is laid_out:
            found.append(tuple(layout_of(node.attributes["layout"])))  # type: ignore[arg-type]
    return found


def _with_params(graph: Graph, types: Sequence[TensorType]) -> Graph:
    pairs = zip(graph.params, types, strict=True)
    new = {v: Value(t, v.hint, v.location) for v, t in pairs}
    nodes = []
    for node in graph.nodes:
        if not new.keys().isdisjoint(node.operands):
            node = Node(
                op=node.op,
                operands=tuple([new.get(v, v) for v in node.operands]),
                attrs=node.attrs,
                results=node.results,
                regions=node.regions,
                location=node.location,
            )
        nodes.append(node)
    results = tuple([new.get(v, v) for v in graph.results])
    return Graph(graph.name, tuple(new.values()), tuple(nodes), results)


def _result_type(local: TensorType, ends: Sequence[tuple[MeshAxis, Placement]]) -> TensorType:
    """The type, with its layout, of a result of which a rank has one of type ``local``."""
    sizes = list(local.shape)
    for axis, placement in ends:
        if isinstance(placement, Split):
            sizes[placement.axis] *= axis.ranks
    return laid_type(local.with_shape(tuple(sizes)), ends)


def along(
    graph: Graph,
    axis: MeshAxis,
    given: Mapping[Value, Placement],
    asked: Mapping[int, Placement],
    outers: Sequence[int],
    choose: Choose = LayoutChoice,
) -> tuple[Graph, list[Placement], tuple[LayoutRow, ...]]:
    """The graph of a rank along ``axis``, where its results are, and what became of each node."""
    choice = choose(graph, axis, given, asked, outers)
    builder = Builder(graph.name)
    work = Work(builder, axis)
    at_hand: dict[tuple[Value, Placement], Value] = {}
    for value in graph.params:
        made = builder.param(part_of(value.type, choice.place[value], axis), value.hint)
        at_hand[value, choice.place[value]] = made

    def moved(value: Value, then: Placement) -> Value:
        found = at_hand.get((value, then))
        if found is None:
            now = choice.place[value]
            if choice.is_filled(value):
                found = work.constant(makers[value], then)
            else:
                found = work.moved_to(at_hand[value, now], now, then, value.type)
            at_hand[value, then] = found
        return found

    makers = {v: node for node in graph.nodes for v in node.results}
    rows = []
    for node in graph.nodes:
        way = choice.ways[node]
        builder.location, first = node.location, len(work.moved)
        operands = [moved(v, p) for v, p in zip(node.operands, way.operands, strict=True)]
        regions, inner = [], []
        for region, (params, results_) in zip(
            node.regions, choice.inner.get(node, []), strict=False
        ):
            places = dict(zip(region.params, params, strict=True))
            ends = dict(enumerate(results_))
            local, _, more = along(region, axis, places, ends, outers, choose)
            regions.append(local)
            inner += more
        results = computed_by(work, node, way, operands, tuple(regions))
        at_hand.update(zip(zip(node.results, way.results, strict=True), results, strict=True))
        gathered = not has_rule(node) and len(work.moved) > first
        rows.append(
            LayoutRow(
                op=node.op.name,
                results=tuple([v.type for v in node.results]),
                places=way.results,
                moved=tuple([(name, t) for name, t, _ in work.moved[first:]]),
                gathered=gathered,
                location=node.location,
            )
        )
        rows += inner
    builder.location = None
    ends = [
        asked.get(at, None if choice.place[v] == PARTIAL else choice.place[v])
        for at, v in enumerate(graph.results)
    ]
    first = len(work.moved)
    found = [moved(v, end) for v, end in zip(graph.results, ends, strict=True)]
    last = tuple([(name, t) for name, t, _ in work.moved[first:]])
    if last:
        none: dict[str, Any] = {"results": (), "places": (), "location": None}
        rows.append(LayoutRow(op="return", moved=last, gathered=False, **none))
    return builder.finish(found), ends, tuple(rows)


def computed_by(
    work: Work,
    node: Node,
    way: SharedWay,
    operands: Sequence[Value],
    regions: tuple[Graph, ...] = (),
) -> Sequence[Value]:
    """The results of ``node``, of which ``way`` says which part a rank has.

    ``regions`` are those of the rank, if they are not those of ``node``.
    """
    axis = work.axis
    types = [part_of(v.type, p, axis) for v, p in zip(node.results, way.results, strict=True)]
    builder = work.builder
    if way.compute is not None:
        with apart(work):
            made = way.compute(work, *operands, **node.attributes)
        results = made if isinstance(made, tuple) else (made,)
    else:
        attrs = node.attrs
        if way.attrs is not None:
            attrs = node.op.attributes(way.attrs(node.attributes, types))
        hints = tuple([v.hint for v in node.results])
        results = builder.apply(
            node.op,
            operands,
            attrs,
            regions=regions or node.regions,
            location=node.location,
            hints=hints,
        )
    for made, type in zip(results, types, strict=True):
        if made.type is not type:
            raise ShapeError(
                f"{node.op.name} of parts makes {made.type}, and {type} was to come",
                at=node.location,
                why="The rule of the op (op.shares) says what it does not do.",
            )
    return results


# What was chosen ----------------------------------------------------------------------------------


def layout_page(local: LocalGraph) -> str:
    """The layouts of ``local``, axis by axis of the mesh: ``plan.layout()``.

    A line for each op whose results are not the same on all ranks, or that something was moved
    for::

        model.py:12  matmul -> f32[8,6]: axis 1 by tp
        model.py:13  matmul -> f32[8,4]: partial over tp
        model.py:13  add -> f32[8,4]: whole; after all_reduce of f32[8,4]
    """
    parts = []
    for axis, rows in local.rows:
        lines = [_line(row, axis) for row in rows if any(row.places) or row.moved]
        moved = [(name, type) for row in rows for name, type in row.moved]
        total = sum([type.nbytes for _, type in moved])
        head = f"{axis.name}: {axis.ranks} ranks, {len(moved)} collectives of {total} bytes in all"
        parts.append("\n".join([head, *[f"  {line}" for line in lines]]))
    return "\n".join(parts)


def _line(row: LayoutRow, axis: MeshAxis) -> str:
    where = ""
    if row.location is not None:
        where = f"{os.path.basename(row.location.path)}:{row.location.line}  "
    shown = [
        f"{type}: {placement_text(place, axis.name)}"
        for type, place in zip(row.results, row.places, strict=True)
    ]
    made = f" -> {', '.join(shown)}" if shown else ""
    after = ", ".join([f"{name} of {type}" for name, type in row.moved])
    why = f", for {row.op} has no rule for parts" if row.gathered else ""
    return f"{where}{row.op}{made}" + (f"; after {after}{why}" if after else "")
