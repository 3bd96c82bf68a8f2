"""``hybrid reproduce``: run a call again that gave something else in a plan than eagerly."""

from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.user_input import fail
from hybrid.errors import HybridError
from hybrid.verification.reproduction import differences_in

app = typer.Typer()


@app.command()
def reproduce(
    folder: Annotated[Path, typer.Argument(help="that a verified call has written")],
) -> None:
    """Run the call in FOLDER eagerly and as a plan, and show in what the two differ.

    What is in the folder is code: run only what you trust.  The code is 1 if the two differ.
    """
    try:
        lines = differences_in(folder)
    except HybridError as error:
        fail(error)
    if not lines:
        typer.echo(f"{folder}: the same eagerly and in a plan.")
        return
    typer.echo("\n".join([f"{folder}: not the same eagerly and in a plan", *lines]))
    raise typer.Exit(1)
