"""Callee resolution: the function that captured code calls in place of the one it names.

The user's own functions, methods, lambdas, partials, callable objects and classes are converted;
libraries are left alone, but for functions that are handed to them; some of Python's own functions
have stand-ins that know traced values.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from hybrid import ops
from hybrid.convert.conversion import convert
from hybrid.convert.runtime import Site, hyb__
from hybrid.core.own_names import PREFIX
from hybrid.core.package import module_of
from hybrid.eager.progress import progress, unwrapped
from hybrid.errors import CaptureError, author_location
from hybrid.ir import Op
from hybrid.ir.interpreter import current
from hybrid.staging.effects.announcement import announcer
from hybrid.staging.effects.printing import write_method
from hybrid.staging.effects.result_caches import memoized, uncached
from hybrid.staging.effects.run_time_names import framed_names
from hybrid.staging.library import dict_methods
from hybrid.staging.library.numpy_calls import numpy_function
from hybrid.staging.sessions.variables import read, resolved
from hybrid.staging.sessions.views import library_argument, look, ordered, refuse_partial, tracing
from hybrid.staging.values.feed import stacked
from hybrid.staging.values.number_kinds import for_both
from hybrid.staging.values.optional_operands import MOST, chosen
from hybrid.staging.values.texts import method_of, text
from hybrid.trace.places.code_owner import CONTAINERS, is_library, is_library_class, of_package
from hybrid.trace.places.memos import CACHE
from hybrid.trace.values.optional import OptionalValue
from hybrid.trace.values.traced_text import Text

_DECORATED = next(
    constant
    for constant in contextlib.ContextDecorator.__call__.__code__.co_consts
    if isinstance(constant, types.CodeType)
)
_MANAGING = contextlib.contextmanager(lambda: iter(())).__code__
_DISPATCHING = functools.singledispatch(lambda _: None).__code__
_DISPATCHING_METHOD = getattr(
    functools.singledispatchmethod(lambda _: None).__get__(None, object), "__code__", None
)
_PACKAGES = ("site-packages", "dist-packages")
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, CACHE)
# Library functions that call what they are given.
HIGHER_ORDER = frozenset(
    {
        map, filter, sorted, min, max, functools.reduce, itertools.accumulate,
        itertools.dropwhile, itertools.filterfalse, itertools.groupby, itertools.starmap,
        itertools.takewhile,
    }
)  # fmt: skip


def callee(site: Site, function: Any) -> Any:
    """The function to call for ``function``; itself unless a function is being captured."""
    return resolve(site, function) if tracing() else function


def choosing(site: Site, function: Any) -> Any:
    """``callee``, of a call among whose arguments some may be None on some paths."""
    if not tracing():
        return function
    made = resolve(site, function)
    if _is_framed(function) or isinstance(getattr(function, "__self__", None), CONTAINERS):
        return made

    def call(*args: Any, **kwargs: Any) -> Any:
        if OptionalValue not in map(type, (*args, *kwargs.values())):
            return made(*args, **kwargs)
        return chosen(made, args, kwargs, 0 if _gives_no_choice(function) else MOST)

    return call


def _gives_no_choice(function: Any) -> bool:
    """Whether ``function`` gives a text, or what runs later: no run chooses between such."""
    function = getattr(function, "__func__", function)
    if any(function is other for other in (functools.partial, str, repr, ascii, format)):
        return True
    return inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)


def result(value: Any) -> Any:
    """A call's result; where only some paths return one, the plan checks that there is one."""
    return read(value, "what is returned here") if isinstance(value, OptionalValue) else value


def shown(names: Any) -> Any:
    """The result of ``locals()`` or ``dir()`` without the variables that conversion has added."""
    if isinstance(names, dict):
        for name in [n for n in names if isinstance(n, str) and n.startswith(PREFIX)]:
            del names[name]
    elif isinstance(names, list):
        names[:] = [n for n in names if not (isinstance(n, str) and n.startswith(PREFIX))]
    return names


def resolve(site: Site, function: Any) -> Any:
    """The function to call for ``function`` at ``site`` during a capture."""
    made = _resolved(site, function)
    if _is_ours(getattr(function, "__func__", function)):
        return for_both(made)
    if _is_framed(function) or _is_authors(function):
        return made
    return _telling(_telling_apart(function, hyb__.refusing(site, function, made)))


def _telling_apart(function: Any, made: Callable[..., Any]) -> Callable[..., Any]:
    """``made``, where it notes which objects ``function`` may look at as a key, as dicts do."""
    identities, stand_ins = current().journal.identities, current().stand_ins
    if not (identities.replaced or stand_ins.made):
        return made
    if function in _NEVER_ASKING or _name(function) in _KEEPING:
        return made
    holder = getattr(function, "__self__", None)
    hashes = function in _HASHING
    keys = hashes or function in _ASKING or isinstance(holder, CONTAINERS)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if hashes:
            given += tuple([v for a in given if isinstance(a, (list, tuple)) for v in a])
        identities.ask_replaced(given)
        if keys:
            stand_ins.refuse_keys(given, f"given to {_name(function)}()")
        return made(*args, **kwargs)

    return call


def _telling(made: Callable[..., Any]) -> Callable[..., Any]:
    """``made`` with a Text for the result where it is a string that shows traced values."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found = made(*args, **kwargs)
        return text(found) if type(found) is str else found

    return call


def _is_authors(function: Any) -> bool:
    """Whether calling ``function`` runs code of the author's, which is looked at itself."""
    if isinstance(function, functools.partial):
        return _is_authors(function.func)
    function = getattr(function, "__func__", function)
    if isinstance(function, types.FunctionType):
        return is_users(function) or of_package(function.__code__)
    if isinstance(function, type):
        return not is_library_class(function)
    return _is_python(function)


def _override_of(function: Any) -> Callable[..., Any] | None:
    """What captured code calls in place of ``function``, with the site of the call first."""
    own = _is_authors(function) or _is_ours(function)
    if own and function not in JOINING:  # stand-ins are for Python's and libraries'
        return None
    if getattr(function, "__module__", None) == "logging":
        return hyb__.log_override(_key(function))
    return hyb__.override_of(_key(function))


def _resolved(site: Site, function: Any) -> Any:
    if type(getattr(function, "__func__", function)) is CACHE:
        return converted(function)
    if isinstance(function, types.MethodType):
        written = write_method(function) or numpy_function(function)
        if written is not None:
            return written
        override = _override_of(function.__func__)
        if override is not None:
            return _overridden(function, override, site, function.__self__)
        return converted(function)
    framed = framed_names(function)
    if framed is not None:
        return framed
    override = _override_of(function)
    if override is not None:
        return _overridden(function, override, site)
    numpys = numpy_function(function)
    if numpys is not None:
        return numpys
    if isinstance(function, (types.FunctionType, functools.partial, type)) or _is_python(function):
        return converted(function)
    stand_in = dict_methods.method_of(function)
    if stand_in is not None:
        return _with_fallback(stand_in, _announced(function))
    return write_method(function) or method_of(function) or _announced(function)


def _with_fallback(override: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """A call of ``override``, unless that leaves its arguments to ``plain``."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = override(*args, **kwargs)
        return plain(*args, **kwargs) if result is NotImplemented else result

    return call


def _key(function: Any) -> Any:
    """``function`` if it can be looked up, else None."""
    try:
        hash(function)
    except TypeError:
        return None
    return function


def _overridden(
    function: Any, override: Callable[..., Any], site: Site, *bound: Any
) -> Callable[..., Any]:
    plain = function if isinstance(function, types.MethodType) else _announced(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        if function not in KNOWING:
            for argument in (*args, *kwargs.values()):
                library_argument(argument, _name(function))
        elif function not in SHALLOW:
            args = tuple([unwrapped(argument) for argument in args])
            refuse_keys(function, args)
        result = override(site, *bound, *args, **kwargs)
        return plain(*args, **kwargs) if result is NotImplemented else result

    return call


def converted(function: Any) -> Any:
    """``function``, its conversion, or a partial of one, if it is the user's code."""
    if tracing():
        current().will_call(function)
    if (keeping := memoized(function)) is not None:
        return keeping
    function = uncached(function)
    if isinstance(function, types.FunctionType):
        if is_users(function):
            return convert(function)
        return (
            _managing(function)
            or _decorated(function)
            or _dispatching(function)
            or _with_functions(function)
        )
    if isinstance(function, types.MethodType):
        inner = function.__func__
        if isinstance(inner, types.FunctionType) and is_users(inner):
            return convert(function)
        managing = _managing(inner) or _decorated(inner)
        if managing is not None:
            return types.MethodType(managing, function.__self__)
        announce = announcer(function)
        return function if announce is None else _after(function, announce)
    if isinstance(function, functools.partial):
        inner = _given(function.func)
        if inner is function.func:
            return function
        return functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, staticmethod):
        return converted(function.__func__)
    if isinstance(function, type):
        return _constructor(function)
    if _is_python(function):
        return types.MethodType(converted(type(function).__call__), function)
    return function


def resolving(function: Any, optional: bool) -> Any:
    """The conversion of ``function``, with results of which all parts are bound."""
    made = converted(function)
    return lambda *args, **kwargs: resolved(made(*args, **kwargs), optional=optional)


def _managing(function: Any) -> Any:
    """What ``contextlib.contextmanager`` makes of a generator function of the user's, converted."""
    if getattr(function, "__code__", None) is not _MANAGING:
        return None
    inner = function.__wrapped__
    users = isinstance(inner, types.FunctionType) and is_users(inner)
    return contextlib.contextmanager(converted(inner)) if users else None


def _dispatching(function: Any) -> Any:
    """A function of ``functools.singledispatch``, or a method, that calls conversions."""
    code = getattr(function, "__code__", None)
    if code is _DISPATCHING:
        dispatch, bind = function.dispatch, None
    elif code is _DISPATCHING_METHOD and code is not None:
        variables = inspect.getclosurevars(function).nonlocals
        dispatch = variables.get("dispatch")  # since Python 3.13
        dispatch = dispatch or variables["self"].dispatcher.dispatch
        bind = variables["obj"], variables["cls"]
    else:
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        if not args:
            return function(*args, **kwargs)  # raises what it raises
        kind = args[0].__class__
        chosen = dispatch(kind)
        what = f"what {function.__name__} does with a {kind.__name__}"
        current().count_on(what, lambda: id(dispatch(kind)), id(chosen))
        made = chosen if bind is None else chosen.__get__(*bind)
        return converted(made)(*args, **kwargs)

    return call


def _decorated(function: Any) -> Any:
    """What a context manager makes of a function that it decorates, converted."""
    if getattr(function, "__code__", None) is not _DECORATED:
        return None
    made = convert(function)
    variables = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = {name: cell.cell_contents for name, cell in variables}
    manager = found["self"]
    if isinstance(manager, contextlib._GeneratorContextManager):
        found["self"] = type(manager)(converted(manager.func), manager.args, manager.kwds)
    cells = tuple([types.CellType(found[name]) for name in made.__code__.co_freevars])
    return types.FunctionType(made.__code__, made.__globals__, made.__name__, None, cells)


def _is_python(function: Any) -> bool:
    """Whether ``function`` is an object of the user's that can be called."""
    call = getattr(type(function), "__call__", None)  # noqa: B004  what it is matters
    return isinstance(call, types.FunctionType) and is_users(call)


def is_users(function: types.FunctionType) -> bool:
    """Whether ``function`` is the user's own and no library's."""
    code = function.__code__
    if is_library(code) or of_package(code):
        return False
    if any(part in code.co_filename for part in _PACKAGES):
        return _wraps_users(function) or _mentions_us(function.__globals__)
    return True


def _wraps_users(function: types.FunctionType) -> bool:
    """Whether ``function`` is what a decorator of a library has made of one of the user's."""
    inner = getattr(function, "__wrapped__", None)
    inner = getattr(inner, "__func__", inner)
    return isinstance(inner, types.FunctionType) and is_users(inner)


def _mentions_us(namespace: dict[str, Any]) -> bool:
    """Whether a module has imported this package, or something of it."""
    package = __name__.partition(".")[0]
    for value in list(namespace.values()):
        owner = getattr(
            value, "__name__" if isinstance(value, types.ModuleType) else "__module__", ""
        )
        if isinstance(owner, str) and owner.partition(".")[0] == package:
            return True
    return False


def _constructor(kind: type) -> Any:
    """What makes an object of the class ``kind``, with its ``__init__`` converted."""
    final = getattr(kind, "__del__", None)
    if isinstance(final, types.FunctionType) and is_users(final):
        return functools.partial(_refuse_finalizer, kind)
    if type(kind) is not type or issubclass(kind, BaseException):
        return _with_functions(kind) if kind in HIGHER_ORDER else kind
    new = kind.__new__
    made = converted(new) if isinstance(new, types.FunctionType) else new
    begin = converted(kind.__init__) if isinstance(kind.__init__, types.FunctionType) else None
    if made is new and (begin is None or begin is kind.__init__):
        return _announced(kind)

    def construct(*args: Any, **kwargs: Any) -> Any:
        plain = new is object.__new__
        instance = object.__new__(kind) if plain else made(kind, *args, **kwargs)
        if isinstance(instance, kind):
            own = type(instance).__init__
            own = converted(own) if isinstance(own, types.FunctionType) else own
            own(instance, *args, **kwargs)
        return instance

    return construct


def _refuse_finalizer(kind: type, *_args: Any, **_kwargs: Any) -> None:
    name = kind.__name__
    raise CaptureError(
        f"an object of {name} is made, which has a finalizer (__del__)",
        at=author_location(),
        why="It would run once, when what the capture has made dies, and not in each run.",
        fix=f"make the {name} outside the hybridized function, or do what __del__ does in a "
        "method, or in the __exit__ of a with statement",
    )


def _with_functions(function: Any) -> Any:
    """``function`` of a library, given conversions of the functions among its arguments."""
    if _key(function) not in HIGHER_ORDER:
        return _announced(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple([_given(argument) for argument in args])
        return function(*args, **{name: _given(value) for name, value in kwargs.items()})

    return call


def _given(argument: Any) -> Any:
    library_argument(argument)
    if isinstance(argument, FUNCTIONS):
        return converted(argument)
    announce = announcer(argument) if callable(argument) else None
    return argument if announce is None else _after(argument, announce)


def _announced(function: Any) -> Any:
    """``function`` of a library, which looks into the containers that it is given."""
    if _key(function) in HIGHER_ORDER:
        return _with_functions(function)
    announce = announcer(function)
    if announce is not None:
        if isinstance(getattr(function, "__self__", None), list) and function.__name__ == "sort":
            return _sort(function, announce)
        return _after(function, announce)
    if _is_framed(function):
        return function
    if function in KNOWING:
        return _after(function, lambda *args, **_: refuse_keys(function, args))
    name, looks = _name(function), not isinstance(function, type)
    keeps = function is functools.partial or _is_ours(function)

    def announce_arguments(*args: Any, **kwargs: Any) -> None:
        if not tracing():  # nor is anything asked of proxies of what is no more
            return
        for argument in (*args, *kwargs.values()):
            library_argument(argument, name)
            if looks and type(argument) is Text:
                argument.refuse()
            if not keeps and isinstance(argument, FUNCTIONS):
                current().will_call(argument)

    return _after(function, announce_arguments)


def refuse_keys(function: Any, args: Sequence[Any]) -> None:
    """Raise if a function that knows lists of unknown length is given a partial dict."""
    for argument in args:
        look(argument)
        if function not in SHALLOW:
            refuse_partial(argument, f"given to {_name(function)}()")


def _is_ours(function: Any) -> bool:
    """Whether ``function`` is this package's: it has functions that it calls converted first."""
    if isinstance(function, types.FunctionType):
        return of_package(function.__code__)
    return isinstance(function, Op)


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _after(function: Any, announce: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        announce(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def _sort(function: Any, announce: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        announce(*args, **kwargs)
        given = {name: _given(value) for name, value in kwargs.items()}
        return ordered("list.sort", lambda: function(*args, **given), function.__self__)

    return call


def _is_framed(function: Any) -> bool:
    """Whether what ``function`` does depends on the frame that calls it."""
    module = module_of(function)
    if module in _DEBUGGERS or module.partition(".")[0] in _DEBUGGERS:
        return True
    return function is super or _key(function) in FRAMED


JOINING = (ops.stack, ops.concat, stacked)
# What may be given a list whose length only the run knows.
KNOWING = (
    all, any, bool, copy.copy, dict, enumerate, format, getattr, hasattr, id, isinstance, len, list,
    max, min, print, repr, reversed, setattr, str, sum, tuple, type, zip,
    operator.contains, operator.delitem, operator.eq, operator.getitem, operator.iadd,
    operator.iconcat, operator.imul, operator.ior, operator.is_, operator.is_not, operator.ne,
    operator.or_, operator.setitem, progress, *JOINING,
)  # fmt: skip
# What does not ask a dict for its keys, or gives its length and truth.
SHALLOW = (
    bool, copy.copy, dict, format, getattr, hasattr, id, isinstance, len, print, repr, setattr, str,
    type, operator.contains, operator.delitem, operator.eq, operator.getitem, operator.ior,
    operator.is_, operator.is_not, operator.ne, operator.or_, operator.setitem, progress,
)  # fmt: skip
# What looks at the attributes of an object, never at which one it is.
_NEVER_ASKING = (
    bool, callable, copy.copy, copy.deepcopy, delattr, format, getattr, hasattr, isinstance, len,
    list, print, repr, setattr, str, tuple, type, dataclasses.asdict, dataclasses.astuple,
    dataclasses.fields, dataclasses.is_dataclass, dataclasses.replace, object.__getattribute__,
    object.__setattr__,
)  # fmt: skip
_ASKING = (hash, id, weakref.ref)
_HASHING = (set, frozenset, dict.fromkeys)  # the items of what they are given
_KEEPING = ("append", "appendleft", "insert", "extend")  # methods that put it into a container
FRAMED = (locals, vars, dir, globals, eval, exec, sys._getframe, __import__, breakpoint)
# Modules of functions that stop where they are called.
_DEBUGGERS = ("bdb", "pdb", "ipdb", "pudb", "debugpy", "pydevd", "_pytest.debugging")
