"""What a rank did, written to a file when it ends: when plans ran, and each of their transfers.

Simulated ranks are recorded, and those of the jobs that they are compared with: HYBRID_RECORD is
the folder.  Times are those of profiles, so scripts that are recorded take none of their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.core.output_file import write_text
from hybrid.memory import native
from hybrid.memory.channels import reach
from hybrid.memory.work_queue import drain_all
from hybrid.plan import Plan, all_plans, on_new_plans
from hybrid.plan.traffic import Traffic, traffic_of

FOLDER = "HYBRID_RECORD"  # where to, in the environment
LIMIT = 2_000_000  # steps that are recorded
EVENT = np.dtype(
    [
        *[(name, np.int64) for name in ("plan", "begin", "end")],
        *[(name, np.int32) for name in ("step", "thread", "part", "parts")],
    ]
)
RUN = -1  # in place of a step


class RankRecord:
    """A recording that is under way."""

    def __init__(self) -> None:
        self._traffic: dict[tuple[int, int], Traffic] = {}
        for number, plan in all_plans().items():
            self._look_at(number, plan)
        on_new_plans(self._look_at)
        before = native.memory()["live_bytes"]
        native.start_profile(LIMIT)
        self._own = native.memory()["live_bytes"] - before  # bytes of the recording itself

    def _look_at(self, number: int, plan: Plan) -> None:
        """Note what a plan sends: it may be gone when the process ends."""
        for at, step in enumerate(plan.steps):
            traffic = traffic_of(step)
            if traffic is not None:
                self._traffic[number, at] = traffic

    def write(self, path: Path, rank: int, size: int) -> None:
        """End it, and write what was recorded."""
        on_new_plans(None)
        drain_all()
        memory = native.memory()
        data, count = native.stop_profile(LIMIT)
        events = np.frombuffer(data, EVENT)
        symbols: dict[Any, int] = {}
        rows: list[tuple[int, int, int]] = []
        first = int(events["begin"].min()) if len(events) else 0
        kept = events[(events["step"] == RUN) | np.isin(events["plan"], self._plans())]
        for event in np.sort(kept, order="begin", kind="stable"):
            number, step = int(event["plan"]), int(event["step"])
            what: Any = number if step == RUN else self._traffic.get((number, step))
            if what is not None:
                at = symbols.setdefault(what, len(symbols))
                rows.append((at, int(event["begin"]) - first, int(event["end"]) - first))
        transfers = [symbol for symbol in symbols if isinstance(symbol, Traffic)]
        written = {
            "rank": rank,
            "size": size,
            "threads": native.num_threads(),
            "lost": count - len(events),
            "peak_bytes": memory["peak_bytes"] - self._own,
            "members": {t.comm: list(reach(t.comm, t.ranks).members) for t in transfers},
            "symbols": [_written(symbol) for symbol in symbols],
            "events": rows,
        }
        write_text(path, json.dumps(written))

    def _plans(self) -> list[int]:
        return sorted({number for number, _ in self._traffic})


def _written(symbol: Any) -> dict[str, Any]:
    if not isinstance(symbol, Traffic):
        return {"plan": symbol}
    at = symbol.call.location
    return {
        "name": symbol.call.name,
        "kind": symbol.kind,
        "comm": symbol.comm,
        "given": symbol.given,
        "nbytes": symbol.nbytes,
        "peer": symbol.peer,
        "place": symbol.place,
        "types": " ".join(map(str, symbol.call.types)),
        "at": "" if at is None else f"{os.path.basename(at.path)}:{at.line}",
    }


def recording() -> Callable[[int, int], None] | None:
    """Begin to record if the environment asks for it: what ends it, for a rank of so many."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return None
    record = RankRecord()
    return lambda rank, size: record.write(Path(folder, f"rank{rank}.json"), rank, size)
