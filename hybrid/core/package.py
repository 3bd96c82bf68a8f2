"""The package itself: its version, and the folders that it and its C library are in."""

import os
from typing import Any

__version__ = "0.1.0"
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sources_dir() -> str:
    """The folder of the C sources: in the package, or beside it where that is in a checkout."""
    inside = os.path.join(FOLDER, "csrc")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(FOLDER), "csrc")


def include_dir() -> str:
    """The folder of ``hybrid.h``, for ``cc -I``."""
    return os.path.join(sources_dir(), "include")


def lib_dir() -> str:
    """The folder of ``libhybrid.so``, for ``cc -L`` and as a run path: all of hybrid but Python."""
    return os.path.join(FOLDER, "lib")


def module_of(value: Any) -> str:
    """Return the name of the module that a class or function says it is from, "" if it says none.

    ``__module__`` of a class may be anything: that of a type written in C, which has the attribute
    for its objects, is the descriptor itself.
    """
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def is_of_hybrid(value: Any) -> bool:
    """Return whether a class or function says that it is from this package."""
    return module_of(value).partition(".")[0] == "hybrid"
