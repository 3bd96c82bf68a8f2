"""Results in words and in JSON, with the machine and the build that they are worthless without."""

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.bench.registry import Target
from hybrid.bench.runner import Result, WayLine
from hybrid.memory import native

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def duration(seconds: float, unit: str | None = None) -> str:
    """``seconds`` with three figures in a unit that suits, or in ``unit``: ``1.27 us``."""
    scale, name = next(
        (scale, name)
        for scale, name in UNITS
        if name == unit or (unit is None and seconds >= scale) or name == "ns"
    )
    return f"{figures(seconds / scale)} {name}"


def figures(value: float) -> str:
    """Three significant figures without an exponent."""
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{decimals}f}"


def spread(line: WayLine) -> str:
    """The range that holds 80 % of the samples, in the unit of the median."""
    unit = duration(line.timing.median).split()[1]
    low, high = duration(line.timing.p10, unit), duration(line.timing.p90, unit)
    return f"{low.split()[0]} - {high.split()[0]}"


def beside_target(result: Result, line: WayLine, target: Target) -> str:
    """The time of ``line`` as a share of another way's, or what it takes more, and its target."""
    first = result.line(target.beside)
    apart = line.timing.median - target.share * first.timing.median
    if target.more:
        gone = f"-{duration(-apart)}" if apart < 0 else duration(apart)
        told = f"{gone} more than {first.way}, target {duration(target.more)}"
    else:
        share = line.timing.median / first.timing.median
        told = f"{share:.2f} of {first.way}, target {target.share:.2f}"
    return told + (", over" if apart > target.more else "")


def document(results: list[Result]) -> dict[str, Any]:
    """Everything measured, and on what, ready for JSON; times are in seconds."""
    return {"machine": facts(), "results": [asdict(result) for result in results]}


def processor() -> str:
    """The processor's name as the system knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def facts() -> dict[str, Any]:
    """Processor, cores, system and versions, ready for JSON."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "isa": native.isa(),
        "threads": native.num_threads(),
        "compiler": native.compiler(),
    }
