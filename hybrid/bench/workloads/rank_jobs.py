"""Training steps of one rank and of two, one thread each, on the same batch: distributed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import weakref
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from hybrid.bench import registry
from hybrid.bench.peers import installed
from hybrid.bench.registry import BenchError, Case, Target, workload

SCRIPT = Path(registry.__file__).with_name("rank_steps.py")
TORCH_SCRIPT = SCRIPT.with_name("torch_rank_steps.py")
LABELS = {"mlp": "MLP, 8 MB of gradients, batch 256", "gpt": "GPT, 0.8 million weights, batch 16"}
STARTING = 120.0  # seconds
SHARE = 1 / 1.8  # of the time of one rank that two may take
OF_TORCH = 0.9  # of the time of PyTorch
SHARDS = 8  # 32 rows each
OF_SHARDS = 1.1  # of the time without shards
GATHERS = 100  # in a run
MORE = 3e-6  # seconds that a step of a plan may take beside MPI's own
SHARDED, TORCH = f"2 ranks, {SHARDS} shards", "torch, 2 ranks"  # ways


class RankJob:
    """A job of ranks that do training steps when asked; it starts when it is first asked."""

    def __init__(self, kind: str, ranks: int, shards: str, zero: int = 0) -> None:
        self.kind, self.ranks, self.shards, self.zero = kind, ranks, shards, zero
        self.connections: list[Connection] = []
        self.losses: list[float] = []

    def sample(self, count: int) -> float:
        """Seconds of ``count`` steps, those of the slowest rank."""
        if not self.connections:
            self._start()
        for connection in self.connections:
            connection.send(count)
        answers = [connection.recv() for connection in self.connections]
        if not self.losses:
            self.losses = [loss for _, loss in answers]
        return max(seconds for seconds, _ in answers)

    def commands(self, port: int) -> list[list[str]]:
        """What starts the ranks, each of which connects to ``port``."""
        launch = ["-m", "hybrid", "launch", "-n", str(self.ranks)]
        arguments = [str(SCRIPT), self.kind, self.shards, str(self.zero), str(port)]
        return [[sys.executable, *(launch if self.ranks > 1 else []), *arguments]]

    def _start(self) -> None:
        with Listener(("127.0.0.1", 0)) as listener:
            listener._listener._socket.settimeout(STARTING)  # type: ignore[attr-defined]
            environment = os.environ | {"HYBRID_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            processes = [
                subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
                    cwd=tempfile.gettempdir(),  # where no source folder is in the way
                )
                for command in self.commands(listener.address[1])
            ]  # fmt: skip
            connections: list[Connection] = []
            weakref.finalize(self, end, processes, connections)
            try:
                found = {c.recv(): c for c in (listener.accept() for _ in range(self.ranks))}
            except OSError:
                raise BenchError(
                    f"{self.ranks} ranks have not begun within {STARTING:g} seconds"
                ) from None
            connections += [found[rank] for rank in sorted(found)]
            self.connections = connections


class TorchJob(RankJob):
    """The same steps by ranks of PyTorch, which has no launcher that needs no port of its own."""

    def commands(self, port: int) -> list[list[str]]:
        folder = tempfile.TemporaryDirectory()
        weakref.finalize(self, folder.cleanup)
        meeting = os.path.join(folder.name, "ranks")
        script = [sys.executable, str(TORCH_SCRIPT), self.kind, str(self.ranks)]
        return [[*script, str(rank), meeting, str(port)] for rank in range(self.ranks)]


def end(processes: list[subprocess.Popen[bytes]], connections: list[Any]) -> None:
    """Let a job end, which nobody asks for more."""
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.send(0)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        if process.poll() is None:
            process.terminate()
            process.wait(20)


@workload(
    "distributed",
    "training steps of one rank and of two, one thread each, on the same batch",
    lasts=True,
)
def distributed() -> list[Case]:
    return [*[_case(kind, label) for kind, label in LABELS.items()], _gathers()]


def _gathers() -> Case:
    """A gathering of eight numbers: what a step of a plan takes beside MPI's own call."""
    jobs = {kind: RankJob(kind, 2, str(GATHERS)) for kind in ("mpi4py", "plan")}

    def check() -> dict[str, str]:
        if {loss for job in jobs.values() for loss in job.losses} != {16.0}:
            raise BenchError("gathering: ranks have different numbers")
        return {}

    targets = {"plan": (Target(1.0, more=MORE),)}
    return Case(label="8 numbers gathered", ways=jobs, check=check, targets=targets, parts=GATHERS)


def _case(kind: str, label: str) -> Case:
    jobs: dict[str, RankJob] = {
        "1 rank": RankJob(kind, 1, "alone"),
        "2 ranks": RankJob(kind, 2, "ranks"),
        "2 ranks, zero=2": RankJob(kind, 2, "ranks", 2),
        SHARDED: RankJob(kind, 2, str(SHARDS)),
    }
    if installed("torch"):
        jobs[TORCH] = TorchJob(kind, 2, "ranks")

    def check() -> dict[str, str]:
        first = [job.losses[0] for job in jobs.values()]
        if any(len(set(job.losses)) > 1 for job in jobs.values()):
            raise BenchError(f"{label}: ranks have different losses")
        if max(first) - min(first) > 1e-5 * abs(first[0]):
            raise BenchError(f"{label}: the losses of the first step are {first}")
        return {"loss": f"{first[0]:.5f} on any number of ranks"}

    of_two, of_shards = [Target(SHARE)], Target(OF_SHARDS, beside="2 ranks")
    if TORCH in jobs:
        of_two.append(Target(OF_TORCH, beside=TORCH))
    targets = {"2 ranks": tuple(of_two), SHARDED: (of_shards,)}
    return Case(label=label, ways=jobs, check=check, targets=targets)
