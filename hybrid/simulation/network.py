"""How long transfers take: the alpha-beta model, by levels, with what was measured here.

A transfer among n ranks takes alpha log2 n, and the time in which its bytes move at the rate beta
(R. Hockney, "The communication challenge for MPP", 1994; R. Thakur, R. Rabenseifner and W. Gropp,
"Optimization of collective communication operations in MPICH", 2005).  A large sum is an all_to_all
and an all_gather, so 2 (n - 1) / n of its bytes move.  There are three levels, each with an alpha
and a beta: "core", of ranks in one host that have to share cores; "socket", of ranks in one host
with cores of their own; "host", of the link of each host, which all of its ranks share.
"""

from __future__ import annotations

import bisect
import contextlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hybrid.core.dataclass import dataclass, field, replace
from hybrid.core.output_file import write_text
from hybrid.errors import ArgumentError, HybridError
from hybrid.memory.channels import SMALL_SUM
from hybrid.plan.traffic import WAIT

PROBE = Path(__file__).with_name("network_probe.py")  # it needs MPI: jobs alone run it
LEVELS = ("core", "socket", "host")
NO_BYTES = 1 << 12  # so few are not told from none: their time is alpha


@dataclass(frozen=True, slots=True)
class Level:
    """Seconds and bytes per second between ranks of one sort.

    ``rates`` has pairs of bytes and the rate of a transfer that moves as many; between them it is
    interpolated, by logarithms.  ``message`` is the seconds of a message from one rank to another,
    ``compare`` those that an eager call takes to compare itself with each other rank.
    """

    alpha: float
    rates: tuple[tuple[float, float], ...]
    message: float
    compare: float
    source: str = "assumed"

    def seconds(self, nbytes: float) -> float:
        """In which ``nbytes`` move, without alpha."""
        return nbytes / self.rate(nbytes) if nbytes else 0.0

    def rate(self, nbytes: float) -> float:
        """Bytes per second of a transfer that moves ``nbytes``."""
        sizes = [size for size, _ in self.rates]
        at = bisect.bisect_left(sizes, nbytes)
        if at in (0, len(sizes)):
            return self.rates[min(at, len(sizes) - 1)][1]
        (low, slow), (high, fast) = self.rates[at - 1 : at + 1]
        part = math.log(nbytes / low) / math.log(high / low)
        return math.exp((1 - part) * math.log(slow) + part * math.log(fast))


# What is taken where nothing was measured: shared memory, an oversubscribed host, 100 Gbit/s.
ASSUMED = {
    "core": Level(2e-5, ((1e5, 5e7), (1e7, 1e9)), 1e-3, 1e-4),
    "socket": Level(1e-5, ((1e5, 2e9), (1e7, 4e9)), 1e-4, 1e-4),
    "host": Level(5e-6, ((1.0, 1e10),), 1e-4, 1e-4),
}


@dataclass(frozen=True, slots=True)
class Network:
    """Where ranks are, and how fast what they send is.

    Rank r is on host r // ``ranks_per_host``; each of these has ``cores_per_host`` cores, and each
    rank computes with ``threads``.
    """

    ranks: int
    ranks_per_host: int
    cores_per_host: int
    threads: int = 1
    levels: Mapping[str, Level] = field(default_factory=lambda: dict(ASSUMED))

    @property
    def on_host(self) -> int:
        """The ranks of a host."""
        return min(self.ranks, self.ranks_per_host)

    @property
    def slowdown(self) -> float:
        """How many times as long ranks compute because they share cores."""
        return max(self.on_host * self.threads / self.cores_per_host, 1.0)

    @property
    def inside(self) -> str:
        """The level of ranks of one host."""
        return "core" if self.slowdown > 1 else "socket"

    def hosts_of(self, members: Sequence[int]) -> tuple[int, int]:
        """How many hosts ``members`` are on, and how many of them at most on one."""
        by_host = Counter([rank // self.ranks_per_host for rank in members])
        return len(by_host), max(by_host.values())

    def seconds(self, kind: str, given: int, members: Sequence[int]) -> float:
        """Of one transfer among ``members``, to which each gives an operand of ``given`` bytes."""
        return sum(self.parts(kind, given, members))

    def parts(self, kind: str, given: int, members: Sequence[int]) -> tuple[float, float]:
        """Seconds that it takes in hosts, where ranks copy themselves, and those between hosts."""
        n = len(members)
        if n == 1 or kind in ("agree", WAIT):
            return 0.0, 0.0
        hosts, near = self.hosts_of(members)
        inside, outside = self.levels[self.inside], self.levels["host"]
        if kind == "compare":
            return inside.compare * (near - 1), outside.compare * (n - near)
        if kind in ("send", "recv"):
            if hosts == 1:
                return inside.message + inside.seconds(given), 0.0
            return 0.0, outside.message + outside.seconds(given)
        if kind == "all_reduce":
            if given <= SMALL_SUM:
                return self.parts("all_gather", given, members)
            first = self.parts("all_to_all", given, members)
            last = self.parts("all_gather", given // n, members)
            return first[0] + last[0], first[1] + last[1]
        moves = {  # bytes that a rank gets in its host, and that come over the link of a host
            "all_gather": (given * (near - 1), given * (n - near)),
            "all_to_all": (given * (near - 1) / n, near * given * (n - near) / n),
            "broadcast": (given if near > 1 else 0, given if hosts > 1 else 0),
            "barrier": (0, 0),
        }
        within, across = moves[kind]
        return (
            inside.alpha * math.log2(near) + inside.seconds(within),
            outside.alpha * math.log2(hosts) + outside.seconds(across),
        )


# Measuring ----------------------------------------------------------------------------------------


def level_of(rows: Iterable[tuple[str, int, float]], ranks: int, source: str) -> Level:
    """A level from what ``network_probe`` prints: kind, bytes, seconds."""
    others: dict[str, float] = {}
    by_size: dict[int, list[float]] = {}
    for kind, nbytes, seconds in rows:
        if kind in ("message", "compare"):
            others[kind] = seconds
        else:
            by_size.setdefault(nbytes, []).append(seconds)
    mean = {size: sum(column) / len(column) for size, column in by_size.items()}
    least = min(mean)
    alpha = mean[least] / math.log2(ranks)
    rates = [
        (float(size), size / max(seconds - mean[least], 0.1 * seconds))
        for size, seconds in sorted(mean.items())
        if size > NO_BYTES
    ]
    return Level(alpha, tuple(rates), others["message"], others["compare"], source)


def measured_levels(cores: int) -> dict[str, Level]:
    """The levels within this host, each by a small job; what cannot be measured is assumed.

    That is the one between hosts, and all of them without MPI.
    """
    found = dict(ASSUMED)
    if importlib.util.find_spec("mpi4py") is None:
        return found
    if cores > 1:
        found["socket"] = _measured(2, f"measured here, 2 ranks on {cores} cores")
    found["core"] = _measured(2 * cores, f"measured here, {2 * cores} ranks on {cores} cores")
    found["host"] = replace(found["host"], message=found["socket"].message)
    return found


def _measured(ranks: int, source: str) -> Level:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "found.json")
        end = launched([str(PROBE), str(path)], ranks, {"HYBRID_NUM_THREADS": "1"})
        if end:
            raise HybridError(
                f"the job of {ranks} ranks that measures transfers has failed: {end}",
                fix="let --network name the file of a network that was measured",
            )
        return level_of(json.loads(path.read_text("utf-8")), ranks, source)


def launched(command: Sequence[str], ranks: int, environment: Mapping[str, str]) -> str:
    """Run a job with this in its environment; what its end was if that was bad, else ""."""
    whole = [sys.executable, "-m", "hybrid", "launch", "-n", str(ranks), *command]
    done = subprocess.run(
        whole, env=os.environ | dict(environment), stdin=subprocess.DEVNULL, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else f"code {done.returncode}\n{done.stderr.strip()}"


# Files --------------------------------------------------------------------------------------------


def write_levels(path: Path, levels: Mapping[str, Level]) -> None:
    """Write levels as JSON that ``read_levels`` reads; numbers may be edited."""
    rows = {
        name: {
            "alpha": level.alpha,
            "rates": [list(pair) for pair in level.rates],
            "message": level.message,
            "compare": level.compare,
            "source": level.source,
        }
        for name, level in levels.items()
    }
    write_text(path, json.dumps(rows, indent=2) + "\n")


def read_levels(path: Path) -> dict[str, Level]:
    """The levels in a file; those that it does not have are assumed."""
    fault = "it is no JSON of levels"
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        rows: dict[str, Any] = json.loads(path.read_text("utf-8"))
        found = dict(ASSUMED)
        for name, row in rows.items():
            fault = f"{name!r} is not as it should be"
            if name not in LEVELS:
                raise KeyError(name)
            level = Level(
                alpha=float(row["alpha"]),
                rates=tuple(sorted([(float(size), float(rate)) for size, rate in row["rates"]])),
                message=float(row.get("message", ASSUMED[name].message)),
                compare=float(row.get("compare", ASSUMED[name].compare)),
                source=str(row.get("source", f"from {path.name}")),
            )
            if level.alpha < 0 or min(min(pair) for pair in level.rates) <= 0:
                raise ValueError(name)
            found[name] = level
        return found
    raise ArgumentError(
        f"{path} has no network: {fault}",
        fix='write {"host": {"alpha": seconds, "rates": [[bytes, bytes per second], ...]}, ...}, '
        "with levels core, socket and host; or name a file that is not there: it is measured then",
    )
