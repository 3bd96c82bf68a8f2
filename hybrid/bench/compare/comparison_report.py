"""Comparisons in words and in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from hybrid.bench.compare.contenders import OURS
from hybrid.bench.compare.rounds import Comparison, ContenderLine, Settings
from hybrid.bench.limits import Limits
from hybrid.bench.report import duration, facts, figures, spread

HEADINGS = ("median", "p10 - p90", "ours", "first call", "MiB", "GFLOP/s")


def headings(limits: Limits | None) -> tuple[str, ...]:
    """Those of ``cells``."""
    return (*HEADINGS, *(("of limit",) if limits else ()))


def table_of(comparisons: Sequence[Comparison], limits: Limits | None = None) -> Table:
    """A row for each contender that can run a case."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("workload", style="bold", no_wrap=True)
    table.add_column("peer", no_wrap=True)
    for heading in headings(limits):
        table.add_column(heading, justify="right", no_wrap=True)
    for comparison in comparisons:
        names = iter((comparison.workload, f"  {comparison.case}"))
        shown = [line for line in comparison.lines if line.state in ("timed", *FAULTS)]
        for line in shown:
            table.add_row(next(names, ""), line.name, *cells(comparison, line, limits))
        for name in names if shown else ():
            table.add_row(name)
    return table


FAULTS = ("failed", "timed out", "disagrees")


def cells(comparison: Comparison, line: ContenderLine, limits: Limits | None) -> list[str | Text]:
    """What a row says of ``line``; only its state when it has no time."""
    if line.timing is None:
        return [Text(line.state, style="red")]
    speed = comparison.speed(line.name)
    cells = [
        duration(line.timing.median),
        spread(line),
        "" if line.name == OURS or speed is None else f"{speed:.2f}x",
        duration(line.first_call or 0.0),
        f"{(line.peak or 0) / 2**20:.0f}",
        figures(comparison.flops / line.timing.median / 1e9) if comparison.flops else "",
    ]
    if limits and comparison.flops:  # else nobody has counted them
        cells.append(f"{limits.share(comparison.flops, comparison.nbytes, line.timing.median):.0%}")
    return cells


def remarks(comparisons: Sequence[Comparison]) -> list[str]:
    """What the table leaves out: who is missing, what they lack, and how they failed."""
    missing: dict[str, str] = {}
    lacking: dict[str, list[str]] = {}
    faults: list[str] = []
    for comparison in comparisons:
        for line in comparison.lines:
            if line.state == "not supported":
                lacking.setdefault(line.name, []).append(comparison.workload)
            elif line.state in FAULTS:
                case = f"{comparison.workload} ({comparison.case})"
                faults.append(f"{line.name}: {case}: {line.state}: {line.reason}")
            elif line.state != "timed":
                missing[line.name] = f"{line.name}: {line.state}: {line.reason}"
    notes = list(missing.values())
    for name, workloads in lacking.items():
        notes.append(f"{name}: no program for {', '.join(dict.fromkeys(workloads))}")
    return [*notes, *faults]


def slower(comparisons: Sequence[Comparison], ratio: float) -> list[str]:
    """The cases in which we are less than ``ratio`` times as fast as the best peer.

    So are those in which one of us has no time, but for peers that have no such program.
    """
    found = []
    for comparison in comparisons:
        ours, best = comparison.line(OURS), comparison.best
        case = f"{comparison.workload} ({comparison.case})"
        if ours is None or ours.timing is None:
            found.append(f"{case}: {OURS} has no time")
        elif best is not None and (speed := comparison.speed(best)) is not None and speed < ratio:
            found.append(f"{case}: {speed:.2f} times as fast as {best}")
        elif best is None and any(line.state != "not supported" for line in comparison.lines[1:]):
            found.append(f"{case}: no peer has a time")
    return found


def document(
    comparisons: Sequence[Comparison], settings: Settings, limits: Limits | None
) -> dict[str, Any]:
    """Everything measured, and on what, ready for JSON; times are in seconds."""
    return {
        "machine": facts(),
        "settings": asdict(settings),
        "limits": limits.document() if limits else None,
        "comparisons": [
            asdict(c)
            | {"best": c.best, "speed": {line.name: c.speed(line.name) for line in c.lines}}
            for c in comparisons
        ],
    }
