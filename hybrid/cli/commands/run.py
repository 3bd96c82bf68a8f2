"""``hybrid run``: run a function of a program on arrays in files."""

import io
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import hybrid as hy
from hybrid.cli.user_input import fail, load_program
from hybrid.core.output_file import whole_file
from hybrid.errors import HybridError
from hybrid.ops.support.operand_checks import plural

app = typer.Typer()


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="what hybrid.export has written")],
    function: Annotated[str | None, typer.Argument(help="its name; default: the only one")] = None,
    inputs: Annotated[
        list[Path] | None, typer.Option("--input", "-i", help="an .npy file, in order")
    ] = None,
    outputs: Annotated[
        list[Path] | None, typer.Option("--output", "-o", help="write an output as .npy, in order")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="write the program with its new state")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="run so often")] = 1,
) -> None:
    """Run FUNCTION of FILE once; print what it gives, or write it to --output."""
    program = load_program(file)
    if function is None:
        if len(program) != 1:
            fail(f"{file} has several functions: {', '.join(program)}; name one.")
        [function] = program
    if function not in program:
        fail(f"{file} has no function {function!r}: there are {', '.join(program)}.")
    chosen = program[function]
    given, written = inputs or [], outputs or []
    taken, made = plural(len(chosen.inputs), "input"), plural(len(chosen.outputs), "output")
    if len(given) != len(chosen.inputs):
        fail(f"{function} takes {taken}, and --input names {len(given)}.")
    if len(written) > len(chosen.outputs):
        fail(f"{function} has {made}, and --output names {len(written)}.")
    try:
        tensors = [hy.asarray(_array(path)) for path in given]
        for _ in range(repeat):
            results = chosen.run(*tensors)
    except HybridError as error:
        fail(str(error))
    try:
        for path, result in zip(written, results, strict=False):
            content = io.BytesIO()  # a pipe is written to, too, which NumPy does not know
            np.save(content, result.numpy(), allow_pickle=False)
            with whole_file(path) as target:
                target.write(content.getbuffer())
        if save is not None:
            program.save(save)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}.")
    for value, result in list(zip(chosen.outputs, results, strict=True))[len(written) :]:
        typer.echo(f"{value.name}: {result.type}\n{result.numpy()}")


def _array(path: Path) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        fail(f"--input {path} cannot be read: {error.strerror or error}.")
    except ValueError as error:
        fail(f"--input {path} is no .npy file: {error}.")
