"""``hybrid library``: the C library for static linking, from the sources in the package."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.user_input import fail, tell_written
from hybrid.core.output_file import whole_file
from hybrid.core.package import include_dir, sources_dir

app = typer.Typer()


@app.command()
def library(
    folder: Annotated[Path, typer.Argument(help="where to put it")],
    jobs: Annotated[
        int | None, typer.Option(min=1, help="compilers at a time; default: one for each core")
    ] = None,
) -> None:
    """Build libhybrid.a and libhybrid.so in FOLDER, and put hybrid.h beside them; takes minutes.

    Needs make and a C compiler: CC and CFLAGS are looked at.  Programs that are linked with the
    shared library alone find one in the package already: hybrid.lib_dir().
    """
    if shutil.which("make") is None:
        fail("there is no make, which builds the library. Fix: install it, and a C compiler.")
    count = jobs or len(os.sched_getaffinity(0))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as build:
            done = subprocess.run(
                ["make", "-s", f"-j{count}", "-C", sources_dir(), f"BUILD={build}"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                fail(f"make ended with code {done.returncode}: {_fault(done.stderr)}", code=1)
            for name in ("libhybrid.a", "libhybrid.so"):
                copy_whole(Path(build, name), folder / name)
        copy_whole(Path(include_dir(), "hybrid.h"), folder / "hybrid.h")
    except OSError as error:
        fail(f"{folder} cannot be written: {error.strerror}.")
    for name in ("libhybrid.a", "libhybrid.so", "hybrid.h"):
        tell_written(folder / name)


def copy_whole(source: Path, target: Path) -> None:
    """Write the content of one file to another, as a whole."""
    with source.open("rb") as file, whole_file(target) as made:
        shutil.copyfileobj(file, made)


def _fault(printed: str) -> str:
    """The line of what a compiler and make have printed that says most."""
    lines = [line for line in printed.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
