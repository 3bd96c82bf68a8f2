"""``hybrid launch``: a script as several processes that compute together."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.user_input import fail
from hybrid.errors import HybridError
from hybrid.jobs.launcher import launch as launched

app = typer.Typer()


@app.command(context_settings={"allow_interspersed_args": False})
def launch(
    script: Annotated[Path, typer.Argument(help="the Python script that each process runs")],
    arguments: Annotated[list[str] | None, typer.Argument(help="what the script is given")] = None,
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", min=1, help="how many processes there are")
    ] = 1,
    max_restarts: Annotated[
        int, typer.Option(min=0, help="how often it is started again after a failure")
    ] = 0,
    min_ranks: Annotated[
        int | None,
        typer.Option(min=1, help="how many processes are enough when it is started again"),
    ] = None,
) -> None:
    """Run SCRIPT as the ranks of a job, by mpiexec: hybrid launch -n 4 train.py --epochs 10.

    Each rank has its share of the cores as threads, unless HYBRID_NUM_THREADS says otherwise.  When
    a rank fails, the others raise RankFailedError, and within ten seconds everything has ended:
    with a code that is not 0, and a line that names the rank.  Scripts find out how often they were
    started again from HYBRID_RESTARTS.  With --min-ranks they may be fewer then: without those
    whose processes could not be started, or whose hosts are gone.
    """
    if min_ranks is not None and min_ranks > ranks:
        fail(f"--min-ranks {min_ranks} of {ranks} ranks. Fix: give {ranks} or less.")
    if not script.is_file():
        fail(f"{script} is no file. Fix: name the script that each process runs.")
    try:
        command = [sys.executable, str(script), *(arguments or [])]
        raise typer.Exit(launched(ranks, command, max_restarts=max_restarts, min_ranks=min_ranks))
    except HybridError as error:
        fail(error)
