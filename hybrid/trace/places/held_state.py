"""What objects of Python's library hold, as values that can be compared with later ones.

Code reads it by their methods, or as items of theirs, so no name that it spells leads there::

    stopping = threading.Event()


    @hybridize
    def step(x):
        return x if stopping.is_set() else x * 2  # another plan, once it is set

Lists, dicts and arrays of NumPy have their items compared; what is not in the table is known by
which object it is.  So are locks, queues and files, which other threads, or the runs themselves,
change all the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.trace.places.code_owner import MUTABLE

State = Callable[[Any], Any]


def _view(view: memoryview) -> Any:
    try:
        return view.format, view.shape, view.tobytes()
    except ValueError:  # it has been released
        return None


def _future(future: Any) -> Any:
    if not future.done() or future.cancelled():
        return future.done(), future.cancelled()
    error = future.exception()
    return error, None if error is not None else future.result()


# By the module and the name of a class: nothing is imported for those that a program has not.
_STATES: dict[tuple[str, str], State] = {
    ("_ctypes", "Array"): bytes,
    ("_ctypes", "Structure"): bytes,
    ("_ctypes", "Union"): bytes,
    ("_ctypes", "_SimpleCData"): bytes,
    ("array", "array"): lambda array: (array.typecode, array.tobytes()),
    ("builtins", "BaseException"): lambda error: error.args,
    ("builtins", "memoryview"): _view,
    ("concurrent.futures._base", "Future"): _future,
    ("decimal", "Context"): repr,
    ("logging", "Logger"): lambda x: (x.getEffectiveLevel(), x.disabled, x.manager.disable),
    ("threading", "Event"): lambda event: event.is_set(),
}


def state_of(value: Any) -> State | None:
    """Return the function that tells what ``value`` holds; None of what is known as it is."""
    for kind in type(value).__mro__:
        found = _STATES.get((kind.__module__, kind.__qualname__))
        if found is not None:
            return found
    return None


def is_mutable(value: Any) -> bool:
    """Return whether what ``value`` holds may be another though it is the same object."""
    return isinstance(value, MUTABLE) or state_of(value) is not None
