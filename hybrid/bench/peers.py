"""Other frameworks, on one thread, beside hybrid: ways that run in a process of their own.

How many threads a framework uses is mostly settled when it is loaded, and two frameworks in one
process disturb each other; so each program is a process, which runs as often as it is told and
keeps the time.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hybrid.bench.registry import BenchError

FRAMEWORKS = ("numpy", "jax", "torch")  # each with its file in ``hybrid/bench/adapters``
# What these frameworks, and the libraries behind them, read when they are loaded, and only then.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NPROC": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


# The process finds this very package, whatever its working directory holds.
START = (
    f"import sys; sys.path[0] = {str(Path(__file__).resolve().parents[2])!r}; del sys.argv[0]; "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


class Peer:
    """``program`` of ``hybrid.bench.adapters.<framework>_``; its process starts when first used."""

    def __init__(self, framework: str, program: str, *numbers: int) -> None:
        self.framework = framework
        self.arguments = (program, *map(str, numbers))
        self.process: subprocess.Popen[str] | None = None

    def sample(self, count: int) -> float:
        return float(self.ask(str(count)))

    def result(self) -> list[float]:
        """What the program computes."""
        return json.loads(self.ask("result"))

    def ask(self, line: str) -> str:
        if self.process is None:
            module = f"hybrid.bench.adapters.{self.framework}_"
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, module, *self.arguments],
                env=os.environ | ONE_THREAD,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        asked, answered = self.process.stdin, self.process.stdout
        assert asked is not None and answered is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, as the missing answer says
            print(line, file=asked, flush=True)
        answer = answered.readline()
        if not answer:
            name = " ".join((self.framework, *self.arguments))
            raise BenchError(
                f"the peer {name} has ended", why="What it wrote to the error output says why."
            )
        return answer

    def __del__(self) -> None:
        if self.process is not None:
            self.process.communicate()  # the end of its input ends it


def installed(framework: str) -> bool:
    """Whether ``framework`` can be imported."""
    return importlib.util.find_spec(framework) is not None


def peers(program: str, *numbers: int, frameworks: Sequence[str] = FRAMEWORKS) -> dict[str, Peer]:
    """``program`` in each of ``frameworks`` that is installed."""
    return {name: Peer(name, program, *numbers) for name in frameworks if installed(name)}


def require_agreement(
    what: str, ours: Sequence[float], found: dict[str, Peer], tolerance: float = 1e-3
) -> None:
    """Raise BenchError, naming the peer, unless all compute ``ours``, within ``tolerance``."""
    for name, peer in found.items():
        theirs = peer.result()
        if not np.allclose(ours, theirs, rtol=tolerance, atol=1e-6):
            gap = np.max(np.abs(np.asarray(ours) - theirs))
            raise BenchError(f"{what}: the result of {name} differs by up to {gap:.3g}")
