"""``hybrid sign``: the signature of a program, beside its file."""

from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.user_input import fail, load_program
from hybrid.errors import HybridError

app = typer.Typer()


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="what hybrid.export has written")],
    key: Annotated[Path, typer.Option(help="the private key of Ed25519, in PEM")],
) -> None:
    """Sign FILE: write FILE.sig, which `hybrid verify --key` checks, and so does OpenSSL.

    openssl genpkey -algorithm ed25519 -out private.pem makes a key, and
    openssl pkey -in private.pem -pubout -out public.pem the public one to it.
    """
    from hybrid.programs.signatures import sign as write_signature

    load_program(file, whole=True)
    try:
        written = write_signature(file, key)
    except HybridError as error:
        fail(error)
    except OSError as error:
        fail(f"{error.filename} cannot be read or written: {error.strerror}.")
    typer.echo(f"{written}: the signature of {file.stat().st_size:,} bytes")
