"""Thread state: what a thread's ops mean, whether they are recorded, and the lock that it holds.

Ctrl-C, a time limit or the end of memory can end any line, those of ``__exit__`` and ``finally``
included.  So whoever changes the state for a while does not rely on these alone: ``as_before``
takes note of it before anything has changed, and puts it back however the call ends.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from hybrid.ir.interpreter import Stack, outward, set_stack, stack
from hybrid.ir.record import Mode, mode, set_mode

P, R = ParamSpec("P"), TypeVar("R")

# While a function is captured, attributes and containers hold what stands for the values of a run.
# A capture holds this lock, and so does every run that writes to anything but its own results, or
# that looks for tensors in such places.
STATE = threading.RLock()
# Held while a cell gets another value, and nothing is computed: so a write in place can look
# whether the value that it was computed from is still there.
WRITES = threading.RLock()


FORK_PATIENCE = 60.0  # seconds that a fork waits for a capture or run of another thread


def hold_at_fork(*locks: Any) -> None:
    """Let forks wait for RLocks, in their order: a child has no other thread to give them back.

    While another thread captures, a child would find what stands for values in its places.
    """
    held: list[Any] = []

    def acquire() -> None:
        held[:] = [lock for lock in locks if lock.acquire(timeout=FORK_PATIENCE)]

    def release() -> None:
        while held:
            held.pop().release()

    def release_in_child() -> None:
        for lock in locks:
            if not any(lock is other for other in held):
                lock._at_fork_reinit()
        release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=acquire, after_in_parent=release, after_in_child=release_in_child
        )


hold_at_fork(WRITES)  # before any other asks to: so it is taken last, as everywhere


class ThreadState(NamedTuple):
    """What is put back at once; of the collector and the switch interval the process has one."""

    interpreters: Stack
    mode: Mode
    locked: bool  # whether this thread holds STATE
    collects: bool
    switch: float  # seconds between switches of threads

    @staticmethod
    def now() -> ThreadState:
        return ThreadState(
            stack(), mode(), STATE._is_owned(), gc.isenabled(), sys.getswitchinterval()
        )  # type: ignore[attr-defined]

    def put_back(self) -> None:
        set_stack(self.interpreters)
        set_mode(*self.mode)
        if self.collects:
            gc.enable()
        if self.switch != sys.getswitchinterval():
            sys.setswitchinterval(self.switch)
        if not self.locked and STATE._is_owned():  # type: ignore[attr-defined]
            STATE._release_save()  # type: ignore[attr-defined]


def ending(call: Callable[[], R], undo: Callable[[], None]) -> R:
    """``call()``, and ``undo()`` however it ends; again where an interrupt has ended that."""
    try:
        try:
            return call()
        finally:
            undo()
    except BaseException:
        undo()
        raise


def as_before(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, after which the state of the thread is what it was."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> R:
        try:
            return ending(functools.partial(function, *args, **kwargs), ThreadState.now().put_back)
        except Exception as error:
            outward(error)
            raise

    return called
