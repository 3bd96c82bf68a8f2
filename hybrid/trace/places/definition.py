"""Where the author has written a function that is captured, and what it returns."""

from __future__ import annotations

import dis
import linecache
from collections.abc import Callable
from types import CodeType
from typing import Any

from hybrid.errors import Location
from hybrid.trace.places.code_owner import of_package


def definition(function: Callable[..., Any]) -> Location | None:
    """Where the author has written ``function``, or the forward() that it calls."""
    code = _authors_code(function)
    return None if code is None else _location(code, code.co_firstlineno)


def returning(function: Callable[..., Any]) -> Location | None:
    """Where ``function`` returns, if there is one such line; else where it is written."""
    code = _authors_code(function)
    if code is None:
        return None
    lines = _returning_lines(code)
    return _location(code, lines.pop() if len(lines) == 1 else code.co_firstlineno)


def _authors_code(function: Any) -> CodeType | None:
    code = _code(function)
    if code is not None and of_package(code):
        code = _code(getattr(getattr(function, "__self__", None), "forward", None))
    return None if code is None or of_package(code) else code


def _code(function: Any) -> CodeType | None:
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _returning_lines(code: CodeType) -> set[int]:
    """The lines of the statements that return anything but None."""
    found: set[int] = set()
    line, before = code.co_firstlineno, None
    starts = dict(dis.findlinestarts(code))
    for instruction in dis.get_instructions(code):
        line = starts.get(instruction.offset) or line
        constant = before if instruction.opname == "RETURN_VALUE" else instruction
        is_none = constant is not None and (
            constant.opname in ("LOAD_CONST", "RETURN_CONST") and constant.argval is None
        )
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST") and not is_none:
            found.add(line)
        before = instruction
    return found


def _location(code: CodeType, line: int) -> Location:
    return Location(code.co_filename, line, linecache.getline(code.co_filename, line).strip())
