"""Which of the ways to cut work up is fastest on this machine: what ``hybrid tune`` measures.

Each value is tried in a process of its own, which reads it from a file as any later process will,
and all values of a choice take turns in interleaved rounds.  No choice changes a result.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hybrid.bench.compare.cases import WORKLOADS
from hybrid.bench.compare.contenders import OURS, contender, survey
from hybrid.bench.compare.process import TIMEOUT
from hybrid.bench.compare.rounds import Comparison, Settings, compare_case
from hybrid.bench.registry import BenchError
from hybrid.core.output_file import require_writable, write_text
from hybrid.errors import ArgumentError
from hybrid.memory import native

ROUNDS = 9
WORTH = 0.97  # of the usual value's time: a smaller gain may be chance
EACH = "*"  # machine of a line that is for any

# Each choice with what it is tried on, workloads of ``compare`` with their cases, and with which
# shares of its usual value.
PROBES: dict[str, tuple[tuple[tuple[str, str], ...], tuple[float, ...]]] = {
    "slice_bytes": (
        (("gemm", "512x512x512"), ("gemm", "1024x1024x1024"), ("gemm", "32x768x3072")),
        (0.5, 1, 1.5, 2),
    ),
    "near_bytes": (
        (("d2l_mlp", "one row"), ("lstm_train", "50 steps"), ("gpt_infer", "batch 1")),
        (0.25, 0.5, 1, 2, 4),
    ),
    "waking_work": ((("lstm_train", "50 steps"), ("gpt_infer", "batch 1")), (0.25, 0.5, 1, 2, 4)),
    "task_work": ((("gemm", "256x256x256"), ("gpt_infer", "batch 1")), (0.25, 0.5, 1, 2, 4)),
    "chunk_work": ((("fused", "1e6"), ("gpt_infer", "batch 1")), (0.25, 0.5, 1, 2, 4)),
    "spin_ns": ((("lenet_train", "batch 64"), ("mlp_train", "each step a call")), (0, 0.5, 1, 3)),
}


@dataclass(frozen=True)
class Trial:
    """What was found out about one choice: of each value, its time over the usual value's."""

    name: str
    usual: int
    ratios: Mapping[int, float]

    @property
    def best(self) -> int:
        """The fastest value, if that is worth a change."""
        value = min(self.ratios, key=lambda value: self.ratios[value])
        return value if self.ratios[value] < WORTH else self.usual


def default_path() -> Path:
    """The file that is read when HYBRID_TUNING is not set; ArgumentError if there is no home."""
    for folder, under in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        if (root := os.environ.get(folder, "")).startswith("/"):
            return Path(root, under, "hybrid", "tuning")
    raise ArgumentError(
        "there is no folder for the tuning file", fix="set HOME, or name a file: --output PATH"
    )


def lines(machine: str, choices: Mapping[str, int]) -> str:
    """What a tuning file says of ``machine``."""
    return "".join(f"{machine} {name} {value}\n" for name, value in choices.items())


def try_choice(
    name: str, chosen: Mapping[str, int], settings: Settings, advance: Callable[[], None]
) -> Trial:
    """Measure ``name`` beside what was ``chosen`` before it; BenchError if a process fails."""
    probes, shares = PROBES[name]
    usual = native.choices()[name][1]
    values = {round(usual * share) for share in shares}
    with tempfile.TemporaryDirectory(prefix="hybrid-") as folder:
        contenders = []
        for value in (usual, *sorted(values - {usual})):
            path = Path(folder, str(value))
            path.write_text(lines(EACH, {**chosen, name: value}), encoding="utf-8")
            who = replace(contender(OURS), name=str(value))
            contenders.append(replace(who, environment={"HYBRID_TUNING": str(path)}))
        told = survey(contenders[0], settings.threads, settings.timeout)
        surveys = {who.name: told for who in contenders}
        found = [
            compare_case(
                WORKLOADS[workload], WORKLOADS[workload].case(case), contenders, surveys, settings,
                advance,
            )
            for workload, case in probes
        ]  # fmt: skip
    return Trial(name, usual, {value: ratio(found, str(value), str(usual)) for value in values})


def ratio(found: Sequence[Comparison], one: str, other: str) -> float:
    """The geometric mean, over cases, of the times of ``one`` over those of ``other``."""
    logs = []
    for comparison in found:
        timings = []
        for name in (one, other):
            line = comparison.line(name)
            if line.timing is None:
                raise BenchError(f"{comparison.workload}, {name}: {line.state}: {line.reason}")
            timings.append(line.timing.median)
        logs.append(math.log(timings[0] / timings[1]))
    return math.exp(sum(logs) / len(logs))


def tune(
    threads: int, rounds: int = ROUNDS, *, advance: Callable[[str], None] = lambda name: None
) -> list[Trial]:
    """Try each choice in turn, those before it as chosen; ``advance`` is told what is tried."""
    settings = Settings(threads=threads, rounds=rounds, timeout=TIMEOUT)
    trials: list[Trial] = []
    for name in PROBES:
        chosen = {trial.name: trial.best for trial in trials}
        trials.append(try_choice(name, chosen, settings, lambda name=name: advance(name)))
    return trials


def write(path: Path, choices: Mapping[str, int]) -> None:
    """Keep ``choices`` for this machine in ``path``, beside what it says of others."""
    machine = native.tuning()[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    require_writable(path)  # no device is read
    kept = ""
    with suppress(FileNotFoundError):
        text = path.read_text(encoding="utf-8", errors="replace")
        kept = "".join(
            f"{line}\n" for line in text.splitlines() if line.split()[:1] not in ([machine], [])
        )
    write_text(path, kept + lines(machine, choices))
