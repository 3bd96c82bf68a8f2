"""Find straight functions: those without control flow or writes, which need no conversion.

Straight code has no branches, loops, functions or writes, and calls this package alone with
tensors; a straight module is one of this package that holds nothing of the author's.  Both mean the
same to the tracer converted or not, and the converters need not even be imported, which takes most
of the time of the first capture of something small.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterable, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from hybrid.core.package import is_of_hybrid
from hybrid.core.types import DType
from hybrid.eager.tensor import Tensor
from hybrid.trace.places.code_owner import of_package

# Opcodes of Python 3.11 to 3.14; a function with any other is converted.
_STRAIGHT = frozenset(
    {"BINARY_OP", "BINARY_SLICE", "BINARY_SUBSCR", "BUILD_SLICE", "BUILD_TUPLE", "CACHE", "CALL",
     "CALL_KW", "COMPARE_OP", "COPY", "KW_NAMES", "LOAD_ATTR", "LOAD_CONST", "LOAD_FAST",
     "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL",
     "LOAD_METHOD", "LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_TOP", "PRECALL", "PUSH_NULL",
     "RESUME", "RETURN_CONST", "RETURN_VALUE", "STORE_FAST", "STORE_FAST_LOAD_FAST", "SWAP",
     "UNARY_INVERT", "UNARY_NEGATIVE"}
)  # fmt: skip
# Attributes that programs which come with the package are behind, or Python values of tensors.
_ELSEWHERE = frozenset({"models", "bench", "item", "tolist", "numpy", "backward", "grad", "data"})
_PLAIN = frozenset({bool, int, float, str, type(None), type(...), Tensor})
_ODD = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_straight(function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether the call ``function(*args, **kwargs)`` can be traced without conversion."""
    if not all(type(value) is Tensor for value in (*args, *kwargs.values())):
        return False
    if type(function) is MethodType:
        return of_package(function.__func__.__code__) and _are_ours([function.__self__])
    return type(function) is FunctionType and _is_straight(function)


def _is_straight(function: FunctionType) -> bool:
    code, namespace = function.__code__, function.__globals__
    names = None if code.co_flags & _ODD else _global_names(code)
    if names is None or not names <= namespace.keys():
        return False
    read = [namespace[name] for name in names]
    read += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return _are_ours(read)


def _global_names(code: CodeType) -> set[str] | None:
    """Return the global names that ``code`` reads; None if it is not straight."""
    names = set()
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name not in _STRAIGHT:
            return None
        if name == "BINARY_OP" and instruction.argrepr.endswith("="):
            return None  # x += y writes to a tensor
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            if instruction.argval in _ELSEWHERE or instruction.argval.endswith("_"):
                return None
        elif name == "LOAD_GLOBAL":
            names.add(instruction.argval)
    return names


def _are_ours(values: list[Any]) -> bool:
    """Return whether ``values`` lead to no code of the author's, at any depth."""
    seen: set[int] = set()
    rest = list(values)
    while rest:
        value = rest.pop()
        if type(value) in _PLAIN or isinstance(value, DType) or id(value) in seen:
            continue
        seen.add(id(value))
        inside = _held_by(value)
        if inside is None:
            return False
        rest += inside
    return True


def _held_by(value: Any) -> Iterable[Any] | None:
    """Return what ``value`` holds; None if it is, or may be, the author's."""
    kind = type(value)
    if kind is ModuleType:
        return () if value.__name__.partition(".")[0] == "hybrid" else None
    if kind is FunctionType:
        return () if value.__closure__ is None and of_package(value.__code__) else None
    if kind in (tuple, list):
        return value
    if kind is dict:
        return value.values() if all([type(key) is str for key in value]) else None
    if not _is_our_class(kind):
        return None
    return () if isinstance(value, Tensor) else _attributes(value)


def _is_our_class(kind: type) -> bool:
    """Return whether a class is defined in this package, with none of its methods replaced."""
    own = [base for base in kind.__mro__ if base is not object]
    return all(is_of_hybrid(base) for base in own) and all(
        of_package(member.__code__)
        for base in own
        for member in vars(base).values()
        if type(member) is FunctionType
    )


def _attributes(value: Any) -> Iterable[Any]:
    names = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
    yield from [getattr(value, name) for name in names if hasattr(value, name)]
    own = getattr(value, "__dict__", {})
    yield from [item for name, item in own.items() if name != "_hybridized"]  # plans of its code
