"""``hybrid bench compress``: trained models, and what making them smaller gains and costs."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from hybrid.bench.compressed_models import (
    CASES,
    NATS,
    POINTS,
    CompressedRow,
    CompressionCase,
    TrainedModel,
    tried,
)
from hybrid.bench.report import duration, facts
from hybrid.cli.tables import figures_table, print_whole, show_machine
from hybrid.cli.user_input import fail, require_writable, set_threads
from hybrid.core.output_file import write_text
from hybrid.errors import HybridError


def compress(
    names: Annotated[
        list[str] | None,
        typer.Argument(help=f"models: {', '.join(CASES)}; default: those that take seconds"),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="for kernels; default: as set")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="also write everything to this file")
    ] = None,
) -> None:
    """Train models, make them smaller, and set metric, bytes and time beside those of floats.

    Seeds are fixed.  A way that loses more than its limit ends with code 1.
    """
    cases = chosen(names or [])
    if json_path is not None:
        require_writable("--json", json_path)
    set_threads(threads)
    found: list[tuple[CompressionCase, TrainedModel, list[CompressedRow]]] = []
    stderr = Console(stderr=True, highlight=False)
    try:
        for case in cases:
            with stderr.status(f"{case.name}: training"):
                given = case.train()
            rows = []
            for way in case.ways:
                with stderr.status(f"{case.name}: {way.words}"):
                    rows.append(tried(given, way))
            found.append((case, given, rows))
    except HybridError as error:
        fail(error)
    show_machine()
    print_whole(table_of([(case, rows) for case, _, rows in found]))
    Console(highlight=False).print(
        "\nlost: beside its limit; cosine: of all results; time: of a call, as a plan"
    )
    late = [f"{case.name}, {row.way.words}" for case, _, rows in found for row in rows
            if not row.is_within]  # fmt: skip
    if json_path is not None:
        write_text(json_path, json.dumps(document(found), indent=2) + "\n")
    if late:
        fail(f"more is lost than may be: {'; '.join(late)}", code=1)


def chosen(names: list[str]) -> list[CompressionCase]:
    """The cases that ``names`` ask for; the quick ones when there are none."""
    if not names:
        return [case for case in CASES.values() if not case.lasts]
    for name in names:
        if name not in CASES:
            _refuse(name)
        missing = CASES[name].missing
        if missing:
            fail(f"{name} needs {' and '.join(missing)}: install what is missing.")
    return [CASES[name] for name in names]


def _refuse(name: str) -> NoReturn:
    near = get_close_matches(name, CASES, n=1, cutoff=0.4)
    told = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(CASES)}"
    fail(f"there is no model named {name!r} to compress; {told}")


def table_of(found: list[tuple[CompressionCase, list[CompressedRow]]]) -> Table:
    """A row for each model of floats, and one for each way below it."""
    figures = ("metric", "lost", "of", "cosine", "bytes", "time", "ratio")
    table = figures_table("model", figures)
    for case, rows in found:
        report = rows[0].report
        table.add_row(
            f"{case.name}, float32", _metric(report.metric.before, rows[0]), "", "", "",
            f"{report.bytes.before:,}", duration(report.latency.before), "",
        )  # fmt: skip
        for row in rows:
            table.add_row(*cells(row), style="" if row.is_within else "red")
    return table


def cells(row: CompressedRow) -> list[str]:
    """What a row of a way says."""
    report = row.report
    assert report.metric is not None
    digits = {POINTS: 1, NATS: 3}.get(row.unit, 4)
    return [
        f"  {row.way.words}",
        _metric(report.metric.after, row),
        f"{row.lost:.{digits}f}",
        f"{row.way.limit:.{digits}f}",
        f"{row.cosine:.5f}",
        f"{report.bytes.ratio:.3f}",
        duration(report.latency.after),
        f"{report.latency.ratio:.2f}",
    ]


def _metric(value: float, row: CompressedRow) -> str:
    return f"{value:.1%}" if row.unit == POINTS else f"{value:.4f}"


def document(found: list[tuple[CompressionCase, TrainedModel, list[CompressedRow]]]) -> Any:
    """All figures, ready for JSON."""
    rows = [
        {
            "model": case.name,
            "way": row.way.words,
            "metric": row.report.metric_name,
            "before": row.report.metric.before,
            "after": row.report.metric.after,
            "lost": row.lost,
            "limit": row.way.limit,
            "unit": row.unit,
            "cosine": row.cosine,
            "bytes": [row.report.bytes.before, row.report.bytes.after],
            "seconds": [row.report.latency.before, row.report.latency.after],
            "within": row.is_within,
        }
        for case, _, rows in found
        for row in rows
    ]
    return {"machine": facts(), "rows": rows}
