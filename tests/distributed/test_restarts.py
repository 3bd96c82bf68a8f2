"""Jobs that go on from their last file, with fewer ranks if need be: to the same bytes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid.jobs import watcher
from hybrid.jobs.job_state import JobState, _note
from tests.distributed.ranks import JOBS, launched, run

FILES = "end.safetensors last.safetensors"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("alone")
    done = run([sys.executable, str(JOBS / "restarted.py"), str(folder), "nothing"])
    assert (done.stdout, done.stderr) == (f"try 0: 1 ranks, 0 to 11, {FILES}\n", "")
    return (folder / "end.safetensors").read_bytes()


def test_ranks_that_are_killed(uninterrupted: bytes, tmp_path: Path) -> None:
    """One in a step, and one that has written a file but for its name."""
    done = launched(2, "restarted.py", str(tmp_path), "ranks", restarts=3, least=1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"try 2: 2 ranks, 4 to 11, {FILES}\n"), done.stdout
    for number in (0, 1):
        assert f"rank {1 - number} has failed: it was killed by signal 9" in done.stderr
        assert f"starting again, {number + 1} of 3 times" in done.stderr
    assert (tmp_path / "end.safetensors").read_bytes() == uninterrupted


def test_a_place_that_is_gone(uninterrupted: bytes, tmp_path: Path) -> None:
    done = launched(3, "restarted.py", str(tmp_path), "place", restarts=2, least=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"try 1: 2 ranks, 4 to 11, {FILES}\n"), done.stdout
    assert "rank 2 has failed: the process that watched it was killed" in done.stderr
    assert "starting again with 2 ranks, 1 of 2 times" in done.stderr
    assert (tmp_path / "end.safetensors").read_bytes() == uninterrupted


def test_a_full_disk(uninterrupted: bytes, tmp_path: Path) -> None:
    done = launched(2, "restarted.py", str(tmp_path), "disk")
    assert done.returncode == 0, done.stderr
    assert "rank 0: OSError\n" in done.stdout and "rank 1: CheckpointError\n" in done.stdout
    assert (tmp_path / "end.safetensors").read_bytes() == uninterrupted


def test_a_process_that_cannot_be_started(tmp_path: Path) -> None:
    """The watcher says so, and the rank's place is taken for lost."""
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        command = [sys.executable, "-I", "-S", watcher.__file__, str(tmp_path / "no such program")]
        environment = {**os.environ, "HYBRID_JOB": address, "PMI_RANK": "3"}
        with subprocess.Popen(command, env=environment) as process:
            link, _ = listening.accept()
            with link:
                assert json.loads(link.recv(4096)) == {"wants": "streams"}
                socket.send_fds(link, [b"\n"], [1, 2])
                said = json.loads(link.recv(4096))
                run = JobState(ranks=4)
                _note(run, link, said)
                link.sendall(b'{"stop": true}\n')
        assert process.returncode == 0
    assert run.lost == {3}
    how = f"its process could not be started: [Errno 2] No such file or directory: '{command[-1]}'"
    assert run.failures == {3: how}
