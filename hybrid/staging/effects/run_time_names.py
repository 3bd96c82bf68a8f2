"""Names made at run time: what ``getattr``, ``vars``, ``globals`` and their like reach.

Each call is told to the capture as it happens, so that it has a guard for the place.  A dict of
attributes or globals that code takes in hand (``vars(x)``, ``x.__dict__``, ``globals()``) is a
namespace: its items are the attributes of their owner.
"""

from __future__ import annotations

import contextvars
import copy
import dataclasses
import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hybrid.errors import CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.staging.sessions.namespaces import Namespace, namespace_of, open_namespace
from hybrid.trace.places.attributes import MISSING, stored
from hybrid.trace.places.memos import Memo
from hybrid.trace.places.names import names_in

Announce = Callable[..., Any]
# Functions that look at all attributes of their first argument.
_LISTING = (
    dir, copy.copy, copy.deepcopy, dataclasses.asdict, dataclasses.astuple, dataclasses.replace,
    inspect.getmembers,
)  # fmt: skip
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_READING = frozenset({"get", "__getitem__", "__contains__"})
_SETTING = frozenset({"pop", "setdefault", "__setitem__", "__delitem__"})
_EXECUTING = (eval, exec)


def announcer(function: Any) -> Announce | None:
    """The function that notes, given the same arguments, what ``function`` will look at."""
    if function is getattr or function is hasattr:
        return will_read
    kind = type(function)
    if kind is types.WrapperDescriptorType and function.__name__ == "__getattribute__":
        return will_read
    if kind in _BOUND:
        if function.__name__ == "__getattribute__":
            return lambda name=None, *_: will_read(function.__self__, name)
        if isinstance(function.__self__, contextvars.ContextVar) and function.__name__ == "get":
            return lambda *args: _remember(function, *args)
        space = namespace_of(function.__self__)
        if space is not None:
            return lambda *args, **kwargs: _method(space, function.__name__, *args, **kwargs)
    if kind is operator.attrgetter:
        return lambda value=None, *_: _will_read_paths(function, value)
    if kind is operator.methodcaller:
        return lambda value=None, *_: will_read(value, function.__reduce__()[1][0])
    if _is_one_of(function, _LISTING):
        return lambda value=None, *_, **__: will_list(value)
    return None


def _remember(function: Any, *args: Any) -> None:
    """Note what a context variable holds."""
    memo = Memo(function, args, {}, function(*args), author_location())
    current().journal.memos.append(memo)


def _is_one_of(function: Any, functions: Iterable[Any]) -> bool:
    return any(function is other for other in functions)


def will_read(owner: Any = None, name: Any = None, *_: Any) -> None:
    """Note that ``owner.name`` is looked at."""
    if not isinstance(name, str):
        return
    if name in ("__dict__", "__globals__"):
        namespace(owner, name)
    else:
        current().will_read_attribute(owner, name)
        if stored(owner, name) is MISSING:
            current().journal.reached.missing(owner, name)


def _will_read_paths(function: operator.attrgetter, value: Any) -> None:
    for path in function.__reduce__()[1]:
        found = value
        for name in path.split("."):
            will_read(found, name)
            found = getattr(found, name, None)


def will_list(owner: Any) -> None:
    """Note that the names of all attributes of ``owner`` are looked at."""
    current().journal.reached.all_attributes(owner)


def namespace(owner: Any, name: str = "__dict__") -> Any:
    """The dict of attributes of ``owner``, or of the globals of a function, taken in hand."""
    found = getattr(owner, name)
    open_namespace(found, owner if name == "__dict__" else None)
    return found


def vars_of(*args: Any) -> Any:
    """The result of ``vars(...)`` where it is called by converted code."""
    if not args:
        return sys._getframe(1).f_locals
    found = vars(*args)
    open_namespace(found, args[0])
    return found


def global_names() -> dict[str, Any]:
    """The result of ``globals()`` where it is called by converted code."""
    found = sys._getframe(1).f_globals
    open_namespace(found, None)
    return found


def _method(space: Namespace, name: str, *args: Any, **kwargs: Any) -> None:
    """Note what the method ``name`` of a namespace looks at, or sets."""
    if name in _READING and args:
        space.will_read(args[0])
    elif name in _SETTING and args:
        space.will_read(args[0])
        if name != "setdefault" or args[0] not in space.content:
            space.will_write(args[0])
    elif name in ("update", "__ior__"):
        for each in (*(_keys(args[0]) if args else ()), *kwargs):
            space.will_write(each)
    elif name in ("clear", "popitem"):
        space.will_list()
        for each in list(space.content):
            space.will_write(each)
    else:
        space.will_list()


def _keys(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value)
    if not isinstance(value, (list, tuple)):
        raise CaptureError(
            f"a namespace is updated with a {type(value).__name__}",
            at=author_location(),
            why="Its names are to be known before they are set.",
            fix="give update() a dict",
        )
    return [key for key, _ in value]


def framed_names(function: Any) -> Callable[..., Any] | None:
    """What converted code calls in place of ``function``, which depends on the frame that calls."""
    if function is vars:
        return vars_of
    if function is globals:
        return global_names
    return executing(function) if _is_one_of(function, _EXECUTING) else None


def executing(function: Any) -> Callable[..., Any]:
    """``eval`` or ``exec``, which notes the names in the code that it runs."""

    def call(source: Any, *args: Any, **kwargs: Any) -> Any:
        caller, evaluates = sys._getframe(1), function is eval
        given = dict(zip(("globals", "locals"), args, strict=False)) | kwargs
        namespace, local = given.get("globals"), given.get("locals")
        if namespace is None:
            namespace = caller.f_globals
            local = caller.f_locals if local is None else local
        code = source
        if not isinstance(source, types.CodeType):
            code = compile(source, "<string>", "eval" if evaluates else "exec")
        _will_run(code, namespace, sets=not evaluates and local is None)
        return function(code, namespace, local)

    return call


def _will_run(code: types.CodeType, namespace: dict[str, Any], sets: bool) -> None:
    """Note the names in ``code``, which ``sets`` those of the namespace that it assigns."""
    names, reached = names_in(code), current().journal.reached
    reached.code(code)
    if not _is_of_module(namespace):
        return
    assigned = {*names.assigned, *(code.co_names if sets else ())}
    for name in sorted(names.loaded | assigned):
        if name in assigned:
            current().will_write_global(namespace, name)
        else:
            reached.global_(namespace, name)


def _is_of_module(namespace: dict[str, Any]) -> bool:
    module = sys.modules.get(namespace.get("__name__", ""))
    return module is not None and vars(module) is namespace
