"""``hybrid explain``: print a function's source with what becomes of each line when captured."""

from pathlib import Path
from typing import Annotated

import typer

import hybrid as hy
from hybrid.cli.user_input import fail, load_function, parse_types, zeros_of
from hybrid.errors import HybridError

app = typer.Typer()


@app.command()
def explain(
    target: Annotated[str, typer.Argument(help="path/to/file.py:function or module:function")],
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="type of an input, as f32[8,4]")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="write it here instead, as a page")] = None,
) -> None:
    """Capture TARGET on inputs of the given types and tell what became of each of its lines."""
    types = parse_types(inputs or [])
    function = load_function(target)
    try:
        hybridized = hy.hybridize(function)
        told = hybridized.explain(*zeros_of(types))
    except (HybridError, TypeError) as error:  # TypeError: another number of arguments
        fail(f"{target}: {error}")
    if html is None:
        told.show()
        return
    try:
        typer.echo(f"{told.html(html)} explains {told.name}.")
    except HybridError as error:
        fail(f"--html: {error}")
