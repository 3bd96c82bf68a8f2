"""Imports on demand: functions that are called by name, and optional packages.

What a class of a lower folder leaves to a module above it (``Tensor.backward`` to the tape, the
pictures of a graph to what draws them) is called through a table of names, and imported when it is
called first: so imports run downwards, and a program pays for what it uses.

Optional packages are imported where they are needed; an error says how to get a missing one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from hybrid.core.exceptions import handlers_wait
from hybrid.errors import MissingPackageError


def imported(module: str) -> Any:
    """The module of that name; handlers of signals wait, which would find it in parts."""
    if module in sys.modules:
        return import_module(module)
    with handlers_wait():
        return import_module(module)


class LateNames:
    """Functions and classes by their names, from the modules that ``provide`` names."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}

    def provide(self, functions: Mapping[str, Iterable[str]]) -> None:
        """Add ``functions``: the names that each module is to be imported for."""
        self.modules.update({name: module for module, names in functions.items() for name in names})

    def __getattr__(self, name: str) -> Any:
        module = self.modules.get(name)
        if module is None:
            raise AttributeError(f"{self!r} is asked for {name}, which nothing provides")
        found = self.__dict__[name] = getattr(imported(module), name)
        return found

    def __repr__(self) -> str:
        return "<above>"


above: Any = LateNames()  # what modules of lower folders call of those above: see lazy_import.py


NAMES = {"PIL": "pillow"}  # of packages that are imported by another


def optional(package: str, extra: str, asked: str) -> Any:
    """The module ``package``, which pyproject's ``extra`` lists; ``asked`` is what needs it.

    Raises MissingPackageError, which says how to install it, where it is not there.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        root = package.partition(".")[0]
        if error.name not in (root, package):
            raise  # it is there, and lacks something itself
        raise MissingPackageError(
            f"{asked} needs the package {NAMES.get(root, root)}, which is not installed",
            fix=f'pip install "hybrid[{extra}]"',
        ) from None
