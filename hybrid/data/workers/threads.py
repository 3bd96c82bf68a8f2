"""Workers that are threads: they share the dataset, and C kernels run beside Python's own code."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from typing import Any

from hybrid.data.datasets.dataset import is_columns
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
from hybrid.memory import native

PATIENCE = 5.0  # seconds that the end of a loader waits for samples that are being read


class ThreadCrew:
    """Some threads that make batches by a recipe.

    Where a batch is rows of tensors, whoever waits for one makes one meanwhile: to copy some rows
    takes no longer than to wake a thread.
    """

    def __init__(self, recipe: Recipe, size: int) -> None:
        self.size, self.round = size, 0
        self._helper = _helper(recipe)
        self._replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self._state = _State(size)
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
        if self._helper is not None:
            self._helper.begin(seed)
        for inbox in self._inboxes:
            inbox.put((self.round, seed))

    def send(self, worker: int, job: Job) -> None:
        self._inboxes[worker].put((self.round, job))

    def receive(self, timeout: float | None) -> Reply | None:
        """The next reply; None after ``timeout`` seconds without one."""
        if self._helper is not None and self._replies.empty():
            reply = self._help(self._helper)
            if reply is not None:
                return reply
        try:
            return self._replies.get(timeout=timeout)
        except queue.Empty:
            return None

    def _help(self, helper: Reader) -> Reply | None:
        """The reply to a job that no worker has begun, made in this thread; None: there is none."""
        for worker, inbox in enumerate(self._inboxes):
            if self._state.begun[worker] != self.round:  # its inbox holds more than jobs
                continue
            with contextlib.suppress(queue.Empty):
                message = inbox.get_nowait()
                if message is None:  # the end
                    inbox.put(message)
                    return None
                confined = native.confine_thread()
                try:
                    return _reply(helper, worker, *message)
                finally:
                    native.confine_thread(confined)
        return None

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def close(self) -> None:
        """End the threads: each at the end of the sample that it is reading."""
        self._end()


class _State:
    """What the threads look at between samples."""

    def __init__(self, size: int) -> None:
        self.round, self.over = 0, False
        self.begun = [0] * size  # the last round that each has begun


def _helper(recipe: Recipe) -> Reader | None:
    """What makes batches in the thread that waits for them; None where the author may notice."""
    if recipe.init is not None or not is_columns(recipe.dataset):
        return None
    reader = Reader(recipe)
    return reader if reader.whole is not None else None


def _reply(reader: Reader, worker: int, round_: int, job: Job) -> Reply | None:
    """The answer of ``worker`` to ``job``; None: nobody wants it."""
    if reader.halted():
        return None
    try:
        value = reader.read(job)
    except Halted:
        return None
    except BaseException as error:
        return Reply(
            worker=worker, round=round_, number=job.number, error=error, text=text_of(error)
        )
    return Reply(worker=worker, round=round_, number=job.number, value=value)


def _work(
    recipe: Recipe,
    worker: int,
    size: int,
    inbox: queue.SimpleQueue[Any],
    replies: queue.SimpleQueue[Reply],
    state: _State,
) -> None:
    native.confine_thread()  # it runs beside other workers, and beside what uses the batches
    round_ = 0
    fault: BaseException | None = None
    reader = Reader(recipe, lambda: state.over or state.round != round_)
    first = True
    while (message := inbox.get()) is not None:
        round_, order = message
        if isinstance(order, Job):
            if fault is None:
                reply = _reply(reader, worker, round_, order)
            else:  # the first batch that is asked for tells of it
                reply = Reply(
                    worker=worker,
                    round=round_,
                    number=order.number,
                    error=fault,
                    text=text_of(fault),
                )
            if reply is not None:
                replies.put(reply)
            reply = None  # the batch lives as long as the loader's side wants it
            continue
        try:
            set_worker_info(WorkerInfo(worker, size, order + worker, recipe.dataset))
            fault = None
            if first and recipe.init is not None:
                recipe.init(worker)
            first = False
            reader.begin(order, worker)
        except Halted:
            continue
        except BaseException as error:
            fault = error
        state.begun[worker] = round_


def _end(state: _State, inboxes: list[Any], threads: list[threading.Thread]) -> None:
    state.over = True
    for inbox in inboxes:
        inbox.put(None)
    until = time.monotonic() + PATIENCE
    for thread in threads:
        if thread is not threading.current_thread():  # garbage may be collected by a worker
            thread.join(max(until - time.monotonic(), 0))
