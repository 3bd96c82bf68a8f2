"""Ranks that die, leave, hang or raise: the others say so within seconds, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.ranks import launched

KILLED = "rank 1 has failed: it was killed by signal 9 (SIGKILL)"


@pytest.mark.parametrize(
    ("how", "said", "error"),
    [
        ("kill", KILLED, "RankFailedError rank 1 has failed: it was killed by signal 9"),
        ("raise", "rank 1 has failed: ValueError: bad luck",
         "RankFailedError rank 1 has failed: ValueError: bad luck"),
        ("code", "rank 1 has failed: it ended with code 3",
         "RankFailedError rank 1 has ended, and was waited for"),
        ("hang", "has failed: it ended with code 5",
         "RankTimeoutError all_reduce f32[3] waited 2.0 s for rank 1"),
    ],
)  # fmt: skip
def test_the_end_of_one_rank(how: str, said: str, error: str) -> None:
    done = launched(3, "endings.py", how)
    assert done.returncode == 1 and said in done.stderr
    for rank in (0, 2):
        assert f"{rank}: {error}; True, True" in done.stdout


def test_a_rank_that_fails_before_it_joins() -> None:
    done = launched(2, "endings.py", "early")
    assert done.returncode == 1 and "rank 1 has failed: it ended with code 1" in done.stderr
    assert "OSError: before init" in done.stderr


def test_a_job_is_started_again() -> None:
    done = launched(2, "endings.py", "restart", restarts=3)
    assert done.returncode == 0, done.stderr
    assert "starting again, 2 of 3 times" in done.stderr and "3 of 3" not in done.stderr
    assert done.stdout.count("all is well in try 2") == 2


def test_without_mpi4py_the_error_has_the_line_for_pip(tmp_path: Path) -> None:
    program = "import sys; sys.modules['mpi4py'] = None\nimport hybrid.distributed"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stderr.splitlines()[-2:] == [
        "hybrid.errors.MissingPackageError: hybrid.distributed needs the package mpi4py, which is "
        "not installed",
        'Fix: pip install "hybrid[mpi]".',
    ]
