"""``hybrid inspect``: what is in the file of a program."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hybrid.cli.tables import plain_table
from hybrid.cli.user_input import fail, load_program

app = typer.Typer()


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="what hybrid.export has written")],
    graph: Annotated[str | None, typer.Option(help="print the graph of this function")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Show the functions of FILE, its cells, its kernels, and what takes how many bytes."""
    program = load_program(file)
    if graph is not None:
        if graph not in program:
            fail(f"{file} has no function {graph!r}: there are {', '.join(program)}.")
        typer.echo(program[graph].graph)
        return
    print_tables(program.about(), as_json=as_json)


def print_tables(about: dict[str, list[dict[str, Any]]], *, as_json: bool) -> None:
    """Print what is told of a file: a table of rows under each title, or JSON."""
    if as_json:
        typer.echo(json.dumps(about, indent=2))
        return
    console = Console(highlight=False)
    for title, rows in about.items():
        if rows:
            console.print(rows_table(title, rows))
            console.print()


def rows_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """A table of ``rows``, each a dict of the same keys."""
    shown = plain_table()
    for at, (name, value) in enumerate(rows[0].items()):
        right = isinstance(value, int)
        shown.add_column(title if at == 0 else name, justify="right" if right else "left")
    for row in rows:
        shown.add_row(*[f"{v:,}" if isinstance(v, int) else _shown(v) for v in row.values()])
    return shown


def _shown(value: Any) -> str:
    """What a table says of a value that a file may give any characters."""
    return escape(re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "?", str(value)))
