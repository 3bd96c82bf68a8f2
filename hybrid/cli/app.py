"""The application ``hybrid``: every module in ``commands`` is a command, found by being there.

A command module has an ``app`` of its own.  One with a single command of the module's name is that
command; one with a callback is a group of commands.
"""

import errno
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from contextlib import suppress
from typing import Annotated, NoReturn

import rich
import typer

from hybrid import __version__
from hybrid.cli import commands
from hybrid.cli.user_input import fail
from hybrid.core.package import FOLDER
from hybrid.errors import HybridError, leave_frames_out, shorten
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
    leave_frames_out(*_FRAMEWORK)
    app = typer.Typer(
        name="hybrid",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
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


_FRAMEWORK = tuple([os.path.dirname(module.__file__) + os.sep for module in (typer, rich)])
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """The console script: how commands end that are not done.

    Ctrl-C ends with code 130 and a pipe that nobody reads any more with 141, as other programs do,
    both without a word.  Standard output that cannot be written is told in one line.  What the
    user's own code raises is shown with the user's frames alone.
    """
    leave_frames_out(sys.argv[0])  # the script that calls this
    try:
        build()()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _drop_output()
        raise SystemExit(128 + signal.SIGPIPE) from None
    except OSError as error:
        if error.filename is not None or error.errno not in _DISK:
            _show(error)
        _drop_output()
        message = f"hybrid: standard output cannot be written: {error.strerror}."
        raise SystemExit(message) from None  # code 1
    except Exception as error:
        _show(error)


def _drop_output() -> None:
    """What is left of standard output has nowhere to go."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _show(error: Exception) -> NoReturn:
    """Print ``error``, of the user's code or a fault of this program, and end with code 1."""
    if os.environ.get("HYBRID_TRACEBACK") != "full":
        shorten(error)
        trace = error.__traceback__
        script = os.path.basename(sys.argv[0])
        while trace is not None and trace.tb_next is not None:
            path = trace.tb_frame.f_code.co_filename
            if os.path.basename(path) != script and not path.startswith((FOLDER, *_FRAMEWORK)):
                break
            trace = trace.tb_next
        if trace is not None:
            error = error.with_traceback(trace)
    traceback.print_exception(type(error), error, error.__traceback__)
    raise SystemExit(1)
