"""The nodes of a graph by the line that made them, each with the name that it prints under."""

from __future__ import annotations

from collections.abc import Iterator

from hybrid.core.dataclass import dataclass
from hybrid.explain.watch import Place
from hybrid.ir import Graph, Node
from hybrid.ir.printer import names_of
from hybrid.ops.support.operand_checks import plural


@dataclass(frozen=True, slots=True)
class Ref:
    """A node of the graph, nested or not."""

    node: Node
    name: str  # of its first result: "%7"; empty when it has none
    inside: str  # "the then of cond %7"
    anchor: str
    place: Place  # of the line that made it, or that made the node that owns it

    @property
    def label(self) -> str:
        """What a line that became this node is called."""
        return f"{self.node.op.name} {self.name}".rstrip()

    @property
    def is_check(self) -> bool:
        """Whether it does nothing but raise where its test does not hold."""
        inner = [n for region in self.node.regions for n in region.nodes]
        return (
            self.node.op.name == "cond"
            and not self.node.results
            and bool(inner)
            and all(n.op.name == "py_call" for n in inner)
        )


def refs(graph: Graph) -> list[Ref]:
    """All nodes of ``graph``, owners first, in the order of its text."""
    return list(_refs(graph, "", ("", 0), [0]))


def _refs(graph: Graph, inside: str, owner: Place, count: list[int]) -> Iterator[Ref]:
    names = names_of(graph)
    for node in graph.nodes:
        name = f"%{names[node.results[0]]}" if node.results else ""
        place = owner if node.location is None else (node.location.path, node.location.line)
        ref = Ref(node, name, inside, f"node{count[0]}", place)
        count[0] += 1
        yield ref
        for region in node.regions:
            here = f"the {region.name} of {ref.label}"
            yield from _refs(region, f"{here}, in {inside}" if inside else here, place, count)


def by_place(found: list[Ref]) -> dict[Place, list[Ref]]:
    """``found`` by the lines that made them."""
    places: dict[Place, list[Ref]] = {}
    for ref in found:
        places.setdefault(ref.place, []).append(ref)
    return places


def loop_facts(node: Node) -> str:
    """``50 iterations, 1 value carried, 2 stacked``."""
    attributes, unknown = node.attributes, node.op.name == "while"
    carried, length = attributes["carried"], attributes["length"]
    heads = 1 if unknown else 0
    # That of a while is how many rows it may stack at most.
    facts = [plural(length, "iteration")] if length and not unknown else []
    facts.append(f"{plural(carried, 'value')} carried")
    stacked = len(node.results) - carried - heads
    if stacked > 0:
        facts.append(f"{stacked} stacked")
    return ", ".join(facts)
