"""Other frameworks as ways of running: programs of ``compare``, each a process of one thread."""

from __future__ import annotations

import importlib.util
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from hybrid.bench.compare.cases import WORKLOADS, difference
from hybrid.bench.compare.contenders import NAMES, contender
from hybrid.bench.compare.process import TIMEOUT, PeerError
from hybrid.bench.compare.rounds import Entrant
from hybrid.bench.compare.serve import brief
from hybrid.bench.registry import BenchError

FRAMEWORKS = ("numpy", "jax", "torch")


class Peer:
    """A framework's program for a workload of ``compare``; its process starts when first used."""

    def __init__(self, framework: str, workload: str, case: str, clock: str = "wall") -> None:
        self.framework, self.clock = framework, clock
        self.workload = WORKLOADS[workload]
        self.case = self.workload.case(case)
        self.entrant: Entrant | None = None
        self.found: dict[str, Any] = {}

    def sample(self, count: int) -> float:
        """Seconds of ``count`` runs; the first are those of its check."""
        try:
            if self.entrant is None:
                return self._start()
            return self.entrant.sample(count)
        except PeerError as error:
            name = f"{self.framework}, {self.workload.name}"
            raise BenchError(f"the peer {name}: {error}") from None

    def _start(self) -> float:
        who = contender(self.framework)
        process = who.start(1, TIMEOUT)
        weakref.finalize(self, process.close)  # also as Python ends, before modules are gone
        self.entrant = Entrant(who, process, self.clock)
        self.found = self.entrant.prepare(self.workload, self.case)
        return float(self.entrant.first_call or 0.0)

    def first_run(self) -> float:
        """Seconds of the first run in a process of its own, with whatever it prepares."""
        with contender(self.framework).start(1, TIMEOUT) as process:
            process.ask("load")
            process.ask("build", workload=self.workload.name, case=self.case.label,
                        variant=contender(self.framework).variant)  # fmt: skip
            return float(process.ask("sample", count=1, clock=self.clock)["seconds"])

    def results(self) -> dict[str, Any]:
        """What the program computes, as ``brief`` tells it."""
        if self.entrant is None:
            self.sample(1)
        return self.found


def installed(framework: str) -> bool:
    """Whether ``framework``, or that of which it is a variant, can be imported."""
    package, _ = NAMES.get(framework, (framework, ""))
    return importlib.util.find_spec(package) is not None


def peers(
    workload: str, case: str, *, frameworks: Sequence[str] = FRAMEWORKS, clock: str = "wall"
) -> dict[str, Peer]:
    """The program of each of ``frameworks`` that is installed."""
    return {name: Peer(name, workload, case, clock) for name in frameworks if installed(name)}


def require_agreement(what: str, ours: Mapping[str, Any], found: Mapping[str, Peer]) -> None:
    """Raise BenchError, naming the peer, unless all compute ``ours``, arrays by name."""
    wanted = {name: brief(array) for name, array in ours.items()}
    for name, peer in found.items():
        if apart := difference(wanted, peer.results(), peer.workload.tolerance):
            raise BenchError(f"{what}: {name} disagrees: {apart}")
