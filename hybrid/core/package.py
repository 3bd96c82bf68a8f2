"""The package itself: its version, and the folders that it and its C library are in."""

import os

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
