"""Find traced values in the results of a capture, and in places that outlive it."""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Iterator
from typing import Any

from hybrid.core.tree import stored_items, stored_pairs
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError
from hybrid.ir import Value
from hybrid.ir.record import Leaf
from hybrid.number import Number
from hybrid.number.mixed_number import Mixed
from hybrid.trace.places.attributes import MISSING, attribute_names, stored
from hybrid.trace.places.code_owner import CONTAINERS, content_of, definition, user_object
from hybrid.trace.places.journal import LoggedPlace
from hybrid.trace.places.place import key_of, label_of, read_place
from hybrid.trace.regions.tracer import Tracer
from hybrid.trace.values.optional import OptionalValue
from hybrid.trace.values.varlist import VarList


def path_to_traced(value: Any, seen: set[int], arguments: Collection[int]) -> str | None:
    """Return the path in ``value`` to a traced tensor or an argument; None if there is none."""
    if isinstance(value, Tensor):
        return "" if type(value.content) is Value or id(value) in arguments else None
    if type(value) in (Number, Mixed, OptionalValue, VarList):
        return ""
    if id(value) in seen or isinstance(value, (type, types.ModuleType)):
        return None
    seen.add(id(value))
    for step, part in _parts(value):
        path = path_to_traced(part, seen, arguments)
        if path is not None:
            return step + path
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the (path, value) pairs of what ``value`` holds."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in stored_pairs(value))
    elif isinstance(value, CONTAINERS):
        yield from ((f"[{i}]", item) for i, item in enumerate(stored_items(value)))
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((f"its variable {name}", content_of(cell)) for name, cell in cells)
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".args[{i}]", item) for i, item in enumerate(value.args))
        yield from ((f".keywords[{name!r}]", item) for name, item in value.keywords.items())
    names = attribute_names(value) if user_object(value) else ()
    yield from ((f".{name}", stored(value, name)) for name in sorted(names))


def leaked_places(tracer: Tracer) -> Iterator[LoggedPlace]:
    """Yield the places that outlive a capture and hold a traced value after its writes were undone.

    This is one walk over the log of what the capture has written, not over what there is.
    """
    known = tracer.known
    for key, (owner, before) in tracer.journal.owners.items():
        if key in known and before is not None:
            for name, value in list(vars(owner).items()):
                original = before.get(name, MISSING)
                if value is not original and path_to_traced(value, set(), ()) is not None:
                    yield LoggedPlace(
                        owner=owner,
                        name=name,
                        original=original,
                        read=False,
                        written=True,
                        label=label_of(owner, name),
                    )
    for (key, name), (owner, original) in tracer.journal.variables.items():
        value = read_place(owner, name)
        outlives = key in known or type(owner) is dict
        if outlives and value is not original and path_to_traced(value, set(), ()) is not None:
            yield LoggedPlace(
                owner=owner,
                name=name,
                original=original,
                read=False,
                written=True,
                label=label_of(owner, name),
            )
    for place in tracer.places.values():
        if isinstance(place.owner, Leaf):
            value = place.content()
            if value is not place.original and path_to_traced(value, set(), ()) is not None:
                yield place


def undo_leaks(tracer: Tracer) -> list[LoggedPlace]:
    """Restore each place that holds a traced value after the capture, and return these places."""
    found = list(leaked_places(tracer))
    for place in found:
        place.undo()
    return found


def leak_error(tracer: Tracer, place: LoggedPlace) -> CaptureError:
    """Return the error for a traced value in a ``place`` that no guard could have covered."""
    return CaptureError(
        f"{tracer.builder.name} left a traced value in {place.label}",
        at=tracer.journal.written_at(key_of(place.owner, place.name)),
        why="It stands for a value of the graph only, and the plan does not know that it writes "
        "there.  What was there before has been put back.",
        fix="return the value and store it outside the hybridized function",
    )


def cache_error(tracer: Tracer, cache: Any) -> CaptureError:
    """Return the error for a traced value in the cache of a function."""
    return CaptureError(
        f"{tracer.builder.name} left a traced value in the cache of {cache.__name__}",
        at=definition(cache.__wrapped__),
        why="It stands for a value of the graph only, and the cache would hand it to all code.  "
        "The cache has been cleared.",
        fix=f"call what it wraps, {cache.__name__}.__wrapped__(...), or call it once before",
    )
