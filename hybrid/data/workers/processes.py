"""Workers that are processes: for datasets whose own Python code takes the time."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import pickle
import queue
import random
import signal
import socket
import sys
import threading
import time
import weakref
from importlib.machinery import PathFinder
from multiprocessing import connection, forkserver
from typing import Any

import numpy as np

from hybrid import random as hybrid_random
from hybrid.data.workers.transport import (
    Receiver,
    Sender,
    decode,
    encode,
    fill,
    open_memory,
    places_of,
)
from hybrid.data.workers.worker import (
    ENDED,
    Ended,
    Halted,
    Job,
    Reader,
    Recipe,
    Reply,
    WorkerInfo,
    set_worker_info,
    text_of,
)
from hybrid.errors import ArgumentTypeError, WorkerError
from hybrid.memory import native

PATIENCE = 2.0  # seconds that a worker has to end by itself, and then again to obey a signal


class ProcessCrew:
    """Some processes that make batches by a recipe.

    By default they are forks of a server that has this package loaded: they start at once, and
    nothing of this process, its threads and locks least of all, is in them.
    """

    def __init__(self, recipe: Recipe, size: int, context: Any = None) -> None:
        if context is None:
            context = _forked_from_server()
        elif isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.size, self.round = size, 0
        outfit = _Outfit(recipe)
        self.names: list[str] = []
        self._wires: list[Any] = []
        self._processes: list[Any] = []
        self._receivers = [Receiver() for _ in range(size)]
        self._heard = [False] * size
        self._end = weakref.finalize(self, _end, self._wires, self._processes, os.getpid())
        try:
            for worker in range(size):
                ours, theirs = context.Pipe(duplex=True)
                self._wires.append(ours)
                process = context.Process(
                    target=_main,
                    args=(theirs, worker, size),
                    name=f"hybrid-loader-{worker}",
                    daemon=True,
                )
                process.start()
                self._processes.append(process)
                self.names.append(f"worker {worker} (process {process.pid})")
                theirs.close()
                outfit.send(ours)
        except BaseException:
            self.close()
            raise
        finally:
            outfit.close()

    def begin(self, seed: int) -> None:
        """Start a pass; what the one before has asked for is not made any more."""
        self.round += 1
        for worker in range(self.size):
            self._tell(worker, seed)

    def send(self, worker: int, job: Job) -> None:
        self._tell(worker, job)

    def _tell(self, worker: int, order: Any) -> None:
        done = self._receivers[worker].drain()
        with contextlib.suppress(OSError):  # dead: that is seen when its batch is waited for
            self._wires[worker].send((self.round, order, done))

    def receive(self, timeout: float | None) -> Reply | None:
        """The next reply; None after ``timeout`` seconds without one.  WorkerError: one is dead."""
        ready = connection.wait(
            [*self._wires, *[process.sentinel for process in self._processes]], timeout
        )
        for worker, wire in enumerate(self._wires):
            if wire in ready:
                try:
                    return self._unpacked(worker, wire)
                except (EOFError, OSError):
                    self._fail(worker)
        for worker, process in enumerate(self._processes):
            if process.sentinel in ready:
                self._fail(worker)
        return None

    def _unpacked(self, worker: int, wire: Any) -> Reply:
        round_, number, packed, new, failure = wire.recv()
        descriptor = None
        if new:
            with _socket(wire) as plain:
                descriptor = socket.recv_fds(plain, 1, 1)[1][0]
        self._heard[worker] = True
        try:
            value = self._receivers[worker].unpack(packed, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
        if failure is None:
            value = ENDED if type(value) is Ended else value
            return Reply(worker=worker, round=round_, number=number, value=value)
        return Reply(worker=worker, round=round_, number=number, error=value, text=failure)

    def _fail(self, worker: int) -> None:
        """Raise what is known of the death of ``worker``."""
        process = self._processes[worker]
        process.join(PATIENCE)
        code = process.exitcode
        how = "is not to be reached" if code is None else f"died with exit code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how += f" ({signal.Signals(-code).name})"
        why = "It was ended from outside, or code that the dataset calls ended it."
        if not self._heard[worker]:
            why = (
                "It had not made a batch yet.  A program whose main file starts a loader must do "
                'so under `if __name__ == "__main__":`, as workers import that file, too.'
            )
        self.close()
        raise WorkerError(
            f"{self.names[worker]} {how}", why=why, fix="see what the dataset does with workers=0"
        )

    @property
    def closed(self) -> bool:
        return not self._end.alive

    def close(self) -> None:
        """End the processes: by themselves, by SIGTERM, or by SIGKILL, whichever helps."""
        self._end()


def _forked_from_server() -> Any:
    """The context whose server, unless the author has said what it is to load, loads this module.

    By itself it would load the main file, and die with it where that goes wrong.
    """
    context = multiprocessing.get_context("forkserver")
    untouched = getattr(forkserver._forkserver, "_preload_modules", None) == ["__main__"]
    if untouched and _found_by_others():
        context.set_forkserver_preload([__name__])
    return context


def _found_by_others() -> bool:
    """Whether a Python that starts here finds this package, and no other of its name.

    The server does not have this program's ``sys.path``, as workers do.
    """
    package = __name__.partition(".")[0]
    extra = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = PathFinder.find_spec(package, [os.getcwd(), *filter(None, extra), *sys.path])
    return found is None or found.origin == sys.modules[package].__file__


class _Outfit:
    """The recipe on its way to each worker, its arrays in memory that all of them map."""

    def __init__(self, recipe: Recipe) -> None:
        try:
            parts = encode(recipe)
        except Exception as error:
            raise ArgumentTypeError(
                f"the {type(recipe.dataset).__name__}, or a function of the loader, cannot be sent "
                f"to a worker process: {error}",
                fix="define its class and functions at the top of a module, or use "
                'worker_kind="thread"',
            ) from error
        self.places, self.nbytes = places_of(parts)
        self.descriptor = open_memory(self.nbytes)
        try:
            with mmap.mmap(self.descriptor, self.nbytes) as memory:
                fill(memory, parts, self.places)
        except BaseException:
            self.close()
            raise

    def send(self, wire: Any) -> None:
        with contextlib.suppress(OSError):  # dead already: that is seen when batches are awaited
            wire.send((self.places, self.nbytes))
            with _socket(wire) as plain:
                socket.send_fds(plain, [b"m"], [self.descriptor])

    def close(self) -> None:
        os.close(self.descriptor)


def _socket(wire: Any) -> socket.socket:
    """The socket that ``wire`` is, on a descriptor of its own."""
    return socket.socket(fileno=os.dup(wire.fileno()))


def _end(wires: list[Any], processes: list[Any], owner: int) -> None:
    if os.getpid() != owner:  # a fork of this program is at its end: they are not its own
        return
    for wire in wires:
        with contextlib.suppress(OSError):
            wire.send(None)
        wire.close()
    until = time.monotonic() + PATIENCE
    for end in (None, "terminate", "kill"):
        for process in processes:
            if end is not None and process.is_alive():
                getattr(process, end)()
                until = time.monotonic() + PATIENCE
        for process in processes:
            process.join(max(until - time.monotonic(), 0))
    for process in processes:
        with contextlib.suppress(ValueError):  # still running: nothing more can be done
            process.close()


# In the worker ----------------------------------------------------------------------------------


class _Inbox:
    """What the parent has asked for, taken in by a thread, so that it never waits for a worker."""

    def __init__(self, wire: Any) -> None:
        self.wire, self.round, self.over = wire, 0, False
        self.orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        parent = multiprocessing.parent_process()
        while True:
            ready = connection.wait([self.wire, parent.sentinel])
            if self.wire not in ready:
                os._exit(1)  # the parent was killed: nobody is there to answer to
            try:
                order = self.wire.recv()
            except (EOFError, OSError):
                order = None
            if order is None:
                self.over = True
                self.orders.put(None)
                parent.join()  # an end within PATIENCE is the parent's concern, while it lives
                os._exit(1)
            self.round = order[0]
            self.orders.put(order)


def _main(wire: Any, worker: int, size: int) -> None:
    """What a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends workers
    native.set_num_threads(1)
    fault: BaseException | None = None
    recipe = None
    try:
        recipe = _received(wire)
    except EOFError:
        return
    except BaseException as error:
        fault = error
    inbox = _Inbox(wire)
    outbox = Sender(wire)
    first, broken, round_ = True, fault, 0
    reader = None if recipe is None else Reader(
        recipe, lambda: inbox.over or inbox.round != round_
    )  # fmt: skip
    while (message := inbox.orders.get()) is not None:
        round_, order, done = message
        outbox.free += done
        try:
            if not isinstance(order, Job):
                fault = broken
                if reader is not None:
                    _seed(order + worker)
                    set_worker_info(WorkerInfo(worker, size, order + worker, recipe.dataset))
                    if first and recipe.init is not None:
                        recipe.init(worker)
                    first = False
                    reader.begin(order, worker)
                continue
            if fault is not None:
                raise fault
            if reader.halted():
                continue
            answer, failure = outbox.pack(reader.read(order)), None
        except Halted:
            continue
        except BaseException as error:
            if not isinstance(order, Job):  # the first batch that is asked for tells of it
                fault = error
                continue
            answer, failure = outbox.pack(_portable(error)), text_of(error)
        packed, descriptor = answer
        try:
            wire.send((round_, order.number, packed, descriptor is not None, failure))
            if descriptor is not None:
                with _socket(wire) as plain:
                    socket.send_fds(plain, [b"m"], [descriptor])
        except OSError:  # the parent has gone
            return
        finally:
            if descriptor is not None:
                os.close(descriptor)


def _received(wire: Any) -> Recipe:
    """The recipe from the parent; its arrays are copied when somebody writes to them."""
    places, nbytes = wire.recv()
    with _socket(wire) as plain:
        descriptor = socket.recv_fds(plain, 1, 1)[1][0]
    try:
        memory = memoryview(mmap.mmap(descriptor, nbytes, access=mmap.ACCESS_COPY))
    finally:
        os.close(descriptor)
    return decode([memory[start:stop] for start, stop in places])


def _seed(seed: int) -> None:
    """Seed what code of a dataset may draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    hybrid_random.seed(seed)


def _portable(error: BaseException) -> BaseException:
    """``error``, or what stands for it where it does not survive pickling."""
    with contextlib.suppress(Exception):
        if isinstance(error, Exception) and type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    return WorkerError(
        f"a worker raised {type(error).__name__}: {error}",
        why="That cannot be sent between processes as it is.",
    )
