"""The process beside each rank: it starts the rank, says how that ended, and ends it when told to.

``mpiexec`` starts this file in place of the rank, and kills all other processes once one of its own
ends badly.  So this one does not end before the launcher says so, and the ranks that are left have
the time to raise an error.  It needs nothing but Python: it is run by its path, with -I and -S::

    python -I -S watcher.py COMMAND ...
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")  # who says which it is


def main(command: list[str]) -> int:
    """Run ``command`` and return 0: how it ended is said to the launcher."""
    address = os.environ["HYBRID_JOB"]
    rank = int(next(os.environ[name] for name in RANKS if name in os.environ))
    link = socket.socket(socket.AF_UNIX)
    link.connect("\0" + address[1:] if address.startswith("@") else address)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # the launcher decides
    streams = _streams(link)
    if len(streams) != 2:
        return 0  # the launcher is gone
    out, err = streams
    try:
        child = subprocess.Popen(
            command, stdout=out, stderr=err, close_fds=False, preexec_fn=_as_it_was
        )
    except OSError as error:
        _say(link, unstarted=rank, why=str(error))
        _told_to_stop(link, None)
        return 0
    os.close(out)
    os.close(err)
    _say(link, watches=rank, pid=child.pid)
    try:
        code = _ended(child, link)
        if code is not None:
            _say(link, ended=rank, code=code)
            _told_to_stop(link, None)
    finally:
        child.kill()
        child.wait()
    return 0


def _streams(link: socket.socket) -> "list[int]":
    """The standard output and error of the launcher, where the rank prints: through ``mpiexec``
    the last lines would be lost when that ends the job.
    """
    _say(link, wants="streams")
    _, streams, _, _ = socket.recv_fds(link, 64, 2)
    return streams


def _as_it_was() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _ended(child: "subprocess.Popen[bytes]", link: socket.socket) -> "int | None":
    """The code with which ``child`` has ended; None: the launcher does not want to know."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, False)
    signal.set_wakeup_fd(_unblocked(writing))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while child.poll() is None:
        ready, _, _ = select.select([link, reading], [], [], 1.0)
        if reading in ready:
            os.read(reading, 64)
        if link in ready and _told_to_stop(link, 0):
            return None
    return child.returncode


def _unblocked(descriptor: int) -> int:
    os.set_blocking(descriptor, False)
    return descriptor


def _told_to_stop(link: socket.socket, timeout: "float | None") -> bool:
    """Whether the launcher says so, or is gone."""
    with contextlib.suppress(OSError):
        while select.select([link], [], [], timeout)[0]:
            said = link.recv(4096)
            if not said or b'"stop"' in said:
                return True
        return False
    return True


def _say(link: socket.socket, **what: object) -> None:
    with contextlib.suppress(OSError):
        link.sendall(json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
