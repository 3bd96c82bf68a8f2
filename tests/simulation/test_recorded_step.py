"""The step that repeats is found among all that a rank does, and what it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid.errors import HybridError
from hybrid.simulation.recorded_step import read_step, repeated


def timed(symbols: str, seconds: int = 10) -> np.ndarray:
    """Events one behind the other, each of the same length."""
    return np.array([[ord(s), i * seconds, (i + 1) * seconds] for i, s in enumerate(symbols)])


@pytest.mark.parametrize(
    ("symbols", "found"),
    [
        ("xyzabcabcabcw", (3, 3, 3)),
        ("aaaaaa", (0, 1, 6)),
        ("xxxabcdabcdabcdabcd", (3, 4, 4)),
        ("aabaabaab", (0, 3, 3)),
        ("abcabcab", None),
        ("abcdefgh", None),
        ("", None),
    ],
)
def test_what_repeats(symbols: str, found: tuple[int, int, int] | None) -> None:
    assert repeated(timed(symbols).reshape(-1, 3)) == found


def test_what_takes_longest_counts() -> None:
    """Not the many short calls at the beginning."""
    events = timed("iiiiiiiiiiababab")
    events[10:, 1:] += np.arange(6)[:, None] * 100
    assert repeated(events) == (10, 2, 3)


def record(tmp_path: Path, events: list[list[int]], **others: Any) -> Path:
    gather = {
        "name": "parts_total", "kind": "all_gather", "comm": "world", "given": 8, "nbytes": 8,
        "peer": -1, "place": -1, "types": "f32[2]", "at": "a.py:1",
    }  # fmt: skip
    written = {
        "rank": 1, "size": 2, "threads": 1, "lost": 0, "peak_bytes": 77,
        "members": {"world": [0, 1]}, "symbols": [{"plan": 5}, gather], "events": events,
    }  # fmt: skip
    path = tmp_path / "rank1.json"
    path.write_text(json.dumps(written | others))
    return path


def test_gaps_and_transfers(tmp_path: Path) -> None:
    """A run of 100 ns with a transfer of 20 in it; the first one takes longer."""
    events = []
    for i in range(6):
        start = i * 200 - (5000 if i == 0 else 0)
        events += [[0, start, i * 200 + 100], [1, i * 200 + 30, i * 200 + 50]]
    found = read_step(record(tmp_path, events))
    assert [t.kind for t in found.transfers] == ["all_gather"]
    assert found.transfers[0].members == (0, 1)
    assert found.gaps == pytest.approx((30e-9, 150e-9))
    assert found.seconds == pytest.approx(200e-9) and found.steps == 5
    assert found.computing == pytest.approx(180e-9) and found.peak_bytes == 77


def test_more_than_was_recorded(tmp_path: Path) -> None:
    with pytest.raises(HybridError) as error:
        read_step(record(tmp_path, [], lost=1234))
    assert str(error.value) == (
        "rank 1 did 1,234 more steps of plans than are recorded\n"
        "Fix: let the script do fewer steps of training: a few are enough."
    )
