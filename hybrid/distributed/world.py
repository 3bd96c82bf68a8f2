"""This process as a rank of its job: MPI, ``init``, ``rank``, ``size``, and how it ends.

MPI itself is what mpi4py loads; it is initialized and finalized here.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from hybrid.core.imports import optional
from hybrid.core.package import __version__
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CollectiveMismatchError,
    MissingPackageError,
    RankFailedError,
    RankTimeoutError,
    author_location,
)
from hybrid.jobs.job_link import SIZE, JobLink, job_link
from hybrid.jobs.rank_record import recording
from hybrid.jobs.simulated_rank import SimulatedRank, simulated_rank
from hybrid.memory import channels, native
from hybrid.memory.channels import current_entry


def _loaded() -> Any:
    if simulated_rank() is not None:
        return None
    optional("mpi4py", "mpi", "hybrid.distributed")
    import mpi4py

    mpi4py.rc.initialize = mpi4py.rc.finalize = False  # for us to do
    try:
        from mpi4py import MPI as found
    except (ImportError, RuntimeError) as error:
        raise MissingPackageError(
            "hybrid.distributed needs an MPI library, which mpi4py does not find",
            why=str(error).strip().splitlines()[0],
            fix='pip install "hybrid[mpi]", which brings MPICH; or install Open MPI',
        ) from None
    return found


MPI = _loaded()
PATIENCE = 2.0  # seconds that what a rank has sent may take to come after it has left
MOST_SAID = 300  # characters of an error that others are told
FORWARDING = 0.5  # seconds in which mpiexec passes on what was printed: aborting, it drops the rest
PROGRAM = 256  # bytes of what a rank says of the program that it runs
CLOSING = 5.0  # seconds that messages may take to be fetched when a rank leaves


class World:
    """The job: MPI's communicators of all ranks, and what is known of the others."""

    is_simulated = False

    def __init__(self, timeout: float, check: bool | None) -> None:
        self.timeout, self.check = timeout, check is None or check
        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
            self.finalizes = True
        else:
            self.finalizes = False
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise ArgumentError(
                "MPI was initialized for one thread alone",
                fix="call hybrid.distributed.init() before anything else initializes MPI",
            )
        everyone = MPI.COMM_WORLD
        everyone.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = everyone.Get_rank(), everyone.Get_size()
        self.link: JobLink | None = job_link()
        self.given_up = ""  # why nothing is communicated any more
        self.left_since: dict[int, float] = {}
        self.channels: list[Any] = []
        self.closing: list[Callable[[], None]] = []  # what all ranks do together before MPI ends
        if self.link is not None:
            self.link.say(rank=self.rank, mapped=sorted(shared_files()))
            if os.environ.get(SIZE, str(self.size)) != str(self.size):
                raise ArgumentError(
                    f"hybrid launch started {os.environ[SIZE]} ranks, and MPI knows {self.size}",
                    why="The mpiexec that was found belongs to another MPI than the one that "
                    f"mpi4py has loaded: {MPI.Get_library_version().splitlines()[0]}",
                    fix="install one MPI alone in this environment",
                )

    def require_alike(self) -> None:
        """Raise CollectiveMismatchError on all ranks unless all run the same hybrid and kernels."""
        if self.size == 1:
            return
        said = [__version__, native.isa(), *native.isas()]
        rows = [row.split() for row in self._told(" ".join(said).encode()[:PROGRAM])]
        if all(row[:2] == said[:2] for row in rows):
            return
        shown = [
            f"  rank {r}: hybrid {version}, kernels for {isa}"
            for r, (version, isa, *_) in enumerate(rows)
        ]
        common = [isa for isa in rows[0][2:] if all(isa in row[2:] for row in rows)]
        one = f"set HYBRID_ISA={common[-1]} for all of them" if common else "use like machines"
        raise CollectiveMismatchError(
            "\n".join(["the ranks of this job run different programs", *shown]),
            why="What they compute together would depend on which rank computes it.",
            fix=one
            if len({version for version, *_ in rows}) == 1
            else "install one version of hybrid on all machines",
        )

    def _told(self, text: bytes) -> list[str]:
        """The texts of all ranks, of which this one has ``text``."""
        found = np.empty((self.size, PROGRAM), np.uint8)
        mine = np.frombuffer(text.ljust(PROGRAM), np.uint8).copy()
        begun = time.monotonic()
        try:
            request = MPI.COMM_WORLD.Iallgather([mine, MPI.BYTE], [found, MPI.BYTE])
            while not request.Test():
                self.refuse(range(self.size))
                if time.monotonic() - begun > self.timeout:
                    self.give_up(f"init took longer than {self.timeout:g} s")
                    raise RankTimeoutError(
                        f"init waited {self.timeout:.1f} s for other ranks",
                        at=author_location(),
                        why="All ranks call it before they communicate, and some did not.",
                        fix="let them call it, or give it a longer timeout",
                    )
                time.sleep(0.0002)
        except MPI.Exception as error:
            self.refuse()
            raise self.failure(None, f"MPI failed: {error}") from error
        return [row.tobytes().decode() for row in found]

    def refuse(self, members: Collection[int] = ()) -> None:
        """Raise RankFailedError if a rank has failed, or one of ``members`` has left long ago."""
        link = self.link
        if link is None:
            return
        if link.failed:
            number, how = next(iter(link.failed.items()))
            raise self.failure(number, f"rank {number} has failed: {how}")
        if link.lost:
            raise self.failure(None, "hybrid launch, which watches this job, has ended")
        for number in link.left.intersection(members):
            since = self.left_since.setdefault(number, time.monotonic())
            if time.monotonic() - since > PATIENCE:
                raise self.failure(number, f"rank {number} has ended, and was waited for")

    def failure(self, number: int | None, what: str) -> RankFailedError:
        self.give_up(what)
        error = RankFailedError(
            what,
            at=current_entry().location,
            why="What the ranks compute together cannot go on without it.",
            fix="see what that rank has printed; hybrid launch --max-restarts begins again from "
            "the last checkpoint",
        )
        error.rank = number
        return error

    def give_up(self, why: str) -> None:
        """Communicate no more, for MPI has no way back from where it is."""
        self.given_up = self.given_up or why
        channels.stop_channels()

    def require_whole(self) -> None:
        """Raise RankFailedError if communication has been given up."""
        self.refuse()
        if self.given_up:
            raise self.failure(None, f"communication has ended before this: {self.given_up}")

    def leave(self) -> None:
        """End as it should be: messages are fetched, MPI is finalized unless that would hang."""
        if not self.finalizes or MPI.Is_finalized():
            return
        end = time.monotonic() + min(CLOSING, self.timeout)
        with contextlib.suppress(Exception):
            while any(channel.unfetched() for channel in self.channels):
                self.require_whole()
                if time.monotonic() > end:
                    break
                time.sleep(0.001)
        whole = not self.given_up
        if self.link is not None:
            whole = self.link.goodbye(whole)
        if whole:
            for close in self.closing:
                close()
            MPI.Finalize()  # which waits for all ranks


class SimulatedWorld(World):
    """A job of which this process is one rank, and the others are not there."""

    is_simulated = True

    def __init__(self, timeout: float, check: bool | None, rank: SimulatedRank) -> None:
        self.timeout, self.check = timeout, check is None or check
        self.rank, self.size = rank.rank, rank.ranks
        self.link, self.given_up, self.finalizes = None, "", False
        self.left_since, self.channels, self.closing = {}, [], []


def shared_files() -> set[str]:
    """The files in shared memory that this process has mapped: a killed one leaves them behind."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        paths = [line.split(maxsplit=5)[5].strip() for line in lines if "/dev/shm/" in line]
    return {path for path in paths if os.path.exists(path)}


_world: list[World] = []
_lock = threading.Lock()


def init(timeout: float = 60, check: bool | None = None) -> None:
    """Join the job: all ranks call it once, before they communicate.

    They are to run one version of hybrid, with the kernels of one instruction set: else results
    would depend on who computes what, and CollectiveMismatchError is raised on each.

    ``timeout`` is how many seconds a collective waits for other ranks before it raises
    RankTimeoutError.  With ``check`` every eager collective first compares with those of the other
    ranks what it is about to do, and raises CollectiveMismatchError on each if that differs; plans
    do so before their first run in any case.  False leaves it out; None, the default, is True.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise ArgumentTypeError(f"timeout is {timeout!r}", fix="give it a number of seconds")
    if not timeout > 0:
        raise ArgumentError(f"timeout is {timeout!r}", fix="give it a number of seconds above 0")
    if check is not None and not isinstance(check, bool):
        raise ArgumentTypeError(f"check is {check!r}", fix="give it True, False or None")
    with _lock:
        if _world:
            _world[0].timeout, _world[0].check = timeout, check is None or check
            channels.compare_eager_calls(_world[0].check)
            return
        played = simulated_rank()
        found = World(timeout, check) if played is None else SimulatedWorld(timeout, check, played)
        _world.append(found)
        channels.compare_eager_calls(found.check)
        atexit.register(found.leave)
        write = recording()
        if write is not None:
            atexit.register(write, found.rank, found.size)
        _end_with_errors(found)
        if not found.is_simulated:
            found.require_alike()


def world() -> World:
    """The job of this process, which is joined now if it was not before."""
    if not _world:
        init()
    return _world[0]


def rank() -> int:
    """The number of this process among those of the job, from 0 on."""
    return world().rank


def size() -> int:
    """How many processes the job has."""
    return world().size


def _end_with_errors(found: World) -> None:
    """Let an error that nobody catches end the whole job once it is printed."""
    before = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        before(kind, error, traceback)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        if found.is_simulated or (found.size == 1 and found.link is None):
            return
        if found.link is not None:
            found.link.says_goodbye = False
            found.link.say(error=f"{kind.__name__}: {error}".splitlines()[0][:MOST_SAID])
            os._exit(1)
        time.sleep(FORWARDING)
        MPI.COMM_WORLD.Abort(1)

    sys.excepthook = end
