"""One rank of a job that is not there: its channels count what goes through them.

``hybrid launch --simulate`` runs a script as one rank of many, in one process, without MPI.  What
the others would send is made up: each is taken to have what this one has.  So shapes, dtypes and
numbers of transfers are those of a real rank, values are not; messages hold zeros.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.errors import ArgumentError
from hybrid.memory.channels import Channel, CollectiveCall

SIMULATED = "HYBRID_SIMULATE"  # "rank/ranks", in the environment of such a process


@dataclass(frozen=True, slots=True)
class SimulatedRank:
    """Which rank this process plays, and of how many."""

    rank: int
    ranks: int


def simulated_rank() -> SimulatedRank | None:
    """What the environment says; None in a process that is what it seems."""
    text = os.environ.get(SIMULATED)
    if text is None:
        return None
    rank, _, ranks = text.partition("/")
    if not (rank.isdecimal() and ranks.isdecimal() and int(rank) < int(ranks)):
        raise ArgumentError(
            f"{SIMULATED} is {text!r}",
            why="It says which rank a process plays, of how many: 0/1024.",
            fix="unset it, and run hybrid launch --simulate 1024 script.py",
        )
    return SimulatedRank(int(rank), int(ranks))


class CountingChannel(Channel):
    """A channel to ranks that are not there, which have what this one has."""

    overlaps = True  # as those of real ranks do: plans are the same

    def __init__(self, name: str, rank: int, members: Sequence[int]) -> None:
        super().__init__(name, rank, len(members))
        self.members = tuple(members)
        self.fingerprints = 0  # of what ranks would have compared

    def agree(self, entries: Sequence[CollectiveCall], *, eager: bool) -> None:
        self.fingerprints += 1

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        if not array.shape:
            return np.repeat(array.reshape(1), self.ranks)
        return np.tile(array, (self.ranks, *(1,) * (array.ndim - 1)))

    def all_to_all(self, array: np.ndarray) -> np.ndarray:
        """All ranks give the same, so this one gets its own part from each."""
        parts = array.reshape(self.ranks, -1)
        return np.tile(parts[self.rank], self.ranks).reshape(array.shape)

    def broadcast(self, array: np.ndarray, root: int) -> np.ndarray:
        return array

    def send(self, array: np.ndarray, to: int) -> None:
        """It is gone."""

    def recv(self, like: np.ndarray, source: int) -> np.ndarray:
        return np.zeros_like(like)

    def all_reduce(self, array: np.ndarray) -> np.ndarray:
        return array * np.asarray(self.ranks).astype(array.dtype)
