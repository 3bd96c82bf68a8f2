"""Work queues: plan runs queued for a thread of the C library, and buffers they will fill.

A queue runs plans one after the other.  What it was given and what it makes is kept until they are
over, and looked through whenever something is queued or waited for.  A run that fails takes with it
what was queued after it, until somebody has been told: whoever waits next for any of that.
"""

from __future__ import annotations

import atexit
import copy
import linecache
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from hybrid.errors import CancelledError, HybridError, Location, author_frame
from hybrid.memory import buffers, native
from hybrid.memory.native import ffi, lib

CAPACITY = 1024  # runs that a queue holds; whoever has more to queue waits
MOST_BYTES = 256 << 20  # that queued runs of a queue are yet to write: the same
MOST_BUSY = 16  # queues with work, each of which has a thread
SPARE = 4  # threads that stay for later queues
SLICE = 50_000_000  # ns of waiting between two looks at what signals ask

LOCK = threading.RLock()  # held to queue, and to look at what is over
_all: weakref.WeakSet[WorkQueue] = weakref.WeakSet()
_busy: dict[WorkQueue, None] = {}  # with something queued, or a failure that nobody was told of
_spare: list[Any] = []  # hyb_stream *, with nothing to do


class QueuedRun:
    """A run of a plan in a queue."""

    __slots__ = (
        "after", "error", "held", "nbytes", "number", "over", "place", "plan", "queue", "undo"
    )  # fmt: skip

    def __init__(self, queue: WorkQueue, plan: Any, place: Any, nbytes: int) -> None:
        self.queue: WorkQueue | None = queue  # None: it is over, and has not failed
        self.plan, self.place, self.nbytes = plan, place, nbytes
        self.number = 0
        self.over = False
        self.error: BaseException | None = None
        self.held: Any = None  # what it reads and writes
        self.after: Sequence[QueuedRun] = ()  # of other queues
        self.undo: list[Callable[[], None]] = []  # to be called if it fails

    def is_awaited(self, by: WorkQueue) -> bool:
        """Whether it is not known to be over, or has failed and nobody was told."""
        queue = self.queue
        if queue is None:
            return False
        queue._look()
        if not self.over:
            return True
        return self in queue.broken and (queue is by or self.number > queue.last - CAPACITY)


class Waiting(native.Pending):
    """The state of a buffer that a queued run will fill."""

    __slots__ = ("buffer", "run")

    def __init__(self, buffer: Any, run: QueuedRun) -> None:
        self.buffer, self.run = buffer, run

    def wait(self) -> Any:
        run = self.run
        queue = None if run is None else run.queue
        if queue is not None:
            queue.wait_for(run)
        self.run = None
        return self.buffer

    def known(self) -> Any:
        return self.buffer if self.run is None or self.run.queue is None else self


class WorkQueue:
    """A thread of the C library that runs queued plans one after the other."""

    def __init__(self) -> None:
        self.handle: Any = None  # hyb_stream *
        self.runs: deque[QueuedRun] = deque()  # not known to be over
        # One that has failed and those after it, until somebody is told.
        self.broken: list[QueuedRun] = []
        self.nbytes = self.last = 0  # of what is queued; the number of the last run
        self.closed = False
        _all.add(self)

    # Queueing -------------------------------------------------------------------------------------

    def submit(self, plan: Any, outputs: Sequence[Any], datas: Sequence[Any]) -> list[Waiting]:
        """Queue a run of ``plan``: what it will have put into ``outputs``.

        It calls no Python, but for transfers that take long.

        ``datas`` are buffers, which must not be written any more, or what stands for them.  What
        others can write is copied.  Waits while the queue is full.
        """
        run = QueuedRun(self, plan, _place(), sum([t.nbytes for t in plan.output_types]))
        while True:
            with LOCK:
                self._look()
                first = self._open() if self.handle is None or self.closed else None
                if self.runs and self.nbytes + run.nbytes > MOST_BYTES:
                    first = self.runs[0]
                if first is None:
                    self._submit(run, outputs, datas)
                    if run.number:
                        return [Waiting(buffer, run) for buffer in outputs]
            queue = None if first is None else first.queue
            if first is None:
                lib.hyb_stream_room(self.handle, SLICE)
            elif queue is not None:
                queue._wait(first, SLICE)

    def _submit(self, run: QueuedRun, outputs: Sequence[Any], datas: Sequence[Any]) -> None:
        """Queue ``run`` if there is room: it has a number then."""
        held, after = list(outputs), {}
        for data, type_ in zip(datas, run.plan.input_types, strict=True):
            if isinstance(data, Waiting):
                other = data.run
                if other is not None and other.is_awaited(self):
                    if other.queue is not self:
                        known = after.setdefault(other.queue, other)
                        after[other.queue] = max(known, other, key=_number)
                    held.append(data.buffer)
                    continue
                data = data.wait()
            held.append(data if buffers.is_own(data) else native.part(data, 0, type_.nbytes))
        run.after = list(after.values())
        tickets = [(queue.handle, other.number) for queue, other in after.items()]
        pointers = native.new(native.pointer_array(len(held)), held)
        native.check(
            lib.hyb_stream_submit(
                self.handle,
                run.plan.handle,
                pointers,
                len(held),
                ffi.new("hyb_ticket[]", tickets) if tickets else ffi.NULL,
                len(tickets),
                self.number,
            )
        )
        run.number = self.number[0]
        if run.number:
            self.last = run.number
            run.held = held
            self.nbytes += run.nbytes
            self.runs.append(run)
            _busy[self] = None

    def _open(self) -> QueuedRun | None:
        """Get a thread; or what is to be waited for, because there are enough of them."""
        if self.closed:
            raise _exiting()
        self.tell()  # in a forked child there may be something to tell
        for queue in list(_busy):
            queue._look()
        working = [queue for queue in _busy if queue.runs]
        if len(working) >= MOST_BUSY:
            return working[0].runs[-1]
        self.handle = _spare.pop() if _spare else lib.hyb_stream_open(CAPACITY)
        self.number = ffi.new("int64_t *")
        if not self.handle:
            self.handle = None
            native.check(lib.HYB_NO_MEMORY)
        return None

    def has_room(self, nbytes: int) -> bool:
        """Whether a run with results of so many bytes would be queued at once."""
        with LOCK:
            self._look()
            return len(self.runs) < CAPACITY and self.nbytes + nbytes <= MOST_BYTES

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Call ``undo`` when somebody is told that a run queued up to now has failed."""
        with LOCK:
            self._look()
            if self.runs or self.broken:
                (self.runs or self.broken)[-1].undo.append(undo)

    # Looking --------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Let go of what is over."""
        runs = self.runs
        if not runs:
            return
        finished = lib.hyb_stream_finished(self.handle)
        if runs[0].number > finished:
            return
        status = lib.hyb_stream_failure(self.handle, self.number)
        failed = self.number[0]
        while runs and runs[0].number <= finished:
            run = runs.popleft()
            self.nbytes -= run.nbytes
            if failed and run.number >= failed:
                first = run.number == failed
                run.error = self._error(run, status) if first else self._cancelled()
                self.broken.append(run)
            else:
                run.undo.clear()
                run.queue = None
            run.over, run.held, run.after = True, None, ()
        if not runs and not self.broken:
            _busy.pop(self, None)

    def _error(self, run: QueuedRun, status: int) -> BaseException:
        """Why ``run`` has failed."""
        if status == lib.HYB_CANCELLED:
            for other in run.after:
                other.queue._look()
                if other.error is not None:
                    return other.error
        try:
            run.plan.fail(status, elsewhere=True)
        except Exception as error:
            if isinstance(error, HybridError) and error.at is None:
                error.at = _location(run.place)
            return error.with_traceback(None)
        raise AssertionError(status)

    def _cancelled(self) -> CancelledError:
        error = self.broken[0].error
        made = CancelledError(
            "a value was never computed",
            why=f"Work that was queued before it has failed: {type(error).__name__}: {error}",
            fix="handle that error, and queue this work again",
        )
        made.__cause__ = error
        return made

    # Waiting --------------------------------------------------------------------------------------

    def wait_for(self, run: QueuedRun) -> None:
        """Return when ``run`` is over; raises why it has failed."""
        while not run.over:
            self._wait(run, SLICE)
        if run.error is not None:
            with LOCK:
                error = self._told() if run in self.broken else run.error
            raise copy.copy(error) from error.__cause__

    def wait(self, timeout: float | None = None) -> bool:
        """Whether all that is queued now is over within so many seconds; raises a failure."""
        end = None if timeout is None else time.monotonic() + timeout
        with LOCK:
            last = self.runs[-1] if self.runs else None
        while last is not None and not last.over:
            left = SLICE if end is None else int((end - time.monotonic()) * 1e9)
            self._wait(last, min(max(left, 0), SLICE))
            if left <= 0 and not last.over:
                return False
        self.tell()
        return True

    def is_done(self) -> bool:
        with LOCK:
            self._look()
            return not self.runs

    def drain(self) -> None:
        """Wait, and tell nobody of failures."""
        with LOCK:
            last = self.runs[-1] if self.runs else None
        while last is not None and not last.over:
            self._wait(last, SLICE)

    def _wait(self, run: QueuedRun, nanoseconds: int) -> None:
        """Wait for so long at most; whatever signals ask for is done between two such waits."""
        if not self.closed and lib.hyb_stream_wait(self.handle, run.number, nanoseconds) < 0:
            raise HybridError(
                "a value stayed behind in a fork",
                why="A thread of the parent computes it.",
                fix="fork with os.fork() or multiprocessing, which wait for it first",
            )
        with LOCK:
            self._look()

    def tell(self) -> None:
        """Raise the failure that nobody was told of, if there is one."""
        with LOCK:
            error = self._told() if self.broken else None
        if error is not None:
            raise copy.copy(error) from error.__cause__

    def _told(self) -> BaseException:
        """The failure; what follows it in the queue is over, and what is queued next will run."""
        self.drain()
        broken, self.broken = self.broken, []
        if self.handle is not None:
            native.check(lib.hyb_stream_clear(self.handle))
        _busy.pop(self, None)
        for run in reversed(broken):
            for undo in reversed(run.undo):
                undo()
            run.undo.clear()
        assert broken[0].error is not None
        return broken[0].error

    def __del__(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None and not self.closed:
            if len(_spare) < SPARE:
                _spare.append(handle)
            else:
                lib.hyb_stream_close(handle)


def _number(run: QueuedRun) -> int:
    return run.number


def wait_all() -> None:
    """Wait for all queued runs; raises the first failure that nobody was told of."""
    queues = list(_busy)
    drain_all()
    for queue in queues:
        queue.tell()


def drain_all() -> None:
    """Wait for all queued runs, and tell nobody of failures."""
    for queue in list(_busy):
        queue.drain()


class _QueueKeeper:
    """Waits, before a buffer is exported to who may write to it, for the runs that read it."""

    forget = staticmethod(drain_all)


_keeper = _QueueKeeper()
buffers.watch(_keeper)


# Where the author has queued it -------------------------------------------------------------------


def _place() -> tuple[CodeType, int] | None:
    """The author's line, as it can be noted in no time."""
    frame = author_frame(sys._getframe(2))
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _location(place: tuple[CodeType, int] | None) -> Location | None:
    if place is None:
        return None
    code, at = place
    line = next((n for start, end, n in code.co_lines() if start <= at < end and n), None)
    line = code.co_firstlineno if line is None else line
    return Location(code.co_filename, line, linecache.getline(code.co_filename, line).strip())


# Forks and the end --------------------------------------------------------------------------------


def _before_fork() -> None:
    """What is queued is done first: the child has all values, and no thread but its own."""
    LOCK.acquire()
    drain_all()


def _in_child() -> None:
    _spare.clear()
    for queue in list(_all):
        queue.handle = None
    LOCK.release()


def _at_exit() -> None:
    """Nobody waits any more: what has not begun is dropped, what has begun ends with its kernel."""
    with LOCK:
        for queue in list(_all):
            queue._look()
            queue.closed = True
            if queue.handle is not None:
                lib.hyb_stream_stop(queue.handle)
            for run in queue.runs:
                run.error, run.over = _exiting(), True
            queue.runs.clear()
        while _spare:
            lib.hyb_stream_stop(_spare.pop())


def _exiting() -> CancelledError:
    return CancelledError("queued work was dropped", why="The interpreter is exiting.")


os.register_at_fork(before=_before_fork, after_in_parent=LOCK.release, after_in_child=_in_child)
atexit.register(_at_exit)
