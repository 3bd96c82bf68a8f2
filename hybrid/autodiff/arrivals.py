"""What has arrived at each value on the way back, and in which order it is added up.

The rule is that of eager code: each use of a value is one term, and the terms of a value are added
in the order in which they arrive, from its last use to its first.

While a graph is traced, a result of a ``cond`` may be one of its operands itself, if the region
taken hands it on.  Its uses are uses of that operand then, so its terms belong among those of the
operand, each in its turn, and count there where the region is taken.  Of a result that may be
another value (its *origin*) terms are therefore kept one by one, until all have arrived; then they
are handed on.  Often nothing has arrived at the origin in between: then the sum is handed on.

So are terms of items of a list that a loop has stacked: its last item may be what the loop carries
in the end, and what arrives at the stack as a whole arrives at each item.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.kept import make_snapshot, type_kept
from hybrid.autodiff.listed import At, Listed
from hybrid.autodiff.origins import Edge, Items, Node, Origins, Slot
from hybrid.autodiff.presence import Ct, OptionalCt, added, disjoined, marked, neutral
from hybrid.autodiff.sums import results_of
from hybrid.autodiff.terms import Term, conjoined, join
from hybrid.core.dataclass import dataclass, field
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import AnyRecord, Leaf, Record, node_of
from hybrid.ops.index.items import OF_LISTS, item


@dataclass(slots=True)
class Arrivals:
    """The terms of the values that are ``needed``; ``known`` are the origins of leaves."""

    needed: set[Node]
    known: Mapping[Slot, Sequence[Edge]] = field(default_factory=dict)
    terms: dict[Slot, list[Term]] = field(default_factory=dict)
    heirs: dict[Slot, list[Slot]] = field(default_factory=dict)  # who may be that value
    direct: dict[Slot, tuple[Slot, ...]] = field(default_factory=dict)  # who it may be
    origins: dict[Node, Origins | None] = field(default_factory=dict)
    edges: dict[Node, list[list[Edge]]] = field(default_factory=dict)
    queue: list[tuple[int, Node]] = field(default_factory=list)
    queued: set[Node] = field(default_factory=set)
    turns: Any = field(default_factory=itertools.count)
    stops: Collection[Node] = ()  # nodes at which the way back ends
    lists: dict[Slot, Listed] = field(default_factory=dict)
    homes: dict[Node, tuple[Slot, At] | None] = field(default_factory=dict)  # of items

    # Terms ------------------------------------------------------------------------------------

    def send(self, record: AnyRecord, ct: Ct) -> None:
        """``ct`` arrives."""
        slot, at = self.home(node_of(record))
        if at is not None or self._is_list(slot):
            self.listed(slot).add(next(self.turns), ct, at)
            return
        terms = self.terms.get(slot)
        if terms is None:
            self._open(slot).append(Term(next(self.turns), ct))
        elif not terms or self.direct[slot] or slot in self.heirs:
            terms.append(Term(next(self.turns), ct))
        else:
            terms[0].ct, terms[0].many = added(terms[0].ct, ct), True

    def at(self, node: Node) -> list[Ct | None]:
        """All that has arrived at each result."""
        return [self.total((node, i)) for i in range(results_of(node))]

    def end(self) -> None:
        """No more will arrive: hand on what belongs to other leaves."""
        ends = [slot for slot in self.terms if slot[0] in self.stops and slot not in self.known]
        for slot in (*self.known, *sorted(ends, key=_order)):
            self.settle(slot, surely=True)

    def put(self, slot: Slot, total: Ct | None, *, own: bool = False) -> None:
        """``total`` holds all that has arrived."""
        slot, at = self.home(slot)
        if at is not None or self._is_list(slot):
            self.listed(slot).put(next(self.turns), at, total)
            return
        self._open(slot)[:] = [Term(next(self.turns), total, None, True, own)]

    def total(self, slot: Slot) -> Ct | None:
        """All that has arrived."""
        slot, at = self.home(slot)
        if at is not None:
            return self.listed(slot).total(at)
        if slot in self.lists:
            found = self.lists[slot].whole()
            each = isinstance(found, OptionalCt) and found.present.type.rank
            return neutral(found) if each else found
        found: Ct | None = None
        for term in self.terms.get(slot, ()):
            ct = term.tensor()
            if ct is not None:
                found = ct if found is None else added(found, ct)
        return found

    def taken(self, slot: Slot) -> Ct | None:
        """All that has arrived, which the rule of the node sends on from here."""
        if slot in self.lists:
            whole = self.lists[slot].whole()
            self.lists[slot].put(next(self.turns), None, None)
            return whole
        found = self.total(slot)
        for term in self.terms.get(slot, ()):
            term.own = True
        return found

    def pop(self) -> Node | None:
        """The last made of the nodes at which something has arrived."""
        return heapq.heappop(self.queue)[1] if self.queue else None

    def _open(self, slot: Slot) -> list[Term]:
        terms = self.terms.get(slot)
        if terms is None:
            terms = self.terms[slot] = []
            self.enter(slot)
            node = slot[0]
            if type(node) is Record and node not in self.queued:
                self.queued.add(node)
                heapq.heappush(self.queue, (-node.sequence, node))
        return terms

    # Lists ------------------------------------------------------------------------------------

    def home(self, slot: Slot) -> tuple[Slot, At | None]:
        """The list that a value is an item of, and which; any other value itself."""
        node = slot[0]
        if type(node) is not Record or node.op not in OF_LISTS:
            return slot, None
        found = self.homes.get(node)
        if found is None:
            parent = None if node.parents[0] is None else node_of(node.parents[0])
            if parent is None or parent[0] not in self.needed or node in self.stops:
                return slot, None
            at = node.attrs["at"] if node.op is item else make_snapshot(node.saved[1])
            found = self.homes[node] = parent, at
        return found

    def listed(self, slot: Slot) -> Listed:
        """What has arrived at a list."""
        found = self.lists.get(slot)
        if found is None:
            node, index = slot
            type_ = node.type if isinstance(node, Leaf) else type_kept(node.results[index])
            before = self.terms.get(slot, ())
            self._open(slot)
            found = self.lists[slot] = Listed(type_)
            for term in before:
                found.add(term.turn, marked(term.ct, term.flag))
            items = self._items(slot)
            for origin in () if items is None else self._names(slot, items):
                self.heirs.setdefault(origin, []).append(slot)
                self.enter(origin)
        return found

    def _is_list(self, slot: Slot) -> bool:
        return slot in self.lists or (slot not in self.terms and self._items(slot) is not None)

    def _items(self, slot: Slot) -> Items | None:
        node, index = slot
        if type(node) is not Record or "regions" not in node.attrs:
            return None
        origins = self._of(node)
        return None if origins is None else origins.items.get(index)

    def _names(self, slot: Slot, items: Items) -> list[Slot]:
        """The values outside the list that are items of it."""
        node, _ = slot
        found = [] if items.last < 0 else [(node, items.last)]
        first = None if items.first < 0 else _place(node, items.first)
        return [*found, first] if first is not None and first[0] in self.needed else found

    def items_apart(self, slots: Collection[Slot]) -> dict[Slot, Ct | None]:
        """Take what has arrived at items that may be part of others of ``slots`` out of lists."""
        found = {}
        homes = {slot: self.home(slot) for slot in slots}
        for slot, (home, at) in homes.items():
            peers = [o for other, o in homes.values() if other == home and o is not at]
            same = any(isinstance(o, Tensor) for o in (at, *peers)) and peers
            if at is not None and (home in slots or same):
                found[slot] = self.total(slot)
                if found[slot] is not None:
                    self.put(slot, None)
        return found

    def bring_back(self, slot: Slot, total: Ct | None) -> None:
        """Undo that; ``total`` holds all that has arrived since."""
        home, at = self.home(slot)
        if total is not None:
            self.listed(home).add(next(self.turns), total, at)

    def settle_lists(self, node: Record) -> None:
        """Nothing more will arrive at the lists of ``node``: let each item have one name."""
        slots = [(node, at) for at in range(len(node.results)) if (node, at) in self.lists]
        moves = [(slot, items) for slot in slots if (items := self._items(slot)) is not None]
        for slot, items in moves:
            if items.twin < 0 <= items.behind:
                self.settle_list(slot, surely=True)  # the first item
                self._move(slot, items.behind, ahead=True)
        for slot, items in moves:
            if items.twin >= 0:
                self._move(slot, items.twin, ahead=False)

    def _move(self, slot: Slot, other: int, *, ahead: bool) -> None:
        listed = self.lists[slot]
        self.listed((slot[0], other)).take(listed, ahead=ahead)
        listed.put(next(self.turns), None, None)

    def settle_list(self, slot: Slot, *, surely: bool) -> None:
        """Hand on the terms of items that have other names."""
        items = self._items(slot)
        if items is None:
            return
        node, listed = slot[0], self.lists[slot]
        count = items.count()
        if isinstance(count, int) and count <= 0:
            return
        known = isinstance(count, int)
        least = 0  # iterations that there must be more than
        going = []
        for origin in self._names(slot, items):
            is_first = origin[0] is not node
            at: At = 0 if is_first else count - 1
            at = at if isinstance(at, int) else ops.maximum(at, 0)
            terms = listed.of(at)
            if not terms or not (surely or self._list_must_go(terms, slot, origin)):
                continue
            if known and any(at == other for _, other, _, _ in going):
                continue
            there = None if known else ops.greater(count, least)
            going.append((origin, at, there, terms))
            least = 1  # the first item is not the last one then
        for origin, at, there, terms in going:
            part = 0.25 if origin[0] is not node else 0.5  # of a term of all items
            others = self._open(origin)
            for turn, ct in terms:
                join(others, Term(turn + part, ct, there))
            others.sort(key=lambda term: term.turn)
            listed.put(next(self.turns), at, None)

    def _list_must_go(self, terms: Sequence[Any], slot: Slot, origin: Slot) -> bool:
        """Whether the terms of an item belong among those of the value that it is."""
        below = self.below(origin)
        peers = self._above((origin, *below)) - {slot, origin}
        if any(self._waiting(peer) for peer in peers) or any(self.terms.get(v) for v in below):
            return True
        others = self.terms.get(origin, ())
        alone = len(terms) == len(others) == 1 and not others[0].many
        return bool(others) and (origin[0] is not slot[0] or not alone)

    # Origins ----------------------------------------------------------------------------------

    def enter(self, slot: Slot) -> tuple[Slot, ...]:
        """The values that this one may be, directly."""
        found = self.direct.get(slot)
        if found is None:
            found = self.direct[slot] = tuple(dict.fromkeys(self._possible(slot)))
            for origin in found:
                for value in dict.fromkeys((origin, self.home(origin)[0])):
                    self.heirs.setdefault(value, []).append(slot)
                self.enter(origin)
        return found

    def _possible(self, slot: Slot) -> Iterable[Slot]:
        node, index = slot
        if type(node) is not Record or "regions" not in node.attrs:
            return [edge.origin for edge in self.known.get(slot, ())]
        origins = self._of(node)
        if origins is None or index >= len(origins.places):
            return []
        found = [_place(node, at) for at in origins.places[index]]
        return [origin for origin in found if origin is not None and origin[0] in self.needed]

    def asks(self, node: Record) -> str:
        """Whether the rule of ``node`` asks which operand may be which; see ``Origins``."""
        origins = self._of(node)
        return "" if origins is None else origins.asks

    def _of(self, node: Record) -> Origins | None:
        if node not in self.origins:
            rule = node.op.origin_rule
            self.origins[node] = None if rule is None else rule(node)
        return self.origins[node]

    def ways(self, slot: Slot) -> Sequence[Edge]:
        """The values that this one may be, and where it is each of them."""
        node, index = slot
        if not self.enter(slot):
            return ()
        if slot in self.known:
            return self.known[slot]
        if node not in self.edges:
            origins = self._of(node)
            self.edges[node] = [
                [
                    Edge((node, i), origin, flag)
                    for at, flag in zip(places, flags, strict=True)
                    if (origin := _place(node, at)) is not None and origin[0] in self.needed
                ]
                for i, (places, flags) in enumerate(
                    zip(origins.places, origins.flags(), strict=True)
                )
            ]
        return self.edges[node][index]

    def below(self, slot: Slot) -> list[Slot]:
        """All values that this one may be, the last made first."""
        found: set[Slot] = set()
        stack = [slot]
        while stack:
            for origin in self.enter(stack.pop()):
                if origin not in found:
                    found.add(origin)
                    stack.append(origin)
        return sorted(found, key=_order)

    def settle(self, slot: Slot, *, surely: bool = False) -> None:
        """Hand on the terms of a value.

        Where that adds up to the same, they stay for the rule of its node, unless ``surely``.
        """
        if slot in self.lists:
            self.settle_list(slot, surely=surely)
            return
        if not self.enter(slot):
            return
        terms = self.terms.get(slot, [])
        new = [term for term in terms if not term.own]
        if not new:
            return
        shared, origins = self._shared(slot), self.enter(slot)
        going = {o for o in origins if surely or o in shared or self._must_go(slot, new, o)}
        if not going:
            return
        if not self._is_carried(slot):
            going.update(origins)
        ways = [way for way in self.ways(slot) if way.origin in going]
        for way in ways:
            home, at = self.home(way.origin)
            if at is not None:
                for term in new:
                    ct = marked(term.ct, conjoined(term.flag, way.flag))
                    self.listed(home).insert(term.turn, ct, at)
                continue
            others = self._open(way.origin)
            for term in new:
                join(others, Term(term.turn, term.ct, conjoined(term.flag, way.flag), term.many))
            others.sort(key=lambda term: term.turn)
        if len(ways) == len(self.ways(slot)) and not self._may_be_made(slot):
            terms[:] = [term for term in terms if term.own]
            return
        rest = _none_of(ways)
        terms[:] = [
            t if t.own else Term(t.turn, t.ct, conjoined(t.flag, rest), t.many, True) for t in terms
        ]

    def _is_carried(self, slot: Slot) -> bool:
        """Whether a loop carries the value: its rule adds to what it has been since before that."""
        node, index = slot
        origins = self.origins.get(node)
        return origins is not None and index in origins.kept and min(origins.places[index]) >= 0

    def _shared(self, slot: Slot) -> set[Slot | None]:
        """What a value may have been since before a loop whose body uses that, too."""
        node, index = slot
        origins = self.origins.get(node)
        if origins is None:
            return set()
        read = {_place(node, at) for at in origins.read}
        return {_place(node, at) for at in origins.kept.get(index, ())} & read

    def _may_be_made(self, slot: Slot) -> bool:
        """Whether it may be none of the values that are told."""
        node, index = slot
        if node not in self.edges:
            return True
        origins = self.origins[node]
        told = len(self.edges[node][index]) == len(origins.places[index])
        return origins.made[index] or not told

    def ends(self, slot: Slot) -> dict[Slot, Tensor | None]:
        """The values that this one may be in the end, and where it is each of them."""
        ways = self.ways(slot)
        if not ways:
            return {slot: None}
        found: dict[Slot, Tensor | None] = {}
        for way in ways:
            for end, where in self.ends(way.origin).items():
                where = conjoined(way.flag, where)
                found[end] = disjoined(found[end], where) if end in found else where
        if self._may_be_made(slot):
            found[slot] = _none_of(ways)
        return found

    def _must_go(self, slot: Slot, terms: Sequence[Term], origin: Slot) -> bool:
        """Whether the terms of a value belong among those of what it may be."""
        below = [origin, *self.below(origin)]
        peers = self._above(below) - {slot, *below}
        if any(self._waiting(peer) for peer in peers):
            return True
        others = [term for origin in below for term in self.terms.get(origin, ())]
        lists = [self.lists.get(self.home(origin)[0]) for origin in below]
        if any(listed is not None and listed.terms for listed in lists):
            return True
        if not others:
            return False
        if any(self.enter(origin) for origin in below):
            return True
        if len(terms) == 1 and not terms[0].many:
            return any(term.turn > terms[0].turn for term in others)
        alone = len(others) == 1 and not others[0].many
        return not alone or any(term.turn > others[0].turn for term in terms)

    def _waiting(self, slot: Slot) -> bool:
        """Whether it has terms that may have to be handed on."""
        if slot in self.lists:
            return bool(self.lists[slot].terms)
        return any(not term.own for term in self.terms.get(slot, ()))

    def settle_heirs(self, slots: Iterable[Slot], but: Node | None = None) -> None:
        """Before all that has arrived is asked for: hand on what was sent to heirs."""
        for heir in sorted(self._above(slots, but), key=_order):
            self.settle(heir, surely=True)

    def _above(self, slots: Iterable[Slot], but: Node | None = None) -> set[Slot]:
        """All values that may be one of ``slots``."""
        stack, found = list(slots), set()
        while stack:
            for heir in self.heirs.get(stack.pop(), ()):
                if heir not in found and heir[0] is not but:
                    found.add(heir)
                    stack.append(heir)
        return found

    def must_tell(self, slot: Slot, others: Iterable[Slot]) -> bool:
        """Whether a node that uses this value, and ``others``, must know which value it may be."""
        below = self.below(slot)
        if not below:
            return False
        if any(self.terms.get(origin) for origin in below) or not self.is_alone(slot, others):
            return True
        return any(self._waiting(peer) for peer in self._above(below) if peer != slot)

    def is_alone(self, slot: Slot, others: Iterable[Slot]) -> bool:
        """Whether none of ``others`` may be the same value."""
        below = set(self.below(slot))
        return all(
            other == slot or below.isdisjoint({other, *self.below(other)}) for other in others
        )


def _none_of(edges: Sequence[Edge]) -> Tensor:
    return ops.logical_not(functools.reduce(disjoined, [edge.flag for edge in edges]))


def _place(node: Record, at: int) -> Slot | None:
    if at < 0:
        return node, ~at
    return None if node.parents[at] is None else node_of(node.parents[at])


def _order(slot: Slot) -> tuple[int, int]:
    return -slot[0].sequence, -slot[1]
