"""Tables of profiles, as text in columns and for rich: cells without columns that hold nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.errors import Location


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """A title, headings, rows of cells, and which headings are of numbers."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: tuple[str, ...]

    def columns(self) -> list[tuple[str, ...]]:
        """The headings and the rows, without the columns that are empty in each row."""
        kept = [at for at in range(len(self.headings)) if any(row[at] for row in self.rows)]
        return [tuple([row[at] for at in kept]) for row in (self.headings, *self.rows)]

    def text(self) -> str:
        """The table in columns."""
        headings, *_ = cells = self.columns()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [self.title]
        for row in cells:
            parts = [
                cell.rjust(width) if heading in self.numbers else cell.ljust(width)
                for heading, cell, width in zip(headings, row, widths, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
        return "\n".join(lines) + "\n"

    def rich(self) -> Any:
        """The table for rich."""
        from rich.table import Table

        headings, *rows = self.columns()
        table = Table(title=self.title)
        for heading in headings:
            table.add_column(heading, justify="right" if heading in self.numbers else "left")
        for row in rows:
            table.add_row(*row)
        return table


def duration(seconds: float) -> str:
    """Seconds as text, in ms or us."""
    return f"{seconds * 1e3:,.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def byte_count(n: float) -> str:
    """A number of bytes as text."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            break
        n /= 1024
    return f"{n:,.0f} B" if unit == "B" else f"{n:,.1f} {unit}"


def cut(text: str, width: int = 44) -> str:
    """``text``, which ends in dots where it is longer than ``width``."""
    return text if len(text) <= width else text[: width - 3] + "..."


def line_of(at: Location | None) -> str:
    """File and line, short."""
    return "" if at is None else f"{os.path.basename(at.path)}:{at.line}"
