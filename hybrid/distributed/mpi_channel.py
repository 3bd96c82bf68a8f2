"""Channels over MPI: it moves bytes, and sums are made here, in an order that ranks alone decide.

Every call is one that does not block, and is asked for again and again: so that a rank which does
not come, or is gone, ends in an error and not in a hang.

A second communicator has the words about what is done on the first.  Before new collectives, each
rank sends the others a fingerprint of 16 bytes, and takes theirs; only if some differ they send
texts.  A rank that has long waited in a collective looks whether others ask for a comparison, and
joins it: they are about to do something else.  It also sends a note that it waits, so that those
who give up can say who was not there.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, replace
from hybrid.distributed.world import MPI, World
from hybrid.errors import (
    CollectiveMismatchError,
    HybridError,
    Location,
    RankTimeoutError,
    author_location,
)
from hybrid.ir.record import mode
from hybrid.jobs.rank_record import FOLDER
from hybrid.memory import channels
from hybrid.memory.channels import Channel, CollectiveCall, Doing, current_entry, open_channel
from hybrid.memory.work_queue import WorkQueue
from hybrid.plan import Plan
from hybrid.trace.capture.surroundings import beside

WORD = 2**64 - 1
ASKED, TOLD, WAITS, MESSAGE = 1, 2, 3, 4  # tags
FINGERPRINT = 16  # bytes
MOST_TEXT = 1 << 16
SPINS = 200
LOOKS = 0.005  # seconds from one look at the other ranks to the next
MOST_PLANS = 256  # for sums of gradients
NOTES = 0.25  # seconds after which a rank that waits says so


@dataclass(slots=True)
class Stall:
    """A transfer that takes long, by its number: since when, and whether the others know."""

    sequence: int
    begun: float
    noted: bool = False


class MpiChannel(Channel):
    """A channel of the ranks of ``group``, an MPI communicator that nobody else uses."""

    def __init__(self, name: str, group: Any, job: World) -> None:
        super().__init__(name, group.Get_rank(), group.Get_size())
        self.job, self.moves, self.words = job, group, group.Dup()
        for comm in (self.moves, self.words):
            comm.Set_errhandler(MPI.ERRORS_RETURN)
        everyone, mine = MPI.COMM_WORLD.Get_group(), group.Get_group()
        self.members = tuple(mine.Translate_ranks(range(self.ranks), everyone))
        self.others = [r for r in range(self.ranks) if r != self.rank]
        self.known: set[bytes] = set()  # fingerprints that all ranks have had
        self._begun = 0  # collectives so far, where C does not count them
        self.stall: Stall | None = None  # of what this rank has long been waiting in
        self.heard: dict[int, int] = {}  # of each rank: the last collective that it has waited in
        self.asked: dict[int, bytes] = {}  # what ranks have sent that wait for a comparison
        self.kept: list[tuple[Any, Any]] = []  # what is under way, and its memory
        self.gradients: GradientChannel | None = None  # of the same ranks
        if self.ranks > 1 and os.environ.get("HYBRID_MPI") != "python":
            opening = functools.partial(opened_in_c, group, self.rank, self.ranks)
            self.number = beside(opening, mode())  # it reads which libraries are loaded
        job.channels.append(self)

    @property
    def sequence(self) -> int:
        """How many collectives have begun."""
        return self._begun if self.number < 0 else channels.transfers_begun(self.number)

    def _count(self) -> None:
        if self.number < 0:
            self._begun += 1
        else:
            channels.transfers_begun(self.number, 1)

    # Comparing --------------------------------------------------------------------------------

    def agree(self, entries: Sequence[CollectiveCall], *, eager: bool) -> None:
        if eager and not self.job.check:
            return
        print_ = fingerprint(entries)
        if not eager and print_ in self.known:
            return
        self.job.require_whole()
        self.compare(entries, print_)
        if not eager:
            self.known.add(print_)

    def compare(self, entries: Sequence[CollectiveCall], print_: bytes = b"") -> None:
        """Raise CollectiveMismatchError on all ranks unless they do the same ``entries``.

        ``print_`` is their fingerprint, where it is known.
        """
        print_ = print_ or fingerprint(entries)
        said = print_ + self.sequence.to_bytes(8, "little")
        found = self._exchanged(ASKED, np.frombuffer(said, np.uint8), len(said), entries)
        if all(theirs[:FINGERPRINT] == print_ for theirs in found.values()):
            return
        text = "\n".join(map(str, entries)).encode()[:MOST_TEXT]
        told = self._exchanged(TOLD, np.frombuffer(text, np.uint8), MOST_TEXT, entries)
        raise self._mismatch([str(e) for e in entries], told)

    def _exchanged(
        self, tag: int, mine: np.ndarray, room: int, entries: Sequence[CollectiveCall]
    ) -> dict[int, bytes]:
        """What each other rank sends with ``tag``, which gets ``mine``."""
        with _failing(self.job):
            goings = [self.words.Isend(_bytes(mine), r, tag) for r in self.others]
            found: dict[int, bytes] = {}
            if tag == ASKED:
                found, self.asked = self.asked, {}
            left = [r for r in self.others if r not in found]
            arrays = {r: np.empty(room, np.uint8) for r in left}
            comings = {r: self.words.Irecv(_bytes(arrays[r]), r, tag) for r in left}

            def over() -> bool:
                for r in [r for r in left if r not in found]:
                    status = MPI.Status()
                    if comings[r].Test(status):
                        found[r] = arrays[r][: status.Get_count(MPI.BYTE)].tobytes()
                return len(found) == len(self.others) and all_over(goings)

            def missing() -> list[int]:
                return [r for r in left if r not in found]

            self._until(over, missing, entries[0] if entries else current_entry())
        return found

    def _mismatch(self, mine: list[str], told: dict[int, bytes]) -> CollectiveMismatchError:
        lists = {self.rank: mine}
        lists |= {r: text.decode("utf-8", "replace").splitlines() for r, text in told.items()}
        plain = {r: [_bare(line) for line in lines] for r, lines in lists.items()}
        at = 0
        while len({tuple(lines[at : at + 1]) for lines in plain.values()}) == 1:
            at += 1
            if at > max(map(len, plain.values())):
                break  # they differ behind what was sent
        shown = [
            f"  rank {self.members[r]}: {lines[at] if at < len(lines) else 'nothing more'}"
            for r, lines in sorted(lists.items())
        ]
        number = f", number {at + 1} of them" if max(map(len, lists.values())) > 1 else ""
        return CollectiveMismatchError(
            "\n".join([f"the ranks of {self.name!r} do different collectives{number}", *shown]),
            why="Each would wait for others that never come to it.",
            fix="let all ranks do the same collectives in one order, with equal shapes, dtypes, "
            "roots and ops",
        )

    # Waiting ----------------------------------------------------------------------------------

    def _until(
        self,
        over: Callable[[], bool],
        missing: Callable[[], list[int]],
        entry: CollectiveCall,
        look: Callable[[], Any] | None = None,
    ) -> None:
        """Return when ``over``; raise when another rank fails, or the time is up."""
        for _ in range(SPINS):
            if over():
                return
        begun = time.monotonic()
        next_look, pause = begun, 0.0
        while not over():
            now = time.monotonic()
            if now >= next_look:
                next_look = now + LOOKS
                self.job.refuse(self.members)
                if look is not None:
                    look()
                if now - begun > self.job.timeout:
                    raise self._late(missing(), entry, now - begun)
            if now - begun > 0.0005:
                pause = min(pause + 0.00002, 0.001)
                time.sleep(pause)

    def wait(
        self, over: Callable[[], bool], missing: Callable[[], list[int]], call: CollectiveCall
    ) -> None:
        """Return when ``over``, which may see to things; raise as collectives that wait do."""
        self.job.require_whole()
        with _failing(self.job):
            self._until(over, missing, call)

    def _late(self, missing: list[int], entry: CollectiveCall, waited: float) -> RankTimeoutError:
        ranks = ", ".join(str(self.members[r]) for r in missing) or "some of them"
        self.job.give_up(f"{entry} took longer than {self.job.timeout:g} s")
        return RankTimeoutError(
            f"{entry.what} waited {waited:.1f} s for rank {ranks}",
            at=entry.location or author_location(),
            why="That rank did not come to it in time: it hangs, computes for longer, or has gone "
            "another way.",
            fix="let it come, or give hybrid.distributed.init a longer timeout",
        )

    def _finish(self, *requests: Any, keeps: Any = ()) -> None:
        """Wait until a transfer is over, whose memory is ``keeps``."""
        waiting, call = list(requests), current_entry()

        def over() -> bool:
            return all_over(waiting)

        try:
            self._until(over, self._unheard, call, lambda: self._look(call))
        except BaseException as error:
            self.kept += [(request, keeps) for request in waiting]
            self.job.give_up(f"{call} failed: {error}")
            raise

    def wait_on(self, call: CollectiveCall) -> None:
        """The same for a transfer that C has begun, and waits for."""
        try:
            self.job.require_whole()
            self.job.refuse(self.members)
            waited = self._look(call)
            if waited > self.job.timeout:
                raise self._late(self._unheard(), call, waited)
        except BaseException as error:
            self.job.give_up(f"{call} failed: {error}")
            raise

    def _look(self, call: CollectiveCall) -> float:
        """See whether other ranks do something else; for how long this one has waited."""
        now = time.monotonic()
        if self.stall is None or self.stall.sequence != self.sequence:
            self.stall = Stall(self.sequence, now)
        stall = self.stall
        if self._is_asked():
            self.compare([call])
        if not stall.noted and now - stall.begun > min(NOTES, self.job.timeout / 4):
            stall.noted = True
            note = np.array([self.sequence], np.int64)
            for r in self.others:
                self.kept.append((self.words.Isend(_bytes(note), r, WAITS), note))
        self._hear()
        return now - stall.begun

    def _is_asked(self) -> bool:
        """Whether a rank that has not been in this collective asks what is done."""
        status = MPI.Status()
        while self.words.Iprobe(MPI.ANY_SOURCE, ASKED, status) and (
            status.Get_source() not in self.asked
        ):
            said = np.empty(FINGERPRINT + 8, np.uint8)
            self.words.Recv(_bytes(said), status.Get_source(), ASKED)
            self.asked[status.Get_source()] = said.tobytes()
        done = [int.from_bytes(said[FINGERPRINT:], "little") for said in self.asked.values()]
        return any(count < self.sequence for count in done)

    def _hear(self) -> None:
        status = MPI.Status()
        while self.words.Iprobe(MPI.ANY_SOURCE, WAITS, status):
            note = np.zeros(1, np.int64)
            self.words.Recv(_bytes(note), status.Get_source(), WAITS)
            self.heard[status.Get_source()] = int(note[0])

    def _unheard(self) -> list[int]:
        return [r for r in self.others if self.heard.get(r, 0) < self.sequence]

    @contextmanager
    def _doing(self, collective: bool = True) -> Iterator[None]:
        self.job.require_whole()
        if collective:
            self._count()
        self.unfetched()
        with _failing(self.job):
            yield

    # Collectives ------------------------------------------------------------------------------

    def _gathered(self, flat: np.ndarray) -> np.ndarray:
        found = np.empty((self.ranks, *flat.shape), flat.dtype)
        with self._doing():
            self._finish(self.moves.Iallgather(_bytes(flat), _bytes(found)), keeps=(flat, found))
        return found

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        found = self._gathered(np.ascontiguousarray(array))
        return found.reshape(self.ranks * array.shape[0], *array.shape[1:])

    def all_to_all(self, array: np.ndarray) -> np.ndarray:
        given = np.ascontiguousarray(array)
        found = np.empty_like(given)
        with self._doing():
            self._finish(self.moves.Ialltoall(_bytes(given), _bytes(found)), keeps=(given, found))
        return found

    def broadcast(self, array: np.ndarray, root: int) -> np.ndarray:
        found = np.array(array, order="C")
        with self._doing():
            self._finish(self.moves.Ibcast(_bytes(found), root), keeps=found)
        return found

    def barrier(self) -> None:
        with self._doing():
            self._finish(self.moves.Ibarrier())

    # Messages ---------------------------------------------------------------------------------

    def send(self, array: np.ndarray, to: int) -> None:
        entry = current_entry()
        head = _message_head(array) + str(entry).encode()[:512].ljust(512)
        message = np.frombuffer(head + np.ascontiguousarray(array).tobytes(), np.uint8)
        with self._doing(collective=False):
            self.kept.append((self.moves.Isend(_bytes(message), to, MESSAGE), message))

    def recv(self, like: np.ndarray, source: int) -> np.ndarray:
        entry, status = current_entry(), MPI.Status()
        found: list[Any] = []

        def over() -> bool:
            found_one = self.moves.Improbe(source, MESSAGE, status)
            if found_one is not None:
                found.append(found_one)
            return bool(found)

        with self._doing(collective=False):
            self._until(over, lambda: [source], entry)
            message = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            self._finish(found[0].Irecv(_bytes(message)), keeps=message)
        head = _message_head(like)
        if message[:64].tobytes() != head:
            sent = message[64:576].tobytes().decode("utf-8", "replace").strip()
            raise CollectiveMismatchError(
                f"rank {self.members[source]} has sent {_type_in(message[:64].tobytes())}, "
                f"and {_type_in(head)} was to come\n"
                f"  rank {self.members[source]}: {sent}\n  rank {self.members[self.rank]}: {entry}",
                fix="give recv a tensor like the one that is sent",
            )
        return message[576:].view(like.dtype).reshape(like.shape)

    def unfetched(self) -> bool:
        """Whether something that was sent is still under way."""
        self.kept = [(request, memory) for request, memory in self.kept if not request.Test()]
        return bool(self.kept)


class GradientChannel(MpiChannel):
    """A channel for sums of gradients, which a work queue makes while the main thread goes on.

    It has the ranks of ``around``, where they compare beforehand what goes through this one.
    """

    compares = False

    def __init__(self, around: MpiChannel) -> None:
        super().__init__(f"{around.name} gradients", around.moves.Dup(), around.job)
        self.around, self.queue = around, WorkQueue()
        self.at: Location | None = None  # where the author wants them
        self._plans: dict[Any, Plan] = {}
        self._speaks = threading.Lock()  # held to exchange words: the queue's thread does, and ours

    def wait_on(self, call: CollectiveCall) -> None:
        with self._speaks, Doing(replace(call, location=self.at)) as located:
            super().wait_on(located)

    def plan(self, key: Any, make: Callable[[], Plan]) -> Plan:
        """The plan that is kept for ``key``, which ``make`` makes."""
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            found = self._plans[key] = make()
        return found

    def leave(self, call: CollectiveCall, *, waits: bool) -> None:
        """End with ``call`` what the ranks have begun here; nothing is queued any more.

        Where others do not end alike they are told, and nothing is communicated any more.  That is
        also so unless this rank ``waits`` for what the others say.
        """
        if not waits:
            self.job.give_up(str(call))
        self.queue.drain()
        with self._speaks:
            if not self.job.given_up:
                try:
                    self.compare([call])
                except HybridError as error:
                    self.job.give_up(str(error).splitlines()[0])
        try:
            self.queue.tell()
        except Exception:
            return  # whoever leaves has an error to raise


def open_gradients(channel: Channel) -> None:
    """Let sums of gradients be queued between the ranks of ``channel``, which all call it.

    Not where Python moves the bytes; nor in jobs that are recorded, whose steps are to be
    those of simulated ranks.
    """
    if not isinstance(channel, MpiChannel) or channel.number < 0 or os.environ.get(FOLDER):
        return
    if channel.gradients is None:
        channel.gradients = GradientChannel(channel)
        open_channel(channel.gradients)


def opened_in_c(group: Any, rank: int, ranks: int) -> int:
    """The number of a channel of C's over the MPI library that mpi4py has loaded; -1: it is none.

    MPICH and those like it have ints for handles, Open MPI has pointers.
    """
    for path in (None, MPI.__file__, *_loaded_libraries()):
        library = ctypes.CDLL(path)
        if all(hasattr(library, function) for function in channels.MPI_FUNCTIONS.values()):
            break
    else:
        return -1
    addresses = {
        name: ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0
        for name, function in channels.MPI_FUNCTIONS.items()
    }
    return channels.open_in_c(
        addresses,
        MPI._handleof(group) & WORD,
        MPI._handleof(MPI.BYTE) & WORD,
        rank,
        ranks,
        pointers=MPI._sizeof(MPI.Comm) > ctypes.sizeof(ctypes.c_int),
    )


def _loaded_libraries() -> list[str]:
    """The files of MPI libraries that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        paths = {line.split(maxsplit=5)[5].strip() for line in lines if "/libmpi" in line}
    return sorted(paths)


def fingerprint(entries: Sequence[CollectiveCall]) -> bytes:
    """16 bytes of what ``entries`` do, wherever they were written."""
    text = "\n".join([entry.what for entry in entries])
    return hashlib.blake2b(text.encode(), digest_size=FINGERPRINT).digest()


def _bare(line: str) -> str:
    """The text of an entry without the place where it was written."""
    return line.rpartition(" (")[0] if line.endswith(")") else line


def _message_head(array: np.ndarray) -> bytes:
    shape = ",".join(map(str, array.shape))
    return f"{array.dtype.name}[{shape}]".encode()[:64].ljust(64)


def _type_in(head: bytes) -> str:
    return head.decode("utf-8", "replace").strip()


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _bytes(array: np.ndarray) -> Any:
    return [_flat(array), MPI.BYTE]


@contextmanager
def _failing(job: World) -> Iterator[None]:
    """Say what MPI raises as the failure of a rank."""
    try:
        yield
    except MPI.Exception as error:
        job.refuse()
        raise job.failure(None, f"MPI failed: {error}") from error


def all_over(requests: list[Any]) -> bool:
    """Whether all ``requests`` are over; what MPI says of several is said of the first that failed.

    MPI tells of several at once that one has failed ("See the MPI_ERROR field"), and not how.
    """
    try:
        return MPI.Request.Testall(requests)
    except MPI.Exception as error:
        if error.Get_error_class() != MPI.ERR_IN_STATUS:
            raise
        for request in requests:  # those that are over have nothing left to say
            request.Test()
        raise
