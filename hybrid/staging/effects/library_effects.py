"""Effects of library calls on objects from outside the capture: known, or refused.

While a function is captured its code runs once, and that of a staged branch or loop in passes that
no run makes.  Lists, dicts and attributes are undone and merged; iterators, arrays, the states of
random numbers, files and queues are not: a call that would change one is refused before it is made.
"""

from __future__ import annotations

import contextvars
import functools
import io
import queue
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hybrid.convert.runtime import Site, hyb__
from hybrid.core.dataclass import dataclass
from hybrid.eager.progress import unwrapped
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, Location, author_location
from hybrid.ir.interpreter import current
from hybrid.number import Number
from hybrid.staging.effects import impurity
from hybrid.staging.effects.impurity import Draws
from hybrid.staging.effects.printing import write_method
from hybrid.staging.sessions.views import CONTAINERS
from hybrid.staging.values.optional_operands import is_unsure, of_present
from hybrid.trace.places.code_owner import ATOMS, is_library_class
from hybrid.trace.places.differences import ContainerSnapshot
from hybrid.trace.places.held_state import state_of
from hybrid.trace.places.place import CONTENT
from hybrid.trace.regions.region import Region
from hybrid.trace.values.optional import OptionalValue, refuse_unknown


@dataclass(frozen=True, slots=True)
class MutableKind:
    """A kind of objects that change without an announcement, and which of their methods do so."""

    does: str  # what a call does to them
    fix: str
    changing: frozenset[str] = frozenset()  # methods that change them ...
    reading: frozenset[str] | None = None  # ... or, if this is given, all but these
    anywhere: bool = True  # whether it matters outside branches and loops, too
    given: bool = True  # whether a function that is given one may be taken to change it


_ARRAY = MutableKind(
    does="changes",
    fix="keep the values in a tensor, or let the call make a new array",
    changing=frozenset(
        {
            "fill", "sort", "partition", "put", "resize", "setfield", "itemset", "setflags",
            "__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__",
        }
    ),
    anywhere=False,  # guards see those that are read from outside
    given=False,
)  # fmt: skip
_BYTES = MutableKind(
    does="changes",
    fix="keep the values in a tensor",
    changing=frozenset(
        {
            "append", "extend", "insert", "pop", "remove", "reverse", "byteswap", "frombytes",
            "fromfile", "fromlist", "fromunicode", "__setitem__", "__delitem__", "__iadd__",
            "__imul__",
        }
    ),
    given=False,
)  # fmt: skip
_RANDOM = MutableKind(
    does="draws from",
    fix="draw from hybrid.random, or draw outside and pass the numbers as arguments",
    reading=frozenset({"getstate", "get_state", "__getstate__", "__reduce__", "__repr__"}),
)
_FILE = MutableKind(
    does="reads or writes",
    fix="use print(..., file=...), which every run repeats, or call it by hybrid.py_call",
    changing=frozenset(
        {
            "write", "writelines", "read", "read1", "readall", "readinto", "readinto1", "readline",
            "readlines", "seek", "truncate", "close", "detach", "__next__", "__exit__",
        }
    ),
)  # fmt: skip
_QUEUE = MutableKind(
    does="changes",
    fix="use a list, return the values, or call it by hybrid.py_call",
    changing=frozenset({"put", "put_nowait", "get", "get_nowait", "task_done", "join"}),
    given=False,
)
_HELD = MutableKind(
    does="changes",
    fix="keep the value in a tensor, or change it outside",
    changing=frozenset(
        {
            "set", "clear", "set_result", "set_exception", "cancel", "setLevel", "start", "run",
            "__setitem__", "__delitem__", "clear_flags", "clear_traps",
        }
    ),
    given=False,
)  # fmt: skip
_CONTEXT = MutableKind(
    does="changes",
    fix="set it outside the hybridized function, or keep the value in an attribute",
    changing=frozenset({"set", "reset"}),
    given=False,
)
_ITERATOR = MutableKind(
    does="takes items from",
    fix="go over a list or tuple of the items, or take them outside and pass them as arguments",
    reading=frozenset({"__iter__", "__length_hint__", "__reduce__", "__copy__", "__repr__"}),
)
_KINDS = (
    (np.ndarray, _ARRAY),
    (random.Random, _RANDOM),
    (io.IOBase, _FILE),
    ((queue.Queue, queue.SimpleQueue), _QUEUE),
    (contextvars.ContextVar, _CONTEXT),
)
# What may be given anything: it looks at no more than what kind of object that is, or keeps it.
_HARMLESS = frozenset(
    {
        isinstance, issubclass, type, id, repr, str, format, callable, hasattr, getattr, setattr,
        print, iter, hash, bool, vars, dir, object.__setattr__, object.__init__,
    }
)  # fmt: skip
_KEEPING = frozenset({"append", "appendleft", "insert", "add", "setdefault", "__setitem__", "get"})
_HOLDING = frozenset({"builtins", "_operator", "functools", "_functools", "itertools", "copy"})
_PLAIN = (*ATOMS, types.ModuleType, type, Tensor, Number)


def kind_of(value: Any) -> MutableKind | None:
    """The kind of ``value``, or None if it cannot change without an announcement."""
    for classes, kind in _KINDS:
        if isinstance(value, classes):
            return kind
    # What most programs do without, and is slow to import.
    if "array" in sys.modules and isinstance(value, sys.modules["array"].array):
        return _BYTES
    if "numpy.random" in sys.modules:
        numpys = np.random
        if isinstance(value, (numpys.RandomState, numpys.Generator, numpys.BitGenerator)):
            return _RANDOM
    if isinstance(value, Iterator) and is_library_class(type(value)):
        return _ITERATOR
    return _HELD if state_of(value) is not None else None


def _is_shared(value: Any) -> bool:
    """Whether ``value`` is the generator of one of the modules of random numbers."""
    if value is random.random.__self__:  # type: ignore[attr-defined]
        return True
    return "numpy.random" in sys.modules and value is np.random.rand.__self__


def refusing(site: Site, function: Any, made: Callable[..., Any]) -> Callable[..., Any]:
    """``made``, called for the library's ``function``, with a refusal of calls with effects."""
    if write_method(function) is not None:
        return made
    bound: list[Any] = []
    while isinstance(function, functools.partial):
        bound = [*function.args, *bound, *function.keywords.values()]
        function = function.func
    owner = getattr(function, "__self__", None)
    owner = None if isinstance(owner, _PLAIN) else owner
    draws = impurity.may_draw(function)
    holds = _holds(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*bound, *args, *kwargs.values()]
        if any(map(is_unsure, args)) and not isinstance(owner, CONTAINERS):
            return of_present(call, args, kwargs)  # what the function is mapped over
        if not holds:
            for value in values:
                _refuse_unsure(function, value, site.location)
        impurity.refuse(function, values, site.location)
        if owner is not None:
            _refuse_method(function, owner, site.location)
        if not _is_harmless(function):
            for value in values:
                _refuse_given(function, value, site.location)
        states = [(v, state_of(v)(v)) for v in (owner, *values) if _has_state(v)]
        if not (isinstance(current(), Region) or draws or states):
            return made(*args, **kwargs)
        arrays = [ArraySnapshot(a) for a in values if isinstance(a, np.ndarray) and _is_before(a)]
        held = ContainerSnapshot(
            [c for c in (owner, *values) if isinstance(c, CONTAINERS) and _is_new(c)]
        )
        before = Draws() if draws else None
        result = made(*args, **kwargs)
        for array_ in arrays:
            if array_.moved():
                array_.undo()
                raise _refusal(_name(function), array_.array, _ARRAY, site.location)
        for change in held.differences():
            if _is_new(change.container):  # nobody has announced it
                change.undo()
                current().will_write_container(change.container)
                change.redo()
        for value, state in states:
            if state_of(value)(value) != state:
                raise _refusal(f"{_name(function)}()", value, _HELD, site.location)
        if before is not None and before.moved():
            before.undo()
            raise _refusal(_name(function), None, _RANDOM, site.location)
        return result

    return call


def _holds(function: Any) -> bool:
    """Whether ``function`` leaves items of a container as they are, or knows of optional ones."""
    inner = getattr(function, "__func__", function)
    if isinstance(function, type) or isinstance(getattr(function, "__self__", None), CONTAINERS):
        return True
    try:
        known = hyb__.override_of(inner) is not None
    except TypeError:  # it has no hash
        known = False
    return known or getattr(inner, "__module__", None) in _HOLDING


def _refuse_unsure(function: Any, value: Any, at: Location | None) -> None:
    """Refuse to hand over a container with an item that only some paths have."""
    if type(value) not in (list, tuple, dict):
        return
    for item in value.values() if type(value) is dict else value:
        if type(item) is OptionalValue and item.other is None:
            how = f"it is in a {type(value).__name__} that {_name(function)}() is given"
            refuse_unknown(item, how, at)


class ArraySnapshot:
    """An array, and what it held."""

    def __init__(self, array_: np.ndarray) -> None:
        self.array, self.before = array_, array_.copy()

    def moved(self) -> bool:
        return self.array.tobytes() != self.before.tobytes()

    def undo(self) -> None:
        np.copyto(self.array, self.before)


def gone_over(value: Any, what: str, at: Location | None = None) -> None:
    """Refuse an iterator from outside, from which ``what`` is about to take items."""
    value = unwrapped(value)
    kind = kind_of(value)
    if kind in (_ITERATOR, _FILE) and _is_before(value):
        raise _refusal(what, value, kind, at)


def stored_in(value: Any) -> None:
    """Refuse an object from outside of which an item is about to be set, if that goes unseen."""
    kind = kind_of(value)
    if kind in (_ARRAY, _BYTES, _HELD) and _is_before(value):
        raise _refusal("a store", value, kind, None)
    impurity.refuse_store(value)


def _has_state(value: Any) -> bool:
    """Whether ``value`` is an object from outside that is known by what it holds."""
    return state_of(value) is not None and _is_before(value)


def _refuse_method(function: Any, owner: Any, at: Location) -> None:
    kind = kind_of(owner)
    if kind is None:
        return
    name = _name(function)
    changes = name in kind.changing if kind.reading is None else name not in kind.reading
    if changes and _is_before(owner):
        raise _refusal(f"{type(owner).__name__}.{name}()", owner, kind, at)


def _refuse_given(function: Any, value: Any, at: Location) -> None:
    if isinstance(value, (*_PLAIN, *CONTAINERS)):
        return
    kind = kind_of(value)
    if kind is not None and kind.given and _is_before(value):
        raise _refusal(f"{_name(function)}()", value, kind, at)


def _is_harmless(function: Any) -> bool:
    try:
        if function in _HARMLESS:
            return True
    except TypeError:
        return False
    owner = getattr(function, "__self__", None)
    return isinstance(owner, CONTAINERS) and _name(function) in _KEEPING


def _is_before(value: Any) -> bool:
    """Whether ``value`` was there before what is being traced: the call, or a branch or loop."""
    tracer = current()
    if _is_shared(value) or isinstance(value, random.SystemRandom):
        return True
    if isinstance(value, np.ndarray):
        if not isinstance(tracer, Region):
            return False
        base = value.base
        return tracer.is_outside(value) or (isinstance(base, np.ndarray) and _is_before(base))
    if not tracer.is_outside(value):
        return False
    return isinstance(tracer, Region) or id(value) not in tracer.once


def _is_new(container: Any) -> bool:
    """Whether ``container`` is from outside a region that does not know it to be written."""
    tracer = current()
    if not isinstance(tracer, Region):
        return False
    slot = tracer.places.get((id(container), CONTENT))
    return (slot is None or not slot.written) and tracer.is_outside(container)


def _refusal(what: str, value: Any, kind: MutableKind, at: Location | None) -> CaptureError:
    inside = isinstance(current(), Region)
    label = described(value)
    label += " from outside this branch or loop" if inside else " that outlives the call"
    if value is None or _is_shared(value):
        label = "the random numbers that all code shares"
    why = (
        "All branches are captured, and the body of a loop once, however often a run takes them."
        if inside
        else "That happens once, while the function is captured, and no run of the plan repeats it."
    )
    at = at or author_location()
    return CaptureError(f"{what} {kind.does} {label}", at=at, why=why, fix=kind.fix)


def described(value: Any) -> str:
    """``value`` as error messages call it: by its class."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' or name == 'ndarray' else 'a'} {name}"


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)
