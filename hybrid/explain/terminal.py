"""An explanation in colours, as wide as the terminal; long lines wrap in their column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hybrid.explain.author_source import spans
from hybrid.explain.explanation import Explanation, Function, Line
from hybrid.explain.plain_text import MARK, head, tables, widths

# The terminal's own colours, which its user has chosen to be legible.
LABELS = {
    "cond": "bold magenta",
    "for": "bold blue",
    "while": "bold blue",
    "unrolled": "bold yellow",
    "py_call": "bold cyan",
    "check": "bold cyan",
    "graph": "green",
    "jump": "green",
    "python": "dim",
    "not run": "dim",
    "": "",
}
NOTES = {"node": "blue", "why": "yellow", "key": "magenta", "guard": "magenta", "call": "dim"}
CODE = {"keyword": "bold", "text": "green", "number": "cyan", "comment": "dim italic"}


def show_explanation(explanation: Explanation) -> None:
    """Print ``explanation`` where the program prints."""
    Console(highlight=False).print(explanation)


def explanation_parts(explanation: Explanation) -> Iterator[Any]:
    """What rich is to print, from top to bottom."""
    first, *rest = head(explanation)
    yield Text(first, "bold")
    yield from [Text(line) for line in rest]
    columns = widths(explanation)
    for function in explanation.functions:
        yield Text("")
        yield Text.assemble((function.name, "bold underline"), f"  {function.place}")
        if function.remark:
            yield Text(function.remark, "yellow")
        yield _table(function, columns)
    for title, rows in tables(explanation):
        yield Text("")
        yield Text(title, "bold")
        yield from [Text(row) for row in rows]


def _table(function: Function, columns: tuple[int, int, int]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for width, side in zip(columns, ("right", "right", "left"), strict=True):
        table.add_column(width=width, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column(overflow="fold")
    coloured = spans([line.text for line in function.lines])
    for line, parts in zip(function.lines, coloured, strict=True):
        code = Text(line.text, "dim" if line.kind == "not run" else "")
        for start, end, kind in parts if line.kind != "not run" else ():
            code.stylize(CODE[kind], start, end)
        count = str(line.nodes) if line.nodes else ""
        label = Text(line.label, LABELS[line.kind])
        table.add_row(Text(str(line.number), "dim"), Text(count, "dim"), label, code)
        for note in line.notes:
            text = Text(MARK + note.text, NOTES[note.kind])
            table.add_row("", "", "", Padding(text, (0, 0, 0, _indent(line))))
    return table


def _indent(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())
