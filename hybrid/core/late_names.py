"""Late names: functions that are called by name, and imported when they are called first.

What a class of a lower folder leaves to a module above it (``Tensor.backward`` to the tape, the
pictures of a graph to what draws them) is called through a table of names: so imports run
downwards, and a program pays for what it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any


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
        found = self.__dict__[name] = getattr(import_module(module), name)
        return found

    def __repr__(self) -> str:
        return "<above>"


above: Any = LateNames()  # what modules of lower folders call of those above: see lazy_import.py
