"""Tell the author's code and objects from those of libraries and of this package.

What a library does is taken as it is; the author's code is followed, converted and guarded, and so
are the layers, optimizers and models of this package, which are written as users write theirs.
"""

from __future__ import annotations

import dis
import enum
import functools
import linecache
import os
import sys
import types
from collections import deque
from collections.abc import Callable
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hybrid.core.package import FOLDER, is_of_hybrid, module_of
from hybrid.core.types import DType, TensorType
from hybrid.errors import Location
from hybrid.trace.places.attributes import MISSING as MISSING
from hybrid.trace.places.names import Place, place_in

_PACKAGE = FOLDER + os.sep
_PARTS = ("nn", "optim", "train", "models")  # this package's classes that users configure
_LAYERS = (  # those of compress
    *("quantized_layers", "quantized_convolutions", "quantized_sequences", "training_aware"),
)
_LAYER_MODULES = {("compress", name) for name in _LAYERS}
_USER_PARTS = (
    *[_PACKAGE + part + os.sep for part in _PARTS],
    *[os.path.join(_PACKAGE, "compress", f"{name}.py") for name in _LAYERS],
)
# Programs that come with the package and are written as users write theirs.
_PROGRAMS = (
    *(_PACKAGE + part + os.sep for part in ("bench", "models", "train")),
    os.path.join(_PACKAGE, "optim", "lbfgs.py"),
    *(  # the formulas of schedules, which exports trace
        os.path.join(_PACKAGE, "optim", "lr_scheduler", f"{name}.py")
        for name in ("composition", "cycles", "decays", "plateau")
    ),
)
_STANDARD = (os.path.join(os.path.dirname(os.__file__), ""),)
_LIBRARIES = (os.path.dirname(np.__file__) + os.sep,)
ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    DType,
    TensorType,
    type(...),
    range,
    slice,
)
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
MUTABLE = (list, dict, set, deque, bytearray, np.ndarray)  # what is compared item by item


def has_attributes(value: Any) -> bool:
    """Return whether ``value`` is a number, text or container of the author's with attributes."""
    return (
        isinstance(value, (*ATOMS, *CONTAINERS))
        and not isinstance(value, enum.Enum)
        and hasattr(value, "__dict__")
        and not is_library_class(type(value))
    )


def is_library(code: types.CodeType) -> bool:
    """Return whether ``code`` is of the standard library, NumPy, its like, or our machinery."""
    return _is_library_path(code.co_filename) or code.co_names == ("_tuple_new",)  # a named tuple's


@functools.lru_cache(maxsize=4096)
def _is_library_path(path: str) -> bool:
    if path.startswith("<frozen"):
        return True
    if path.startswith(_PACKAGE):
        return not path.startswith(_USER_PARTS + _PROGRAMS)
    if path.startswith(_LIBRARIES) or _has_tensors(path):
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


def _has_tensors(path: str) -> bool:
    """Return whether the installed package of a file has tensors of its own, as PyTorch has.

    Such a package makes its own of what it is given, by DLPack: it computes nothing with ours.
    """
    folder, _, inside = path.replace(os.sep, "/").rpartition("-packages/")
    package = sys.modules.get(inside.partition("/")[0].partition(".")[0])
    return folder.endswith(("/site", "/dist")) and any(
        name in vars(package) for name in ("from_dlpack", "dlpack") if package is not None
    )


def of_package(code: types.CodeType) -> bool:
    """Return whether ``code`` belongs to this package, its layers included."""
    return _is_package_path(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_package_path(path: str) -> bool:
    return path.startswith(_PACKAGE) and not path.startswith(_PROGRAMS)


def program_frame(frame: types.FrameType | None) -> types.FrameType | None:
    """Return the innermost frame from ``frame`` outwards that runs no code of this package.

    Programs that come with the package are none of it here; they are to ``author_frame``, which
    says where an error is.
    """
    while frame is not None and of_package(frame.f_code):
        frame = frame.f_back
    return frame


def place_of(function: Any) -> Place | None:
    """Return the Place of the code that a call of ``function`` runs; conversion keeps it."""
    function = function_of(function)
    return None if function is None else place_in(function.__code__)


def function_of(function: Any) -> types.FunctionType | None:
    """Return the Python function that a call of ``function`` runs, if there is one."""
    if isinstance(function, functools.partial):
        return function_of(function.func)
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        function = getattr(type(function), "__call__", None)  # noqa: B004  what it is matters
    return function if isinstance(function, types.FunctionType) else None


def user_object(value: Any) -> bool:
    """Return whether ``value`` is an object whose attributes users set."""
    kind = type(value)
    machinery = is_of_hybrid(kind) or not hasattr(value, "__dict__")
    return not (machinery and is_library_class(kind))


def is_library_class(kind: type) -> bool:
    """Return whether ``kind`` belongs to a library or this package (layers do not count)."""
    found = _library_classes.get(kind)
    if found is None:
        found = _library_classes[kind] = _of_library(kind)
    return found


# By classes, which may go like all else.
_library_classes: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _of_library(kind: type) -> bool:
    root, _, rest = module_of(kind).partition(".")
    part, _, name = rest.partition(".")
    if root == "hybrid" and (part in (*_PARTS, "bench") or (part, name) in _LAYER_MODULES):
        return False  # they are as users write theirs
    module = sys.modules.get(module_of(kind))
    return module is not None and is_library_module(module)


def is_library_module(module: types.ModuleType) -> bool:
    """Return whether ``module`` is of the standard library, NumPy, its like, or this package."""
    path = getattr(module, "__file__", None)
    if path is None:
        return module.__name__.partition(".")[0] in sys.stdlib_module_names
    if path.startswith((_PACKAGE, *_LIBRARIES)) or _has_tensors(path):
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


def content_of(cell: types.CellType, unbound: Any = None) -> Any:
    """Return the value of a variable of an enclosing function, given its cell."""
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return unbound


# Where it is written -----


def definition(function: Callable[..., Any]) -> Location | None:
    """Return the line where the author has written ``function``, or its forward()."""
    code = _authors_code(function)
    return None if code is None else _location(code, code.co_firstlineno)


def returning(function: Callable[..., Any]) -> Location | None:
    """Return the line of the only ``return`` of ``function``, else that of its definition."""
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
