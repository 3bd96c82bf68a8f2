"""Alias analysis of loops: which operands or carried values a carried value may be at the end.

::

    for x in xs:
        t = t + x
        last = t if hy.sum(x) > 0 else last  # what t is now, or was some iterations ago

Where only a run knows it, a loop of its own tells: it carries a flag for each pair that may be one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from hybrid import ops
from hybrid.autodiff.presence import flag
from hybrid.autodiff.record_values import Aliases
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Graph, Value
from hybrid.ir.record import recording
from hybrid.ops.flow.control import FLAG, applied, for_
from hybrid.trace.regions.build import computing, is_repeatable
from hybrid.trace.regions.tracer import Tracer

Holds = bool | Tensor  # where something is so; a bool if that is known
Key = tuple[int, int]  # a carried value, and an operand, or ~i for carried value i before it
SEVERAL = "several"


class BodyAliases(Protocol):
    """The alias analysis of one body, as loops need it."""

    tracer: Tracer

    def aliases(self, value: Value) -> dict[Value, Holds]: ...
    def value(self, holds: Holds) -> Value: ...
    def both(self, a: Holds, b: Holds) -> Holds: ...
    def any(self, a: Holds, b: Holds) -> Holds: ...
    def negated(self, a: Holds) -> Holds: ...
    def uses(self) -> dict[Value, int]: ...


class CarriedAliases:
    """The alias analysis of the carried values of one loop, by their positions as operands.

    They may become operands, by such positions too, or values that an iteration has made, of which
    two may be one.
    """

    def __init__(self, body: Graph, carried: int, sliced: int, side: BodyAliases) -> None:
        n = self.carried = carried
        self.body, self.side = body, side
        self.first_invariant = n + sliced
        position = {v: at for at, v in enumerate(body.params[1:])}
        own = [at < n or at >= self.first_invariant for at in range(len(position))]
        results = body.results[:n]
        self.floats = [v.type.floating for v in results]
        # What a result is: by the position of a parameter, or as a value of this iteration.
        self.steps: list[dict[int, Holds]] = []
        self.fresh: list[dict[Value, Holds]] = []
        for result in results:
            aliases = side.aliases(result) if result.type.floating else {}
            at = {v: position[v] for v in aliases if v in position and own[position[v]]}
            self.steps.append({at[v]: holds for v, holds in aliases.items() if v in at})
            self.fresh.append({v: holds for v, holds in aliases.items() if v not in at})
        used = {v for node in body.nodes for v in node.operands}
        inside = list(enumerate(body.params))[1 + self.first_invariant :]
        self.read = [at for at, value in inside if value in used]
        self.firsts = [results.index(v) if v.type.floating else i for i, v in enumerate(results)]
        self.possible = self._possible()
        # Mostly the loop is run again to tell; not if the author would notice.
        self.repeatable = is_repeatable(computing(body, body.results))
        self.pairs = self._pairs() if self.repeatable else set()
        keys = [(at, o) for at in range(n) for o in (at, *self.possible[at]) if o >= 0]
        self.keys = {*keys, *[(a, ~b) for a, b in self.pairs]}
        self.bodies: dict[tuple[Key, ...], Graph] = {}

    def _possible(self) -> list[set[int]]:
        """Of each the operands that it may be after iterations; -1: what one of them has made."""
        n = self.carried
        possible: list[set[int]] = [set() for _ in range(n)]
        now: list[set[int]] = [{at} for at in range(n)]
        while True:
            now = [
                {-1} if not self.floats[at] else
                ({-1} if self.fresh[at] else set()).union(
                    *[now[b] if b < n else {b} for b in self.steps[at]]
                )
                for at in range(n)
            ]  # fmt: skip
            grown = [old | new for old, new in zip(possible, now, strict=True)]
            if grown == possible:
                return possible
            possible = grown

    def _pairs(self) -> set[Key]:
        """Those, the later first, that may be one value that an iteration has made."""
        found: set[Key] = set()
        while True:
            grown = {
                (a, b)
                for a in range(self.carried)
                for b in range(a)
                if any(v in self.fresh[b] for v in self.fresh[a])
                or any(
                    (p == q and -1 in self.possible[p]) or (max(p, q), min(p, q)) in found
                    for p in self.steps[a]
                    for q in self.steps[b]
                    if p < self.carried and q < self.carried
                )
            }
            if grown <= found:
                return found
            found |= grown

    def aliases(
        self, count: Tensor, known: int | None, operands: list[Tensor], attrs: dict[str, Any]
    ) -> Aliases:
        """The aliases of the loop's results after ``count`` iterations."""
        may_run, may_not = known is None or known > 0, known is None or known <= 0
        wanted: list[list[int]] = []  # of each value the operands and others that it may be
        made = []
        for at, (first, floats) in enumerate(zip(self.firsts, self.floats, strict=True)):
            found = {at} if may_not else set()
            others = []
            if may_run and first == at:
                found |= self.possible[at]
                others = [b for b in range(at) if self.firsts[b] == b and (at, b) in self.pairs]
            elif may_run:
                others = [first]
            own = [o for o in sorted(found) if o >= 0] if floats else []
            own = [*[~b for b in others], *own]
            decidable = self.repeatable or self._is_simple(at, own)
            wanted.append(own if decidable else [])
            made.append(-1 in found or not floats or not decidable)
        places = [tuple([o if o < 0 else 1 + o for o in each]) for each in wanted]
        results = len(self.body.results) - self.carried

        def flags() -> list[list[Tensor]]:
            with recording(False):
                found = self.flags(wanted, count, operands, attrs)
            return [*found, *[[] for _ in range(results)]]

        lasting = {at: [1 + o for o in found if o >= 0] for at, found in enumerate(self.possible)}
        return Aliases(
            places=(*places, *[()] * results),
            made=(*made, *[True] * results),
            flags=flags,
            asks=SEVERAL,
            lasting=lasting if may_run else {},
            read=self.read,
        )

    def flags(
        self,
        wanted: list[list[int]],
        count: Tensor,
        operands: list[Tensor],
        attrs: dict[str, Any],
    ) -> list[list[Tensor]]:
        """Where each carried value is each of those ``wanted``."""
        ran = ops.greater(count, 0)
        simple = [self._simple(at, each, ran) for at, each in enumerate(wanted)]
        if all(each is not None for each in simple):
            return [each for each in simple if each is not None]
        keys = self.needed((at, o) for at, each in enumerate(wanted) for o in each)
        n = self.carried
        body = self.flagged_body(keys)
        body = computing(body, body.results[: n + len(keys)])
        stacks = len(self.body.results) > n and attrs["length"]
        if (attrs["sliced"] or stacks) and not attrs["overruns"]:
            count = ops.minimum(count, attrs["length"])
        every = (count, *operands[:n], *self.start(keys), *operands[n:])
        found = applied(for_, every, (body,), **attrs | {"carried": n + len(keys)})
        result = dict(zip(keys, found[n:], strict=True))
        return [
            self._one_each([result[at, o] for o in each], each) if known is None else known
            for at, (each, known) in enumerate(zip(wanted, simple, strict=True))
        ]

    def _one_each(self, flags: list[Tensor], wanted: list[int]) -> list[Tensor]:
        """At most one of them: of several carried values that it is, the first."""
        taken: Tensor | None = None
        found = []
        for holds, o in zip(flags, wanted, strict=True):
            if o >= 0:
                found.append(holds)
            else:
                found.append(
                    holds if taken is None else ops.logical_and(holds, ops.logical_not(taken))
                )
                taken = holds if taken is None else ops.logical_or(taken, holds)
        return found

    def _is_simple(self, at: int, wanted: list[int]) -> bool:
        """Whether it is one thing if the loop runs, and its first value if not."""
        if self.firsts[at] < at or not wanted:
            return True
        possible = self.possible[at]
        return min(wanted) >= 0 and at not in possible and len(possible) < 2

    def _simple(self, at: int, wanted: list[int], ran: Tensor) -> list[Tensor] | None:
        """The flags of what is simple."""
        if not self._is_simple(at, wanted):
            return None
        if self.firsts[at] < at:
            return [ran if o < 0 else ops.logical_not(ran) for o in wanted]
        return [ops.logical_not(ran) if o == at else ran for o in wanted]

    # The body with flags -----------------------------------------------------------------------

    def needed(self, wanted: Iterable[Key]) -> tuple[Key, ...]:
        """The keys ``wanted``, and those that an iteration computes them from."""
        found: set[Key] = set()
        stack = [key for key in wanted if key in self.keys]
        while stack:
            key = stack.pop()
            if key in found:
                continue
            found.add(key)
            at, o = key
            before = [p for p in self.steps[at] if p < self.carried]
            if o >= 0:
                keys = [(p, o) for p in before]
            else:
                others = [q for q in self.steps[~o] if q < self.carried]
                keys = [(max(p, q), ~min(p, q)) for p in before for q in others if p != q]
                both = set(before).intersection(others)
                keys += [key for key in self.keys if key[0] in both and key[1] >= 0]
            stack += [key for key in keys if key in self.keys]
        return tuple(sorted(found))

    def start(self, keys: Sequence[Key]) -> list[Tensor]:
        """The flags of ``keys`` before the loop."""
        return [flag(at == o) for at, o in keys]

    def flagged_body(self, keys: tuple[Key, ...]) -> Graph:
        """The body that carries the flags of ``keys``, which are all that it needs."""
        if keys in self.bodies:
            return self.bodies[keys]
        side, n = self.side, self.carried
        given = {key: Value(FLAG, "same") for key in keys}
        side.tracer.owned.update(given.values())
        flags = [side.value(self._after(key, given)) for key in keys]
        index, *rest = self.body.params
        params = (index, *rest[:n], *given.values(), *rest[n:])
        results = (*self.body.results[:n], *flags, *self.body.results[n:])
        whole = Graph("body", params, tuple(side.tracer.builder.nodes), ())
        body = self.bodies[keys] = computing(whole, results)
        return body

    def _after(self, key: Key, given: dict[Key, Value]) -> Holds:
        """Whether that is so after an iteration, by what was ``given`` before it."""
        side, n = self.side, self.carried
        at, o = key

        def before(b: int, o: int) -> Holds:
            return make_tensor(FLAG, given[b, o]) if (b, o) in given else False

        holds: Holds = False
        if o >= 0:
            for b, where in self.steps[at].items():
                holds = side.any(holds, side.both(where, before(b, o) if b < n else b == o))
            return holds
        aliases, others = self.fresh[at], self.fresh[~o]
        for value, where in aliases.items():
            holds = side.any(holds, side.both(where, others.get(value, False)))
        for p, where in self.steps[at].items():
            for q, there in self.steps[~o].items():
                if p >= n or q >= n:
                    continue
                same = before(max(p, q), ~min(p, q))
                if p == q:  # a value that an iteration has made, since it is no operand
                    operand: Holds = False
                    for key in given:
                        if key[0] == p and key[1] >= 0:
                            operand = side.any(operand, before(*key))
                    same = side.negated(operand)
                holds = side.any(holds, side.both(side.both(where, there), same))
        return holds

    # Where it counts ---------------------------------------------------------------------------

    def ties(self, places: Sequence[int], shared: Collection[int]) -> tuple[Key, ...]:
        """The keys that the way back has to know of, for the order of additions.

        ``places`` are those of the operands; values at the ``shared`` ones have other uses.
        """
        if not self.repeatable:
            return ()
        uses = self.side.uses()
        count = [uses.get(v, 0) for v in self.body.params[1:]]
        found = []
        for at, (first, floats) in enumerate(zip(self.firsts, self.floats, strict=True)):
            if first != at or not floats:
                continue
            for o in sorted({at, *self.possible[at]} - {-1}):
                if places[o] < 0 or at not in self._carriers(o):
                    continue
                others = [p for p in self._carriers(o) if p != at]
                named = any(places[p] == places[o] for p in range(self.first_invariant, len(count)))
                if count[at] and (named or others or places[o] in shared):
                    found.append((at, o))
            for b in range(at):
                if (at, b) not in self.pairs or self.firsts[b] != b:
                    continue
                most = count[at] + count[b]
                if most > 1 or (most and self._may_last(at, b)):
                    found.append((at, ~b))
        return tuple(found)

    def _carriers(self, o: int) -> list[int]:
        """The carried values that may be an operand in later iterations."""
        return [at for at in range(self.carried) if o in self.possible[at]]

    def _may_last(self, a: int, b: int) -> bool:
        """Whether they may be one because they have been."""
        n = self.carried
        return any(
            p == q or (max(p, q), min(p, q)) in self.pairs
            for p in self.steps[a]
            for q in self.steps[b]
            if p < n and q < n
        )
