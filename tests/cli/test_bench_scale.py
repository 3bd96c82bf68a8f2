"""``hybrid bench scaling``: tables of both models, and all that they rest on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hybrid.cli.bench_scale import span
from tests.cli.test_app import hybrid

NETWORK = {"host": {"alpha": 3e-6, "rates": [[1, 2.5e10]], "source": "of a data sheet"}}


def test_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    options = ["--ranks", "16", "--batch", "64", "--gflops", "40", "--network", str(path)]
    done = hybrid("bench", "scaling", *options, cwd=tmp_path, COLUMNS="160")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("GPT of 1.3 billion weights, 64 x 2,048 tokens: a step, what")
    ways = ["DP", "ZeRO 1", "ZeRO 2", "ZeRO 3", "TP x PP x DP", "tp x pp x dp"]
    at = next(i for i, line in enumerate(lines) if line.startswith("ranks"))
    assert all(way in lines[at] for way in ways)
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["1", "4", "16"]
    large = done.stdout[done.stdout.index("GPT of 13 billion weights") :]
    assert "needs 217 GiB" in large and "tokens/s" in large
    for text in (
        "40.0, as given; threads add up",
        "64 cores and 512.0 GiB; 8 ranks of 8 threads and 64.0 GiB",
        "between hosts     alpha 3.0 us, beta 25 GB/s, of a data sheet",
        "none: nothing is computed while bytes move",
    ):
        assert text in done.stdout, text


def test_numbers_that_are_none(tmp_path: Path) -> None:
    for option in ("--ranks", "--batch", "--ranks-per-host", "--cores-per-host"):
        done = hybrid("bench", "scaling", option, "0", cwd=tmp_path)
        assert done.returncode == 2 and done.stderr == (
            f"hybrid: {option} 0: give a number above 0.\n"
        )
    done = hybrid("bench", "scaling", "--gflops", "-1", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == (
        "hybrid: --memory-per-host and --gflops are numbers above 0.\n"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 s"), (119, "119.00 s"), (600, "10.0 min"), (36000, "10.0 h"), (864000, "10.0 d")],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text
