"""Everything that one capture writes, announced or found by comparing, and how it is put back.

``Writes`` begins with the capture, tells at any point what it has written by then, and puts all of
it back when it ends, however it ends.  What a capture cannot tell from the work of others, and what
a plan could not repeat, is refused, or a reason to capture again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from hybrid.core.exceptions import CaptureSignal
from hybrid.errors import Location
from hybrid.ir.interpreter import ACTIVE
from hybrid.ir.record import Leaf
from hybrid.trace.capture.leak_sweep import cache_error, leak_error, undo_leaks
from hybrid.trace.capture.number_inputs import InputStandIns
from hybrid.trace.capture.recapture import (
    RewrittenContainer,
    UnseenOwner,
    UnsettledPlace,
    refuse_unsettled,
)
from hybrid.trace.capture.side_effects import (
    OwnWrites,
    PlainWrites,
    constants_in,
    covers,
    refuse_cached,
    remedy,
    remedy_of_items,
    side_effect,
    written_numbers,
)
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.differences import (
    ContainerDifference,
    ContainerSnapshot,
    Difference,
    PlaceDifference,
    replaced_in,
)
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.memos import traced_caches
from hybrid.trace.places.place import ANY, Key, key_of, put_attributes
from hybrid.trace.regions.requires_grad import Turning
from hybrid.trace.regions.tracer import Tracer


class Writes:
    """Collects, restores and checks the Python writes of the code that ``tracer`` records."""

    own: OwnWrites
    containers: ContainerSnapshot | None = None
    turning: Turning | None = None  # of requires_grad of arguments
    _begun = _ended = _done = False

    def __init__(self, tracer: Tracer, guards: Guards) -> None:
        self.tracer, self.guards = tracer, guards
        self.journal, self.snapshot = tracer.journal, guards.snapshot
        self.inputs = InputStandIns()
        # Once the code has run:
        self.left: dict[Key, Any] = {}  # what it has left in the places that are logged
        self.changes: list[ContainerDifference] = []  # what it has changed in containers
        self._label: str | None = None  # what messages call the first of these
        self._own: list[PlaceDifference] = []  # what else is its doing, and no plan could repeat
        self._others: list[Difference] = []  # what may be the work of other threads
        self._unseen: list[tuple[Any, dict[str, Any]]] = []  # owners of attributes, not guarded
        self._computed: str | None = None  # a cached property that it has computed
        self._hidden: list[LoggedPlace] = []  # where traced values were left
        self._leaking: list[Any] = []  # cached functions that kept traced values
        self._asked: Set[int] = frozenset()  # ids of values of which it asks which they are

    # During the capture -----------------------------------------------------------------------

    def begin(self, given: Sequence[tuple[Any, Any]], turning: Turning) -> None:
        """Note the ``given`` containers and ``turning``, before inputs are put in place."""
        self.given, self.turning = [container for container, _ in given], turning
        self.own = OwnWrites(self.tracer, self.guards.written, given)
        self.journal.identities.replaced = self.guards.matching.objects
        self._begun = True

    def watch(self) -> None:
        """Take the snapshots that later differences are relative to; the code runs next."""
        self.snapshot.begin()
        outside = [c for c in self.guards.containers.values() if c is not ACTIVE]
        self.containers = ContainerSnapshot([*outside, *self.given])

    def is_own(self, found: Difference) -> bool:
        """Return whether the captured code itself has made the difference ``found``."""
        return self.own(found.key, found.added())

    def own_changes(self) -> list[ContainerDifference]:
        """Return the containers that the code has changed so far."""
        assert self.containers is not None
        return [found for found in self.containers.differences() if self.is_own(found)]

    def own_places(self, chain: Sequence[Tracer]) -> Iterator[tuple[Any, str, Any]]:
        """Yield (owner, name, value) of the lasting places that the code has changed so far.

        ``chain`` are the tracers whose code runs, from the innermost to that of the capture.
        """
        found = set()
        for owner, name, now in self.snapshot.changed():
            if self.own(key_of(owner, name), [now]):
                found.add((id(owner), name))
                yield owner, name, now
        for tracer in reversed(chain):
            for key, place in tracer.places.items():
                outlives = tracer is self.tracer or isinstance(place.owner, Leaf)
                if place.written and outlives and key not in found:
                    found.add(key)
                    yield place.owner, place.name, place.content()

    # After it ---------------------------------------------------------------------------------

    def end(self) -> None:
        """Restore what the code has written, and separate it from changes by others."""
        assert self.containers is not None
        self._undo_rests()  # what is newest first
        self._unseen = self._put_unseen()
        asked = self._asked = self.journal.identities.asked().keys()
        self.tracer.adopt(self.guards.written_places(self.own, asked))
        places = self.tracer.places.items()  # deleted ones show what the class has
        gone = [key for key, p in places if p.written and self.journal.gave_up(p.owner, p.name)]
        self.left = self.tracer.mark.undo() | dict.fromkeys(gone, MISSING)
        self.changes, others = _partition(self.containers.differences(), self.is_own)
        self.inputs.take_back()
        if self.changes:
            broken = self.snapshot.differences(cached=False)
            self._label = broken[0].label if broken else None
        for change in self.changes:
            change.undo()
        self.inputs.take_back()
        self._others = [self.inputs.seen_through(change) for change in others]
        own, others = _partition(self.inputs.differences(self.guards.containers), self.is_own)
        for difference in own:
            difference.undo()
        self._others += others
        more, others = _partition(self.snapshot.differences(cached=False), self.is_own)
        self._own = [*own, *more]
        self._others += others
        self._computed = self.snapshot.computed() if self.guards.inputs else None
        self._hidden = undo_leaks(self.tracer)
        caches = () if self.guards.reads is None else self.guards.reads.caches
        self._leaking = [*traced_caches(caches)]
        for cache in self._leaking:
            cache.cache_clear()
        self._ended = True

    def _undo_rests(self) -> None:
        """Restore what was written where code went on beside errors, if an error has ended that."""
        open_, tracer = [], self.tracer
        while tracer.rest is not None:
            tracer = tracer.rest.path.region
            open_.append(tracer.mark)
        for mark in reversed(open_):
            mark.undo()

    def require_repeatable(self, name: str, at: Location | None) -> None:
        """Raise where a plan could not repeat a write, or where a new capture is needed.

        ``name`` and ``at`` are those of the function.
        """
        tracer, written = self.tracer, self.guards.written
        self.require_guards()
        self._refuse_others()
        if self._unseen:
            raise UnseenOwner({id(owner): owner for owner, _ in self._unseen})
        if self._own:
            broken = self._own[0]
            place = self.journal.written_at(broken.key) or at
            raise side_effect(name, broken.label, place, remedy(broken))
        if self.guards.inputs:
            refuse_cached(name, self._computed, at)
        for cache in self._leaking:
            raise cache_error(tracer, cache)
        if self._hidden:
            names = {place.name for place in self._hidden if type(place.owner) is not dict}
            if names - written.names:
                raise UnseenOwner({}, names)
            raise leak_error(tracer, self._hidden[0])
        outer = [
            self.inputs.seen_through(change)
            for change in self.changes
            if id(change.container) in self.guards.containers
        ]
        constants = constants_in(
            tracer.places, self.left, lambda value: self.guards.was_there(value, self._asked)
        )
        numbers = list(written_numbers(tracer.places, self.left))
        replaced = self._replaced(outer)
        old = {id(before): before for before, _ in replaced}
        if covers(written, outer, tracer.places.values(), constants, numbers, old):
            return
        label, key = self._label, self.changes[0].key if self.changes else None
        if constants:
            key = constants[0].key
            label = self.snapshot.label(key)
        place = None if key is None else self.journal.written_at(key)
        advice = remedy_of_items(label, None if constants or not self.changes else self.changes[0])
        refusal = side_effect(name, label, place or at, advice)
        places = tracer.places.values()
        objects = frozenset(id(one) for pair in replaced for one in pair)
        plain = PlainWrites(outer, constants, objects)
        raise RewrittenContainer(plain, places, numbers, old, refusal)

    def _replaced(self, changes: Sequence[ContainerDifference]) -> list[tuple[Any, Any]]:
        """Return (object from outside, the new one that the code has put in its place)."""
        pairs = [(p.original, self.left[key]) for key, p in self.tracer.places.items() if p.written]
        pairs += [(change.before, change.after) for change in changes]
        is_known = self.tracer.is_known
        found = [one for pair in pairs for one in replaced_in(*pair, is_known)]
        return [(before, after) for before, after in found if is_known(before)]

    def require_guards(self) -> None:
        """Raise where the code has reached places that no guard looks at: capture again."""
        accesses = self.journal.reached.accesses
        if accesses:
            raise UnseenOwner({}, (), accesses)

    def _put_unseen(self) -> list[tuple[Any, dict[str, Any]]]:
        """Restore attributes that no guard looks at; return their owners, if these are unseen."""
        reached, owners = self.journal.reached, self.journal.owners
        unseen = self.snapshot.unseen(owners)
        for key, (owner, before) in owners.items():
            if before is not None and self.journal.covers((key, ANY)):
                reached.gained(owner, before)
        for owner, before in unseen:
            put_attributes(owner, before)
        reached.put_back()
        return unseen

    def _refuse_others(self) -> None:
        refuse_unsettled(self.guards, self._others, self.tracer.hosted, self.tracer.called)

    def give_up(self, error: BaseException) -> None:
        """Restore all that is left to restore when the capture ends with ``error``."""
        self.inputs.take_back()
        self._undo_places({found.key for found in self._others})
        if self._others and not isinstance(error, UnsettledPlace):
            if isinstance(error, (Exception, CaptureSignal)):
                self._refuse_others()
            for found in self._others:
                found.undo()
        self._done = self._ended

    def keep(self) -> None:
        """Mark the capture as good: nothing is left to restore."""
        self._done = True

    def undo(self) -> None:
        """Restore whatever an interrupt has left unrestored; calling it twice is harmless.

        It does nothing after the capture has restored everything itself.
        """
        if self.turning is not None:
            self.turning.turn_back()
        if self._done or not self._begun:
            return
        self.inputs.take_back()
        self.journal.undo()
        self._put_unseen()
        for change in () if self.containers is None else self.own_changes():
            change.undo()
        self.inputs.take_back()
        self._undo_places(set())
        self._done = True

    def _undo_places(self, others: set[Key]) -> None:
        """Restore guarded places and cached properties, except the keys in ``others``."""
        differences = self.snapshot.differences(cached=False)
        others |= {found.key for found in differences if not self.is_own(found)}
        for found in self.snapshot.differences(cached=True):
            if found.key not in others:
                found.undo()


def _partition(items: Sequence[Any], test: Callable[[Any], bool]) -> tuple[list[Any], list[Any]]:
    """Return the ``items`` that pass ``test``, and those that do not."""
    parts: tuple[list[Any], list[Any]] = ([], [])
    for item in items:
        parts[not test(item)].append(item)
    return parts
