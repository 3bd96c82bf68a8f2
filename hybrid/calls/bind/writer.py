"""Writer of generated Python functions: text, and the objects that its names stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Writer:
    """The text of a generated function, line by line, and its namespace."""

    def __init__(self, **names: Any) -> None:
        self.lines: list[str] = []
        self.names = names

    def line(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str, value: Any) -> str:
        """A name for ``value``."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, header: str) -> Callable[..., Any]:
        text = "\n".join([header, *self.lines]) + "\n"
        exec(compile(text, "<binding>", "exec"), self.names)
        made = self.names["call"]
        made.source = text
        return made
