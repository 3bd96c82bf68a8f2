"""``hybrid tune``: what it shows and writes, and how ``hybrid info`` tells of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybrid.bench.tuning import PROBES
from hybrid.cli.app import build


def test_it_shows_and_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in PROBES:
        monkeypatch.setitem(PROBES, name, ((("dispatch", "8"),), (1,)))
    path = tmp_path / "folder" / "tuning"
    shown = CliRunner().invoke(build(), ["tune", "--rounds", "1", "--output", str(path)])
    assert shown.exit_code == 0, shown.output
    assert path.read_text() == ""
    for name in PROBES:
        assert any(
            line.startswith(name) and line.rstrip().endswith(": 100")
            for line in shown.stdout.splitlines()
        )
    assert f"Kept in {path}; delete it to undo.\n" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--rounds", "0"], "hybrid: --rounds 0: at least one round is needed."),
        (["--threads", "0"], "hybrid: --threads 0: "),
        (["--output", "/proc/none/x"], "hybrid: "),
        (["--output", "/"], "hybrid: --output / cannot be written: "),
    ],
)
def test_what_the_user_got_wrong(arguments: list[str], told: str) -> None:
    shown = CliRunner().invoke(build(), ["tune", *arguments])
    assert shown.exit_code == 2
    assert shown.stderr.startswith(told)


def test_info_tells_what_is_in_use(tmp_path: Path) -> None:
    def row(**environment: str) -> str:
        env = {**os.environ, "COLUMNS": "300", "HYBRID_TUNING": "", **environment}
        if not environment.get("HYBRID_TUNING", "x"):
            del env["HYBRID_TUNING"]
        done = subprocess.run(
            [sys.executable, "-m", "hybrid", "info"], env=env, cwd=tmp_path, capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip
        return next(line for line in done.stdout.splitlines() if line.startswith("tuning")).strip()

    path = tmp_path / "hybrid" / "tuning"
    path.parent.mkdir()
    assert row() == "tuning           as usual; `hybrid tune` measures what is best here"
    path.write_text("* spin_ns 7\n")
    assert row(HYBRID_TUNING=str(path)) == f"tuning           spin_ns 7, by {path}"
    path.write_text("* spin_ns 30000\n")
    assert row(HYBRID_TUNING=str(path)) == f"tuning           as usual, by {path}"
    path.write_text("* spin_ns\n")
    assert row(HYBRID_TUNING="", XDG_CACHE_HOME=str(tmp_path)) == (
        f"tuning           as usual: {path}: line 1 of it is no choice: * spin_ns; "
        "write it anew with `hybrid tune`"
    )
