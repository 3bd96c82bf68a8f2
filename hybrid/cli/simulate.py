"""``hybrid launch --simulate``: a script as some ranks of a job that is not there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from hybrid.cli.user_input import fail
from hybrid.core.dataclass import dataclass, replace
from hybrid.errors import HybridError
from hybrid.simulation.network import (
    Level,
    Network,
    measured_levels,
    read_levels,
    write_levels,
)
from hybrid.simulation.simulated_job import CHECKED, WITHIN, ModelCheck, check, simulate
from hybrid.simulation.simulation_tables import check_table, job_tables


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The options of the command that only a simulation has; None where nothing was said."""

    play: str | None = None
    ranks_per_host: int | None = None
    cores_per_host: int | None = None
    threads: int | None = None
    network: Path | None = None
    alpha: float | None = None
    beta: float | None = None
    check: bool | None = None

    @property
    def said(self) -> list[str]:
        """The options that were given."""
        names = {"play": "--play", "network": "--network", "check": "--check or --no-check"}
        return [
            names.get(name, f"--{name.replace('_', '-')}")
            for name in self.__dataclass_fields__
            if getattr(self, name) is not None
        ]


def simulated(command: Sequence[str], ranks: int, options: SimulationOptions) -> None:
    """Check the model, run the ranks that are to be played, and print tables."""
    if ranks < 1:
        fail(f"--simulate {ranks}: a job has one rank at least.")
    played = played_ranks(options.play or "0", ranks)
    here = len(os.sched_getaffinity(0))
    cores = positive("--cores-per-host", options.cores_per_host, here)
    threads = positive("--threads", options.threads, 1)
    on_host = positive("--ranks-per-host", options.ranks_per_host, max(cores // threads, 1))
    console = Console(highlight=False)
    try:
        levels = levels_of(options, here)
        network = Network(
            ranks=ranks,
            ranks_per_host=on_host,
            cores_per_host=cores,
            threads=threads,
            levels=levels,
        )
        checks = []
        if options.check is not False:
            checks = checked(command, network, here, console)
        console.print(job_tables(simulate(command, network, played), checks))
    except HybridError as error:
        fail(error)


def checked(
    command: Sequence[str], network: Network, cores: int, console: Console
) -> list[ModelCheck]:
    """The model beside real jobs; ends the program where it may not be believed."""
    checks = []
    for count in CHECKED:
        with console.status(f"a job of {count} beside its model"):
            checks.append(check(command, network, count))
    console.print(check_table(checks, cores), "")
    if not all(row.holds for row in checks):
        fail(
            f"the model is not within {WITHIN:.0%} of jobs on this machine, so nothing is said of "
            f"{network.ranks:,} ranks. Fix: measure where nothing else runs; let the script make "
            "more steps; or let --no-check print it anyway.",
            code=1,
        )
    return checks


def levels_of(options: SimulationOptions, cores: int) -> dict[str, Level]:
    """The network: from its file, or measured now (and written there)."""
    path = options.network
    if path is not None and path.is_file():
        found = read_levels(path)
    else:
        with Console(stderr=True).status("measuring transfers between ranks"):
            found = measured_levels(cores)
        if path is not None:
            try:
                write_levels(path, found)
            except OSError as error:
                fail(f"--network {path} cannot be written: {error.strerror}.")
    if options.alpha is not None or options.beta is not None:
        host: Any = found["host"]
        if (options.alpha or 0) < 0 or (options.beta is not None and options.beta <= 0):
            fail("--alpha is in seconds, --beta in bytes per second: give numbers above 0.")
        if options.alpha is not None:
            host = replace(host, alpha=options.alpha)
        if options.beta is not None:
            host = replace(host, rates=((1.0, options.beta),))
        found["host"] = replace(host, source="as given")
    return found


def played_ranks(text: str, ranks: int) -> tuple[int, ...]:
    """The ranks that are written as ``0,3``, or ``all``."""
    if text == "all":
        return tuple(range(ranks))
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) < ranks for part in numbers):
        fail(f"--play {text}: give ranks from 0 to {ranks - 1}, as in 0,3; or all.")
    return tuple(sorted({int(part) for part in numbers}))


def positive(option: str, value: int | None, otherwise: int) -> int:
    """The number of an option, which is above 0."""
    if value is not None and value < 1:
        fail(f"{option} {value}: give a number above 0.")
    return otherwise if value is None else value
