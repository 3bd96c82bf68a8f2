"""Comparisons as pictures (extra ``plot``): one dot for a contender in a row for a case."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.bench.compare.contenders import NAMES, OURS
from hybrid.bench.compare.rounds import Comparison, ContenderLine
from hybrid.core.imports import optional

COLOURS = dict(
    zip(
        NAMES,
        ("#1d4ed8", "#93c5fd", "#ea580c", "#fdba74", "#16a34a", "#7c3aed", "#ca8a04", "#6b7280"),
        strict=True,
    )
)
ASKED = "hybrid bench compare --html"
Place = Callable[[Comparison, ContenderLine], "float | None"]


def require_matplotlib() -> None:
    """MissingPackageError unless pictures can be drawn."""
    optional("matplotlib.figure", "plot", ASKED)


def beside_ours(comparison: Comparison, line: ContenderLine) -> float | None:
    """The time of a contender as a multiple of ours."""
    return comparison.speed(line.name)


def first_call(_: Comparison, line: ContenderLine) -> float | None:
    """Seconds of the first call."""
    return line.first_call if line.timing is not None else None


def memory(_: Comparison, line: ContenderLine) -> float | None:
    """MiB of memory, at most."""
    return None if line.peak is None or line.timing is None else line.peak / 2**20


def dots(comparisons: Sequence[Comparison], place: Place, label: str, *, one: bool = False) -> Any:
    """A figure with a row for each case and a logarithmic axis; ``one``: with a line at 1."""
    figure_of = optional("matplotlib.figure", "plot", ASKED).Figure
    rows = len(comparisons)
    figure = figure_of(figsize=(9.5, 1.2 + 0.24 * max(rows, 4)), layout="constrained")
    axes = figure.add_subplot()
    by_name: dict[str, tuple[list[float], list[int]]] = {}
    for row, comparison in enumerate(comparisons):
        for line in comparison.lines:
            if (at := place(comparison, line)) is not None and at > 0:
                xs, ys = by_name.setdefault(line.name, ([], []))
                xs.append(at)
                ys.append(row)
    for name in sorted(by_name, key=list(NAMES).index, reverse=True):  # ours is drawn on top
        mark = "D" if name == OURS else "o"
        axes.plot(*by_name[name], mark, color=COLOURS[name], label=name, markersize=6)
    axes.set_xscale("log")
    axes.set_yticks(range(rows), [f"{c.workload}: {c.case}" for c in comparisons], fontsize=8)
    axes.set_ylim(max(rows, 1) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(alpha=0.3)
    if one:
        axes.axvline(1.0, color=COLOURS[OURS], linewidth=1)
    if by_name:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside upper center", ncols=4)
    return figure


def svg(figure: Any) -> str:
    """The element ``<svg>`` that shows ``figure``."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
