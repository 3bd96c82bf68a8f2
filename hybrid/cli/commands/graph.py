"""``hybrid graph``: print the graph a function is captured into."""

from pathlib import Path
from typing import Annotated

import typer

import hybrid as hy
from hybrid.calls.executable import optimized_plan
from hybrid.cli.user_input import fail, load_function, parse_open_types, zeros_of
from hybrid.core.output_file import write_text
from hybrid.errors import HybridError
from hybrid.ir import print_graph
from hybrid.passes import run_pipeline

app = typer.Typer()


@app.command()
def graph(
    target: Annotated[str, typer.Argument(help="path/to/file.py:function or module:function")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="type of an input: f32[8,4], f32[n,4]"),
    ] = None,
    optimize: Annotated[bool, typer.Option(help="show it after the passes")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write it here")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", "--show", help="draw it here: an .html, or an .svg (by Graphviz)"),
    ] = None,
) -> None:
    """Capture TARGET on inputs of the given types and print its graph; runs nothing else."""
    types, dynamic = parse_open_types(inputs or [])
    function = load_function(target)
    try:
        captured = hy.hybridize(function, dynamic=dynamic or None).graph(*zeros_of(types))
        shown = captured
        if optimize:  # of symbols there is no plan, but the graph of those that are bound to sizes
            shown = run_pipeline(captured) if dynamic else optimized_plan(captured).graph
    except (HybridError, TypeError) as error:  # TypeError: another number of arguments
        fail(f"{target}: {error}")
    if html is not None:
        try:
            typer.echo(f"{shown.show(html)} shows @{shown.name}.")
        except HybridError as error:
            fail(f"--html: {error}")
        return
    text = print_graph(shown, locations=True)
    if output is None:
        typer.echo(text)
        return
    try:
        write_text(output, text + "\n")
    except OSError as error:
        fail(f"--output {output} cannot be written: {error.strerror}.")
