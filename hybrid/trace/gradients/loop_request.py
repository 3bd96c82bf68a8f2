"""The request for a derived body: static facts of a loop's cotangents, and which to carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hybrid.autodiff.flow import control_flows
from hybrid.autodiff.tape import history
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Value
from hybrid.ir.record import Leaf
from hybrid.ops.flow.control import for_
from hybrid.trace.gradients.region_vjp import CotangentKind, Tape

Key = tuple[str, int]
# A carried value is another value in the iterations where a flag holds, all as positions of
# operands; ~i is carried value i, others are values as they were before the loop.
Tie = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LoopRequest:
    """The static facts of a loop's cotangents: a key for derived bodies."""

    carried: int
    sliced: int
    flow: tuple[bool, ...]  # of the operands of the loop, in the order of the parameters
    places: tuple[int, ...]  # of each operand the first one of its record, or -1
    # Of what the body returns: of rows, the kinds of their stacks.
    cts: tuple[CotangentKind | None, ...]
    arrived: tuple[CotangentKind | None, ...]  # of each operand
    whole: bool  # whether there is an iteration, and one for each row
    ascending: bool  # whether iteration i - 1 comes before iteration i
    apart: int = 0  # how many slices, the first ones, have rows that are values of their own
    follows: tuple[tuple[int, int], ...] = ()  # slices: row i of one is row i + 1 of the other
    begins: tuple[tuple[int, int], ...] = ()  # slices: row 0 is that of another, or an invariant
    same: tuple[int, ...] = ()  # places for further gradients, which may go where this one does not
    edges: tuple[tuple[int, int], ...] = ()  # places of values, and of others that they may be
    further: tuple[TensorType, ...] = ()  # types of values that are no operands; places follow
    ties: tuple[Tie, ...] = ()  # which carried values may be others
    stacks: tuple[TensorType, ...] = ()  # of the operands that are sliced, where edges tell of some


class CotangentLayout:
    """The layout of the loop back: the cotangents that it carries, sums and stacks.

    ``own``, ``first`` and ``later`` name the value that an operand's parameter holds: of itself, in
    the first iteration, and in the others.  ``begins`` says what else slices hold at index 0.
    """

    def __init__(self, body: Graph, request: LoopRequest) -> None:
        self.body, self.request = body, request
        n, m = request.carried, request.carried + request.sliced
        attrs = {"carried": n}
        held = set(request.places[m:])
        others = [o for _, o in request.edges]
        others += [request.places[o] for _, o, _ in request.ties if o >= 0]
        self.absent = tuple(dict.fromkeys(o for o in others if o not in held))
        self.places = places = (*request.places, *self.absent)
        inside = [v.type for v in body.params[1:]]  # where rows stand for what is sliced
        outside = [*inside[:n], *request.stacks, *inside[n + len(request.stacks) :]]
        outside += request.further
        self.types = [*inside, *[outside[at] for at in self.absent]]
        active = control_flows(for_, [False, *request.flow], attrs, (body,))
        first_of: dict[int, int] = {}
        self.own = [
            (at if active[at] else -1)
            if at < n
            else -1
            if place < 0
            else at
            if at < m
            else first_of.setdefault(place, at)
            for at, place in enumerate(places)
        ]
        tape, leaves = self.open(body, self.own)
        reached = [_leaves_behind(t) for t in tape.results]
        alive = [ct is not None for ct in request.cts]
        uses = _uses(tape.results)
        begins = [(n + slice, self.own[n + at]) for slice, at in request.begins]
        begins = [
            (slice, at)
            for slice, at in begins
            if self.own[slice] >= 0 <= at and (uses.get(leaves[slice], 0) > 1 or leaves[at] in uses)
        ]
        edges = [*self.tied(self.own), *self.pairs(self.own, first=True), *begins]
        found: set[Leaf] = set()
        count = -1
        while count != (count := sum(alive) + len(found)):
            found |= {leaf for r, lives in zip(reached, alive, strict=True) if lives for leaf in r}
            for alias, source in edges:
                if min(alias, source) >= 0 and leaves[alias] in found:
                    found.add(leaves[source])
            alive[:n] = [a or leaf in found for a, leaf in zip(alive[:n], leaves, strict=False)]
        self.carried = [at for at in range(n) if self.own[at] >= 0 and alive[at]]
        rest = [at for at in range(n, len(places)) if self.own[at] == at and leaves[at] in found]
        self.slices = [at for at in rest if at < m]
        self.sums = [at for at in rest if at >= m]
        self.rows = [at for at in range(n, len(alive)) if alive[at] and reached[at]]
        self.keys: list[Key] = [("ct", at) for at in self.carried]
        self.keys += [("sum", at) for at in self.sums]
        self.name_values()
        ends = [t for t, lives in zip(tape.results, alive, strict=True) if lives]
        uses = _uses(ends)
        self.compare(uses, leaves)
        self.link(uses, leaves)
        self.begins = {a: b for a, b in begins if a in self.slices and a not in self.late}

    def open(self, graph: Graph, names: Sequence[int]) -> tuple[Tape, list[Leaf | None]]:
        """The body, and the leaves of the loop's operands."""
        made: dict[int, Leaf] = {}
        leaves = [
            None if at < 0 else made.setdefault(at, Leaf(type))
            for at, type in zip(names, self.types, strict=True)
        ]
        return Tape(graph, [None, *leaves[: len(graph.params) - 1]]), leaves

    def names(self, *, first: bool, begins: bool) -> list[int]:
        """The values that parameters hold in the ``first`` iteration, or at index 0."""
        names = list(self.first if first else self.later)
        for slice, at in self.begins.items() if begins else ():
            names[slice] = names[at]
        return names

    def pairs(self, names: Sequence[int], *, first: bool) -> list[tuple[int, int]]:
        """Of each edge the operands, by ``names``, that hold its values; -1 where none does.

        Carried values are those that edges tell of in the first iteration only.
        """
        request = self.request
        holders = [*range(request.carried + request.sliced, len(self.places))]
        holders += range(request.carried) if first else ()
        held: dict[int, int] = {}
        for at in holders:
            if names[at] >= 0:
                held.setdefault(self.places[at], names[at])
        return [(held.get(alias, -1), held.get(source, -1)) for alias, source in request.edges]

    def tied(self, names: Sequence[int]) -> list[tuple[int, int]]:
        """Of each tie the operands, by ``names``, that hold its values; -1 where none does."""
        m = self.request.carried + self.request.sliced
        held: dict[int, int] = {}
        for at in range(m, len(self.places)):
            if names[at] >= 0:
                held.setdefault(self.places[at], names[at])
        return [
            (
                names[at] if names[at] == at else -1,
                names[~o] if o < 0 else held.get(self.request.places[o], -1),
            )
            for at, o, _ in self.request.ties
        ]

    def name_values(self) -> None:
        """Find out which parameters hold the same value."""
        places, results = self.places, self.body.results
        self.first, self.later = list(self.own), list(self.own)
        by_record: dict[int, int] = {}
        by_result: dict[Value, int] = {}
        for at in (*self.sums, *self.carried):
            if places[at] >= 0:
                self.first[at] = by_record.setdefault(places[at], at)
        for at, own in enumerate(self.own):
            if own >= 0 and own != at:
                self.first[at] = self.first[own]
        for at in self.carried:
            self.later[at] = by_result.setdefault(results[at], at)

    def link(self, uses: dict[Leaf, int], leaves: Sequence[Leaf | None]) -> None:
        """Find out which slices add to what arrived at them, or at the one that has their rows.

        ``late`` holds pairs: the cotangent of a row of the first one begins that of the second one
        in the iteration that comes next on the way back.  ``before`` holds those at which something
        had arrived, and whether it surely had.  All are positions of operands.
        """
        request, n = self.request, self.request.carried
        sure = {
            at: kind.sure
            for at in self.slices
            if at < n + request.apart and (kind := request.arrived[at]) is not None
        }
        self.late: dict[int, int] = {}
        for each in request.follows:
            one, other = [n + at for at in (each[::-1] if request.ascending else each)]
            free = one not in self.late and other not in self.late.values()
            if not free or one not in self.slices or other not in self.slices:
                continue
            if uses.get(leaves[other], 0) > 1 or one in sure or other in sure:
                self.late[one] = other
        for one, other in reversed(chain(self.late)):
            if other in sure:
                sure[one] = sure.get(one, False) or sure[other]
        linked = {*self.late, *self.late.values()}
        self.before = {
            at: known for at, known in sure.items() if at in linked or uses.get(leaves[at], 0) > 1
        }
        self.keys += [("late", at) for at in self.late]

    def compare(self, uses: dict[Leaf, int], leaves: Sequence[Leaf | None]) -> None:
        """Find out where the order of additions asks for more than one term at a time."""
        request, results = self.request, self.body.results
        self.bases = []
        for at in self.carried:
            place = request.places[at]
            before = request.arrived[place] if place >= 0 else None
            shared = [leaves[i] for i in self.carried if self.first[i] == at]
            many = sum(uses.get(leaf, 0) for leaf in shared) > 1
            if self.first[at] == at and before is not None and many:
                self.bases.append(at)
        self.shifted: dict[int, int] = {}
        for row in self.rows:
            same = [at for at in self.carried if results[at] is results[row]]
            many = bool(same) and uses.get(leaves[same[0]], 0) > 1
            kind = request.cts[row]
            if many and (request.whole or request.ascending) and (kind.sure or kind.each):
                self.shifted[row] = same[0]
        self.wholes = [] if request.whole else list(self.shifted)
        both = [self.pairs(self.own, first=first) for first in (True, False)]
        self.differs = self.first != self.later or bool(self.bases) or both[0] != both[1]


def chain(late: Mapping[int, int]) -> list[tuple[int, int]]:
    """The pairs of ``late``, each after the one that leads to it."""
    found: dict[int, int] = {}
    for begin in late.keys() - set(late.values()):
        one: int | None = begin
        while (other := late.get(one)) is not None:
            found[one] = other
            one = other
    return list(found.items())


def _leaves_behind(tensor: Tensor) -> set[Leaf]:
    return {node for node in history([tensor.record]) if isinstance(node, Leaf)}


def _uses(ends: Sequence[Tensor]) -> dict[Leaf, int]:
    """How many terms the cotangent of each leaf has, if not fewer."""
    uses: dict[Leaf, int] = {}
    for node in history(t.record for t in ends):
        for parent in node.parents:
            if isinstance(parent, Leaf):
                terms = 2 if "regions" in node.attrs else 1
                uses[parent] = uses.get(parent, 0) + terms
    return uses
