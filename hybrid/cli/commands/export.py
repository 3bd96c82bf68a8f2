"""``hybrid export``: write functions to a file that runs without Python."""

from pathlib import Path
from typing import Annotated

import typer

import hybrid as hy
from hybrid.cli.user_input import fail, load_function, parse_dims, parse_open_types
from hybrid.errors import HybridError

app = typer.Typer()


@app.command()
def export(
    target: Annotated[str, typer.Argument(help="path/to/file.py:function or module:function")],
    output: Annotated[Path, typer.Option("--output", "-o", help="the file to write")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="type of an input: f32[8,4], f32[batch,4]"),
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--size", help="range of an open axis: batch=1:64")
    ] = None,
    name: Annotated[str | None, typer.Option(help="of the function in the file")] = None,
) -> None:
    """Write TARGET, a function or Module, with its state to a file; runs nothing.

    ``hybrid run``, ``hybrid inspect`` and C read it.
    """
    dims = parse_dims(sizes or [])
    types, dynamic = parse_open_types(inputs or [], dims)
    named = {dim.name for axes in dynamic.values() for dim in axes.values()}
    for name_of_size in dims.keys() - named:
        fail(f"--size {name_of_size} is of no axis of an --input.")
    function = load_function(target)
    arguments = [hy.zeros(t.shape, dtype=t.dtype) for t in types]
    try:
        if name is None:
            hy.export(function, output, *arguments, dynamic=dynamic)
        else:
            hy.export({name: (function, *arguments)}, output, dynamic=dynamic)
    except (HybridError, TypeError) as error:  # TypeError: another number of arguments
        fail(f"{target}: {error}")
    except OSError as error:
        fail(f"--output {output} cannot be written: {error.strerror}.")
    typer.echo(f"{output}: {output.stat().st_size:,} bytes")
