"""``hybrid onnx``: models of ONNX, written, read as Python, and looked at."""

from pathlib import Path
from typing import Annotated, Any

import typer

import hybrid as hy
from hybrid.cli.commands.inspect import print_tables
from hybrid.cli.user_input import fail, load_function, parse_open_types, tell_written, zeros_of
from hybrid.core.output_file import is_regular, write_text
from hybrid.errors import HybridError, MissingPackageError

app = typer.Typer()

File = Annotated[Path, typer.Argument(help="a model of ONNX")]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", "-i", help="type of an input: f32[8,4]")
]


@app.callback()
def onnx() -> None:
    """Write functions as models of ONNX, read models as Python, and look at them."""
    try:
        assert hy.onnx
    except MissingPackageError as error:
        fail(error)


@app.command()
def export(
    target: Annotated[str, typer.Argument(help="path/to/file.py:function or module:function")],
    output: Annotated[Path, typer.Option("--output", "-o", help="the file to write")],
    inputs: Inputs = None,
    opset: Annotated[int, typer.Option(help="17 to 23")] = 18,
    beside: Annotated[
        bool, typer.Option("--external-data", help="large weights in a file beside it")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", help="of quantized models: integer, or qdq")
    ] = "integer",
) -> None:
    """Write TARGET, a function or Module, as a model of ONNX; runs nothing.

    Sizes that vary have names, as n in f32[n,4].
    """
    types, axes = parse_open_types(inputs or [])
    function = load_function(target)
    try:
        made = hy.onnx.model_export.exported_model(
            function, zeros_of(types), opset=opset, dynamic_axes=axes, format=form
        )
        hy.onnx.model_storage.save_model(made.proto, output, beside or None)
    except (HybridError, TypeError) as error:  # TypeError: another number of arguments
        fail(f"{target}: {error}")
    except OSError as error:
        fail(f"--output {output} cannot be written: {error.strerror}.")
    apart = not is_regular(output)
    for what in made.left_out:
        typer.echo(f"left out: {what}", err=apart)
    for condition in made.conditions:
        typer.echo(f"for sizes with {condition}", err=apart)
    tell_written(output)


@app.command("import")
def import_(
    file: File,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="a .py or .hyb to write")
    ] = None,
    inputs: Inputs = None,
) -> None:
    """Show FILE as Python, or write it: as text (.py), or as a program (.hyb).

    A program needs the types of its inputs where the file does not say all sizes; those that vary
    have names there, as n in f32[n,4].
    """
    module = _read(hy.onnx.load, file)
    if output is None:
        typer.echo(module.source())
        return
    try:
        if output.suffix == ".py":
            write_text(output, module.source())
        elif output.suffix == ".hyb":
            types, axes = parse_open_types(inputs or _declared(file))
            hy.export(module, output, *zeros_of(types), dynamic=axes)
        else:
            fail(f"--output {output}: give a file that ends with .py or .hyb.")
    except (HybridError, TypeError) as error:
        fail(f"{file}: {error}")
    except OSError as error:
        fail(f"--output {output} cannot be written: {error.strerror}.")
    tell_written(output)


@app.command()
def inspect(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Show what goes into FILE and comes out, its opsets, ops and weights.

    By each op stands what is run for it: a handler of hybrid's, a body of other ops, or nothing.
    """
    print_tables(_read(hy.onnx.summary, file), as_json=as_json)


def _read(reader: Any, file: Path) -> Any:
    """What ``reader`` makes of the file."""
    try:
        return reader(file)
    except HybridError as error:
        fail(error)


def _declared(file: Path) -> list[str]:
    """The types of the inputs, as the file says them."""
    found = [row["type"] for row in hy.onnx.summary(file)["inputs"]]
    unknown = [text for text in found if not text.rpartition("[")[2][:-1].replace(",", "").isdigit()
               and not text.endswith("[]")]  # fmt: skip
    if unknown:
        fail(f"{file} does not say all sizes: {', '.join(found)}. Fix: give --input for each.")
    return found
