"""Capture a function again, in one bounded loop, until a capture knows all that it needs.

What a capture writes, which numbers have to be known, whose work a change is: some of that shows
only while it is traced.  It ends with an exception then, and ``REASONS`` has a row for each: what
the next attempt is to be told, and how often that may happen.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hybrid.core.dataclass import dataclass, field
from hybrid.core.exceptions import CaptureSignal
from hybrid.core.timing import phase
from hybrid.core.tree import flatten_once
from hybrid.eager.thread_state import ending
from hybrid.errors import CaptureError, NeedsValue, PathError, PathObjectError
from hybrid.ir.interpreter import current
from hybrid.trace.capture.side_effects import PlainWrites, held_tensors, numbers_in
from hybrid.trace.guards.conditions import Guards
from hybrid.trace.guards.matching import Written
from hybrid.trace.guards.reads import Reads
from hybrid.trace.places.accesses import Accesses
from hybrid.trace.places.address import GIVEN, Address, ArgumentLeaf, HeldObject
from hybrid.trace.places.code_owner import ATOMS, Place
from hybrid.trace.places.differences import ContainerDifference, Difference, PlaceDifference
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import Key, refuse_diverged
from hybrid.trace.regions.ties import Unfollowed
from hybrid.trace.regions.value_symbols import NeedsSizes, Paths, site_key

if TYPE_CHECKING:
    from hybrid.trace.capture.captured_graph import Capture

R = TypeVar("R")
DEPTH = 6  # as many calls within each other may take place in a capture as in eager code
LIMIT = 32  # captures for one plan, for all reasons together
DISTURBANCES = 8  # of those that others may disturb, before all that moves counts as its own


class UnsettledPlace(CaptureSignal):
    """Raised where guarded places have changed, perhaps by another thread: capture once more.

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
        """Return the keys that the next capture takes for its own, after errors ``before``."""
        if len(before) == DISTURBANCES:
            return {m.key for m in self.moved}
        known = {m.key: _seen(m.after) for found in before for m in found.moved}
        return {m.key for m in self.moved if m.key in known and known[m.key] == _seen(m.after)}

    def redo(self, claimed: Collection[Key]) -> None:
        """Restore the changes that were the work of others: all that are not ``claimed``."""
        for m in self.moved:
            if m.key not in claimed:
                m.redo()


def _seen(value: Any) -> Any:
    """Return what two captures that leave the same ``value`` have in common, for a comparison."""
    leaves, structure = flatten_once(value)
    return structure, [(type(v), repr(v) if isinstance(v, ATOMS) else None) for v in leaves]


def refuse_unsettled(
    guards: Guards,
    moved: Sequence[ContainerDifference | PlaceDifference],
    hosted: set[Place],
    called: set[Place],
) -> None:
    """Raise UnsettledPlace if differences may be the work of others, or reads are superfluous.

    Reads are superfluous if they come from functions that, as it turned out, the plan calls.
    """
    reads = guards.reads
    late = frozenset(hosted - called)
    fewer = reads.without(late) if late - reads.hosted else None
    if fewer is not None:
        left = fewer.keys()
        moved = [m for m in moved if m.key in left]
    if moved or fewer is not None or reads.hosted & called:
        raise UnsettledPlace(moved, hosted, called)


class UnseenOwner(CaptureSignal):
    """Raised where a capture reads or sets places that it has no guards for.

    These are attributes of objects, or of names, to which no code leads, and ``accesses``.
    """

    def __init__(
        self,
        owners: dict[int, Any],
        names: Collection[str] = (),
        accesses: Accesses | None = None,
    ) -> None:
        super().__init__()
        self.owners, self.names = owners, set(names)
        self.accesses = accesses or Accesses()


class RewrittenContainer(CaptureSignal):
    """Raised where a capture writes places of which its guards do not know.

    Those are containers, constants, ``numbers`` that only a run knows, in attributes and
    variables, and places of ``replaced`` objects (by their ids).  ``refusal`` is what to raise if
    each call would change plain values once more.
    """

    def __init__(
        self,
        writes: PlainWrites,
        places: Iterable[LoggedPlace],
        numbers: Sequence[Address],
        replaced: Mapping[int, Any],
        refusal: CaptureError,
    ) -> None:
        super().__init__()
        self.writes, self.numbers, self.refusal = writes, numbers, refusal
        self.replaced = replaced
        self.places = [place for place in places if held_tensors(place)]


@dataclass
class Hosts:
    """The functions that the plan calls by ``py_call``, whose reads need no guards."""

    hosted: set[Place] = field(default_factory=set)
    called: set[Place] = field(default_factory=set)  # by the author's code too

    @property
    def places(self) -> frozenset[Place]:
        """Where the functions are written that are called by the plan alone."""
        return frozenset(self.hosted - self.called)


@dataclass
class Attempt:
    """The options of the next capture of a function, collected from earlier captures."""

    free: Sequence[Address] = ()  # places of numbers that are inputs
    opened: Sequence[Address] = ()  # places of tensors that have open axes
    written: Written = field(default_factory=Written)
    hosts: Hosts = field(default_factory=Hosts)
    needed: NeedsValue | None = None  # why loops over Python ranges are unrolled
    known: bool = False  # whether numbers that it writes are guarded, for their values are needed
    follows: bool = False  # whether flags say which tensors are one
    paths: Paths = field(default_factory=Paths)
    disturbed: list[UnsettledPlace] = field(default_factory=list)  # since something else was found
    put_off: list[Difference] = field(default_factory=list)  # that were claimed meanwhile
    reasons: list[str] = field(default_factory=list)  # to capture again, in their order

    def __post_init__(self) -> None:
        self.written.known = self.known
        for address in self.free:
            self.written.free(address)
        self.written.opened.update([address.key for address in self.opened])

    @property
    def unrolls(self) -> bool:
        """Whether loops over Python ranges are traced iteration by iteration."""
        return self.needed is not None

    def begin_anew(self) -> None:
        """Forget what was written, for the next capture traces another graph."""
        self.hosts = Hosts()
        self.written = Written(accesses=self.written.accesses)
        self.__post_init__()

    def let_stand(self) -> None:
        """Restore what other threads have changed during captures that were given up.

        What is claimed is put off: the last capture shows whether it is the work of others.
        """
        claimed = self.written.claimed
        for found in reversed(self.disturbed):  # what is newest comes last, or stands
            found.redo(claimed)
        self.put_off += [m for found in self.disturbed for m in found.moved if m.key in claimed]
        self.disturbed = []

    def end(self) -> None:
        """Restore all that others have changed."""
        self.let_stand()
        for moved in reversed(self.put_off):
            if moved.key not in self.written.claimed:
                moved.redo()
        self.put_off = []

    def disclaim(self, made: Capture) -> None:
        """Claim no place of which it turned out that ``made`` does not write it."""
        owners = [write.address.owner for write in made.place_writes]
        if not any(o is GIVEN or type(o) in (ArgumentLeaf, HeldObject) for o in owners):
            written = set(map(id, owners))
            self.written.claimed = {key for key in self.written.claimed if key[0] in written}

    def trial(self) -> Attempt:
        """Return an Attempt for a later call, with no knowledge of written containers."""
        written = self.written
        known = Written(
            claimed=written.claimed, owners=written.owners, names=written.names,
            accesses=written.accesses,
        )  # fmt: skip
        return Attempt(
            written=known, hosts=self.hosts, needed=self.needed, known=self.known,
            follows=self.follows, paths=self.paths, opened=self.opened,
        )  # fmt: skip


Once = Callable[[Reads, Guards, Attempt], "Capture"]


class Reason(NamedTuple):
    """Why a capture is made again: the exception, its name, its limit, the option to set."""

    error: type[BaseException]
    name: str
    limit: int  # how often it can be one for a plan
    note: Callable[[Attempt, Any, Callable[[Attempt], Capture]], None]
    anew: bool = True  # whether what others have done meanwhile is put again before


def _need_value(attempt: Attempt, found: NeedsValue, _: Any) -> None:
    """Unroll loops, since Python needs the value of a number that a loop node would hide.

    If that is not enough it may be one that an earlier call has left: it is a constant then.
    """
    if attempt.needed is not None:
        if not attempt.written.numbers.keys() - {place.stored().key for place in attempt.free}:
            raise found
        attempt.known = True
    attempt.needed = found
    attempt.begin_anew()


def _follow(attempt: Attempt, _found: Unfollowed, _: Any) -> None:
    """Let flags say which tensors are one, since a write or comparison depends on it."""
    attempt.follows = True
    attempt.begin_anew()


def _size(attempt: Attempt, _found: NeedsSizes, _: Any) -> None:
    """Have symbols for sizes that depend on values."""
    attempt.paths.sized = True
    attempt.begin_anew()


def _decide(attempt: Attempt, found: PathError, _: Any) -> None:
    """Capture each path through a construct by itself, since sizes or objects differ."""
    if isinstance(found, PathObjectError):
        attempt.paths.objects.append(found)
    made = "" if found.made_at is None else str(found.made_at)
    if made and made not in attempt.paths.made:
        attempt.paths.made.add(made)
        attempt.begin_anew()
        return
    if found.site is None:
        raise found
    attempt.paths.decided.add(site_key(found.site))
    attempt.begin_anew()


def _watch(attempt: Attempt, found: UnseenOwner, _: Any) -> None:
    """Guard the attributes of owners and names that the last capture did not know of."""
    attempt.written.owners |= found.owners
    attempt.written.names |= found.names
    attempt.written.accesses.update(found.accesses)


def _claim(attempt: Attempt, found: UnsettledPlace, _: Any) -> None:
    """Note functions that the plan calls, and places that the next capture takes for its own."""
    attempt.hosts.hosted.update(found.hosted)
    attempt.hosts.called.update(found.called)
    attempt.written.claimed |= found.claims(attempt.disturbed)
    attempt.disturbed.append(found)


def _take_as_inputs(
    attempt: Attempt, found: RewrittenContainer, capture: Callable[[Attempt], Capture]
) -> None:
    """Let guards know what is written; raise if each call would write other plain values.

    Values that each call sets alike are no obstacle.  To tell, the function is captured once more
    from the state that the first call has left.
    """
    writes, written = found.writes, attempt.written
    for change in writes.changes:
        refuse_diverged(change.after)
    attempt.put_off += [change for change in writes.changes if change.key in written.claimed]
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
    written.replaced.update(found.replaced)
    inner = [place for change in writes.changes for place in numbers_in(change)]
    for place in () if written.known else (*found.numbers, *inner):
        written.free(place)


REASONS = (
    Reason(NeedsValue, "a number has to be known", 2, _need_value),
    Reason(Unfollowed, "which tensors are one has to be known", 1, _follow),
    Reason(PathError, "sizes or objects differ between paths", LIMIT // 2, _decide),
    Reason(NeedsSizes, "a size depends on values", 1, _size),
    Reason(
        UnseenOwner, "it reads or sets attributes that no code leads to", LIMIT, _watch, anew=False
    ),
    Reason(UnsettledPlace, "others may have changed a place", LIMIT, _claim, anew=False),
    Reason(RewrittenContainer, "it writes containers", LIMIT, _take_as_inputs),
)
_WITHIN_A_TRIAL = tuple(reason for reason in REASONS if reason.error is not RewrittenContainer)


def recaptured(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    configured: Callable[[Any], bool],
    once: Once,
    free: Iterable[Address] = (),
    opened: Iterable[Address] = (),
    paths: Paths | None = None,
) -> Capture:
    """Return the Capture of ``function`` that ``once`` makes, called until nothing is missing.

    The numbers at ``free`` are inputs, the tensors at ``opened`` have open axes; ``paths`` are what
    captures before have found out.  An exception of the function's, and a capture that is refused,
    end it; so do more than ``LIMIT`` captures.
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
                    made = tried(attempt)
                    attempt.disclaim(made)
                    return made
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
            attempt.end()

    attempt = Attempt(free=tuple(free), opened=tuple(opened), paths=paths or Paths())
    made = repeated(attempt, REASONS)
    made.recaptured = tuple(attempt.reasons)
    if attempt.needed is not None:
        needed = attempt.needed
        made.notes.append((needed.at, f"loops over ranges are unrolled: {needed.what}"))
    return made


def _refusal(function: Callable[..., Any], reasons: Sequence[str]) -> CaptureError:
    """Return the error for a function whose captures never come to an end."""
    name = getattr(function, "__name__", type(function).__name__)
    return CaptureError(
        f"{name} was captured {LIMIT} times, and no capture came to an end",
        why=f"Each time {reasons[-1]}, and others than the time before.",
        fix="keep what it writes in objects, and under names, that are the same at each call",
    )


@contextmanager
def undisturbed(wanted: bool) -> Iterator[None]:
    """Keep the interpreter from switching threads inside the block, if ``wanted``."""
    before = sys.getswitchinterval()
    try:
        if wanted:
            sys.setswitchinterval(1.0)  # seconds
        yield
    finally:
        if wanted:
            sys.setswitchinterval(before)


def deeper(call: Callable[[], R]) -> R:
    """Return ``call()``, in which Python may call more deeply.

    A capture takes some calls for each of the author's, and walks what these are given.
    """
    if current().traces:  # in another capture
        return call()
    before = sys.getrecursionlimit()

    def deep() -> R:
        sys.setrecursionlimit(DEPTH * before)
        return call()

    return ending(deep, functools.partial(sys.setrecursionlimit, before))


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the cyclic garbage collector off inside the block.

    A capture or binding makes many objects, most of which stay: each collection would scan them all
    in vain.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
