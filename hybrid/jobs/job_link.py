"""The link from a rank to ``hybrid launch``: who has failed, said by the launcher at once.

The launcher says where it listens in HYBRID_JOB, a path or, after ``@``, the name of an abstract
socket.  Both sides write lines of JSON.  A rank says who it is, that it is about to leave, or with
what it fails; the launcher that another rank has failed, or left.  Without a launcher there is no
link, and what happens to the others is up to ``mpiexec``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import Any

VARIABLE, SIZE = "HYBRID_JOB", "HYBRID_JOB_SIZE"


def address_of(text: str) -> str:
    """What a socket takes for the address ``text`` of the environment."""
    return "\0" + text[1:] if text.startswith("@") else text


class JobLink:
    """One end of the link; ``failed`` and ``left`` are what it was told."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self.failed: dict[int, str] = {}  # by rank: how
        self.left: set[int] = set()
        self.lost = False  # whether the launcher is gone
        self.closes: bool | None = None  # whether all ranks end together, once that is known
        self.says_goodbye = True
        os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._listen, name="hybrid job link", daemon=True).start()

    def say(self, **what: Any) -> None:
        """Tell the launcher; that it is gone shows elsewhere."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(what).encode() + b"\n")

    def goodbye(self, whole: bool) -> bool:
        """Say that this rank ends, ``whole`` if it can do so with all others: whether all do."""
        if self.says_goodbye:
            self.says_goodbye = False
            self.say(leaving=whole)
        while self.closes is None and whole and not self.lost and not self.failed:
            time.sleep(0.001)
        return bool(self.closes)

    def _forget(self) -> None:
        """In a fork, which is no rank."""
        self.says_goodbye = False
        self._socket.close()

    def _listen(self) -> None:
        rest = b""
        with contextlib.suppress(OSError):
            while piece := self._socket.recv(4096):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._note(json.loads(line))
        self.lost = True

    def _note(self, said: dict[str, Any]) -> None:
        if "failed" in said:
            self.failed[said["failed"]] = said["how"]
        elif "left" in said:
            self.left.add(said["left"])
        elif "close" in said:
            self.closes = said["close"]


_links: list[JobLink] = []


def job_link() -> JobLink | None:
    """The link of this process, made when it is first asked for; None without a launcher."""
    if not _links and VARIABLE in os.environ:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address_of(os.environ.pop(VARIABLE)))
        _links.append(JobLink(connection))
    return _links[0] if _links else None
