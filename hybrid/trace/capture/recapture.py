"""Recapture: capture a function again, as often as what it does asks for, in one bounded loop.

What a capture writes, which numbers have to be known, whose work a change is: some of that shows
only while it is traced.  It ends with an exception then, and ``REASONS`` has a row for each: what
the next attempt is to be told, and how often that may happen.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from hybrid.core.dataclass import dataclass, field
from hybrid.core.timing import phase
from hybrid.core.tree import flatten
from hybrid.errors import CaptureError, NeedsValue
from hybrid.trace.capture.side_effects import PlainWrites, held_tensors, numbers_in
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.matching import Written
from hybrid.trace.guards.reads import Reads
from hybrid.trace.places.address import Address
from hybrid.trace.places.code_owner import ATOMS, Place
from hybrid.trace.places.differences import ContainerDifference, PlaceDifference
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import Key
from hybrid.trace.regions.ties import Unfollowed

if TYPE_CHECKING:
    from hybrid.trace.capture.captured_graph import Capture

LIMIT = 32  # captures for one plan, for all reasons together
DISTURBANCES = 8  # of those that others may disturb, before all that moves counts as its own


class UnsettledPlace(Exception):
    """A capture cannot tell its own doing from that of others: it has to be made again.

    Places have changed that nobody has announced to write: it may have been another thread, whose
    work must stand, or library code.  The latter does the same every time.
    """

    def __init__(
        self,
        moved: Sequence[ContainerDifference | PlaceDifference],
        hosted: Collection[Place],
        called: Collection[Place],
    ) -> None:
        super().__init__()
        self.moved = [m.taken() for m in moved]
        self.hosted, self.called = hosted, called

    def claims(self, before: Sequence[UnsettledPlace]) -> set[Key]:
        """What the next capture is to take for its own, given those ``before`` this one."""
        if len(before) == DISTURBANCES:
            return {m.key for m in self.moved}
        known = {m.key: _seen(m.after) for found in before for m in found.moved}
        return {m.key for m in self.moved if m.key in known and known[m.key] == _seen(m.after)}

    def redo(self, claimed: Collection[Key]) -> None:
        """Put again what turned out to be the work of others: all that is not ``claimed``."""
        for m in self.moved:
            if m.key not in claimed:
                m.redo()


def _seen(value: Any) -> Any:
    """What can be compared of ``value`` as two captures leave it."""
    leaves, structure = flatten(value)
    return structure, [(type(v), repr(v) if isinstance(v, ATOMS) else None) for v in leaves]


def refuse_unsettled(
    guards: Guards,
    moved: Sequence[ContainerDifference | PlaceDifference],
    hosted: set[Place],
    called: set[Place],
) -> None:
    """Raise if ``moved`` may be the work of others, or if the reads are more than need be.

    They are if functions that, as has turned out, the plan is to call were looked into.
    """
    reads = guards.reads
    late = frozenset(hosted - called)
    fewer = reads.without(late) if late - reads.hosted else None
    if fewer is not None:
        left = fewer.keys()
        moved = [m for m in moved if m.key in left]
    if moved or fewer is not None or reads.hosted & called:
        raise UnsettledPlace(moved, hosted, called)


class UnseenOwner(Exception):
    """A capture sets attributes of objects, or of names, that its guards do not know of."""

    def __init__(self, owners: dict[int, Any], names: Collection[str] = ()) -> None:
        super().__init__()
        self.owners, self.names = owners, set(names)


class RewrittenContainer(Exception):
    """A capture writes containers that its guards do not know of: it has to be made again.

    ``refusal`` is what to raise if each call would change plain values once more.
    """

    def __init__(
        self, writes: PlainWrites, places: Iterable[LoggedPlace], refusal: CaptureError
    ) -> None:
        super().__init__()
        self.writes, self.refusal = writes, refusal
        self.places = [place for place in places if held_tensors(place)]


@dataclass
class Hosts:
    """Functions that a plan calls: what they alone use is no matter of the capture."""

    hosted: set[Place] = field(default_factory=set)
    called: set[Place] = field(default_factory=set)  # by the author's code too

    @property
    def places(self) -> frozenset[Place]:
        return frozenset(self.hosted - self.called)


@dataclass
class Attempt:
    """What the next capture of a function is told: all that earlier ones have found out."""

    free: Sequence[Address] = ()  # places of numbers that are inputs
    written: Written = field(default_factory=Written)
    hosts: Hosts = field(default_factory=Hosts)
    needed: NeedsValue | None = None  # why loops over Python ranges are unrolled
    follows: bool = False  # whether flags say which tensors are one
    disturbed: list[UnsettledPlace] = field(default_factory=list)  # since something else was found
    reasons: list[str] = field(default_factory=list)  # to capture again, in their order

    def __post_init__(self) -> None:
        for address in self.free:
            self.written.free(address)

    @property
    def unrolls(self) -> bool:
        return self.needed is not None

    def begin_anew(self) -> None:
        """Let the next capture trace another graph: what this one writes is found once more."""
        self.hosts = Hosts()
        self.written = Written()
        self.__post_init__()

    def let_stand(self) -> None:
        """Put again what others have done during captures that were given up."""
        for found in reversed(self.disturbed):  # what is newest comes last, or stands
            found.redo(self.written.claimed)
        self.disturbed = []

    def trial(self) -> Attempt:
        """The first attempt of a call that follows: nothing it may write is known."""
        written = self.written
        known = Written(claimed=written.claimed, owners=written.owners, names=written.names)
        return Attempt(written=known, hosts=self.hosts, needed=self.needed, follows=self.follows)


Once = Callable[[Reads, Guards, Attempt], "Capture"]


class Reason(NamedTuple):
    """Why a capture is made again: what ends it, what that is called, what the next one is told."""

    error: type[BaseException]
    name: str
    limit: int  # how often it can be one for a plan
    note: Callable[[Attempt, Any, Callable[[Attempt], Capture]], None]
    anew: bool = True  # whether what others have done meanwhile is put again before


def _need_value(attempt: Attempt, found: NeedsValue, _: Any) -> None:
    """Of a number that is traced as a loop is one node?  Then its loops are unrolled."""
    attempt.needed = found
    attempt.begin_anew()


def _follow(attempt: Attempt, _found: Unfollowed, _: Any) -> None:
    attempt.follows = True
    attempt.begin_anew()


def _watch(attempt: Attempt, found: UnseenOwner, _: Any) -> None:
    attempt.written.owners |= found.owners
    attempt.written.names |= found.names


def _claim(attempt: Attempt, found: UnsettledPlace, _: Any) -> None:
    attempt.hosts.hosted.update(found.hosted)
    attempt.hosts.called.update(found.called)
    attempt.written.claimed |= found.claims(attempt.disturbed)
    attempt.disturbed.append(found)


def _take_as_inputs(
    attempt: Attempt, found: RewrittenContainer, capture: Callable[[Attempt], Capture]
) -> None:
    """Let guards know what is written; refuse plain values that each call would change once more.

    Those that a call sets to what it has set them to before are fine.  Which of the two it is shows
    when the function is captured once more from where the first call has left it.
    """
    writes, written = found.writes, attempt.written
    if writes.may_count:

        def capture_again() -> None:
            try:
                capture(attempt.trial())
            except RewrittenContainer as second:
                if second.writes.may_count:
                    raise found.refusal from None
            except CaptureError:
                raise found.refusal from None

        writes.in_force(capture_again)
    written.containers.update((id(c.container), c.container) for c in writes.changes)
    written.places.update((id(place.owner), place.name) for place in found.places)
    written.constants.update(constant.key for constant in writes.constants)
    for change in writes.changes:
        for place in numbers_in(change):
            written.free(place)


REASONS = (
    Reason(NeedsValue, "a number has to be known", 1, _need_value),
    Reason(Unfollowed, "which tensors are one has to be known", 1, _follow),
    Reason(UnseenOwner, "it sets attributes that no code leads to", LIMIT, _watch, anew=False),
    Reason(UnsettledPlace, "others may have changed a place", LIMIT, _claim, anew=False),
    Reason(RewrittenContainer, "it writes containers", LIMIT, _take_as_inputs),
)
_WITHIN_A_TRIAL = tuple(reason for reason in REASONS if not reason.anew)


def recaptured(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    configured: Callable[[Any], bool],
    once: Once,
    free: Iterable[Address] = (),
) -> Capture:
    """The capture that ``once`` makes of ``function`` for arguments of ``leaves``.

    The numbers at ``free`` are inputs.  An exception of the function's, and a capture that is
    refused, end it; so do more than ``LIMIT`` captures.
    """

    def tried(attempt: Attempt) -> Capture:
        with undisturbed(len(attempt.disturbed) > 1):
            with phase("read"):
                reads = Reads(function, list(leaves), attempt.hosts.places, attempt.written)
                guards = Guards(reads, configured, attempt.written)
            with phase("trace"):
                return once(reads, guards, attempt)

    def repeated(attempt: Attempt, reasons: Sequence[Reason]) -> Capture:
        errors = tuple(reason.error for reason in reasons)
        try:
            while True:
                try:
                    return tried(attempt)
                except errors as found:
                    reason = next(r for r in reasons if isinstance(found, r.error))
                    if attempt.reasons.count(reason.name) == reason.limit:
                        raise
                    if len(attempt.reasons) + 1 >= LIMIT:
                        raise _refusal(function, attempt.reasons) from None
                    if reason.anew:
                        attempt.let_stand()
                    attempt.reasons.append(reason.name)
                    reason.note(attempt, found, lambda trial: repeated(trial, _WITHIN_A_TRIAL))
        finally:
            attempt.let_stand()

    attempt = Attempt(free=tuple(free))
    made = repeated(attempt, REASONS)
    made.recaptured = tuple(attempt.reasons)
    if attempt.needed is not None:
        needed = attempt.needed
        made.notes.append((needed.at, f"loops over ranges are unrolled: {needed.what}"))
    return made


def _refusal(function: Callable[..., Any], reasons: Sequence[str]) -> CaptureError:
    """What is raised of a function that each capture would have to be told more of."""
    name = getattr(function, "__name__", type(function).__name__)
    return CaptureError(
        f"{name} was captured {LIMIT} times, and no capture came to an end",
        why=f"Each time {reasons[-1]}, and others than the time before.",
        fix="keep what it writes in objects, and under names, that are the same at each call",
    )


@contextmanager
def undisturbed(wanted: bool) -> Iterator[None]:
    """Let Python not change threads as long as this one runs, if that is ``wanted``."""
    before = sys.getswitchinterval()
    try:
        if wanted:
            sys.setswitchinterval(1.0)  # seconds
        yield
    finally:
        if wanted:
            sys.setswitchinterval(before)


@contextmanager
def uncollected() -> Iterator[None]:
    """Have Python look for unreachable cycles afterwards.

    A capture makes many objects, most of which stay: each look would go over all that there are.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
