"""Workers that are threads: they share the dataset, and C kernels run beside Python's own code."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from typing import Any

from hybrid.data.workers.worker import (
    Halted,
    Job,
    Reader,
    Recipe,
    Reply,
    WorkerInfo,
    set_worker_info,
    text_of,
)

PATIENCE = 5.0  # seconds that the end of a loader waits for samples that are being read


class ThreadCrew:
    """Some threads that make batches by a recipe."""

    def __init__(self, recipe: Recipe, size: int) -> None:
        self.size, self.round = size, 0
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._state = _State()
        self._inboxes: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(size)]
        self._threads = [
            threading.Thread(
                target=_work,
                args=(recipe, worker, size, inbox, self._replies, self._state),
                name=f"hybrid-loader-{worker}",
                daemon=True,
            )
            for worker, inbox in enumerate(self._inboxes)
        ]
        for thread in self._threads:
            thread.start()
        self.names = [f"worker {worker} (a thread)" for worker in range(size)]
        self._end = weakref.finalize(self, _end, self._state, self._inboxes, self._threads)

    def begin(self, seed: int) -> None:
        """Start a pass; what the one before has asked for is not made any more."""
        self.round += 1
        self._state.round = self.round
        for inbox in self._inboxes:
            inbox.put((self.round, seed))

    def send(self, worker: int, job: Job) -> None:
        self._inboxes[worker].put((self.round, job))

    def receive(self, timeout: float | None) -> Reply | None:
        """The next reply; None after ``timeout`` seconds without one."""
        try:
            return self._replies.get(timeout=timeout)
        except queue.Empty:
            return None

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def close(self) -> None:
        """End the threads: each at the end of the sample that it is reading."""
        self._end()


class _State:
    """What the threads look at between samples."""

    def __init__(self) -> None:
        self.round, self.over = 0, False


def _work(
    recipe: Recipe,
    worker: int,
    size: int,
    inbox: queue.SimpleQueue[Any],
    replies: queue.SimpleQueue[Reply],
    state: _State,
) -> None:
    round_ = 0
    fault: BaseException | None = None
    reader = Reader(recipe, lambda: state.over or state.round != round_)
    first = True
    while (message := inbox.get()) is not None:
        round_, order = message
        number, value = -1, None
        try:
            if isinstance(order, Job):
                number = order.number
                if fault is not None:
                    raise fault
                if reader.halted():
                    continue
                value = reader.read(order)
            else:
                set_worker_info(WorkerInfo(worker, size, order + worker, recipe.dataset))
                fault = None
                if first and recipe.init is not None:
                    recipe.init(worker)
                first = False
                reader.begin(order, worker)
                continue
        except Halted:
            continue
        except BaseException as error:
            if not isinstance(order, Job):  # the first batch that is asked for tells of it
                fault = error
                continue
            replies.put(
                Reply(worker=worker, round=round_, number=number, error=error, text=text_of(error))
            )
            del error
            continue
        replies.put(Reply(worker=worker, round=round_, number=number, value=value))
        value = None  # the batch lives as long as the loader's side wants it


def _end(state: _State, inboxes: list[Any], threads: list[threading.Thread]) -> None:
    state.over = True
    for inbox in inboxes:
        inbox.put(None)
    until = time.monotonic() + PATIENCE
    for thread in threads:
        if thread is not threading.current_thread():  # garbage may be collected by a worker
            thread.join(max(until - time.monotonic(), 0))
