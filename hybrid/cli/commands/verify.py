"""``hybrid verify``: whether the file of a program is whole."""

from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.user_input import fail, load_program

app = typer.Typer()


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="what hybrid.export has written")],
) -> None:
    """Check every byte of FILE: tables, plans, graphs, and the contents of cells."""
    program = load_program(file, whole=True)
    about = program.about()
    missing = [row["name"] for row in about["kernels"] if row["here"] == "no"]
    if missing:
        fail(
            f"{file} is whole, but its plans cannot be checked, nor loaded by C: this library does "
            f"not have the kernels {', '.join(missing)}"
        )
    cells = about["cells"]
    typer.echo(
        f"{file} is whole: {len(program)} functions, {len(cells)} cells, "
        f"{file.stat().st_size:,} bytes."
    )
