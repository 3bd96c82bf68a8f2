"""Table of impure library functions, and a snapshot of the global random number generators.

A capture would call them once, and every run get what that call gave.  Random numbers of Python's
and NumPy's modules are drawn unseen: whether they were shows in the state of the generators.
"""

from __future__ import annotations

import ctypes
import os
import random
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.package import module_of
from hybrid.errors import CaptureError, Location, author_location
from hybrid.trace.capture.surroundings import OUTSIDE, impure
from hybrid.trace.places.code_owner import of_package

_TIME = "measure it outside, and pass it as an argument, or call it by hybrid.py_call"
_DRAW = "draw from hybrid.random, or draw outside and pass the numbers as arguments"
# By the module and the qualified name; a name of "*" stands for all of a module.
_FUNCTIONS: dict[tuple[str | None, str], str] = {
    **{("time", f"{name}{unit}"): _TIME
       for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
       for unit in ("", "_ns")},
    ("time", "sleep"): OUTSIDE,
    ("weakref", "finalize"): OUTSIDE,
    **{(None, f"{name}"): _TIME
       for name in ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")},
    **{("uuid", name): _DRAW for name in ("uuid1", "uuid4")},
    ("secrets", "*"): _DRAW,
    **{(system, name): _DRAW for system in ("posix", "nt") for name in ("urandom", "getrandom")},
    **{(system, name): OUTSIDE for system in ("posix", "nt")
       for name in ("open", "read", "write", "remove", "unlink", "mkdir", "rmdir", "rename",
                    "replace", "system", "putenv", "unsetenv", "chdir", "kill", "listdir",
                    "stat", "lstat", "fstat", "access", "scandir", "readlink", "statvfs",
                    "getxattr", "pread", "readv", "getcwd")},
    **{key: OUTSIDE for key in (("_io", "FileIO"), ("mmap", "mmap"), ("_sqlite3", "connect"))},
    **{("os", name): OUTSIDE for name in ("makedirs", "removedirs", "popen", "renames")},
    **{("builtins", name): OUTSIDE for name in ("input", "open")},
    **{(module, "open"): OUTSIDE for module in ("io", "_io")},
    **{(module, "*"): OUTSIDE for module in ("shutil", "subprocess", "tempfile")},
    **{(module, f"Path.{name}"): OUTSIDE for module in ("pathlib", "pathlib._local")
       for name in ("open", "read_text", "read_bytes", "write_text", "write_bytes", "mkdir",
                    "rmdir", "touch", "unlink", "rename", "replace", "stat", "lstat", "exists",
                    "is_file", "is_dir", "iterdir", "glob", "rglob", "resolve", "samefile",
                    "is_symlink", "is_mount", "is_socket", "is_fifo", "is_block_device",
                    "is_char_device", "owner", "group", "readlink", "walk", "chmod",
                    "symlink_to", "hardlink_to")},
    **{("numpy", name): OUTSIDE
       for name in ("save", "savez", "savez_compressed", "savetxt", "load", "loadtxt",
                    "genfromtxt", "fromfile")},
    **{("numpy.random.mtrand", name): _DRAW for name in ("seed", "set_state")},
    ("numpy.random", "seed"): _DRAW,
}  # fmt: skip
# Without arguments these depend on the system.
_ALONE: dict[tuple[str | None, str], str] = {
    **{("time", name): _TIME for name in ("localtime", "gmtime", "ctime", "asctime")},
    ("numpy.random", "default_rng"): _DRAW,
    ("numpy.random._generator", "default_rng"): _DRAW,
    ("random", "Random"): _DRAW,
    ("numpy.random.mtrand", "RandomState"): _DRAW,
}
_CHANGING = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__"})


def refuse(function: Any, arguments: Sequence[Any], at: Location | None) -> None:
    """Raise CaptureError if ``function`` is impure."""
    key = _key(function)
    fix = _FUNCTIONS.get(key) or _FUNCTIONS.get((key[0], "*"))
    if fix is None and not arguments:
        fix = _ALONE.get(key)
    if fix is not None:
        name = key[1] if key[0] in (None, "builtins", "io", "_io") else f"{_module(key)}.{key[1]}"
        raise impure(name, at, fix)
    if getattr(function, "__self__", None) is os.environ and function.__name__ in _CHANGING:
        refuse_store(os.environ)


def refuse_store(value: Any) -> None:
    """Raise CaptureError if ``value``, an item of which is to be set, is the environment."""
    if value is os.environ:
        raise CaptureError(
            "os.environ is changed",
            at=author_location(),
            why="That happens once, while the function is captured, and no run of the plan "
            "repeats it.",
            fix=OUTSIDE,
        )


def may_draw(function: Any) -> bool:
    """Whether ``function`` is code of a library that may draw random numbers unseen."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or of_package(function.__code__):
        return False
    return not module_of(function).startswith("numpy.")


def _key(function: Any) -> tuple[str | None, str]:
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", "")
    module = getattr(function, "__module__", None)
    if isinstance(getattr(function, "__self__", None), type):
        module = None  # a class method, of whatever class
    return module, name if isinstance(name, str) else ""


def _module(key: tuple[str | None, str]) -> str:
    return {"posix": "os", "nt": "os"}.get(key[0] or "", key[0] or "")


_NBYTES = 624 * 4 + 4  # of the state of a Mersenne Twister: its words, and the place among them


class Draws:
    """A snapshot of the states of both global generators."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = _numpy_state()

    def moved(self) -> bool:
        """Whether either is another by now."""
        return self._numpy != _numpy_state() or self._python != random.getstate()

    def undo(self) -> None:
        """Put both back."""
        random.setstate(self._python)
        if isinstance(self._numpy, bytes):
            ctypes.memmove(_generator().ctypes.state_address, self._numpy, _NBYTES)
        else:
            _generator().state = self._numpy


def _generator() -> Any:
    return np.random.rand.__self__._bit_generator


def _numpy_state() -> Any:
    """All of it; a look at the memory is a hundred times as fast as asking for it."""
    generator = _generator()
    if type(generator) is np.random.MT19937:
        return ctypes.string_at(generator.ctypes.state_address, _NBYTES)
    return generator.state
