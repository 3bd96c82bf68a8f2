"""Check that a graph keeps the rules of the IR; the error shows the text round the fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from hybrid.core.imports import above
from hybrid.errors import GraphError, HybridError
from hybrid.ir.graph import Graph, Node, Value
from hybrid.ir.op import REGISTRY

WINDOW = 3  # lines shown on either side of the fault
CAPTURE_FIX = "make it an operand of the node and a parameter of its region"


def verify(graph: Graph, *, after: str = "") -> None:
    """Raise GraphError unless ``graph`` keeps every rule; ``after`` names the pass that made it.

    Values are defined once and before they are used, regions use only what is their own, every
    node has exactly its op's attributes, and result types are those that the op's rule gives.
    """
    _Verifier(graph, after).graph(graph, ())


class _Verifier:
    def __init__(self, root: Graph, after: str) -> None:
        self.root, self.after = root, after

    def graph(self, graph: Graph, outer: tuple[Graph, ...]) -> None:
        """Check ``graph``, a region inside ``outer``."""
        defined: set[Value] = set()
        path = (*outer, graph)
        for value in graph.params:
            if value in defined:
                name = self.name(value, path)
                self.fail(graph, f"the parameter {name} stands twice in its list", "list it once")
            defined.add(value)
        for node in graph.nodes:
            self.node(node, defined, path)
            defined.update(node.results)
        for value in graph.results:
            if value not in defined:
                what = f"the graph returns {self.trouble(value, path)}"
                fix = "return the graph's own parameters and results of its nodes"
                fix = CAPTURE_FIX if self.outside(value, path) else fix
                self.fail(graph, what, fix, at_return=True)

    def node(self, node: Node, defined: set[Value], path: tuple[Graph, ...]) -> None:
        op = node.op
        for value in node.operands:
            if value not in defined:
                what = f"{op.name} uses {self.trouble(value, path)}"
                fix = "order the nodes so that a value is defined before it is used"
                self.fail(node, what, CAPTURE_FIX if self.outside(value, path) else fix)
        seen = set()
        for value in node.results:
            if value in defined or value in seen:
                what = f"{op.name} defines {self.name(value, path)} for the second time"
                self.fail(node, what, "give every result a Value of its own")
            seen.add(value)
        if REGISTRY.get(op.name) is not op:
            self.fail(node, f"the op {op.name} is not in the registry", "declare it with @op")
        names = [name for name, _ in node.attrs]
        if names != sorted(op.attr_defaults):
            have, want = ", ".join(names) or "none", ", ".join(sorted(op.attr_defaults)) or "none"
            what = f"{op.name} has the attributes {have}; its own are {want}"
            self.fail(node, what, "make attributes with op.attributes")
        if node.regions and not op.has_regions:
            self.fail(node, f"{op.name} owns a region; the op takes none", "leave the region out")
        for region in node.regions:
            self.graph(region, path)
        self.types(node)

    def types(self, node: Node) -> None:
        dtypes = list(dict.fromkeys([v.type.dtype for v in node.operands]))
        if node.op.promotes and len(dtypes) > 1:
            what = f"{node.op.name} has operands of dtypes {', '.join(d.short for d in dtypes)}"
            self.fail(node, what, "cast them to one dtype: promotion comes before graphs")
        try:
            right = node.op.infer(tuple([v.type for v in node.operands]), node.attrs, node.regions)
        except HybridError as error:
            self.fail(node, error.what, error.fix or "change the operands", why=error.why)
        types = tuple([v.type for v in node.results])
        if types != right:
            have, want = (", ".join(map(str, t)) or "nothing" for t in (types, right))
            what = f"{node.op.name} has results of types {have}; its rule gives {want}"
            self.fail(node, what, "build nodes with Builder.apply, which infers the types")

    # Only once something is wrong --------------------------------------------------------------

    def name(self, value: Value, path: Sequence[Graph]) -> str:
        for graph in reversed(path):
            names = above.names_of(graph)
            if value in names:
                return f"%{names[value]}"
        return f"%?{value.hint}"

    def outside(self, value: Value, path: Sequence[Graph]) -> bool:
        """Whether ``value`` belongs to a graph round the innermost one."""
        return any(value in _definitions(graph) for graph in path[:-1])

    def trouble(self, value: Value, path: Sequence[Graph]) -> str:
        """The name of ``value``, and why it is not defined where it is used."""
        if value in _definitions(path[-1]):
            where = "is defined later"
        elif self.outside(value, path):
            where = "belongs to the graph around this region"
        else:
            where = "is defined nowhere"
        return f"{self.name(value, path)}, which {where}"

    def fail(
        self,
        source: Node | Graph,
        what: str,
        fix: str,
        *,
        why: str = "",
        at_return: bool = False,
    ) -> NoReturn:
        lines = list(above.print_lines(self.root))
        own = [i for i, (_, owner) in enumerate(lines) if owner is source]
        at = own[-2] if at_return else own[0]  # a graph's last lines are its return and its brace
        shown = set(range(max(at - WINDOW, 0), min(at + WINDOW + 1, len(lines))))
        if isinstance(source, Node):
            for region in source.regions:  # what it takes and what it returns
                inside = [i for i, (_, owner) in enumerate(lines) if owner is region]
                shown.update(inside[:1], inside[-2:])
        window, last = [], -1
        for i in sorted(shown):
            if i != last + 1:
                window.append("  ...")
            window.append(f"{'>' if i == at else ' '} {lines[i][0]}")
            last = i
        if last + 1 < len(lines):
            window.append("  ...")
        if self.after:
            what = f"after {self.after}: {what}"
        raise GraphError(
            f"@{self.root.name} is not valid: {what}",
            at=source.location if isinstance(source, Node) else None,
            why="\n".join([*window, *([why] if why else [])]),
            fix=fix,
        )


def _definitions(graph: Graph) -> set[Value]:
    return {*graph.params, *(value for node in graph.nodes for value in node.results)}
