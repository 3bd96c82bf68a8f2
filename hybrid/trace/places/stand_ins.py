"""Track objects made by a merge of two paths, each of which stands for another object.

::

    ys = xs
    if p:
        xs = list(xs)  # from here on xs stands for that list, and for ys
    xs.append(x)  # would change ys where p does not hold

Reading a stand-in is reading what it stands for.  To write to it is refused where the change would
have to be seen elsewhere, for a plan keeps no objects of which a tensor decides which they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.errors import Location, PathObjectError, author_location
from hybrid.trace.places.frames import frames
from hybrid.trace.places.place import reachable


@dataclass(frozen=True, slots=True, eq=False)
class StandIn:
    """An object ``made`` that stands for one of ``places``, chosen by the run at line ``at``.

    Of two places it is the first where the ``flag`` holds, if there is one.
    """

    made: Any
    places: tuple[Any, ...]
    at: Location | None
    flag: Any = None


@dataclass(eq=False, slots=True)
class StandIns:
    """All stand-ins of a capture, by their ids."""

    made: dict[int, StandIn] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)  # ids of those that were

    def add(self, made: Any, places: Sequence[Any], at: Location | None, flag: Any = None) -> None:
        """Note that ``made`` stands for one of ``places``."""
        self.made[id(made)] = StandIn(made, tuple(places), at, flag)

    def chosen(self, is_known: Callable[[Any], bool], met: Container[int]) -> dict[int, StandIn]:
        """Those that may be an object that others are as well, by their ids.

        It is known, ``met`` (its id) where all these are looked for, or what several may be.
        """
        if not self.made:
            return {}
        places = {key: self.places(standing.made) for key, standing in self.made.items()}
        counts = Counter(place for key in places if key in met for place in places[key])
        return {
            key: self.made[key]
            for key, found in places.items()
            if any(
                is_known(place) or (at != key and (at in met or counts[at] > 1))
                for at, place in found.items()
            )
        }

    def will_write(self, owner: Any, is_known: Callable[[Any], bool]) -> None:
        """Raise if a write to ``owner`` would be visible in an object that only the run chooses."""
        if not self.made:
            return
        mine = self.places(owner)
        partners = [s for s in self.made.values() if s.made is not owner]
        partners = [s for s in partners if mine.keys() & self.places(s.made).keys()]
        own = self.made.get(id(owner))
        if own is None and not partners:
            return
        self.written.add(id(owner))
        seen = reachable(frames())
        for standing in partners:
            if id(standing.made) in seen:
                _refuse(owner, standing.at)
        if own is not None:
            if any(id(p) in seen or is_known(p) for p in mine.values() if p is not owner):
                _refuse(owner, own.at)
            del self.made[id(owner)]  # nobody else can see what it stands for

    def refuse_identity(self, left: Any, right: Any, how: str = "`is`") -> None:
        """Raise if it depends on the run whether two objects, compared by ``how``, are one."""
        if left is right or not (id(left) in self.made or id(right) in self.made):
            return
        if self.places(left).keys() & self.places(right).keys():
            standing = self.made.get(id(left)) or self.made[id(right)]
            raise PathObjectError(
                f"two objects ({type(left).__name__}) were compared by {how}, and which of several "
                "they are depends on the value of a tensor",
                at=author_location(),
                why="A plan keeps no objects of which a run decides which they are.",
                fix="compare what they hold, or keep a flag beside them",
                made_at=standing.at,
            )

    def refuse_keys(self, values: Iterable[Any], how: str) -> None:
        """Raise if it depends on the run which objects some ``values`` are that are told apart."""
        for value in values if self.made else ():
            if id(value) in self.made and equals_itself_alone(value):
                kind = type(value).__name__
                raise PathObjectError(
                    f"a {kind} was {how}, and which of several it is depends on the value of a "
                    "tensor",
                    at=author_location(),
                    why="A plan keeps no objects of which a run decides which they are.",
                    fix=f"do so on each path, or give the {kind} a number of its own, and use that",
                    made_at=self.made[id(value)].at,
                )

    def places(self, value: Any) -> dict[int, Any]:
        """The objects that ``value`` may be, by their ids."""
        found: dict[int, Any] = {}
        stack = [value]
        while stack:
            value = stack.pop()
            standing = self.made.get(id(value))
            if standing is None:
                found[id(value)] = value
            else:
                found.update({id(p): p for p in standing.places if p is value})
                stack.extend(p for p in standing.places if p is not value)
        return found


def equals_itself_alone(value: Any) -> bool:
    """Return whether ``value`` equals no other object."""
    return type(value).__eq__ is object.__eq__


def _refuse(owner: Any, at: Location | None) -> None:
    kind = type(owner).__name__
    raise PathObjectError(
        f"a {kind} was changed that is one or another, depending on the value of a tensor",
        at=author_location(),
        why=f"What was bound {'at ' + str(at) if at else 'under a condition'} is a new {kind} on "
        "one path and one that others can see on another, so who sees the change would depend on "
        "the run.",
        fix=f"bind a new {kind} on every path, or change the old one in place on every path",
        made_at=at,
    )
