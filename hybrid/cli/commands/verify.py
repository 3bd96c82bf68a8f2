"""``hybrid verify``: whether the file of a program is whole, and who has signed it."""

from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.user_input import fail, load_program
from hybrid.errors import HybridError
from hybrid.ops.support.operand_checks import plural

app = typer.Typer()


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="what hybrid.export has written")],
    key: Annotated[
        Path | None, typer.Option(help="the public key, in PEM, of whom FILE.sig must come from")
    ] = None,
) -> None:
    """Check every byte of FILE: tables, plans, graphs, and the contents of cells.

    With --key its signature comes first: see `hybrid sign`.
    """
    if key is not None:
        _require_signature(file, key)
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
        f"{file} is whole: {plural(len(program), 'function')}, {plural(len(cells), 'cell')}, "
        f"{file.stat().st_size:,} bytes{'' if key is None else f', signed by the key of {key}'}."
    )


def _require_signature(file: Path, key: Path) -> None:
    from hybrid.programs.signatures import require_signature

    try:
        require_signature(file, key)
    except HybridError as error:
        fail(error)
    except OSError as error:
        fail(f"{error.filename} cannot be read: {error.strerror}.")
