"""Guards of identities: values that were one object are one again, and two are two.

::

    if state.now is state.first:  # the lists at both places are equal
        ...

Places that have held one object hold one object; where two were compared, they are two still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.core.tree import flatten
from hybrid.errors import CaptureError
from hybrid.trace.guards.snapshot import Snapshot
from hybrid.trace.places.differences import containers_in, tuples_in
from hybrid.trace.places.identities import IdentityQuery, is_atom

Where = int | Callable[[], Any]  # an argument leaf, or a place


@dataclass(frozen=True, slots=True, eq=False)
class IdentityGuard:
    """The guard that two places hold one object, or two; or that one holds a certain object."""

    label: str
    left: Where
    right: Where | None
    expected: Any  # whether they are one, or the id

    def term(self, name: Callable[[str, Any], str]) -> str:
        """Return the expression over ``leaves`` that tests it; ``name`` binds what it refers to."""

        def text(where: Where) -> str:
            return f"leaves[{where}]" if type(where) is int else f"{name('held', where)}()"

        if self.right is None:
            return f"id({text(self.left)}) == {self.expected}"
        return f"{text(self.left)} is {'' if self.expected else 'not '}{text(self.right)}"

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Return whether it is still as it was, for the arguments ``leaves``."""
        left = _read(self.left, leaves)
        if self.right is None:
            return id(left) == self.expected
        return (left is _read(self.right, leaves)) == self.expected


def _read(where: Where, leaves: Sequence[Any]) -> Any:
    return leaves[where] if type(where) is int else where()


def identity_guards(
    queries: Iterable[IdentityQuery], snapshot: Snapshot, leaves: Sequence[Any], arguments: Any
) -> list[IdentityGuard]:
    """Return the guards of ``queries``.

    ``leaves`` are the tensors and plain values of the ``arguments``, as the code has seen these.
    """
    found: dict[tuple[Any, ...], IdentityGuard] = {}
    places: dict[int, list[tuple[str, Where]]] = {}

    def places_of(value: Any) -> list[tuple[str, Where]]:
        if id(value) not in places:
            tensors = [] if is_atom(value) else [i for i, t in enumerate(leaves) if t is value]
            places[id(value)] = [
                *[(f"argument {i}", i) for i in tensors[:1]],
                *snapshot.places_of(value),
            ]
        return places[id(value)]

    def fix(value: Any, label: str, where: Where) -> None:
        made = IdentityGuard(f"which {type(value).__name__} {label} is", where, None, id(value))
        found.setdefault(("id", id(value), label), made)

    for query in queries:
        _refuse_arguments(query, leaves, arguments, places_of)
        left, right = query.left, query.right
        for value in (left, right):
            for label, where in () if value is None else places_of(value):
                if is_atom(value) or right is None:
                    fix(value, label, where)
                elif (first := places_of(value)[0])[1] is not where:
                    what = f"whether {first[0]} is {label}"
                    found.setdefault((what,), IdentityGuard(what, first[1], where, True))
        if right is None or query.is_same or is_atom(left):
            continue
        for (label, where), (other, there) in zip(
            places_of(left)[:1], places_of(right)[:1], strict=False
        ):
            if not (type(where) is int and type(there) is int):  # that is in the key
                what = f"whether {label} is {other}"
                found.setdefault((what,), IdentityGuard(what, where, there, False))
    return list(found.values())


def _refuse_arguments(
    query: IdentityQuery,
    leaves: Sequence[Any],
    arguments: Any,
    places_of: Callable[[Any], list[tuple[str, Where]]],
) -> None:
    """Raise where one of the values is an argument that a key knows by what it holds."""
    left, right = query.left, query.right
    given = [value for value in (left, right) if _is_given(value, leaves, arguments)]
    if not given or (left is right and not is_atom(left)):
        return
    if right is not None:
        both = [v for v in (left, right) if any(v is g for g in given) or places_of(v)]
        if len(both) < 2 or not _may_be_one(left, right):
            return
    kind = type(given[0]).__name__
    asked = "compared by `is`" if right is not None else "asked for its id"
    raise CaptureError(
        f"an argument, a {kind}, was {asked}",
        at=query.at,
        why=f"A plan knows a {kind} among the arguments by what it holds, not by which one it is.",
        fix="compare what they hold (==), or pass a flag or an object of a class beside it",
    )


def _is_given(value: Any, leaves: Sequence[Any], arguments: Any) -> bool:
    if value is None:
        return False
    if is_atom(value):
        return any(leaf is value for leaf in leaves)
    containers = [container for container, _ in containers_in(arguments)]
    return any(part is value for part in (*containers, *tuples_in(arguments)))


def _may_be_one(left: Any, right: Any) -> bool:
    """Return whether keys and guards could take both for one."""
    if is_atom(left):
        return left == right
    return flatten(left)[1] == flatten(right)[1]
