"""Limits of the alias analysis of list items: loops whose rows have aliases only a run knows.

::

    for x in xs:
        h = cell(x, h) if hy.sum(x) > 0 else h
        hs.append(h)  # item i is item i - 1 where the test does not hold

To gradients the uses of an item are uses of that row of a stack; eagerly they take turns with those
of all other names of the tensor.  The way back minds the names that are known before the graph runs
(see row_names.py), as long as the list and such a name do not go into one region together.
Otherwise a loop over a few items that are known is unrolled; and a call goes back through the ops
of its run.  A function that takes such a gradient itself cannot be captured, and runs eagerly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from hybrid.autodiff.record_values import Node as TapeNode
from hybrid.errors import EagerOnlyError, author_location
from hybrid.ir import Graph, Node, Value
from hybrid.ir.record import Record
from hybrid.ops.flow.control import for_, while_
from hybrid.ops.index.items import OF_LISTS
from hybrid.ops.shapes.concatenation import join
from hybrid.ops.shapes.shape import reshape_to
from hybrid.trace.alias.relation import aliases_in
from hybrid.trace.regions.build import as_of_for, is_repeatable, live, remembered
from hybrid.trace.regions.tracer import Tracer


def needs_run(graph: Graph) -> bool:
    """Whether the gradient of ``graph`` has to follow a run, to know the order of additions."""
    return remembered((graph,), "needs run", lambda: is_repeatable(graph) and recurs(graph))


def recurs(graph: Graph) -> bool:
    """Whether ``graph``, or a region in it, has a list with aliases that the analysis misses."""
    if not any(node.regions for node in graph.nodes):
        return False
    lists: dict[Value, set[Value]] = {}  # stacks, and the other names of their items
    used = {v for node in graph.nodes for v in node.operands} | set(graph.results)
    for node in graph.nodes:
        if any(recurs(region) or _hands_out_items(region) for region in node.regions):
            return True
        if node.op is for_ or node.op is while_:
            found = _names_of_lists(node, used)
            if found is None:
                return True
            lists |= found
    return bool(lists) and any(_meet(graph, lists))


def refuse_recurring(
    tracer: Tracer, ends: Collection[TapeNode], nodes: Collection[TapeNode]
) -> None:
    """Raise EagerOnlyError for a gradient whose order of additions only a run knows.

    It goes from the ``ends`` through ``nodes`` of what ``tracer`` and those around it have traced;
    what has passed once, or was made by another such way, is minded.
    """
    walked, left = _of_control(nodes), _of_control(ends)
    here: Tracer | None = tracer
    while here is not None and walked:
        found, made = here.builder, here.builder.nodes
        loops = [n for n in made if n.regions and not walked.isdisjoint(n.results)]
        loops = [n for n in loops if n.results[0] not in here.minded]
        if loops:
            kept = tuple([n for n in made if not n.regions or n in loops])
            results = tuple([v for n in loops for v in n.results if v in left])
            if recurs(Graph(found.name, tuple(found.params), kept, results)):
                raise EagerOnlyError(
                    "this gradient is one that a captured function cannot take itself",
                    at=author_location(),
                    why="Items of a list, with which a loop goes"
                    + (f" ({loops[0].location})" if loops[0].location else "")
                    + ", may be tensors that have other names, too: only a run tells which, and "
                    "so in which order the terms of their gradients are added.",
                    fix="append what has no other name (h + 0 for h), or take the gradient of the "
                    "hybridized function from outside it",
                )
        here.minded.update([n.results[0] for n in loops])
        here = here.parent


def _of_control(nodes: Iterable[TapeNode]) -> set[Value]:
    """The results of those ``nodes`` that have regions."""
    controls = [n for n in nodes if type(n) is Record and "regions" in n.attrs]
    return {kept[1] for node in controls for kept in node.results if type(kept) is tuple}


def _hands_out_items(region: Graph) -> bool:
    """Whether a result may be an item of a list that the region is given."""
    given = set(region.params)
    taken = [n for n in region.nodes if n.op in OF_LISTS and n.operands[0] in given]
    if not taken:
        return False
    items, aliases = {node.results[0] for node in taken}, aliases_in(region)
    return any(not items.isdisjoint(aliases(v)) for v in region.results if v.type.floating)


def _names_of_lists(node: Node, used: Collection[Value]) -> dict[Value, set[Value]] | None:
    """The stacks of a loop whose items have other names outside; None where these are unknown."""
    body, skip = node.regions[0], 0
    if node.op is while_:
        region, skip = body, 1
        body = remembered((region,), "as of for", lambda: as_of_for(region))
    carried = node.attributes["carried"]
    results = enumerate(node.results[skip : skip + carried])
    read = frozenset([at for at, v in results if v in used])
    names = remembered((body,), ("names", carried, read), lambda: names_of(body, carried, read))
    if names is None:
        return None
    found = {}
    for at, (lasts, first) in names.items():
        outside = {node.results[skip + last] for last in lasts}
        outside |= {node.operands[1 + first]} if first >= 0 else set()
        found[node.results[skip + at]] = outside
    return found


def _meet(graph: Graph, lists: dict[Value, set[Value]]) -> Iterator[bool]:
    """Whether some list, and another name of an item, go into a region, or both leave this one."""
    aliases = aliases_in(graph)
    items = {
        node.results[0]: node.operands[0]
        for node in graph.nodes
        if node.op in OF_LISTS and node.operands[0] in lists
    }

    def stands_for(value: Value) -> set[Value]:
        return {v for o in aliases(value) for v in (o, items.get(o, o))}

    names = {stack: {stack}.union(*map(stands_for, of)) for stack, of in lists.items()}
    for values in (*[n.operands for n in graph.nodes if n.regions], graph.results):
        for stack in names.keys() & set(values):
            others = [v for v in values if v is not stack and v.type.floating]
            yield any(not names[stack].isdisjoint(stands_for(v)) for v in others)


# Bodies -----------------------------------------------------------------------------------------

Rows = dict[int, tuple[list[int], int]]


def names_of(body: Graph, carried: int, read: Collection[int]) -> Rows | None:
    """The aliases outside of each row that ``body(i, carried..., ...)`` returns; None if unknown.

    These are the carried values, of those that are ``read``, that are the last row in the end, and
    the one (or -1) that is the first before the loop.  None where only a run knows the names.
    """
    rows = {at: v for at, v in enumerate(body.results) if at >= carried and v.type.floating}
    return _Rows(body, carried, rows, read).names() if rows else {}


class _Rows:
    def __init__(
        self, body: Graph, carried: int, rows: dict[int, Value], read: Collection[int]
    ) -> None:
        self.rows = rows
        self.aliases = aliases_in(body)
        self.makers = {v: node for node in body.nodes for v in node.results}
        self.params = body.params[1 : 1 + carried]
        self.given = set(body.params)
        self.finals = {
            self.params[at]: self.aliases(body.results[at])
            for at in _alive(body, carried, read)
            if body.results[at].type.floating
        }

    def names(self) -> Rows | None:
        found = {}
        for at, row in self.rows.items():
            names = [self._names(v) for v in (row, *self._packed(row))]
            if None in names or any(lasts or first >= 0 for lasts, first in names[1:]):
                return None
            lasts, first = names[0]
            if lasts or first >= 0 or sum(v is row for v in self.rows.values()) > 1:
                found[at] = names[0]
        return found

    def _names(self, row: Value) -> tuple[list[int], int] | None:
        value, *others = self.aliases(row)
        given = value in self.given
        if others or (given and not self._is_made(value)):
            return None
        lasts = []
        for at, param in enumerate(self.params):
            final = self.finals.get(param, ())
            if value in final:
                if len(final) > 1 or self._stays(param):
                    return None
                lasts.append(at)
        return lasts, self.params.index(value) if given else -1

    def _is_made(self, param: Value) -> bool:
        """Whether each iteration leaves a new tensor there."""
        final = self.finals.get(param, self.given)
        return len(final) == 1 and self.given.isdisjoint(final)

    def _stays(self, param: Value) -> bool:
        """Whether an iteration hands on what it is given there, other than as a row."""
        is_row = any(row is param for row in self.rows.values())
        return not is_row and any(param in final for final in self.finals.values())

    def _packed(self, row: Value) -> Iterable[Value]:
        """The items that make up a row where an iteration appends several."""
        node = self.makers.get(row)
        if node is None or node.op is not join or node.attributes["axis"]:
            return ()
        makers = [self.makers.get(v) for v in node.operands]
        return [m.operands[0] for m in makers if m is not None and m.op is reshape_to]


def _alive(body: Graph, carried: int, read: Collection[int]) -> list[int]:
    """The carried values that somebody reads: after the loop, or for what it returns."""
    params = body.params[1 : 1 + carried]
    alive = set(read)
    while True:
        wanted = [*[body.results[at] for at in alive], *body.results[carried:]]
        needed = {v for node in live(body.nodes, wanted) for v in node.operands}.union(wanted)
        grown = {at for at, param in enumerate(params) if at in alive or param in needed}
        if grown == alive:
            return sorted(alive)
        alive = grown
