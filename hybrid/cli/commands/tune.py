"""``hybrid tune``: measure how work is best cut up on this machine, and keep it in a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hybrid.bench.registry import BenchError
from hybrid.bench.tuning import PROBES, ROUNDS, Trial, default_path, tune, write
from hybrid.cli.tables import plain_table, progress_bar
from hybrid.cli.user_input import fail, require_writable, set_threads
from hybrid.errors import HybridError
from hybrid.memory import native

app = typer.Typer()


@app.command("tune")
def command(
    output: Annotated[
        Path | None, typer.Option(help="the file to write; default: the one that is always read")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="threads for kernels; default: as set")
    ] = None,
    rounds: Annotated[int, typer.Option(help="samples of each value, in turns")] = ROUNDS,
) -> None:
    """Measure how work is best cut up on this machine, and keep what is faster than usual.

    Results never depend on it. Takes a minute or two; let nothing else run meanwhile.
    """
    if rounds < 1:
        fail(f"--rounds {rounds}: at least one round is needed.")
    set_threads(threads)
    try:
        path = output or default_path()
        path.parent.mkdir(parents=True, exist_ok=True)
    except (HybridError, OSError) as error:
        fail(error)
    require_writable("--output", path)
    total = sum(len(probes) * (len(shares) + rounds) for probes, shares in PROBES.values())
    with progress_bar() as progress:
        task = progress.add_task("", total=total)
        try:
            trials = tune(
                native.num_threads(), rounds,
                advance=lambda name: progress.update(task, advance=1, description=name),
            )  # fmt: skip
        except BenchError as error:
            fail(error, code=1)
    Console(highlight=False).print(table(trials))
    try:
        write(path, {trial.name: trial.best for trial in trials if trial.best != trial.usual})
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}", code=1)
    typer.echo(f"Kept in {path}; delete it to undo.")


def table(trials: list[Trial]) -> Table:
    """Each choice with what was tried, as percent of the usual value's time."""
    shown = plain_table()
    shown.add_column("choice", style="bold", no_wrap=True)
    shown.add_column("usual", justify="right", no_wrap=True)
    shown.add_column("kept", justify="right", no_wrap=True)
    shown.add_column("time of each value, in % of the usual one's")
    for trial in trials:
        tried = ", ".join(
            f"{value}: {100 * share:.0f}" for value, share in sorted(trial.ratios.items())
        )
        shown.add_row(trial.name, str(trial.usual), str(trial.best), tried)
    return shown
