"""The application ``hybrid``: every module in ``commands`` is a command, found by being there.

A command module has an ``app`` of its own.  One with a single command of the module's name is that
command; one with a callback is a group of commands.
"""

import importlib
import pkgutil
from typing import Annotated

import typer

from hybrid import __version__
from hybrid.cli import commands
from hybrid.cli.user_input import fail
from hybrid.errors import HybridError
from hybrid.memory import native


def show_version(asked: bool) -> None:
    """Print the version, and end."""
    if asked:
        typer.echo(f"hybrid {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", help="Show the version and exit.", is_eager=True,
                 callback=show_version),
]  # fmt: skip


def start(version: Version = False) -> None:
    """Look at hybrid, at its graphs, and at its speed on this machine."""
    try:
        native.require_environment()
    except HybridError as error:
        fail(error)


def build() -> typer.Typer:
    """The application with all its commands, in alphabetical order."""
    app = typer.Typer(
        name="hybrid",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode="markdown",  # so that paragraphs are filled
        callback=start,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for found in sorted(pkgutil.iter_modules(commands.__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{commands.__name__}.{found.name}")
        if module.app.registered_callback is None:
            app.add_typer(module.app)
        else:
            app.add_typer(module.app, name=found.name)
    return app


def main() -> None:
    """The console script."""
    build()()
