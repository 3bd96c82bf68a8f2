"""What commands print: the machine, tables whose figures are not cut off, and a bar till then."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from hybrid.bench.report import facts

WIDEST = 240  # columns; a line that a terminal has to wrap is better than figures cut off


def plain_table() -> Table:
    """A table without lines, whose columns stand two characters apart."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))


def figures_table(name: str, figures: Sequence[str]) -> Table:
    """A table of rows that have a ``name`` and ``figures``."""
    table = plain_table()
    table.add_column(name, style="bold", no_wrap=True)
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_whole(*shown: RenderableType) -> None:
    """Print tables one below the other, each as wide as it needs to be.

    A terminal may be narrower and wraps their lines then; where nobody says how wide a line may
    be, in a file or a pipe, rich takes it to be 80 columns.
    """
    for each in shown:
        console = Console(highlight=False)
        wide = console.options.update(max_width=WIDEST)
        needed = Measurement.get(console, wide, each).maximum
        Console(highlight=False, width=max(console.width, needed)).print(each)


def show_machine() -> None:
    """What the figures are of."""
    console = Console(highlight=False)
    machine = facts()
    console.print(machine["processor"])
    console.print(
        f"{machine['isa']}, threads: {machine['threads']}, {machine['compiler']},"
        f" Python {machine['python']}, NumPy {machine['numpy']}\n"
    )


def progress_bar(width: int = 28) -> Progress:
    """A bar on stderr, behind descriptions of ``width``, that goes when it is done.

    There is none unless that is a terminal.
    """
    columns = (
        TextColumn(f"{{task.description:<{width}}}"),
        BarColumn(),
        MofNCompleteColumn(),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
