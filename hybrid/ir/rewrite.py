"""Making graphs: node by node (Builder), of another one (rewrite), with calls written out (inline).

``rewrite`` is the one driver behind the passes.  ``inline`` replaces a node that stands for a call
by the nodes of what it calls.  Before::             After::

    %y, %r = custom_vjp %x {                            %y = sin %x
      forward(%x: f32[]) { ... return %y, %r }          %r = cos %x
      backward(%r: f32[], %ct: f32[]) { ... }
    }
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.core.types import TensorType
from hybrid.errors import GraphError, Location
from hybrid.ir.graph import Attrs, Graph, Node, Value
from hybrid.ir.op import Op


class Builder:
    """Collects parameters and nodes, infers result types, and ends in a Graph."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self.location: Location | None = None  # of nodes that are given none
        self.alike: tuple[Value, ...] = ()  # results that are given no hints have those of these

    def param(self, type: TensorType, hint: str = "") -> Value:
        value = Value(type, hint)
        self.params.append(value)
        return value

    def apply(
        self,
        op: Op,
        operands: Sequence[Value],
        attrs: Attrs | dict[str, Any] = (),
        *,
        regions: tuple[Graph, ...] = (),
        location: Location | None = None,
        types: tuple[TensorType, ...] | None = None,
        hints: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Append ``op``; its result types are inferred unless ``types`` gives them."""
        if isinstance(attrs, dict):
            attrs = op.attributes(attrs)
        operands = tuple(operands)
        if types is None:
            types = op.infer(tuple([v.type for v in operands]), attrs, regions)
        location = location or self.location
        names = [*(hints or [v.hint for v in self.alike]), *[""] * len(types)]
        results = tuple([Value(t, hint, location) for t, hint in zip(types, names, strict=False)])
        self.nodes.append(
            Node(
                op=op,
                operands=operands,
                attrs=attrs,
                results=results,
                regions=regions,
                location=location,
            )
        )
        return results

    def append(self, node: Node) -> None:
        self.nodes.append(node)

    def finish(self, results: Sequence[Value]) -> Graph:
        return Graph(self.name, tuple(self.params), tuple(self.nodes), tuple(results))


Rule = Callable[[Node, Builder], "tuple[Value, ...] | None"]
Pass = Callable[[Graph], Graph]


def rewrite(graph: Graph, rule: Rule, *, regions: Pass | None = None) -> Graph:
    """``graph`` with ``rule`` asked about each node in order.

    The rule gets the node with its operands already replaced, and a builder to append new nodes to;
    these take the node's location and hints.  It answers with a value for each of the node's
    results, or None to keep the node.  ``regions`` is applied to the regions of every node first; a
    pass gives itself here, so that what it remembers of one graph does not leak into another.  A
    graph in which nothing changes comes back itself.
    """
    builder = Builder(graph.name)
    builder.params = list(graph.params)
    nodes = builder.nodes
    replaced: dict[Value, Value] = {}
    changed = False
    for node in graph.nodes:
        updated = with_replaced(node, replaced) if replaced else node
        if regions is not None and node.regions:
            updated = with_regions(updated, regions)
        builder.location, builder.alike = node.location, node.results
        results = rule(updated, builder)
        if results is None:
            nodes.append(updated)
            changed = changed or updated is not node
            continue
        changed = True
        if not all(map(_alike, results, node.results)) or len(results) != len(node.results):
            raise GraphError(
                f"a rule replaced the results of {node.op.name} by values of other types: "
                + ", ".join(f"{v.type}" for v in node.results)
                + " by "
                + ", ".join(f"{v.type}" for v in results),
                at=node.location,
            )
        for old, new in zip(node.results, results, strict=True):
            replaced[old] = replaced.get(new, new)
    if not changed:
        return graph
    return builder.finish([replaced.get(v, v) for v in graph.results])


STEADY: Any = object()  # in place of a graph that a pass has left as it was: no cycle


def steady(change: Callable[..., Graph]) -> Callable[..., Graph]:
    """``change``, which looks once at a graph, and remembers what it has made of it.

    It is for a pass that goes by the graph alone, and by other arguments that are hashable: passes
    run until nothing changes, and what changes last is a region or two of many.
    """

    @functools.wraps(change)
    def changed(graph: Graph, *given: Any) -> Graph:
        key = changed, given
        made = graph.derived.get(key)
        if made is None:
            made = change(graph, *given)
            graph.derived[key] = STEADY if made is graph else made
        return graph if made is STEADY else made

    return changed


def with_replaced(node: Node, replaced: dict[Value, Value]) -> Node:
    """``node`` with operands looked up in ``replaced``; itself when none is there."""
    if replaced.keys().isdisjoint(node.operands):
        return node
    operands = tuple([replaced.get(v, v) for v in node.operands])
    return Node(
        op=node.op,
        operands=operands,
        attrs=node.attrs,
        results=node.results,
        regions=node.regions,
        location=node.location,
    )


def with_regions(node: Node, change: Pass) -> Node:
    """``node`` with ``change`` applied to its regions; itself when it changes none."""
    regions = tuple([change(region) for region in node.regions])
    if all(new is old for new, old in zip(regions, node.regions, strict=True)):
        return node
    return Node(
        op=node.op,
        operands=node.operands,
        attrs=node.attrs,
        results=node.results,
        regions=regions,
        location=node.location,
    )


def inlined(graph: Graph) -> Graph:
    """``graph`` without nodes of ops that are ``inline``."""
    if not any(node.op.inline for node in graph.walk()):
        return graph
    return rewrite(graph, _spliced, regions=inlined)


def _spliced(node: Node, builder: Builder) -> tuple[Value, ...] | None:
    if not node.op.inline:
        return None
    region = node.regions[0]
    known = dict(zip(region.params, node.operands, strict=True))
    for inner in region.nodes:
        operands = [known[v] for v in inner.operands]
        made = builder.apply(
            inner.op, operands, inner.attrs, regions=inner.regions, location=inner.location
        )
        known.update(zip(inner.results, made, strict=True))
    return tuple([known[v] for v in region.results])


def _alike(new: Value, old: Value) -> bool:
    """Whether a value can stand in the place of another: sizes may be equal by a condition."""
    if new.type is old.type:
        return True
    is_open = new.type.is_open or old.type.is_open
    return is_open and new.type.dtype is old.type.dtype and new.type.shape == old.type.shape
