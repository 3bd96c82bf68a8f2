"""What tests of jobs share: how one is run, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

JOBS = Path(__file__).with_name("jobs")
SHARED = Path("/dev/shm")
SECONDS = 120  # that a job may take
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or "mpiexec"


def run(command: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    """What ``command`` has printed, and its code; its ranks are run with ``words`` at the end."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False,
            stdin=subprocess.DEVNULL, cwd=tempfile.gettempdir(),  # no hybrid is in the way there
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        for number in _running(*words):  # ranks wait for one another on all cores
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        raise


def launched(
    ranks: int, job: str, *arguments: str, restarts: int = 0, least: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The end of a job that ``hybrid launch`` runs; no process is left, and no file."""
    before = set(SHARED.glob("mpich*"))
    script = str(JOBS / job)
    options = ["-n", str(ranks), "--max-restarts", str(restarts)]
    options += [] if least is None else ["--min-ranks", str(least)]
    words = [script, *arguments]
    done = run([sys.executable, "-m", "hybrid", "launch", *options, *words], *words)
    end = time.monotonic() + 5
    while left := _running(*words):
        assert time.monotonic() < end, left
        time.sleep(0.05)
    with _looking():
        left_files = [p for p in set(SHARED.glob("mpich*")) - before if not _is_mapped(p)]
    assert not left_files
    return done


def require_well(ranks: int, job: str, *arguments: str) -> None:
    """Run a job that says of each rank that all is well; one process runs without a launcher."""
    if ranks == 1:
        done = run([sys.executable, str(JOBS / job), *arguments])
        assert (done.stdout, done.stderr) == ("rank 0 of 1: all is well\n", "")
        return
    done = launched(ranks, job, *arguments)
    assert done.returncode == 0, done.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks}: all is well" in done.stdout


def by_mpiexec(ranks: int, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The end of a job that nobody watches: killed ranks leave files, which are removed here."""
    with _looking():
        before = set(SHARED.glob("mpich*"))
        words = [str(JOBS / job), *arguments]
        done = run([MPIEXEC, "-n", str(ranks), sys.executable, *words], *words)
        for path in set(SHARED.glob("mpich*")) - before:
            if not _is_mapped(path):
                path.unlink(missing_ok=True)
    return done


@contextlib.contextmanager
def _looking() -> Iterator[None]:
    """While tests run side by side: files that one leaves are not taken for those of another."""
    with open(Path(tempfile.gettempdir(), "hybrid-jobs-of-tests"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _running(*words: str) -> dict[int, str]:
    """The processes whose commands end with ``words``, by their numbers."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if command[-len(words) - 1 : -1] == list(words) and int(path.parent.name) != os.getpid():
            found[int(path.parent.name)] = " ".join(command)
    return found


def _is_mapped(file: Path) -> bool:
    """Whether a job that runs beside this one has it."""
    for path in Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(file) in path.read_text():
                return True
        except OSError:
            continue
    return False
