"""``hybrid launch``: what scripts are given, and what it ends with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hybrid.errors import MissingPackageError
from hybrid.jobs import launcher

SCRIPT = """
import os, sys, time
print(sys.argv[1:], os.environ["HYBRID_NUM_THREADS"], os.environ["HYBRID_RESTARTS"], flush=True)
time.sleep(float(sys.argv[2]))
sys.exit(int(sys.argv[1]))
"""


def started(tmp_path: Path, ranks: int, *arguments: str) -> subprocess.Popen[str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "hybrid", "launch", "-n", str(ranks), str(script), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "HYBRID_NUM_THREADS"},
    )  # fmt: skip


def test_scripts_get_arguments_and_threads(tmp_path: Path) -> None:
    """They need not communicate, nor even import hybrid."""
    out, err = (job := started(tmp_path, 2, "0", "0", "--option", "x y")).communicate(timeout=60)
    threads = max(len(os.sched_getaffinity(0)) // 2, 1)
    assert out == f"['0', '0', '--option', 'x y'] {threads} 0\n" * 2
    assert (job.returncode, err) == (0, "")


def test_the_code_of_a_rank(tmp_path: Path) -> None:
    out, err = (job := started(tmp_path, 1, "7", "0")).communicate(timeout=60)
    assert job.returncode == 1 and "hybrid: rank 0 has failed: it ended with code 7" in err
    assert out.startswith("['7', '0']")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_whole_job(tmp_path: Path, number: signal.Signals) -> None:
    job = started(tmp_path, 2, "0", "60")
    assert job.stdout is not None
    job.stdout.readline()
    job.stdout.readline()
    begin = time.monotonic()
    job.send_signal(number)
    job.communicate(timeout=30)
    assert job.returncode == 128 + number and time.monotonic() - begin < 8
    script = str(tmp_path / "script.py").encode()
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if script in _content(p)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_without_mpi4py_or_mpiexec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher.shutil, "which", lambda *_, **__: None)
    with pytest.raises(MissingPackageError) as error:
        launcher.launch(1, ["true"])
    assert str(error.value) == (
        "hybrid launch needs mpiexec, which is not there\n"
        'Fix: pip install "hybrid[mpi]", which brings that of MPICH.'
    )
    monkeypatch.setattr(launcher.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match="needs the package mpi4py"):
        launcher.launch(1, ["true"])
