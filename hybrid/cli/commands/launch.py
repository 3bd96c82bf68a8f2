"""``hybrid launch``: a script as several processes that compute together."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hybrid.cli.simulate import SimulationOptions, simulated
from hybrid.cli.user_input import fail
from hybrid.errors import HybridError
from hybrid.jobs.launcher import launch as launched

app = typer.Typer()
SIMULATION = "Simulation"


@app.command(context_settings={"allow_interspersed_args": False})
def launch(
    script: Annotated[Path, typer.Argument(help="the Python script that each process runs")],
    arguments: Annotated[list[str] | None, typer.Argument(help="what the script is given")] = None,
    ranks: Annotated[
        int | None,
        typer.Option("-n", "--ranks", min=1, help="how many processes there are; default: 1"),
    ] = None,
    max_restarts: Annotated[
        int, typer.Option(min=0, help="how often it is started again after a failure")
    ] = 0,
    min_ranks: Annotated[
        int | None,
        typer.Option(min=1, help="how many processes are enough when it is started again"),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="no job: tell what one of N ranks would take",
            rich_help_panel=SIMULATION,
        ),
    ] = None,
    play: Annotated[
        str | None,
        typer.Option(
            metavar="RANKS",
            help="the ranks that are run: 0,3 or all; default: 0",
            rich_help_panel=SIMULATION,
        ),
    ] = None,
    ranks_per_host: Annotated[
        int | None, typer.Option(help="default: as many as cores", rich_help_panel=SIMULATION)
    ] = None,
    cores_per_host: Annotated[
        int | None, typer.Option(help="default: as here", rich_help_panel=SIMULATION)
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="of each rank; default: 1", rich_help_panel=SIMULATION)
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(
            help="a file of alphas and betas, which is written if it is not there",
            rich_help_panel=SIMULATION,
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="seconds, between hosts", rich_help_panel=SIMULATION)
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(help="bytes per second, of a host's link", rich_help_panel=SIMULATION),
    ] = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="compare the model with real jobs of 1, 2 and 4 first; default: yes",
            rich_help_panel=SIMULATION,
        ),
    ] = None,
) -> None:
    """Run SCRIPT as the ranks of a job, by mpiexec: hybrid launch -n 4 train.py --epochs 10.

    Each rank has its share of the cores as threads, unless HYBRID_NUM_THREADS says otherwise.  When
    a rank fails, the others raise RankFailedError, and within ten seconds everything has ended:
    with a code that is not 0, and a line that names the rank.  Scripts find out how often they were
    started again from HYBRID_RESTARTS.  With --min-ranks they may be fewer then: without those
    whose processes could not be started, or whose hosts are gone.

    With --simulate 1024 no other ranks are started: SCRIPT runs as rank 0 of 1,024, which gets made
    up values from the others.  Its steps are timed, its transfers counted, and their time is told
    from measured latencies and rates.
    """
    options = SimulationOptions(
        play=play,
        ranks_per_host=ranks_per_host,
        cores_per_host=cores_per_host,
        threads=threads,
        network=network,
        alpha=alpha,
        beta=beta,
        check=check,
    )
    if not script.is_file():
        fail(f"{script} is no file. Fix: name the script that each process runs.")
    command = [str(script), *(arguments or [])]
    if simulate is not None:
        if ranks is not None:
            fail(f"-n {ranks} beside --simulate {simulate}, which says how many ranks there are.")
        if max_restarts or min_ranks is not None:
            fail("--max-restarts and --min-ranks are for jobs, and --simulate starts none.")
        simulated(command, simulate, options)
        return
    if options.said:
        fail(f"{', '.join(options.said)}: for --simulate alone.")
    n = ranks or 1
    if min_ranks is not None and min_ranks > n:
        fail(f"--min-ranks {min_ranks} of {n} ranks. Fix: give {n} or less.")
    try:
        job = [sys.executable, *command]
        raise typer.Exit(launched(n, job, max_restarts=max_restarts, min_ranks=min_ranks))
    except HybridError as error:
        fail(error)
