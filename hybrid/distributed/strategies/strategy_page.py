"""A strategy for people: what was chosen and why, and a table of what each rank does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hybrid.core.layouts import MeshAxis, placement_text
from hybrid.passes.layouts.local_graph import LayoutRow

if TYPE_CHECKING:
    from hybrid.distributed.strategies.strategy import Strategy


def strategy_page(found: Strategy) -> str:
    """The page of ``found``::

    found: 1.204 ms a step, 48.2 MiB on each rank
    by hand: data 1.930 ms, tensor 1.204 ms, zero 2.100 ms, replicated 3.771 ms
    tp: 2 ranks, 12.3 us and 3.1 GB/s
      op       where           spec                              ms  bytes moved
      matmul   model.py:12     f32[8,6]: axis 1 by tp         0.310            0
    """
    best = found.option
    by_time = sorted(found.candidates.items(), key=lambda row: row[1])
    hand = ", ".join([f"{name} {seconds * 1e3:.3f} ms" for name, seconds in by_time])
    lines = [
        f"{found.name}: {found.seconds * 1e3:.3f} ms a step, {_mib(found.memory)} on each rank",
        f"by hand: {hand}",
    ]
    axes = best.axes
    if best.pipe is not None:
        pipe, axes = best.pipe, best.stages[0].axes
        lines.append(
            f"{pipe.comm.partition(' ')[0]}: {pipe.stages} stages, {pipe.microbatches} "
            f"microbatches by {pipe.schedule}; what follows is of stage 0"
        )
    for own in axes:
        links = found.links[own.axis.name]
        lines.append(
            f"{own.axis.name}: {own.axis.ranks} ranks, {links.alpha * 1e6:.1f} us and "
            f"{links.beta / 1e9:.2f} GB/s"
        )
        rows = [("op", "where", "spec", "ms", "bytes moved")]
        seconds = [*own.seconds, *[0.0] * (len(own.rows) - len(own.seconds))]
        for row, taken in zip(own.rows, seconds, strict=True):
            if any(row.places) or row.moved:
                rows.append(_row(row, own.axis, taken))
        widths = [max([len(row[at]) for row in rows]) for at in range(5)]
        for row in rows:
            left = [text.ljust(n) for text, n in zip(row[:3], widths, strict=False)]
            right = [text.rjust(n) for text, n in zip(row[3:], widths[3:], strict=True)]
            lines.append("  " + "  ".join([*left, *right]).rstrip())
    return "\n".join(lines)


def _row(row: LayoutRow, axis: MeshAxis, seconds: float) -> tuple[str, str, str, str, str]:
    where = ""
    if row.location is not None:
        where = f"{os.path.basename(row.location.path)}:{row.location.line}"
    spec = ", ".join(
        [
            f"{type}: {placement_text(place, axis.name)}"
            for type, place in zip(row.results, row.places, strict=True)
        ]
    )
    moved = sum([type.nbytes for _, type in row.moved])
    names = ", ".join(dict.fromkeys([name for name, _ in row.moved]))
    op = f"{row.op} after {names}" if names else row.op
    return op, where, spec, f"{seconds * 1e3:.3f}", str(moved)


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.2f} MiB"
