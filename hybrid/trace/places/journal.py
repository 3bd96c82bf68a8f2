"""The journal of a capture: an ordered log of the places that its code writes, with marks.

The tracer of a capture and that of each region in it begin at a mark.  Whatever their code is about
to write is announced and logged first, with what is there: so all that came after a mark can be put
back (``Mark.undo``), and the log tells what a branch, a loop or the whole capture has left where.
What nobody announces is found by comparing (see differences.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.errors import CaptureError, Location, author_location
from hybrid.ir.record import Record
from hybrid.trace.places.accesses import ReachedPlaces
from hybrid.trace.places.code_owner import MISSING
from hybrid.trace.places.identities import Identities
from hybrid.trace.places.memos import Memo
from hybrid.trace.places.place import (
    ANY,
    CONTENT,
    Key,
    attributes_of,
    is_own,
    label_of,
    read_place,
    write_place,
)


@dataclass(eq=False, slots=True)
class LoggedPlace:
    """A place in the log: its owner, its name, its original value, and how it was used."""

    owner: Any
    name: str  # of the attribute or, of a namespace (a dict), the global; or CONTENT
    original: Any  # what was there at the mark
    read: bool = False  # whether that was looked at, as far as it is known
    written: bool = False
    label: str = ""  # what messages call it
    own: bool = True  # whether the owner itself has it, not only its class
    reads: int = 0  # how often ``read_attribute`` has asked for it

    @staticmethod
    def as_is(owner: Any, name: str) -> LoggedPlace:
        """Return an entry for a place that has not been written yet."""
        original = read_place(owner, name)
        return LoggedPlace(
            owner=owner,
            name=name,
            original=original,
            label=label_of(owner, name),
            own=is_own(owner, name),
        )

    @property
    def key(self) -> Key:
        """The key of the place: id of the owner, and name."""
        return id(self.owner), self.name

    @property
    def is_of_class(self) -> bool:
        """Whether it is the attribute of a class that stood there: a write hides that one."""
        return not self.own and self.original is not MISSING

    def use(self, *, read: bool, written: bool) -> None:
        """Note a read or write; a read after a write does not count as a read of the original."""
        whole = self.name != CONTENT  # else a write may have left a part of it as it was
        self.read = self.read or (read and not (whole and self.written))
        self.written = self.written or written

    def content(self) -> Any:
        """Return the value of the place now; of a container, a copy."""
        return read_place(self.owner, self.name)

    def put(self, value: Any) -> None:
        """Write ``value`` at the place."""
        write_place(self.owner, self.name, value)

    def undo(self) -> None:
        """Write the original value at the place."""
        self.put(self.original if self.own else MISSING)


@dataclass(eq=False, slots=True)
class Mark:
    """A point in the journal, with the places that were logged after it."""

    places: dict[Key, LoggedPlace] = field(default_factory=dict)
    opened: dict[int, Any] = field(default_factory=dict)  # objects that may get any attribute
    # Older records that backward() has freed since, as they were.
    freed: dict[Record, tuple[Any, ...]] = field(default_factory=dict)

    def add(self, place: LoggedPlace) -> LoggedPlace:
        """Add an entry to the log after this mark, and return it."""
        self.places[place.key] = place
        return place

    def open(self, owner: Any) -> None:
        """Log all attributes of ``owner``, since any of them may be written."""
        self.opened[id(owner)] = owner
        for name in attributes_of(owner):
            place = self.places.get((id(owner), name)) or self.add(LoggedPlace.as_is(owner, name))
            place.use(read=True, written=True)

    def keep(self, record: Record) -> None:
        """Note what ``record``, which is older than the mark, holds before it is freed."""
        self.freed[record] = record.saved, record.results, record.parents

    def undo(self) -> dict[Key, Any]:
        """Restore the original value of every logged place, and return what each held, by key."""
        for record, (saved, results, parents) in self.freed.items():
            record.saved, record.results, record.parents = saved, results, parents
        for key, owner in self.opened.items():
            for name in attributes_of(owner):
                if (key, name) not in self.places:  # new
                    label = label_of(owner, name)
                    self.add(
                        LoggedPlace(
                            owner=owner,
                            name=name,
                            original=MISSING,
                            read=True,
                            written=True,
                            label=label,
                        )
                    )
        left = {}
        for key, place in self.places.items():
            left[key] = place.content()
            if place.written:
                place.undo()
        return left

    def redo(self, left: dict[Key, Any]) -> None:
        """Write the values that ``undo`` has returned."""
        for key, value in left.items():
            self.places[key].put(value)


class Journal:
    """The log of all places that the code of one capture and of its regions writes."""

    def __init__(self) -> None:
        # Places that this thread writes, and where the author does so first.
        self.announced: dict[Key, Location | None] = {}
        # The owners of attributes among them, by their ids, and what these held before.
        self.owners: dict[int, tuple[Any, dict[str, Any] | None]] = {}
        # The variables among them (of enclosing functions, and globals), with what these held.
        self.variables: dict[Key, tuple[Any, Any]] = {}
        self.marks: list[Mark] = []  # of the capture and its regions, as these began
        self.watches: list[Mark] = []  # that get every place that is written meanwhile
        self.reached = ReachedPlaces()
        self.identities = Identities()
        self.memos: list[Memo] = []
        self.supplied: list[Any] = []  # loaders that loops go over, in the order of the loops
        # Attributes that hide those of a class on some paths only, and where the paths meet.
        self.half_written: dict[Key, tuple[LoggedPlace, Location | None]] = {}
        self.given_tuples: set[int] = set()  # ids of named tuples made of the arguments

    def mark(self) -> Mark:
        """Add a mark at the end of the log, and return it."""
        made = Mark()
        self.marks.append(made)
        return made

    @contextmanager
    def watched(self) -> Iterator[Mark]:
        """Log the places that are written in the context, whoever made their owners."""
        watch = Mark()
        self.watches.append(watch)
        try:
            yield watch
        finally:
            self.watches.remove(watch)

    def will_write(self, owner: Any, name: str) -> None:
        """Tell all that watch: a place (with ANY all of an owner) is about to be written."""
        for watch in self.watches:
            if name == ANY:
                watch.open(owner)
            elif (id(owner), name) not in watch.places:
                watch.add(LoggedPlace.as_is(owner, name))

    def announce(self, key: Key) -> None:
        """Note that the place of ``key`` is about to be written."""
        if key not in self.announced:
            self.announced[key] = author_location()

    def note_half_written(self, place: LoggedPlace, at: Location | None) -> None:
        """Note that some paths alone write ``place``, if a write hides what a class has."""
        if place.is_of_class:
            self.half_written.setdefault(place.key, (place, at))

    def refuse_half_written(self, owner: Any) -> None:
        """Raise if whether ``owner`` itself has an attribute depends on the path of the run."""
        for place, at in self.half_written.values():
            if place.owner is owner and not self.held(owner, place.name):
                kind = type(owner).__name__
                raise CaptureError(
                    f"{place.label} is set on one path only, and is that of the class on others",
                    at=at,
                    why=f"Whether the {kind} object itself has it would depend on the value of a "
                    "tensor.",
                    fix=f"give the object itself the attribute {place.name} before the call",
                )

    def announce_owner(self, owner: Any) -> None:
        """Note that attributes of ``owner`` are about to be written."""
        if id(owner) not in self.owners:
            own = getattr(owner, "__dict__", None)
            self.owners[id(owner)] = owner, None if own is None else dict(own)

    def announce_variable(self, owner: Any, name: str) -> None:
        """Note that a variable of an enclosing function, or a global, is about to be written."""
        key = id(owner), name
        self.announce(key)
        self.will_write(owner, name)
        if key not in self.variables:
            self.variables[key] = owner, read_place(owner, name)
            if name == "cell_contents":
                self.reached.variable(owner, self.variables[key][1])

    def held(self, owner: Any, name: str) -> bool:
        """Return whether ``owner`` itself, not its class, held what was there before a write."""
        if name == "__class__":  # which every object has
            return True
        _, before = self.owners.get(id(owner), (owner, None))
        return before is None or name in before or not hasattr(type(owner), name)

    def gave_up(self, owner: Any, name: str) -> bool:
        """Return whether ``owner`` itself had the attribute before a write, and no longer has."""
        _, before = self.owners.get(id(owner), (owner, None))
        return before is not None and name in before and name not in vars(owner)

    def covers(self, key: Key) -> bool:
        """Return whether a write to the place of ``key`` was announced."""
        return key in self.announced or (key[0], ANY) in self.announced

    def written_at(self, key: Key) -> Location | None:
        """Return the author's line that first writes the place; None if not announced."""
        return self.announced.get(key) or self.announced.get((key[0], ANY))

    def undo(self) -> None:
        """Restore the original values after every mark, from the newest mark to the oldest."""
        for mark in reversed(self.marks):
            mark.undo()
