"""Late gathers: parameters that ranks have slices of are whole only while something reads them.

Before, with all of them whole from the first to the last::

    %a = gather_parameters %p               %b = gather_parameters %q
    %b = gather_parameters %q               %x = matmul %i, %a
    %x = matmul %i, %a                      %y = matmul %x, %b
    %y = matmul %x, %b                      ...
    ...                                     %c = gather_parameters %p, %d
    %d = matmul %g, %b                      %d = matmul %g, %b
    %e = matmul %d, %a                      %e = matmul %d, %c

A gather is done again where others are read between two readers of it, and these are not little
beside it: in the longest such stretch, which is that from the way there to the way back, and
wherever half of the others are read meanwhile.  Each comes when those of the one before last have
run and that of the last may begin, so it is under way while something is computed, and two at a
time are whole.  What else shows comes as early as it can, as sums of gradients do: they need not
wait for gathers that come later.
It all goes by what reads what and by sizes of parameters, not by those of rows, and comes before
passes that look at these: so ranks that have other rows do the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from hybrid.core.dataclass import dataclass, field, replace
from hybrid.ir import Graph, Node, Value, with_regions
from hybrid.ops.communication.collectives import gather_parameters

END = 1 << 62  # behind all places
SEVERAL = 4  # gathers: of fewer none is done more than twice
LITTLE = 8  # how many times as large a gather may be as what is read meanwhile, to be done again


def late_gathers(graph: Graph) -> Graph:
    """``graph``, and its regions, with gathers of parameters where they are needed."""
    if not any(node.op is gather_parameters for node in graph.walk()):
        return graph
    nodes = tuple(with_regions(node, late_gathers) for node in graph.nodes)
    if sum(node.op is gather_parameters for node in nodes) > 1:
        return _GatherOrder(Graph(graph.name, graph.params, nodes, graph.results)).graph()
    return Graph(graph.name, graph.params, nodes, graph.results)


@dataclass(eq=False, slots=True)
class _Use:
    """Readers of a gather between which no other is read for long, by their places."""

    gather: int  # its place
    readers: list[int]
    copies: dict[Value, Value] = field(default_factory=dict)  # of the gather and what is cut of it


class _GatherOrder:
    """The nodes of a graph in their new order."""

    def __init__(self, graph: Graph) -> None:
        self.old, self.nodes = graph, graph.nodes
        self.maker = {v: at for at, node in enumerate(graph.nodes) for v in node.results}
        self.gather_of: dict[Value, int] = {}  # of values that are a gather, or cut of one
        self.cut: set[int] = set()  # places of gathers, and of what cuts their results
        self.uses = self._uses()
        self.use_of: dict[tuple[int, int], int] = {}  # by reader and gather
        for number, use in enumerate(self.uses):
            self.use_of.update(dict.fromkeys([(at, use.gather) for at in use.readers], number))
        self.need = self._needs()
        self.found: list[Node] = []
        self.done: dict[int, int] = {}  # places of nodes that have come, and their new ones

    # Who reads what ---------------------------------------------------------------------------

    def _uses(self) -> list[_Use]:
        """All uses, by their first readers."""
        readers: dict[int, list[int]] = {}
        for at, node in enumerate(self.nodes):
            if node.op is gather_parameters:
                readers[at] = []
                self.gather_of[node.results[0]] = at
                self.cut.add(at)
                continue
            read = dict.fromkeys(self.gather_of[v] for v in node.operands if v in self.gather_of)
            if read and _cuts(node):
                self.gather_of.update(dict.fromkeys(node.results, *read))
                self.cut.add(at)
                continue
            for gather in read:
                readers[gather].append(at)
        for value in self.old.results:  # read when all is over
            if value in self.gather_of:
                readers[self.gather_of[value]].append(len(self.nodes))
        events = sorted((at, gather) for gather, places in readers.items() for at in places)
        sizes = {at: self.nodes[at].results[0].type.nbytes for at in readers}
        found = [
            _Use(gather, part)
            for gather, places in readers.items()
            for part in _parted(places, events, sizes, gather)
        ]
        return sorted(found, key=lambda use: (use.readers[0], use.gather))

    def _needs(self) -> list[int]:
        """The last use that each node waits for; -1: none."""
        found: list[int] = []
        for at, node in enumerate(self.nodes):
            if at in self.cut:
                found.append(-1)  # it comes with its readers
                continue
            most = -1
            for value in node.operands:
                if value in self.gather_of:
                    most = max(most, self.use_of[at, self.gather_of[value]])
                elif value in self.maker:
                    most = max(most, found[self.maker[value]])
            found.append(most)
        return found

    # In order ---------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The graph with its nodes in this order."""
        shown: deque[tuple[int, int]] = deque()  # what keeps its order, behind what it waits for
        most = -1
        for at, node in enumerate(self.nodes):
            if at not in self.cut and (node.observable or node.op.hosted):
                most = max(most, self.need[at])
                shown.append((most, at))
        for number in range(len(self.uses)):
            after = self._before(number)
            while shown and shown[0][0] < number - 1:
                self._take(shown.popleft()[1])
            self._gather(number, after)
        for at in range(len(self.nodes)):
            if at not in self.cut:
                self._take(at)
        last = len(self.nodes)
        results = tuple([self._given(last, value) for value in self.old.results])
        return Graph(self.old.name, self.old.params, tuple(self.found), results)

    def _before(self, number: int) -> tuple[Value, ...]:
        """Let come what is to come before a use's gather; the value that this waits for."""
        if number > 1:  # the one before last is read no more
            for at in self.uses[number - 2].readers:
                if at < len(self.nodes) and self.need[at] <= number - 2:
                    self._take(at)
        for use in reversed(self.uses[:number]):  # the last may begin
            operands = [v for at in use.readers for v in self._operands(at)]
            places = [self.maker[v] for v in operands if v in self.maker]
            places = [at for at in places if at not in self.cut and self.need[at] <= number - 2]
            if not places:
                continue
            for at in places:
                self._take(at)
            last = max(places, key=self.done.__getitem__)
            return tuple([v for v in operands if self.maker.get(v) == last][:1])
        return ()

    def _operands(self, at: int) -> tuple[Value, ...]:
        """What a reader is given that lies in memory anyway: that of a product, not of a map."""
        if at == len(self.nodes) or self.nodes[at].op.elementwise:
            return ()
        return self.nodes[at].operands

    def _gather(self, number: int, after: Iterable[Value]) -> None:
        """Let the gather of a use come, of other values than those of the uses before it."""
        use = self.uses[number]
        node = self.nodes[use.gather]
        (value,) = node.results
        made_by = self.maker.get(node.operands[0])
        if made_by is not None:
            self._take(made_by)
        use.copies[value] = Value(value.type, value.hint)
        given = (node.operands[0], *after)
        self.found.append(replace(node, operands=given, results=(use.copies[value],)))

    def _take(self, at: int) -> None:
        """Let a node come, and what it waits for, if they have not."""
        stack = [at]
        while stack:
            at = stack[-1]
            if at in self.done:
                stack.pop()
                continue
            places = [self.maker[v] for v in self.nodes[at].operands if v in self.maker]
            waits_for = [p for p in places if p not in self.done and p not in self.cut]
            if waits_for:
                stack += reversed(waits_for)
                continue
            stack.pop()
            self.done[at] = len(self.found)
            node = self.nodes[at]
            given = tuple([self._given(at, value) for value in node.operands])
            self.found.append(replace(node, operands=given))

    def _given(self, at: int, value: Value) -> Value:
        """``value`` as the reader at a place gets it."""
        gather = self.gather_of.get(value)
        if gather is None:
            return value
        return self._copied(self.uses[self.use_of[at, gather]], value)

    def _copied(self, use: _Use, value: Value) -> Value:
        """What is cut of the gather of ``use`` as ``value`` is of the first."""
        found = use.copies.get(value)
        if found is None:
            node = self.nodes[self.maker[value]]
            given = tuple([self._copied(use, v) for v in node.operands])
            results = tuple([Value(v.type, v.hint) for v in node.results])
            use.copies.update(zip(node.results, results, strict=True))
            self.found.append(replace(node, operands=given, results=results))
            found = use.copies[value]
        return found


def _cuts(node: Node) -> bool:
    """Whether it makes of its only operand what may as well be made again: views, other dtypes."""
    if len(node.operands) != 1 or node.regions or node.observable or node.op.hosted:
        return False
    made = sum(value.type.nbytes for value in node.results)
    return node.op.view_rule is not None or 2 * made >= node.operands[0].type.nbytes


def _parted(
    places: Sequence[int], events: Sequence[tuple[int, int]], sizes: Mapping[int, int], own: int
) -> list[list[int]]:
    """The readers of the gather ``own``, apart where it is done again.

    ``sizes`` are the bytes of all gathers.
    """
    others = len(sizes) - 1
    gaps, nbytes = [], []  # how many of the others are read before each, since the last
    for first, then in pairwise(places):
        between = events[bisect_right(events, (first, END)) : bisect_left(events, (then, -1))]
        read = {other for _, other in between}
        gaps.append(len(read))
        nbytes.append(sum([sizes[other] for other in read]))
    longest = max(range(len(gaps)), key=lambda i: places[i + 1] - places[i], default=-1)
    found, part = [], list(places[:1])
    for i, count in enumerate(gaps):
        again = i == longest and count > 0 and LITTLE * nbytes[i] >= sizes[own]
        if again or (others >= SEVERAL and 2 * count >= others):
            found.append(part)
            part = []
        part.append(places[i + 1])
    return [*found, part] if part else found
