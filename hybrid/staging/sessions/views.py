"""Predicates of traced values, and views of containers of which only a run knows all."""

from __future__ import annotations

import operator
import types
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid.convert.runtime import Site, hyb__
from hybrid.core.tree import flatten
from hybrid.eager.progress import unwrapped
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, NeedsValue, PathError, TracedBoolError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.number import Number
from hybrid.staging.sessions.namespaces import namespace_of
from hybrid.trace.places.code_owner import is_library
from hybrid.trace.regions.region import truth
from hybrid.trace.values.optional import OptionalValue, is_optional, refuse_missing, refuse_unknown
from hybrid.trace.values.varlist import VarList, holds_varlist, refuse_varlist

CONTAINERS = (list, dict, set, deque, bytearray)
LOOKED_INTO = (*CONTAINERS, tuple)
HOLDERS = (UserDict, UserList, ChainMap)


def is_traced(value: Any) -> bool:
    """Whether the truth of ``value`` is unknown while a function is captured."""
    if not ACTIVE:
        return False
    if type(value) in (list, tuple):
        return is_varlist(value) and all(type(item) is VarList for item in value)
    if isinstance(value, dict):
        return is_partial(value) and all(map(is_optional, dict.values(value)))
    return isinstance(value, (Tensor, Number, OptionalValue)) and current().traces


def tracing() -> bool:
    """Whether a function is being captured on this thread."""
    return bool(ACTIVE) and current().traces


def decided(site: Site, test: Any) -> Any:
    """``test``, or its truth where each path through the construct is captured by itself."""
    test = own_truth(test)
    if not is_traced(test) or isinstance(test, OptionalValue) or not current().decides(site):
        return test
    return current().decision(truth(test))


def own_method(value: Any, *names: str) -> Callable[[], Any] | None:
    """The first of the special methods ``names`` of ``value``, if the author has written it.

    While a function is captured: what it returns may be traced, which Python itself would refuse.
    """
    for name in names if tracing() else ():
        method = getattr(type(value), name, None)
        if method is not None:
            own = type(method) is types.FunctionType and not is_library(method.__code__)
            return types.MethodType(method, value) if own else None
    return None


def own_truth(value: Any) -> Any:
    """What a ``__bool__`` or ``__len__`` of the author's says of ``value``; else ``value``."""
    method = own_method(value, "__bool__", "__len__")
    if method is None:
        return value
    found = method()
    if method.__name__ == "__len__":
        return found != 0 if isinstance(found, Number) else operator.index(found) > 0
    if type(found) is bool or (isinstance(found, Number) and found.kind == "bool"):
        return found
    raise TypeError(f"__bool__ should return bool, returned {type(found).__name__}")


@contextmanager
def deciding(site: Site) -> Iterator[None]:
    """A context in which sizes that differ between paths tell ``site``, where it is outermost."""
    try:
        yield
    except PathError as error:
        tell_site(error, site)
        raise


def tell_site(error: BaseException | None, site: Site, around: Any = None) -> None:
    """Let a PathError that leaves the construct at ``site`` say that it is the outermost one.

    ``around`` is the tracer of its surroundings, where that is not the current one.
    """
    if isinstance(error, PathError) and tracing():
        around = around or current()
        if around.parent is None and not around.decides(site):
            error.site = site


def held(value: Any) -> Any:
    """The container behind a UserDict and its like; any other value itself."""
    if isinstance(value, (UserDict, UserList)):
        return value.data
    return value.maps[0] if isinstance(value, ChainMap) and value.maps else value


def look(value: Any) -> Any:
    """``value``, or a view of it, if it is a container that is about to be looked into."""
    if isinstance(value, HOLDERS) and tracing():
        inner, how = held(value), f"looked into through a {type(value).__name__}"
        look(inner)
        refuse_varlist(inner, how)
        refuse_partial(inner, how)
    if tracing() and isinstance(value, LOOKED_INTO):
        if type(value) is not tuple:
            if type(value) is dict and (space := namespace_of(value)) is not None:
                space.will_list()
            current().will_read_container(value)
        if is_varlist(value):
            return hyb__.ListView(value)
        if is_partial(value):
            return hyb__.DictView(value)
    return value


def library_argument(value: Any, name: str = "") -> Any:
    """``value``, for a library function; raises CaptureError if only a run knows all of it."""
    inner = unwrapped(value)
    if type(look(inner)) is not type(inner):
        how = f"given to {name}()" if name else "looked into"
        refuse_varlist(inner, how)
        refuse_partial(inner, how)
    return value


def ordered(name: str, order: Callable[[], Any], items: Sequence[Any]) -> Any:
    """The result of ``order()``, in which ``name`` compares ``items``; raises if one is traced."""
    for item in items:
        if type(item) is OptionalValue and item.other is None:
            refuse_unknown(item, f"{name}() compares it")
    try:
        return order()
    except NeedsValue as error:
        numbers = [leaf for leaf in flatten(list(items))[0] if type(leaf) is Number]
        for number in (*numbers, error.number):
            number.need_value(f"{name}()")
    except TracedBoolError:
        raise CaptureError(
            f"{name}() of traced values",
            at=author_location(),
            why="Their order would only be known when the plan runs.",
            fix="stack them into one tensor, and choose with hybrid.max, hybrid.argmax or "
            "hybrid.where; items whose keys differ are ordered by those (key=lambda item: item[0])",
        ) from None


def is_varlist(value: Any) -> bool:
    """Whether ``value`` is a list whose length only the run knows."""
    return (
        bool(ACTIVE)
        and current().traces
        and bool(current().indefinite_values)
        and holds_varlist(value)
    )


def is_partial(value: Any) -> bool:
    """Whether ``value`` is a dict of which only the run knows the keys, or their order."""
    return (
        isinstance(value, dict)
        and bool(ACTIVE)
        and current().traces
        and bool(current().indefinite_values)
        and any(map(is_optional, dict.values(value)))
    )


def refuse_partial(value: Any, how: str) -> None:
    """Raise if ``value`` is a dict of which only the run knows the keys."""
    if is_partial(value):
        refuse_missing(how, next(filter(is_optional, dict.values(value))))


def compared(value: Any) -> Any:
    """``value``, or a view of it, for a comparison by ``==``."""
    seen = look(value)
    if type(seen) in (list, tuple) and tracing() and current().indefinite_values:
        for item in value:
            refuse_partial(item, "compared")
    return seen
