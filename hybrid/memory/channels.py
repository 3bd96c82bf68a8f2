"""Channels: how this process reaches those that run beside it, by the names that graphs have.

An op of communication says ``comm="world"``, or the name of a group of processes, and a plan looks
up its channel when it runs.  Without other processes a channel gives back what it is given;
``hybrid.distributed`` opens those of jobs that have some.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import dataclass, replace
from hybrid.core.types import TensorType
from hybrid.errors import ArgumentError, Location, NativeError, author_location
from hybrid.memory import native

WORLD = "world"


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective of a plan, as all ranks of its channel are to have it."""

    name: str  # of the op
    types: tuple[TensorType, ...] = ()
    attributes: str = ""
    inside: str = ""  # the branches and loops that it is in
    location: Location | None = None

    @property
    def what(self) -> str:
        """All but where it was written."""
        return " ".join([self.inside + self.name, *map(str, self.types), self.attributes]).rstrip()

    def __str__(self) -> str:
        place = self.location or author_location()
        return self.what if place is None else f"{self.what} ({place})"


class Channel:
    """A group of processes, of which this one is number ``rank``; this class is one alone."""

    number = -1  # by which C knows it; -1: it does not
    overlaps = False  # whether transfers may be waited for later even so
    compares = True  # whether ranks tell each other what they are about to do

    def __init__(self, name: str, rank: int = 0, ranks: int = 1) -> None:
        self.name, self.rank, self.ranks = name, rank, ranks
        self.members: Sequence[int] = (rank,)  # their numbers in the whole job

    def __deepcopy__(self, _memo: Any) -> Channel:
        return self

    def __reduce__(self) -> Any:
        return reach, (self.name, self.ranks)

    def agree(self, entries: Sequence[CollectiveCall], *, eager: bool) -> None:
        """Raise CollectiveMismatchError unless all ranks are about to do what ``entries`` say."""

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, one behind the other along the first axis."""
        return array

    def all_to_all(self, array: np.ndarray) -> np.ndarray:
        """Part i of what each rank has goes to rank i, which has them in the order of the ranks."""
        return array

    def broadcast(self, array: np.ndarray, root: int) -> np.ndarray:
        """The array of ``root``."""
        return array

    def send(self, array: np.ndarray, to: int) -> None:
        """Hand ``array`` over for rank ``to``; whether it has come is not waited for."""
        raise AssertionError("a rank has nobody to send to but itself")

    def recv(self, like: np.ndarray, source: int) -> np.ndarray:
        """What ``source`` has sent, of the shape and dtype of ``like``."""
        raise AssertionError("a rank has nobody to receive from but itself")

    def barrier(self) -> None:
        """Wait until all ranks have come here."""

    def all_reduce(self, array: np.ndarray) -> np.ndarray:
        """The sum of the arrays of all ranks."""
        return whole_sum(self, array)

    def wait_on(self, call: CollectiveCall) -> None:
        """Raise what ended a transfer of ``call`` that C waits for, or note that it takes long."""


_open: dict[str, Channel] = {WORLD: Channel(WORLD)}


def open_channel(channel: Channel) -> Channel:
    """Let graphs find ``channel`` under its name."""
    _open[channel.name] = channel
    return channel


def reach(name: str, ranks: int) -> Channel:
    """The channel called ``name``, which graphs were made for with so many ``ranks``."""
    found = _open.get(name)
    if found is None or found.ranks != ranks:
        here = "none is open" if found is None else f"it has {found.ranks} here"
        raise ArgumentError(
            f"a graph communicates through {name!r}, a group of {ranks} processes, and {here}",
            fix="call hybrid.distributed.init() or hybrid.distributed.mesh(...) as the program did "
            "that the graph comes from, in a job of as many processes",
        )
    return found


def number_of(name: str, ranks: int) -> int:
    """By which C knows the channel; -1 if it does not, or none is open."""
    found = _open.get(name)
    return -1 if found is None or found.ranks != ranks else found.number


def may_overlap(name: str, ranks: int) -> bool:
    """Whether plans may begin transfers of the channel, and wait for them later."""
    found = _open.get(name)
    return found is not None and found.ranks == ranks and (found.number >= 0 or found.overlaps)


def is_compared(name: str, ranks: int) -> bool:
    """Whether plans begin by telling the other ranks of the channel what is to come."""
    found = _open.get(name)
    return found is None or found.ranks != ranks or found.compares


# What is being done -----------------------------------------------------------------------------

_now = threading.local()


class Doing:
    """A context in which errors say what was done, ``entry``, and where the author wrote it."""

    __slots__ = ("before", "entry")

    def __init__(self, entry: CollectiveCall) -> None:
        located = entry.location is not None
        self.entry = entry if located else replace(entry, location=author_location())

    def __enter__(self) -> CollectiveCall:
        self.before = getattr(_now, "entry", None)
        _now.entry = self.entry
        return self.entry

    def __exit__(self, *_: object) -> None:
        _now.entry = self.before


def current_entry() -> CollectiveCall:
    """What this thread is doing."""
    found = getattr(_now, "entry", None)
    return CollectiveCall("a collective", location=author_location()) if found is None else found


def tree_sum(parts: Sequence[Any]) -> Any:
    """The sum of ``parts`` by a binary tree that their number alone decides."""
    level = list(parts)
    while len(level) > 1:
        pairs = [level[i] + level[i + 1] for i in range(0, len(level) - 1, 2)]
        level = [*pairs, *level[len(pairs) * 2 :]]
    return level[0]


SMALL_SUM = 1 << 15  # bytes of a sum: all of it goes to all, which takes one round


def whole_sum(channel: Channel, array: np.ndarray) -> np.ndarray:
    """The sum of the arrays of all ranks, by a tree over the ranks.

    Of a large one each rank adds one part, then the parts are gathered.  Plans do the same.
    """
    flat, ranks = np.ascontiguousarray(array).reshape(-1), channel.ranks
    if flat.nbytes <= SMALL_SUM:
        rows = channel.all_gather(flat).reshape(ranks, flat.size)
        return tree_sum(list(rows)).reshape(array.shape)
    share = -(-flat.size // ranks)
    longer = np.zeros(share * ranks, flat.dtype)
    longer[: flat.size] = flat
    mine = tree_sum(list(channel.all_to_all(longer).reshape(ranks, share)))
    whole = channel.all_gather(np.ascontiguousarray(mine))
    return whole[: flat.size].reshape(array.shape)


def transfer_nbytes(kind: str, given: int, ranks: int) -> int:
    """How many bytes reach a rank from others when it gives ``given`` to a transfer.

    ``kind`` is the method of a channel.  As many leave it, on the average over the ranks.
    """
    if ranks == 1 or kind == "barrier":
        return 0
    if kind == "all_gather":
        return given * (ranks - 1)
    if kind == "all_to_all":
        return given * (ranks - 1) // ranks
    if kind == "all_reduce":  # see whole_sum
        return given * (ranks - 1) if given <= SMALL_SUM else 2 * given * (ranks - 1) // ranks
    return given


# Channels that C knows ---------------------------------------------------------------------------

MPI_FUNCTIONS = {  # by their names in hyb_mpi
    "all_gather": "MPI_Iallgather",
    "all_to_all": "MPI_Ialltoall",
    "broadcast": "MPI_Ibcast",
    "barrier": "MPI_Ibarrier",
    "test": "MPI_Test",
}


def open_in_c(
    addresses: dict[str, int], comm: int, byte: int, rank: int, ranks: int, *, pointers: bool
) -> int:
    """The number of a channel over an MPI communicator, whose handle is ``comm``.

    ``addresses`` are those of ``MPI_FUNCTIONS``, ``pointers`` whether handles are pointers.
    """
    spec = native.ffi.new("hyb_mpi *", {"pointers": pointers, "byte": byte})
    for name in MPI_FUNCTIONS:
        setattr(spec, name, native.ffi.cast("void (*)(void)", addresses[name]))
    number = native.lib.hyb_channel_open(spec, comm, rank, ranks)
    if number < 0:
        raise NativeError(native.last_error())
    return number


def transfers_begun(channel: int, more: int = 0) -> int:
    """How many transfers a channel has begun, ``more`` of them now by the host."""
    return native.lib.hyb_channel_begun(channel, more)


def compare_eager_calls(compare: bool) -> None:
    """Whether eager calls tell the other ranks what they are about to do."""
    native.lib.hyb_channels_compare(compare)


def stop_channels(stop: bool = True) -> None:
    """Let plans ask the host before each transfer, which raises; or no more."""
    native.lib.hyb_channels_stop(stop)
