"""``hybrid bench compare``: its table, its file, its codes, and what it does when interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import hybrid as hy
from hybrid.cli.app import build

QUICK = ["--rounds", "3", "--seconds", "0.002", "--threads", "1"]


QUICK_LIMITS = """
from hybrid.bench import limits
limits.levels = lambda _: dict.fromkeys(("L1", "L2", "L3", "memory"), 64 << 10)
from hybrid.cli.app import main
main()
"""


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["bench", "compare", *arguments])


pytestmark = pytest.mark.usefixtures("quick_limits")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_numpy_and_one_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    shown = invoked(
        "dispatch", "gemm:1x1024", *QUICK, "--against", "numpy,jax", "--json", str(path),
        "--python", "jax=/no/such/python",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    for part in ("dispatch", "  1x1024x1024", "hybrid", "numpy", "p10 - p90", "first call"):
        assert part in shown.stdout
    assert (
        "jax: does not start: /no/such/python cannot be run: No such file or directory"
        in shown.stdout
    )
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["settings"]["threads"] == 1 and len(written["comparisons"]) == 2
    for one in written["comparisons"]:
        assert [line["state"] for line in one["lines"]] == ["timed", "timed", "does not start"]
        assert one["best"] == "numpy" and one["speed"]["numpy"] > 0


def test_no_figure_is_cut_off_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    shown = invoked("dispatch", *QUICK, "--against", "numpy")
    assert "of limit" in shown.stdout and "…" not in shown.stdout


def test_a_model_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    hy.onnx.export(hy.nn.Linear(4, 3), path, hy.ones((2, 4)))
    shown = invoked(f"onnx:{path}", *QUICK, "--against", "onnxruntime")
    assert shown.exit_code == 0, shown.output
    rows = [line.split() for line in shown.stdout.splitlines() if str(path) in line]
    assert rows and rows[0][1] == "onnxruntime"


def test_fail_below() -> None:
    shown = invoked("dispatch", *QUICK, "--against", "numpy", "--fail-below", "1e6")
    assert shown.exit_code == 1
    assert "hybrid: dispatch (8): " in shown.stderr and "times as fast as numpy." in shown.stderr
    assert invoked("dispatch", *QUICK, "--against", "numpy", "--fail-below", "1e-6").exit_code == 0


def test_the_clock() -> None:
    shown = invoked("dispatch", *QUICK, "--against", "numpy", "--clock", "cpu")
    assert shown.exit_code == 0 and "medians of 3 rounds in turns, cpu time" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gem"], "there is no workload named 'gem' to compare; did you mean 'gemm'?"),
        (["qqqq"], "there is no workload named 'qqqq' to compare. Fix: see `hybrid bench list`."),
        (["fused:7"], "fused has no case with '7'. Fix: there are: 1e3, 1e6."),
        (["onnx:none.onnx"], "there is no file 'none.onnx'. Fix: write onnx:FILE."),
        (["onnx"], "there is no file ''. Fix: write onnx:FILE."),
        (["onnx:m.onnx@n"], "'n' says no sizes: write FILE@batch=8,length=64."),
        (["--against", "nump"], "there is no peer named 'nump'; did you mean 'numpy'?"),
        (["--rounds", "0"], "--rounds 0: at least one round is needed."),
        (["--seconds", "0"], "--seconds 0 --timeout 600: give 0 < seconds < timeout."),
        (["--clock", "moon"], "--clock moon: use wall or cpu."),
        (["--python", "x"], "'x' names no interpreter."),
        (["--threads", "0"], "--threads 0: "),
        (["--json", "/no/such/folder/file"], "--json /no/such/folder/file cannot be written: "),
    ],
)
def test_what_the_user_got_wrong(arguments: list[str], told: str) -> None:
    shown = invoked(*arguments)
    assert shown.exit_code == 2
    assert shown.stderr.startswith(f"hybrid: {told}")


@pytest.mark.alone
@pytest.mark.usefixtures("heeded_interrupt")
def test_interrupted_it_shows_what_it_has_and_leaves_nothing(tmp_path: Path) -> None:
    """The second case hangs in a peer; Ctrl-C ends that peer, too."""
    pids, path = tmp_path / "pids", tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 120\n")
    path.chmod(0o755)
    command = [
        sys.executable, "-c", QUICK_LIMITS, "bench", "compare", "dispatch", *QUICK,
        "--against", "jax", "--python", f"jax={path}",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not pids.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
