"""Plans that a hybridized function keeps: what calls find them by, and which ones have to go."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from hybrid.calls.executable import PlanInfo, Planned
from hybrid.calls.families import Family, covers, family_key
from hybrid.calls.open_families import OpenFamily, families_of
from hybrid.calls.recapture_reasons import Call, described
from hybrid.eager.thread_state import STATE
from hybrid.trace.places.signature import is_number

if TYPE_CHECKING:
    from hybrid.calls.ledger import Ledger
    from hybrid.calls.open_captures import OpenCapture

BOUND_NBYTES = 64 << 20  # of the plans that the open captures of a function are bound to
next_use = itertools.count(1).__next__  # orders what is made and what is used


class PlanTable:
    """The plans of one function, at most ``most`` captures of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.plans: dict[Hashable, list[Planned]] = {}  # by the keys of calls
        self.families: dict[Hashable, Family] = {}
        self.open_families: dict[Hashable, OpenFamily] = {}
        self.bound_nbytes = 0  # of the plans of open captures
        # The plan last used for arguments that are all plain tensors, by their types, with
        # recording off and on: what most calls look up.
        self.quick: tuple[dict[Hashable, Planned], ...] = ({}, {})
        # By dtypes and ranks alone: what serves calls that run eagerly until it is bound.
        self.unpaid: dict[Hashable, OpenCapture] = {}
        self.dropped: dict[Hashable, None] = {}  # keys of plans that had to go
        self.ledger: Ledger | None = None  # which is told of these

    # Looking ----------------------------------------------------------------------------------

    def find(self, key: Hashable, leaves: Sequence[Any]) -> Planned | None:
        """The plan of this very call, or one whose numbers are inputs."""
        for planned in self.plans.get(key, ()):
            if planned.serves(leaves):
                return planned
        if any(map(is_number, leaves)):
            family = self.families.get(family_key(key, leaves))
            for planned in () if family is None else family.plans:
                if planned.numbers and planned.serves(leaves) and covers(planned, key[1]):
                    return planned
        return self._find_bound(key, leaves) if self.open_families else None

    def _find_bound(self, key: Hashable, leaves: Sequence[Any]) -> Planned | None:
        """The plan of an open capture that serves other sizes, or numbers, of calls of one key."""
        with STATE:
            for family in families_of(self.open_families, key, leaves):
                for made in [made for made in family.captures if made.moves]:
                    planned = made.bound(leaves)
                    if planned is not None and made.values(leaves) is not None:
                        return planned
        return None

    def family(self, call: Call) -> Family:
        """The family of calls that differ in numbers alone."""
        return self.families.setdefault(family_key(call.key, call.leaves), Family())

    def all(self) -> list[Planned]:
        """Every plan, in the order of their making."""
        families, opened = list(self.families.values()), list(self.open_families.values())
        found = [planned for family in families for planned in family.plans]  # others may add some
        found += [p for family in opened for made in family.captures for p in made.planned]
        return sorted(found, key=lambda planned: planned.made)

    def infos(self) -> list[PlanInfo]:
        """The descriptions of all cached plans."""
        return [
            PlanInfo(
                arguments=planned.description,
                nodes=planned.plan.sizes.nodes,
                steps=planned.plan.sizes.steps,
                arena_nbytes=planned.plan.sizes.arena_nbytes,
                scratch_nbytes=planned.plan.sizes.scratch_nbytes,
                guards=tuple(g.name for g in (*planned.guards.always, *planned.guards.by_epoch)),
                calls=planned.calls if planned.opened is None else planned.opened.calls,
                why=planned.why,
                kept_nbytes=0 if planned.precomputed is None else planned.precomputed.nbytes,
                filed=planned.filed,
                bindings=tuple([one.binding for one in alike if one.binding]),
                axes=None if planned.opened is None else planned.opened.axes,
                plan=planned.plan,
            )
            for alike in self.listed()
            for planned in alike[-1:]
        ]

    def listed(self) -> list[list[Planned]]:
        """Every plan, those of an open capture together, the one used last at the end."""
        found: dict[Any, list[Planned]] = {}
        for planned in self.all():
            alike = planned if planned.opened is None else planned.opened
            found.setdefault(alike, []).append(planned)
        return [sorted(alike, key=lambda planned: planned.last_used) for alike in found.values()]

    # Keeping ----------------------------------------------------------------------------------

    def keep(self, planned: Planned, leaves: Sequence[Any]) -> Planned:
        """``planned``, found from now on by calls of its key."""
        axes = None if planned.opened is None else planned.opened.axes
        planned.description = described(leaves, planned.numbers, axes)
        planned.made = planned.last_used = next_use()
        if planned.opened is None or len(planned.opened.planned) == 1:  # it may serve these calls
            self.unpaid.clear()
        if not (planned.numbers or planned.moves):
            self.plans.setdefault(planned.key, []).append(planned)
        if planned.opened is not None:
            self.bound_nbytes += planned.nbytes
            if self.bound_nbytes > BOUND_NBYTES:
                self._forget_sizes()
        return planned

    def use(self, planned: Planned) -> None:
        """Let ``planned``, which is about to run, be looked at first from now on."""
        alike = self.plans.get(planned.key, [])
        if planned in alike:
            alike.remove(planned)
            alike.insert(0, planned)
        planned.last_used = next_use()

    # Forgetting -------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all plans."""
        self.plans.clear()
        self.families.clear()
        self.dropped.clear()
        self.clear_open()
        self.unpaid.clear()
        for quick in self.quick:
            quick.clear()

    def clear_open(self) -> None:
        """Forget all open captures."""
        self.forget({plan for plan in self.all() if plan.opened is not None})
        self.open_families.clear()
        self.bound_nbytes = 0

    def forget(self, gone: Collection[Planned]) -> None:
        """Find the plans ``gone`` no more."""
        self.unpaid.clear()
        for planned in gone:
            if self.ledger is not None and planned.account is not None:
                self.ledger.drop(planned)
            found = [other for other in self.plans.get(planned.key, ()) if other is not planned]
            if found:
                self.plans[planned.key] = found
            else:
                self.plans.pop(planned.key, None)
        self.forget_quick(gone)

    def forget_quick(self, gone: Collection[Planned]) -> None:
        """Find the plans ``gone`` no more by the types of plain tensors alone."""
        for quick in self.quick:
            for types_ in [types_ for types_, planned in quick.items() if planned in gone]:
                del quick[types_]

    def _forget_sizes(self) -> None:
        """Forget the plans of the sizes that have not been used for longest: half of the bytes.

        The last one stays, whatever it takes: it is about to run.
        """
        captures = [c for family in self.open_families.values() for c in family.captures]
        plans = [planned for capture in captures for planned in capture.planned]
        gone: set[Planned] = set()
        for planned in sorted(plans, key=lambda planned: planned.last_used)[:-1]:
            if self.bound_nbytes <= BOUND_NBYTES // 2:
                break
            gone.add(planned)
            self.bound_nbytes -= planned.nbytes
        for one in captures:
            one.forget(gone)
        self.forget(gone)

    def forget_oldest(self) -> None:
        """Forget the plans, and the open captures, that were not used for longest."""
        listed = sorted(self.listed(), key=lambda alike: alike[-1].last_used)
        for alike in listed[: max(0, len(listed) - self.most)]:
            last = alike[-1]
            for open_family in self.open_families.values() if last.opened else ():
                if last.opened in open_family.captures:
                    open_family.captures.remove(last.opened)
                    self.bound_nbytes -= sum([planned.nbytes for planned in alike])
            for family in self.families.values():
                if last in family.plans:
                    family.plans.remove(last)
            self.dropped.update(dict.fromkeys([planned.key for planned in alike]))
            self.forget(alike)
        if len(self.families) > 2 * self.most:
            self.families = {key: f for key, f in self.families.items() if f.plans}
        for key in list(self.dropped)[: -4 * self.most]:
            del self.dropped[key]
