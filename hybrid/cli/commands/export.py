"""``hybrid export``: write functions to a file that runs without Python, or to a program in C."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

import hybrid as hy
from hybrid.cli.user_input import (
    fail,
    load_function,
    load_program,
    parse_dims,
    parse_open_types,
    tell_written,
    zeros_of,
)
from hybrid.core.output_file import is_regular
from hybrid.errors import HybridError

app = typer.Typer()


@app.command()
def export(
    target: Annotated[
        str, typer.Argument(help="path/to/file.py:function, module:function, or a program's file")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="the file to write")] = None,
    standalone: Annotated[
        Path | None, typer.Option(help="write C sources of one binary to this folder")
    ] = None,
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

    ``hybrid run``, ``hybrid inspect``, ``hybrid-run`` and C read it.  With --standalone the file
    and the C sources of just what it uses go to a folder, where ``make`` makes a program of them.
    """
    if output is None and standalone is None:
        fail("nothing is to be written. Fix: give --output FILE, or --standalone FOLDER.")
    if Path(target).is_file():
        if output is not None or inputs or sizes or name is not None:
            fail(f"{target} is a file already: --standalone alone goes with it.")
        if standalone is not None:
            load_program(Path(target))  # which says what is wrong with it
            write_standalone(Path(target), standalone)
        return
    if output is not None and standalone is not None and not is_regular(output):
        fail(f"--output {output} is no regular file, from which --standalone could be made.")
    with tempfile.TemporaryDirectory() as folder:
        path = output or Path(folder, "program.hyb")
        write_program(target, path, inputs or [], sizes or [], name)
        if standalone is not None:
            write_standalone(path, standalone)


def write_program(
    target: str, path: Path, inputs: list[str], sizes: list[str], name: str | None
) -> None:
    """Export what ``target`` names to the file ``path``."""
    dims = parse_dims(sizes)
    types, dynamic = parse_open_types(inputs, dims)
    named = {dim.name for axes in dynamic.values() for dim in axes.values()}
    for name_of_size in dims.keys() - named:
        fail(f"--size {name_of_size} is of no axis of an --input.")
    function = load_function(target)
    try:
        arguments = zeros_of(types)
        if name is None:
            hy.export(function, path, *arguments, dynamic=dynamic)
        else:
            hy.export({name: (function, *arguments)}, path, dynamic=dynamic)
    except (HybridError, TypeError) as error:  # TypeError: another number of arguments
        fail(f"{target}: {error}")
    except OSError as error:
        fail(f"--output {path} cannot be written: {error.strerror}.")
    tell_written(path)


def write_standalone(path: Path, folder: Path) -> None:
    """Write the program in ``path`` and its sources to ``folder``."""
    from hybrid.programs import standalone  # most exports do without

    try:
        standalone.write_standalone(path, folder)
    except HybridError as error:
        fail(f"--standalone {folder}: {error}")
    except OSError as error:
        fail(f"--standalone {folder} cannot be written: {error.strerror}.")
    files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    size = sum(map(os.path.getsize, files))
    typer.echo(
        f"{folder}: {len(files)} files, {size:,} bytes. `make -C {folder}` makes the program."
    )
