"""Alias analysis while a loop is traced: which carried tensors are one, and loop invariants.

::

    best = w                       %same: at first true; after an iteration true where best = w
    for t in range(3):             has run, else what it was: so w -= 0.5 is best -= 0.5 where
        w -= 0.5                   %same holds
        if ...: best = w

A pair that is one before the loop, and still one or not after an iteration as before it, needs no
flag.  Each other pair is carried as one, if the capture follows such flags; else all those tensors
are in doubt.

Some stay one tensor from before the loop, whichever way each iteration goes::

    y = x                                y is x before every iteration, and so after each: it need
    for _ in range(n):                   not be carried, and its uses are uses of x
        y = x if flag else y
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hybrid import ops
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, Location, author_location
from hybrid.ir import Graph
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.loops.carry import CarriedLeaf, Carry
from hybrid.trace.alias.relation import aliases_in
from hybrid.trace.regions.region import Region
from hybrid.trace.regions.ties import ALWAYS, DOUBT, Unfollowed, Where, identities
from hybrid.trace.regions.tracer import Tracer

Member = tuple[Any, int]  # a carried tensor: what holds it, and which of its leaves it is
Pair = tuple[Member, Any]  # with another one, or with the id of a tensor from outside
Tied = dict[Pair, Where]
OUTGOING = "outgoing"


class LoopTies:
    """The ties of one loop, from one attempt to trace its body to the next."""

    def __init__(self) -> None:
        self.wanted: dict[Pair, Any] = {}  # pairs that need a flag, with the tensor from outside
        self.members: dict[Member, CarriedLeaf] = {}
        self.heads: Tied = {}
        self.flags: dict[Pair, Carry] = {}
        self.outside: dict[int, Tensor | None] = {}
        self.unsure: set[Any] = set()  # members, and ids of tensors from outside, in doubt
        self.changed: set[Pair] = set()
        self.finals: Tied = {}
        self.refused: dict[Any, Where] = {}  # members, and those outside, not to be written

    @property
    def carries(self) -> list[Carry]:
        """The flags."""
        return list(self.flags.values())

    def enter(self, carries: Mapping[Any, Carry], region: Region, parent: Tracer) -> None:
        """The body is about to be traced: what it finds is tied as it was before."""
        self.members = dict(_members(carries))
        self.flags, self.outside, self.unsure, self.refused = {}, {}, set(), {}
        before = self._before(self.members, self.members, parent)
        self.heads = {}
        for pair, where in before.items():
            self.heads[pair] = where if pair not in self.wanted else self._flag(
                pair, where, region, parent
            )  # fmt: skip
        for pair, other in self.wanted.items():
            if pair not in self.heads and self._exists(pair):
                self.outside.setdefault(pair[1], other) if other is not None else None
                self.heads[pair] = self._flag(pair, None, region, parent)
        for pair, where in self.heads.items():
            a, b = self._ends(pair, "given")
            region.ties.tie(a, b, where)

    def leave(self, region: Region, follows: bool) -> bool:
        """The body is traced: whether it has to be traced again, with more flags."""
        finals = self.finals = self._finals(self.members, self.members, region)
        self.changed = set()
        doubtful: set[TensorType] = set()  # types of those that may be anyone of their type
        for one, where in region.ties.in_doubt(region.owns):
            self.outside[id(one)], self.refused[id(one)] = one, where
        for pair in {**finals, **self.heads}:
            first, last = self.heads.get(pair), finals.get(pair)
            unknown = next((w for w in (first, last) if w is not None and w.error), None)
            if unknown is not None:
                self.refused.update(dict.fromkeys(pair, unknown))
                if unknown is DOUBT:
                    doubtful.update([self._type(key) for key in pair if key != id(None)])
            elif pair not in self.flags and not _same(first, last):
                self.changed.add(pair)
        if not follows:
            self.unsure = self._unsure(region)
            # One that an inner loop leaves in doubt may be any of those that iterations find.
            cells = {key: cell.tensor.type for key, cell in region.cells.items()}
            types = {key: self._type(key) for key in self.members} | cells
            found = [key for key, kind in types.items() if kind in doubtful]
            if any(self._matters(key, region) for key in (*found, *self.unsure)):
                raise Unfollowed
            return False
        for pair in self.changed:
            self.wanted[pair] = self.outside[pair[1]] if _is_outer(pair) else None
        for pair, carry in self.flags.items():
            _close(carry, finals.get(pair), region)
        return bool(self.changed)

    def close(
        self,
        outgoing: Mapping[Any, Carry],
        region: Region,
        parent: Tracer,
        runs: bool,
        known: int | None,
    ) -> None:
        """The loop is about to be staged, with what the body only leaves, too.

        ``known`` is the number of its iterations, if that is known.
        """
        new = {((OUTGOING, key), i): leaf for (key, i), leaf in _members(outgoing)}
        if not new:
            return
        everyone = {**self.members, **new}
        before = {} if runs else self._before(new, everyone, parent)
        finals = self._finals(new, everyone, region)
        made = self._new(region) if known is not None and known > 1 else set()
        given = {id(self.members[member].given) for member in made}
        late = {member for member, leaf in new.items() if id(leaf.left) in given}
        for pair in [p for p in finals if p[0] in late and _is_outer(p)]:
            del finals[pair]  # what the iteration before the last has made is nobody from outside
        self.members = everyone
        self.finals.update(finals)
        if not parent.follows:
            self.unsure |= self._unsure(region) - late
        for pair in {**before, **finals}:
            first, last = before.get(pair), finals.get(pair)
            unknown = next((w for w in (first, last) if w is not None and w.error), None)
            if unknown is not None:
                self.refused.update(dict.fromkeys(pair, unknown))
            elif last is ALWAYS and (first is ALWAYS or runs) and not self.unsure.issuperset(pair):
                self.heads[pair] = ALWAYS
            elif parent.follows:
                self._flag(pair, first, region, parent)
                _close(self.flags[pair], last, region)
            else:
                self.unsure.update(pair)
                if last is None:  # only as long as there is no iteration
                    self.heads[pair] = first
                    self.changed.add(pair)

    def after(self, region: Region, parent: Tracer, runs: bool, trips: Tensor) -> None:
        """The loop is staged, and goes round ``trips`` times: tie what it gives."""
        new = self._new(region)
        if not runs:
            self._tie_before(new, parent, trips)
        self._let_go(new, runs)
        for pair, where in self.heads.items():
            known = pair not in self.changed and self.refused.keys().isdisjoint(pair)
            if known and pair not in self.flags:
                self._tie_results(pair, where, parent)
        for pair, carry in self.flags.items():
            self._tie_results(pair, Where(carry.leaves[0].made), parent)
        # What following tells may be all that is asked: so doubt comes before a refusal.
        for key, where in {**self.refused, **dict.fromkeys(self.unsure, DOUBT)}.items():
            tensor = self._end(key, "made")
            if tensor is not None:
                parent.ties.tie(tensor, None, where)

    def rows(
        self, tensors: Sequence[Any], region: Region, at: Location, parent: Tracer, static: bool
    ) -> bool:
        """Whether items that the body appends to a list may be tensors that it writes later on."""
        met: set[Any] = set()
        for tensor in tensors:
            if isinstance(tensor, Tensor) and region.owns(tensor):
                met |= self._met(tensor, region)
        if not met:
            return False
        if not parent.follows:
            if any(self._is_written(key, region) for key in met):
                raise Unfollowed
            self.unsure |= met
            return True
        error = partial(_row_written, at)
        if static or any(self._is_written(key, region) for key in met):
            raise error()
        self.refused.update(dict.fromkeys(met, Where(error=error)))
        return True

    # Pairs --------------------------------------------------------------------------------------

    def _exists(self, pair: Pair) -> bool:
        return pair[0] in self.members and (_is_outer(pair) or pair[1] in self.members)

    def _end(self, key: Any, what: str) -> Tensor | None:
        """The tensor of a member as the body gets it, or as the loop gives it; one from outside."""
        return getattr(self.members[key], what) if type(key) is tuple else self.outside[key]

    def _type(self, key: Any) -> TensorType:
        """That of a member, or of a tensor from outside."""
        return (self.members[key].given if type(key) is tuple else self.outside[key]).type

    def _ends(self, pair: Pair, what: str) -> tuple[Tensor | None, Tensor | None]:
        return self._end(pair[0], what), self._end(pair[1], what)

    def _tie_results(self, pair: Pair, where: Where, parent: Tracer) -> None:
        a, b = self._ends(pair, "made")
        if a is not None and (b is not None or pair[1] == id(None)):
            parent.ties.tie(a, b, where)

    def _before(
        self,
        some: Mapping[Member, CarriedLeaf],
        everyone: Mapping[Member, CarriedLeaf],
        parent: Tracer,
    ) -> Tied:
        return self._tied(some, everyone, parent, "initial", lambda tensor: True)

    def _finals(
        self,
        some: Mapping[Member, CarriedLeaf],
        everyone: Mapping[Member, CarriedLeaf],
        region: Region,
    ) -> Tied:
        return self._tied(some, everyone, region, "left", lambda tensor: not region.owns(tensor))

    def _tied(
        self,
        some: Mapping[Member, CarriedLeaf],
        everyone: Mapping[Member, CarriedLeaf],
        tracer: Tracer,
        what: str,
        is_outer: Any,
    ) -> Tied:
        """Where those among ``some`` are one with others, before an iteration or after it."""
        found: Tied = {}
        holders: dict[int, list[Member]] = {}
        order = {member: at for at, member in enumerate(everyone)}
        for member, leaf in everyone.items():
            tensor = getattr(leaf, what)
            if isinstance(tensor, Tensor):
                holders.setdefault(id(tensor), []).append(member)
        for member, leaf in some.items():
            for key, (tensor, where) in identities(tracer, getattr(leaf, what)).items():
                for other in holders.get(key, ()):
                    if other != member:
                        found[tuple(sorted((member, other), key=order.__getitem__))] = where
                if tensor is None or is_outer(tensor):
                    self.outside[key] = tensor
                    found[member, key] = where
        return found

    def _flag(self, pair: Pair, where: Where | None, region: Region, parent: Tracer) -> Where:
        """Carry where the two are one."""
        initial: Any = where is ALWAYS
        if where is not None and where.error is not None:
            return where
        if where is not None and where.pred is not None:
            initial = Number("bool", where.tensor(parent))
        carry = self.flags[pair] = Carry(label="whether two tensors are one", initial=initial)
        return Where(carry.enter(region, parent).tensor)

    # Doubt --------------------------------------------------------------------------------------

    def _met(self, tensor: Tensor, region: Region) -> set[Any]:
        """The members, and tensors from outside, that a tensor of the body may be."""
        given = {id(leaf.given): member for member, leaf in self.members.items()}
        left: dict[int, list[Member]] = {}
        for member, leaf in self.members.items():
            if isinstance(leaf.left, Tensor):
                left.setdefault(id(leaf.left), []).append(member)
        found: set[Any] = set()
        for key, (other, _) in identities(region, tensor).items():
            found.update(left.get(key, ()))
            if key in given:
                found.add(given[key])
            elif other is not None and not region.owns(other):
                self.outside[key] = other
                found.add(key)
        return found

    def _unsure(self, region: Region) -> set[Any]:
        """Those that are one in some iterations, and not in others."""
        found: set[Any] = {end for pair in self.changed for end in pair}
        given = {id(leaf.given): member for member, leaf in self.members.items()}
        grown = bool(found)
        while grown:
            grown = False
            for member, leaf in self.members.items():
                if member not in found and any(
                    given.get(key) in found for key in identities(region, leaf.left)
                ):
                    found.add(member)
                    grown = True
        return found

    def _new(self, region: Region) -> set[Member]:
        """The members that each iteration makes anew, so that they are nobody else after it."""
        given = {id(leaf.given) for leaf in self.members.values()}
        new = {
            member
            for member, leaf in self.members.items()
            if isinstance(leaf.left, Tensor)
            and all(
                other is not None and region.owns(other) and key not in given
                for key, (other, _) in identities(region, leaf.left).items()
            )
        }
        return new - {
            end for pair, where in self.finals.items() if where is not ALWAYS for end in pair
        }

    def _tie_before(self, new: set[Member], parent: Tracer, trips: Tensor) -> None:
        """Those made anew are one as before the loop where it has no iteration."""
        for pair in self.changed:
            last, first = self.finals.get(pair), self.heads.get(pair)
            if last is not None or first is None or not new.intersection(pair):
                continue
            self._tie_results(pair, Where(partial(_not_once, trips, first)), parent)

    def _let_go(self, new: set[Member], runs: bool) -> None:
        """Those made anew are not in doubt."""
        if not runs:  # but for those that become one
            new = new - {end for p in self.changed if self.finals.get(p) is ALWAYS for end in p}
        self.unsure -= new
        if not any(type(key) is tuple for key in self.unsure):
            self.unsure = set()
        made = {p for p in self.changed if self.finals.get(p) is ALWAYS and new.issuperset(p)}
        if runs:
            self.heads.update(dict.fromkeys(made, ALWAYS))
            self.changed -= made

    def _matters(self, key: Any, region: Region) -> bool:
        """Whether the body writes to it, or asks who it is."""
        known = id(self.members[key].given) if type(key) is tuple else key
        return known in region.ties.queried or self._is_written(key, region)

    def _is_written(self, key: Any, region: Region) -> bool:
        if type(key) is tuple:
            return self.members[key].is_written
        cell = region.cells.get(key)
        return cell is not None and cell.written


def _members(carries: Mapping[Any, Carry]) -> Iterator[tuple[Member, CarriedLeaf]]:
    for key, carry in carries.items():
        for at, leaf in enumerate(carry.leaves):
            if leaf.given is not None:
                yield (key, at), leaf


def _not_once(trips: Tensor, first: Where) -> Tensor:
    """Whether there was no iteration, and it was so before the loop."""
    none = ops.equal(trips, 0)
    return none if first is ALWAYS else ops.logical_and(none, first.tensor(current()))


def _is_outer(pair: Pair) -> bool:
    return type(pair[1]) is not tuple


def _same(a: Where | None, b: Where | None) -> bool:
    return a is b or (a is not None and a.is_same(b))


def _close(carry: Carry, where: Where | None, region: Region) -> None:
    final: Any = where is ALWAYS
    if where is not None and where.pred is not None:
        final = Number("bool", where.tensor(region))
    carry.leave(final, region)
    carry.unchanged = False


def _row_written(at: Location) -> CaptureError:
    return CaptureError(
        "a tensor is written in place that a loop has appended to a list",
        at=author_location() or at,
        why="The items of the list are rows of one tensor, and in some iterations one of them is "
        "the tensor that is written.",
        fix="append a copy (xs.append(x * 1)), or bind the name to a new tensor (x = x + 1)",
    )


def let_stay(carries: Sequence[Carry], region: Region) -> None:
    """Mark the invariants among ``carries`` as unchanged, found by induction over iterations."""
    leaves = [leaf for carry in carries for leaf in carry.leaves]
    staying = [leaf for leaf in leaves if _may_stay(leaf)]
    chosen = {v for node in region.builder.nodes if node.op.name == "cond" for v in node.results}
    if not any(leaf.final.content in chosen for leaf in staying):
        return
    cells = [cell for cell in region.cells.values() if not cell.written]
    params = (*[leaf.param.content for leaf in leaves], *[cell.initial for cell in cells])
    aliases = aliases_in(Graph("body", params, tuple(region.builder.nodes), ()))
    before: list[CarriedLeaf] = []
    while len(before) != len(staying):
        before = staying
        staying = [
            leaf
            for leaf in before
            if aliases(leaf.final.content)
            <= {other.param.content for other in before if other.initial is leaf.initial}
            | {cell.initial for cell in cells if cell.tensor is leaf.initial}
        ]
    for leaf in staying:
        leaf.final, leaf.left = make_tensor(leaf.param.type, leaf.param.content), leaf.given


def _may_stay(leaf: CarriedLeaf) -> bool:
    is_tensor = leaf.given is not None and isinstance(leaf.initial, Tensor)
    return is_tensor and not leaf.is_written
