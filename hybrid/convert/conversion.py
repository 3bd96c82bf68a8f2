"""Conversion: from a function to one whose control flow is made of calls of ``hyb__``."""

from __future__ import annotations

import ast
import types
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from hybrid.convert.constructs.order import ORDER
from hybrid.convert.converter import readable
from hybrid.convert.rebuild import (
    NO_NAME,
    compiled,
    constants_of,
    function_like,
    qualname_prefix,
    with_constants,
    with_objects,
)
from hybrid.convert.rewriter import Around, Unit, convert_copy
from hybrid.convert.runtime import hyb__
from hybrid.convert.source import Definition, NoSource, definition_of
from hybrid.core.dataclass import dataclass
from hybrid.core.own_names import MARK, RUNTIME, note_tuples
from hybrid.core.timing import phase

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Conversion:
    """What has become of a code object: code, or why there is none."""

    code: types.CodeType | None
    reason: str = ""


# By the identity of a code object: equal code may be of different files.
_conversions: dict[int, tuple[weakref.ref, _Conversion]] = {}
_converted: dict[int, tuple[weakref.ref, Definition | None]] = {}  # with what has been converted


def convert(function: F) -> F:
    """The conversion of ``function``; itself where that cannot be made or has been."""
    if isinstance(function, types.MethodType):
        inner = convert(function.__func__)
        if inner is function.__func__:
            return function
        return types.MethodType(inner, function.__self__)  # type: ignore[return-value]
    if not isinstance(function, types.FunctionType) or is_converted(function):
        return function
    if function.__dict__.get(MARK) is function.__code__:
        return function
    found = _conversion(function)
    return function if found.code is None else function_like(function, found.code)


def why_not(function: Callable[..., Any]) -> str:
    """The reason why ``convert`` gives back ``function`` itself; empty where it does not."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        return f"{type(function).__name__} objects have no Python source"
    if function.__dict__.get(MARK) is function.__code__:
        return "it is marked with no_convert"
    return "" if is_converted(function) else _conversion(function).reason


def is_converted(function: types.FunctionType) -> bool:
    """Whether ``function`` runs code that conversion has made."""
    return is_converted_code(function.__code__)


def is_converted_code(code: types.CodeType) -> bool:
    """Whether conversion has made ``code``."""
    known = _converted.get(id(code))
    return known is not None and known[0]() is code


def written(code: types.CodeType) -> Definition:
    """The definition that the author wrote for ``code``, converted or not; raises NoSource."""
    known = _converted.get(id(code))
    found = known[1] if known is not None and known[0]() is code else None
    return definition_of(code) if found is None else found


def converted_source(function: Callable[..., Any]) -> str:
    """The source that ``convert`` compiles for ``function``; raises NoSource."""
    function = getattr(function, "__func__", function)
    node, _ = _convert_tree(function, definition_of(function.__code__))
    return readable(ast.unparse(ast.fix_missing_locations(node)))


def _conversion(function: types.FunctionType) -> _Conversion:
    code = function.__code__
    known = _conversions.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    try:
        with phase("convert"):
            made = _Conversion(_convert_code(function))
    except NoSource as error:
        made = _Conversion(None, str(error))
    except SyntaxError as error:  # the compiler has limits that the author's code is near to
        made = _Conversion(None, f"its conversion does not compile: {error.msg}")
    key = id(code)
    _conversions[key] = weakref.ref(code, lambda _: _conversions.pop(key, None)), made
    return made


def _convert_code(function: types.FunctionType) -> types.CodeType:
    code = function.__code__
    definition = definition_of(code)
    node, unit = _convert_tree(function, definition)
    objects: dict[str, Any] = {RUNTIME: hyb__}
    objects |= {f"{RUNTIME}{index}": site for index, site in enumerate(unit.sites)}
    node = with_constants(node, tuple(objects))
    made = compiled(node, code, definition.class_name, definition.imports)
    prefix = qualname_prefix(definition.class_name, code), function.__qualname__
    named = {NO_NAME + key: found for key, found in objects.items()}
    made = with_objects(made, named, prefix, constants_of(code))
    _remember(made, definition)
    return made


def _convert_tree(
    function: Callable[..., Any], definition: Definition
) -> tuple[ast.FunctionDef | ast.Lambda, Unit]:
    unit = Unit(function.__code__.co_filename, ORDER)
    around = Around(function.__qualname__, definition.class_name, frozenset())
    return convert_copy(definition.node, unit, around), unit


def _remember(code: types.CodeType, definition: Definition | None = None) -> None:
    """Note that ``code``, and the code of the functions in it, is the work of conversion."""
    key = id(code)
    forget_tuples = note_tuples(code)

    def forget(_: object) -> None:
        _converted.pop(key, None)
        forget_tuples()

    _converted[key] = weakref.ref(code, forget), definition
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _remember(constant)
