"""Accumulation of cotangents term by term, in eager order, where values may be aliases.

The rule is that of eager code: each use of a value is one term, and the terms of a value are added
in the order in which they arrive, from its last use to its first.

While a graph is traced, a result of a ``cond`` may be one of its operands itself, if the region
taken hands it on.  Its uses are uses of that operand then, so its terms belong among those of the
operand, each in its turn, and count there where the region is taken.  Of a result that may be
another value (its *source*) terms are therefore kept one by one, until all have arrived; then they
are handed on.  Often nothing has arrived at the source in between: then the sum is handed on.

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
from hybrid.autodiff.cotangent_sums import Term, conjoined, join, results_of
from hybrid.autodiff.list_cotangents import At, RowTerms
from hybrid.autodiff.presence import Ct, OptionalCt, added, disjoined, marked, neutral
from hybrid.autodiff.record_values import (
    Aliases,
    Edge,
    ItemAliases,
    Node,
    TapeValue,
    make_snapshot,
    saved_type,
)
from hybrid.core.dataclass import dataclass, field
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import AnyRecord, Leaf, Record, node_of
from hybrid.ops.index.items import OF_LISTS, item


@dataclass(slots=True)
class Arrivals:
    """The terms that have arrived at each of the ``needed`` values.

    ``known`` are the sources of leaves.
    """

    needed: set[Node]
    known: Mapping[TapeValue, Sequence[Edge]] = field(default_factory=dict)
    terms: dict[TapeValue, list[Term]] = field(default_factory=dict)
    # Of a value: which values may be that one, and which ones it may be.
    aliases_of: dict[TapeValue, list[TapeValue]] = field(default_factory=dict)
    direct: dict[TapeValue, tuple[TapeValue, ...]] = field(default_factory=dict)
    declared: dict[Node, Aliases | None] = field(default_factory=dict)
    edges: dict[Node, list[list[Edge]]] = field(default_factory=dict)
    queue: list[tuple[int, Node]] = field(default_factory=list)
    queued: set[Node] = field(default_factory=set)
    turns: Any = field(default_factory=itertools.count)
    stops: Collection[Node] = ()  # nodes at which the way back ends
    lists: dict[TapeValue, RowTerms] = field(default_factory=dict)
    homes: dict[Node, tuple[TapeValue, At] | None] = field(default_factory=dict)  # of items

    # Terms ------------------------------------------------------------------------------------

    def send(self, record: AnyRecord, ct: Ct) -> None:
        """Add ``ct`` as a term of the value that has this record."""
        value, at = self.home(node_of(record))
        if at is not None or self._is_list(value):
            self.row_terms(value).add(next(self.turns), ct, at)
            return
        terms = self.terms.get(value)
        if terms is None:
            self._open(value).append(Term(next(self.turns), ct))
        elif not terms or self.direct[value] or value in self.aliases_of:
            terms.append(Term(next(self.turns), ct))
        else:
            terms[0].ct, terms[0].many = added(terms[0].ct, ct), True

    def at(self, node: Node) -> list[Ct | None]:
        """The total cotangent of each result of ``node``."""
        return [self.total((node, i)) for i in range(results_of(node))]

    def end(self) -> None:
        """No more will arrive: hand on what belongs to other leaves."""
        ends = [value for value in self.terms if value[0] in self.stops and value not in self.known]
        for value in (*self.known, *sorted(ends, key=_order)):
            self.settle(value, surely=True)

    def put(self, value: TapeValue, total: Ct | None, *, own: bool = False) -> None:
        """Replace all terms of a value by ``total``."""
        value, at = self.home(value)
        if at is not None or self._is_list(value):
            self.row_terms(value).put(next(self.turns), at, total)
            return
        self._open(value)[:] = [Term(next(self.turns), total, None, True, own)]

    def total(self, value: TapeValue) -> Ct | None:
        """The sum of all terms of a value; None where there are none."""
        value, at = self.home(value)
        if at is not None:
            return self.row_terms(value).total(at)
        if value in self.lists:
            found = self.lists[value].whole()
            each = isinstance(found, OptionalCt) and found.present.type.rank
            return neutral(found) if each else found
        found: Ct | None = None
        for term in self.terms.get(value, ()):
            ct = term.tensor()
            if ct is not None:
                found = ct if found is None else added(found, ct)
        return found

    def taken(self, value: TapeValue) -> Ct | None:
        """The sum of all terms of a value, marked as used by the rule of its node."""
        if value in self.lists:
            whole = self.lists[value].whole()
            self.lists[value].put(next(self.turns), None, None)
            return whole
        found = self.total(value)
        for term in self.terms.get(value, ()):
            term.own = True
        return found

    def pop(self) -> Node | None:
        """The last made of the nodes at which something has arrived."""
        return heapq.heappop(self.queue)[1] if self.queue else None

    def _open(self, value: TapeValue) -> list[Term]:
        terms = self.terms.get(value)
        if terms is None:
            terms = self.terms[value] = []
            self.enter(value)
            node = value[0]
            if type(node) is Record and node not in self.queued:
                self.queued.add(node)
                heapq.heappush(self.queue, (-node.sequence, node))
        return terms

    # Lists ------------------------------------------------------------------------------------

    def home(self, value: TapeValue) -> tuple[TapeValue, At | None]:
        """The list that a value is an item of, and which; any other value itself."""
        node = value[0]
        if type(node) is not Record or node.op not in OF_LISTS:
            return value, None
        found = self.homes.get(node)
        if found is None:
            parent = None if node.parents[0] is None else node_of(node.parents[0])
            if parent is None or parent[0] not in self.needed or node in self.stops:
                return value, None
            at = node.attrs["at"] if node.op is item else make_snapshot(node.saved[1])
            found = self.homes[node] = parent, at
        return found

    def row_terms(self, value: TapeValue) -> RowTerms:
        """The terms of a list, by item."""
        found = self.lists.get(value)
        if found is None:
            node, index = value
            type_ = node.type if isinstance(node, Leaf) else saved_type(node.results[index])
            before = self.terms.get(value, ())
            self._open(value)
            found = self.lists[value] = RowTerms(type_)
            for term in before:
                found.add(term.turn, marked(term.ct, term.flag))
            items = self._items(value)
            for source, _ in () if items is None else self._names(value, items):
                self.aliases_of.setdefault(source, []).append(value)
                self.enter(source)
        return found

    def _is_list(self, value: TapeValue) -> bool:
        return value in self.lists or (value not in self.terms and self._items(value) is not None)

    def _items(self, value: TapeValue) -> ItemAliases | None:
        node, index = value
        if type(node) is not Record or "regions" not in node.attrs:
            return None
        aliases = self._declared(node)
        return None if aliases is None else aliases.items.get(index)

    def _names(self, value: TapeValue, items: ItemAliases) -> list[tuple[TapeValue, int | None]]:
        """The values outside the list that are items of it, and how far from the last one.

        None is the first item, as an operand.
        """
        node, _ = value
        found: list[tuple[TapeValue, int | None]] = [((node, at), far) for at, far in items.ends]
        first = None if items.first < 0 else _place(node, items.first)
        return [*found, (first, None)] if first is not None and first[0] in self.needed else found

    def items_apart(self, values: Collection[TapeValue]) -> dict[TapeValue, Ct | None]:
        """The cotangents of items that may be part of others of ``values``, taken out of lists."""
        found = {}
        homes = {value: self.home(value) for value in values}
        for value, (home, at) in homes.items():
            peers = [o for other, o in homes.values() if other == home and o is not at]
            same = any(isinstance(o, Tensor) for o in (at, *peers)) and peers
            if at is not None and (home in values or same):
                found[value] = self.total(value)
                if found[value] is not None:
                    self.put(value, None)
        return found

    def bring_back(self, value: TapeValue, total: Ct | None) -> None:
        """Return to its list the ``total`` of an item that was taken out."""
        home, at = self.home(value)
        if total is not None:
            self.row_terms(home).add(next(self.turns), total, at)

    def settle_lists(self, node: Record) -> None:
        """Nothing more will arrive at the lists of ``node``: let each item have one name."""
        values = [(node, at) for at in range(len(node.results)) if (node, at) in self.lists]
        moves = [(value, items) for value in values if (items := self._items(value)) is not None]
        late = {v: items.behind for v, items in moves if items.duplicate_of < 0 <= items.behind}
        while late:  # those that no other one is behind come first
            value = next((v for v in late if v[1] not in late.values()), next(iter(late)))
            self.settle_list(value, surely=True)  # the first item
            self._move(value, late.pop(value), shifted=True)
        for value, items in moves:
            if items.duplicate_of >= 0:
                self._move(value, items.duplicate_of, shifted=False)

    def _move(self, value: TapeValue, other: int, *, shifted: bool) -> None:
        row_terms = self.lists[value]
        self.row_terms((value[0], other)).take(row_terms, shifted=shifted)
        row_terms.put(next(self.turns), None, None)

    def settle_list(self, value: TapeValue, *, surely: bool) -> None:
        """Hand on the terms of items that have other names."""
        items = self._items(value)
        if items is None:
            return
        node, row_terms = value[0], self.lists[value]
        count = items.count()
        if isinstance(count, int) and count <= 0:
            return
        going: list[tuple[TapeValue, int | None, At, Tensor | None, Sequence[Any]]] = []
        for source, far in self._names(value, items):
            at: At = 0 if far is None else count - 1 - far
            if isinstance(count, int) and (at < 0 or any(at == o for _, _, o, _, _ in going)):
                continue
            at = at if isinstance(at, int) else ops.maximum(at, 0)
            terms = row_terms.of(at)
            if not terms or not (surely or self._list_must_go(terms, value, source)):
                continue
            there = None
            if not isinstance(count, int):
                there = ops.greater(count, far or 0)
                ends = [other for _, other, _, _, _ in going] if far is None else []
                for other in ends:  # where the first item is none of these
                    there = ops.logical_and(there, ops.not_equal(count, other + 1))
            going.append((source, far, at, there, terms))
        for source, far, at, there, terms in going:
            part = 0.25 if source[0] is not node else 0.5  # of a term of all items
            others = self._open(source)
            for turn, ct in terms:
                join(others, Term(turn + part, ct, there))
            others.sort(key=lambda term: term.turn)
            row_terms.put(next(self.turns), at, None, there if far else None)

    def _list_must_go(self, terms: Sequence[Any], value: TapeValue, source: TapeValue) -> bool:
        """Whether the terms of an item belong among those of the value that it is."""
        below = self.below(source)
        peers = self._above((source, *below)) - {value, source}
        if any(self._waiting(peer) for peer in peers) or any(self.terms.get(v) for v in below):
            return True
        others = self.terms.get(source, ())
        alone = len(terms) == len(others) == 1 and not others[0].many
        return bool(others) and (source[0] is not value[0] or not alone)

    # Origins ----------------------------------------------------------------------------------

    def enter(self, value: TapeValue) -> tuple[TapeValue, ...]:
        """The values that this one may be, directly."""
        found = self.direct.get(value)
        if found is None:
            found = self.direct[value] = tuple(dict.fromkeys(self._possible(value)))
            for source in found:
                for base in dict.fromkeys((source, self.home(source)[0])):
                    self.aliases_of.setdefault(base, []).append(value)
                self.enter(source)
        return found

    def _possible(self, value: TapeValue) -> Iterable[TapeValue]:
        node, index = value
        if type(node) is not Record or "regions" not in node.attrs:
            return [edge.source for edge in self.known.get(value, ())]
        aliases = self._declared(node)
        if aliases is None or index >= len(aliases.places):
            return []
        found = [_place(node, at) for at in aliases.places[index]]
        return [source for source in found if source is not None and source[0] in self.needed]

    def asks(self, node: Record) -> str:
        """Whether the rule of ``node`` asks which operand may be which; see ``Aliases``."""
        aliases = self._declared(node)
        return "" if aliases is None else aliases.asks

    def _declared(self, node: Record) -> Aliases | None:
        if node not in self.declared:
            rule = node.op.alias_rule
            self.declared[node] = None if rule is None else rule(node)
        return self.declared[node]

    def edges_of(self, value: TapeValue) -> Sequence[Edge]:
        """The values that this one may be, and where it is each of them."""
        node, index = value
        if not self.enter(value):
            return ()
        if value in self.known:
            return self.known[value]
        if node not in self.edges:
            aliases = self._declared(node)
            self.edges[node] = [
                [
                    Edge((node, i), source, flag)
                    for at, flag in zip(places, flags, strict=True)
                    if (source := _place(node, at)) is not None and source[0] in self.needed
                ]
                for i, (places, flags) in enumerate(
                    zip(aliases.places, aliases.flags(), strict=True)
                )
            ]
        return self.edges[node][index]

    def below(self, value: TapeValue) -> list[TapeValue]:
        """All values that this one may be, the last made first."""
        found: set[TapeValue] = set()
        stack = [value]
        while stack:
            for source in self.enter(stack.pop()):
                if source not in found:
                    found.add(source)
                    stack.append(source)
        return sorted(found, key=_order)

    def settle(self, value: TapeValue, *, surely: bool = False) -> None:
        """Hand on the terms of a value.

        Where that adds up to the same, they stay for the rule of its node, unless ``surely``.
        """
        if value in self.lists:
            self.settle_list(value, surely=surely)
            return
        if not self.enter(value):
            return
        terms = self.terms.get(value, [])
        new = [term for term in terms if not term.own]
        if not new:
            return
        shared, sources = self._shared(value), self.enter(value)
        going = {o for o in sources if surely or o in shared or self._must_go(value, new, o)}
        if not going:
            return
        if not self._is_carried(value):
            going.update(sources)
        edges = [edge for edge in self.edges_of(value) if edge.source in going]
        for edge in edges:
            home, at = self.home(edge.source)
            if at is not None:
                for term in new:
                    ct = marked(term.ct, conjoined(term.flag, edge.flag))
                    self.row_terms(home).insert(term.turn, ct, at)
                continue
            others = self._open(edge.source)
            for term in new:
                join(others, Term(term.turn, term.ct, conjoined(term.flag, edge.flag), term.many))
            others.sort(key=lambda term: term.turn)
        if len(edges) == len(self.edges_of(value)) and not self._may_be_made(value):
            terms[:] = [term for term in terms if term.own]
            return
        rest = _none_of(edges)
        terms[:] = [
            t if t.own else Term(t.turn, t.ct, conjoined(t.flag, rest), t.many, True) for t in terms
        ]

    def _is_carried(self, value: TapeValue) -> bool:
        """Whether a loop carries the value: its rule adds to what it has been since before that."""
        node, index = value
        aliases = self.declared.get(node)
        return aliases is not None and index in aliases.lasting and min(aliases.places[index]) >= 0

    def _shared(self, value: TapeValue) -> set[TapeValue | None]:
        """What a value may have been since before a loop whose body uses that, too."""
        node, index = value
        aliases = self.declared.get(node)
        if aliases is None:
            return set()
        read = {_place(node, at) for at in aliases.read}
        return {_place(node, at) for at in aliases.lasting.get(index, ())} & read

    def _may_be_made(self, value: TapeValue) -> bool:
        """Whether it may be none of the values that are told."""
        node, index = value
        if node not in self.edges:
            return True
        aliases = self.declared[node]
        all_known = len(self.edges[node][index]) == len(aliases.places[index])
        return aliases.made[index] or not all_known

    def ends(self, value: TapeValue) -> dict[TapeValue, Tensor | None]:
        """The values that this one may be in the end, and where it is each of them."""
        edges = self.edges_of(value)
        if not edges:
            return {value: None}
        found: dict[TapeValue, Tensor | None] = {}
        for edge in edges:
            for end, where in self.ends(edge.source).items():
                where = conjoined(edge.flag, where)
                found[end] = disjoined(found[end], where) if end in found else where
        if self._may_be_made(value):
            found[value] = _none_of(edges)
        return found

    def _must_go(self, value: TapeValue, terms: Sequence[Term], source: TapeValue) -> bool:
        """Whether the terms of a value belong among those of what it may be."""
        below = [source, *self.below(source)]
        peers = self._above(below) - {value, *below}
        if any(self._waiting(peer) for peer in peers):
            return True
        others = [term for source in below for term in self.terms.get(source, ())]
        lists = [self.lists.get(self.home(source)[0]) for source in below]
        if any(row_terms is not None and row_terms.terms for row_terms in lists):
            return True
        if not others:
            return False
        if any(self.enter(source) for source in below):
            return True
        if len(terms) == 1 and not terms[0].many:
            return any(term.turn > terms[0].turn for term in others)
        alone = len(others) == 1 and not others[0].many
        return not alone or any(term.turn > others[0].turn for term in terms)

    def _waiting(self, value: TapeValue) -> bool:
        """Whether it has terms that may have to be handed on."""
        if value in self.lists:
            return bool(self.lists[value].terms)
        return any(not term.own for term in self.terms.get(value, ()))

    def settle_aliases(self, values: Iterable[TapeValue], but: Node | None = None) -> None:
        """Before all that has arrived is asked for: hand on what was sent to aliases."""
        for alias in sorted(self._above(values, but), key=_order):
            self.settle(alias, surely=True)

    def _above(self, values: Iterable[TapeValue], but: Node | None = None) -> set[TapeValue]:
        """All values that may be one of ``values``."""
        stack, found = list(values), set()
        while stack:
            for alias in self.aliases_of.get(stack.pop(), ()):
                if alias not in found and alias[0] is not but:
                    found.add(alias)
                    stack.append(alias)
        return found

    def must_tell(self, value: TapeValue, others: Iterable[TapeValue]) -> bool:
        """Whether a node that uses this value, and ``others``, must know which value it may be."""
        below = self.below(value)
        if not below:
            return False
        if any(self.terms.get(source) for source in below) or not self.is_alone(value, others):
            return True
        return any(self._waiting(peer) for peer in self._above(below) if peer != value)

    def is_alone(self, value: TapeValue, others: Iterable[TapeValue]) -> bool:
        """Whether none of ``others`` may be the same value."""
        below = set(self.below(value))
        return all(
            other == value or below.isdisjoint({other, *self.below(other)}) for other in others
        )


def _none_of(edges: Sequence[Edge]) -> Tensor:
    return ops.logical_not(functools.reduce(disjoined, [edge.flag for edge in edges]))


def _place(node: Record, at: int) -> TapeValue | None:
    if at < 0:
        return node, ~at
    return None if node.parents[at] is None else node_of(node.parents[at])


def _order(value: TapeValue) -> tuple[int, int]:
    return -value[0].sequence, -value[1]
