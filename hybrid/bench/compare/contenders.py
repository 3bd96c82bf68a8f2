"""Who can be compared: names, the adapters behind them, and the interpreters that run them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from hybrid.bench.compare.process import Missing, PeerError, Process, framework_process
from hybrid.errors import ArgumentError

OURS = "hybrid"
# Each name with the adapter and its variant.
NAMES = {
    OURS: (OURS, ""),
    "hybrid.eager": (OURS, "eager"),
    "torch": ("torch", ""),
    "torch.compile": ("torch", "compile"),
    "jax": ("jax", ""),
    "onnxruntime": ("onnxruntime", ""),
    "tensorflow": ("tensorflow", ""),
    "numpy": ("numpy", ""),
}
PEERS = tuple(name for name in NAMES if name != OURS)
FRAMEWORKS = tuple(dict.fromkeys(adapter for adapter, _ in NAMES.values() if adapter != OURS))


@dataclass(frozen=True)
class Contender:
    """A framework, a way to use it, and the interpreter that has it."""

    name: str
    framework: str
    variant: str
    python: str
    environment: Mapping[str, str] = field(default_factory=dict)  # beside what all are given

    def start(self, threads: int, timeout: float) -> Process:
        return framework_process(
            self.python, self.framework, threads, timeout, more=self.environment
        )


def contender(name: str, pythons: Mapping[str, str] | None = None) -> Contender:
    """The one called ``name``; ``pythons`` has interpreters by framework, else it is this one."""
    if name not in NAMES:
        near = get_close_matches(name, PEERS, n=1, cutoff=0.4)
        if near:
            raise ArgumentError(f"there is no peer named {name!r}; did you mean {near[0]!r}?")
        raise ArgumentError(
            f"there is no peer named {name!r}", fix=f"choose among {', '.join(PEERS)}"
        )
    framework, variant = NAMES[name]
    return Contender(name, framework, variant, (pythons or {}).get(framework, sys.executable))


def interpreters(options: Sequence[str]) -> dict[str, str]:
    """``["jax=/path/to/python"]`` by framework."""
    found = {}
    for option in options:
        framework, _, path = option.partition("=")
        if framework not in FRAMEWORKS or not path:
            raise ArgumentError(
                f"{option!r} names no interpreter",
                fix=f"write PEER=PATH, as in jax=/path/to/python; peers: {', '.join(FRAMEWORKS)}",
            )
        found[framework] = path
    return found


@dataclass(frozen=True)
class Survey:
    """What a contender says of itself before anything is measured; ``reason``: why it cannot."""

    version: str = ""
    workloads: tuple[str, ...] = ()
    state: str = "ready"
    reason: str = ""


def survey(who: Contender, threads: int, timeout: float) -> Survey:
    """Load its framework once, in a process that then ends."""
    try:
        with who.start(threads, timeout) as process:
            told = process.ask("load")
            return Survey(told["version"], told["workloads"])
    except Missing as error:
        return Survey(
            state="not installed",
            reason=f"{error}; name an interpreter that has it: --python {who.framework}=PATH",
        )
    except PeerError as error:
        return Survey(state="does not start", reason=str(error))
