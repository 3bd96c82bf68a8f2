"""Batches ahead of time: several workers make them, and they come in order."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from hybrid.data.workers.worker import ENDED, Job, Reply, answered
from hybrid.errors import WorkerError


class Crew(Protocol):
    """Workers, whether threads or processes."""

    size: int
    round: int
    names: list[str]

    def begin(self, seed: int) -> None: ...
    def send(self, worker: int, job: Job) -> None: ...
    def receive(self, timeout: float | None) -> Reply | None: ...
    def close(self) -> None: ...

    @property
    def closed(self) -> bool: ...


class Prefetch:
    """Iterates over the batches of some jobs, of which a bounded number is under way at a time.

    ``prefetch`` of them for each worker; ``first``: the number of the first of them in the pass;
    ``timeout``: seconds to wait for a batch, 0 for ever.
    """

    def __init__(
        self,
        crew: Crew,
        jobs: Iterable[Any],
        first: int,
        seed: int,
        prefetch: int,
        timeout: float,
    ) -> None:
        self.crew, self.timeout = crew, timeout
        self.limit = prefetch * crew.size
        self.jobs, self.first = iter(enumerate(jobs)), first
        self.sent = self.next = 0
        self.load = [0] * crew.size  # jobs that a worker has not answered
        self.ready: dict[int, Reply] = {}
        crew.begin(seed)
        self.round = crew.round

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.crew.round != self.round or self.crew.closed:
            raise WorkerError(
                "another pass over the loader has begun",
                why="Its workers are kept, and make the batches of one pass at a time.",
                fix="go over one iterator at a time, or leave out persistent_workers=True",
            )
        self._fill()
        while self.next not in self.ready:
            if self.next == self.sent:
                raise StopIteration
            self._take(self._receive())
        reply = self.ready.pop(self.next)
        self.next += 1
        self._count(reply)
        self._fill()
        return answered(reply, self.crew.names[reply.worker])

    def _count(self, reply: Reply) -> None:
        """``reply`` is the next one."""

    def _receive(self) -> Reply:
        until = time.monotonic() + self.timeout
        while True:
            left = max(until - time.monotonic(), 0) if self.timeout else None
            reply = self.crew.receive(left)
            if reply is None:
                late = [self.crew.names[w] for w, load in enumerate(self.load) if load]
                self.crew.close()
                raise WorkerError(
                    f"no batch came within {self.timeout:g} seconds",
                    why=f"Still at work: {', '.join(late)}.",
                    fix="give a longer timeout, or find out what reading a sample waits for",
                )
            if reply.round == self.round:
                return reply

    def _take(self, reply: Reply) -> None:
        self.load[reply.worker] -= 1
        self.ready[reply.number] = reply

    def _fill(self) -> None:
        while self.sent - self.next < self.limit:
            job = next(self.jobs, None)
            if job is None:
                return
            self._send(self.load.index(min(self.load)), Job(*job, self.first + job[0]))

    def _send(self, worker: int, job: Job) -> None:
        self.crew.send(worker, job)
        self.load[worker] += 1
        self.sent += 1


class AheadOfStreams(Prefetch):
    """The same for workers that each go over a stream of their own: they take turns.

    ``skips`` batches are not wanted: they were given by another pass.
    """

    def __init__(self, crew: Crew, seed: int, prefetch: int, timeout: float, skips: int) -> None:
        self.turns = collections.deque(range(crew.size))
        self.ended: set[int] = set()
        self.skips = skips
        super().__init__(crew, (), 0, seed, prefetch, timeout)

    def __next__(self) -> Any:
        while True:
            skips = self.skips
            batch = super().__next__()
            if batch is not ENDED and not skips:
                return batch

    def _count(self, reply: Reply) -> None:
        self.skips -= self.skips > 0 and reply.value is not ENDED

    def _take(self, reply: Reply) -> None:
        super()._take(reply)
        if reply.value is ENDED:
            self.ended.add(reply.worker)

    def _fill(self) -> None:
        while self.sent - self.next < self.limit and len(self.ended) < len(self.load):
            if self.skips and self.sent > self.next:
                return  # one by one: which of them are batches is not known before
            worker = self.turns[0]
            self.turns.rotate(-1)
            if worker not in self.ended:
                self._send(worker, Job(self.sent, skips=self.skips > 0))
