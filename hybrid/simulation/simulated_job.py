"""Jobs of which a few ranks are run, without the others; and real ones, to compare them with."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hybrid.core.dataclass import dataclass
from hybrid.errors import HybridError
from hybrid.jobs.job_link import SIZE, VARIABLE
from hybrid.jobs.rank_record import FOLDER
from hybrid.jobs.simulated_rank import SIMULATED
from hybrid.simulation.network import Network, launched
from hybrid.simulation.recorded_step import RankStep, read_step, same_transfers
from hybrid.simulation.replay import PlayedStep, replayed

WITHIN = 0.2  # how far the model may be from what is measured
CHECKED = (1, 2, 4)  # ranks
TRIES = 3
LAST_LINES = 12  # of what a script has printed when it failed


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """What the ranks that were played do, and how long it takes them."""

    network: Network
    steps: tuple[RankStep, ...]
    played: tuple[PlayedStep, ...]

    @property
    def seconds(self) -> float:
        """Of a step of the slowest rank."""
        return max([step.seconds for step in self.played])


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """A job of so many ranks, by the model and as it is; ``tries`` are how often it was done."""

    ranks: int
    tries: int
    modelled: float
    measured: float
    same_transfers: bool
    modelled_bytes: int
    measured_bytes: int

    @property
    def ratio(self) -> float:
        """The seconds of the model in those that were measured."""
        return self.modelled / self.measured

    @property
    def holds(self) -> bool:
        """Whether the model may be believed."""
        return abs(self.ratio - 1) <= WITHIN and self.same_transfers


def simulate(command: Sequence[str], network: Network, ranks: Sequence[int]) -> SimulatedJob:
    """Run ``command``, a script and its arguments, as each of ``ranks`` without the others.

    As many run at once as this machine has cores for, and a host of the job ranks: they share
    caches and memory then, as they will.
    """
    cores = len(os.sched_getaffinity(0))
    beside = max(min(network.on_host, cores // network.threads), 1)
    extra = [rank for rank in range(network.ranks) if rank not in ranks]
    some = [*ranks, *extra[: -len(ranks) % beside]]
    with tempfile.TemporaryDirectory() as folder:
        for at in range(0, len(some), beside):
            _run_at_once(command, some[at : at + beside], network, folder)
        steps = tuple([read_step(Path(folder, f"rank{rank}.json")) for rank in ranks])
    if network.ranks > 1 and not any(step.transfers for step in steps):
        raise HybridError(
            f"{Path(command[0]).name} communicates in none of its steps",
            why="A job of ranks that do not communicate takes as long as one of them.",
            fix="let its steps be those of a job, by hybrid.distributed.data_parallel, say",
        )
    return SimulatedJob(network, steps, replayed(steps, network))


def _run_at_once(
    command: Sequence[str], ranks: Sequence[int], network: Network, folder: str
) -> None:
    running: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
    for rank in ranks:
        environment = {
            **os.environ,
            "HYBRID_NUM_THREADS": str(network.threads),
            "HYBRID_RESTARTS": "0",
            SIMULATED: f"{rank}/{network.ranks}",
            FOLDER: folder,
        }
        for name in (VARIABLE, SIZE):
            environment.pop(name, None)
        said = Path(folder, f"said{rank}.txt")
        with said.open("wb") as file:  # numbers that are made up are no use to anybody
            process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=environment,
            )
        running[rank] = process, said
    try:
        for process, _ in running.values():
            process.wait()
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()
    for rank, (process, said) in running.items():
        lines = said.read_text("utf-8", "replace").strip().splitlines()
        if process.returncode:
            print("\n".join(lines[-LAST_LINES:]), file=sys.stderr, flush=True)
            raise HybridError(
                f"rank {rank} of {network.ranks} has failed: it ended with code "
                f"{process.returncode}, and said last: {lines[-1] if lines else 'nothing'}",
                fix="see what it has printed; the values that a simulated rank gets are made up",
            )
        if not Path(folder, f"rank{rank}.json").exists():
            raise HybridError(
                f"{Path(command[0]).name} joins no job: it never calls hybrid.distributed.init()",
                fix="let it communicate, or run it as it is: python script.py",
            )


def check(command: Sequence[str], network: Network, ranks: int, tries: int = TRIES) -> ModelCheck:
    """Run ``command`` as a real job of so many ranks here, and as a simulated one.

    Other programs disturb both, so what does not hold is done again, ``tries`` times in all.
    """
    for number in range(1, tries + 1):
        found = _checked(command, network, ranks, number)
        if found.holds:
            break
    return found


def _checked(command: Sequence[str], network: Network, ranks: int, number: int) -> ModelCheck:
    with tempfile.TemporaryDirectory() as folder:
        threads = {"HYBRID_NUM_THREADS": str(network.threads), FOLDER: folder}
        end = launched(command, ranks, threads)
        if end:
            raise HybridError(
                f"the job of {ranks} ranks that the model is to be checked by has failed: {end}",
                fix="let the script run by 1, 2 and 4 ranks; --no-check goes without, and says so",
            )
        real = [read_step(Path(folder, f"rank{rank}.json")) for rank in range(ranks)]
    here = Network(
        ranks=ranks,
        ranks_per_host=ranks,
        cores_per_host=len(os.sched_getaffinity(0)),
        threads=network.threads,
        levels=network.levels,
    )
    job = simulate(command, here, range(ranks))
    pairs = zip(job.steps, real, strict=True)
    return ModelCheck(
        ranks=ranks,
        tries=number,
        modelled=job.seconds,
        measured=max([step.seconds for step in real]),
        same_transfers=all([same_transfers(pair) for pair in pairs]),
        modelled_bytes=max([step.peak_bytes for step in job.steps]),
        measured_bytes=max([step.peak_bytes for step in real]),
    )
