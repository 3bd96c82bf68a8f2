"""What the ranks of a job and their watchers say, and what the others are told of it."""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import socket
import time
from pathlib import Path
from typing import Any

from hybrid.core.dataclass import dataclass, field


@dataclass(slots=True)
class JobState:
    """One try of a job, as far as the launcher knows."""

    ranks: int
    links: dict[socket.socket, bytes] = field(default_factory=dict)  # with what came of a line
    watchers: dict[int, socket.socket] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)  # of the ranks
    codes: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)  # in the order in which they came
    left: dict[int, bool] = field(default_factory=dict)  # and whether with all others
    closed: bool = False  # whether they know how to end
    files: set[str] = field(default_factory=set)  # in shared memory
    of: dict[socket.socket, int] = field(default_factory=dict)  # whose link it is
    failed_at: float | None = None
    lost: set[int] = field(default_factory=set)  # ranks whose places are gone


def read(run: JobState, link: Any, selector: selectors.BaseSelector) -> None:
    try:
        piece = link.recv(1 << 16)
    except OSError:
        piece = b""
    if not piece:
        selector.unregister(link)
        del run.links[link]
        number = next((r for r, watcher in run.watchers.items() if watcher is link), None)
        if number is not None and number not in run.codes:
            if not run.failures:  # or mpiexec has killed it because of another one
                run.lost.add(number)
            _failed(run, number, "the process that watched it was killed")
        return
    *lines, run.links[link] = (run.links[link] + piece).split(b"\n")
    for line in lines:
        _note(run, link, json.loads(line))


def _note(run: JobState, link: socket.socket, said: dict[str, Any]) -> None:
    if "wants" in said:
        with contextlib.suppress(OSError):
            socket.send_fds(link, [b"\n"], [1, 2])
    elif "unstarted" in said:
        run.watchers[said["unstarted"]] = link
        run.lost.add(said["unstarted"])
        _failed(run, said["unstarted"], f"its process could not be started: {said['why']}")
    elif "watches" in said:
        run.watchers[said["watches"]], run.pids[said["watches"]] = link, said["pid"]
    elif "rank" in said:
        run.of[link] = said["rank"]
        run.files.update(said["mapped"])
        for number, how in run.failures.items():
            tell(link, failed=number, how=how)
        for number in run.left:
            tell(link, left=number)
        if run.closed:
            tell(link, close=False)
    elif "error" in said:
        _failed(run, run.of[link], said["error"])
    elif "leaving" in said:
        _left(run, run.of[link], said["leaving"])
    elif "ended" in said:
        number, code = said["ended"], said["code"]
        run.codes[number] = code
        if code == 0:
            _left(run, number, False)
        else:
            _failed(run, number, _how(code))


def _how(code: int) -> str:
    if code >= 0:
        return f"it ended with code {code}"
    with contextlib.suppress(ValueError):
        return f"it was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"it was killed by signal {-code}"


def _failed(run: JobState, number: int, how: str) -> None:
    if number in run.failures:
        return
    run.failures[number] = how
    if run.failed_at is None:
        run.failed_at = time.monotonic()
        run.files.update(*[shared_files_of(pid) for pid in run.pids.values()])
    for link in run.of:
        tell(link, failed=number, how=how)


def _left(run: JobState, number: int, whole: bool) -> None:
    """Note that a rank ends.  MPI can be finalized by all ranks together alone: tell them."""
    if number not in run.left:
        run.left[number] = whole
        for link in run.of:
            tell(link, left=number)
    together = all(run.left.values())
    if not run.closed and (not together or len(run.left) == run.ranks):
        run.closed = True
        for link in run.of:
            tell(link, close=together)


def tell(link: socket.socket, **what: Any) -> None:
    with contextlib.suppress(OSError):
        link.sendall(json.dumps(what).encode() + b"\n")


def shared_files_of(pid: int) -> set[str]:
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}
