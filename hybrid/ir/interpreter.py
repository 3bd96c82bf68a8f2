"""What an op call means right now: a stack of interpreters per thread, eager at the bottom.

``ACTIVE`` holds the interpreters of all threads that are above eager.  It is one shared list, so
that the fast path of an eager op can ask "is anything going on at all" with one truth test; only
when it is not empty does a call look at its own thread's stack.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hybrid.ir.op import Op


class Interpreter(Protocol):
    """Gives an op call its meaning."""

    traces: bool  # whether tensors are placeholders without values
    batches: bool  # whether tensors stand for many rows (vmap)
    watches: bool  # whether it wants to see every op, and no plan to run in place of many
    queues: bool  # whether it queues what it is to compute
    many: int  # how many rows each value will have, by all vmap around

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        """The result of ``op`` on ``operands`` (a tuple of results unless it has exactly one)."""

    def lift(self, obj: Any, dtype: Any = None) -> Any:
        """``obj`` (a number, a list, an array) as a tensor."""

    def stack_of(self, rows: Sequence[Any]) -> Any:
        """The tensor whose rows, all of them and in order, are ``rows``, if that is known."""

    def converted(self, function: Any) -> Any:
        """What to call in place of a function of the author's."""

    def will_host(self, function: Any) -> None:
        """``function`` is about to be handed to ``py_call``, for a plan to call."""

    def assign(self, cell: Any, value: Any) -> None:
        """Put ``value`` into ``cell``."""

    def read_slot(self, owner: Any, name: str) -> Any:
        """The attribute ``name`` of ``owner``, which holds tensors."""

    def write_slot(self, owner: Any, name: str, value: Any) -> None:
        """Set the attribute ``name`` of ``owner``."""

    def use_up(self, records: Sequence[Any]) -> None:
        """Free what records have kept: backward() has walked them."""

    def going_back(self, ends: Sequence[Any], nodes: Sequence[Any]) -> AbstractContextManager:
        """What a gradient is within while it walks ``nodes`` from ``ends``."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.above: list[Interpreter] = []


ACTIVE: list[Interpreter] = []
_stack = _Stack()
_bottom: list[Interpreter] = []


def set_bottom(interpreter: Interpreter) -> None:
    """Install the interpreter below all others (eager); done once, at import."""
    _bottom[:] = [interpreter]


def current() -> Interpreter:
    """This thread's innermost interpreter."""
    return _stack.above[-1] if _stack.above else _bottom[0]


def below(interpreter: Interpreter) -> Interpreter:
    """The interpreter under ``interpreter`` on this thread's stack."""
    at = _stack.above.index(interpreter)
    return _stack.above[at - 1] if at else _bottom[0]


def innermost(kind: type) -> Any | None:
    """This thread's innermost interpreter of class ``kind``, if any."""
    if ACTIVE:
        for interpreter in reversed(_stack.above):
            if isinstance(interpreter, kind):
                return interpreter
    return None


@contextmanager
def interpreting(interpreter: Interpreter) -> Iterator[None]:
    """Give op calls of this thread the meaning of ``interpreter``."""
    _stack.above.append(interpreter)
    ACTIVE.append(interpreter)
    try:
        yield
    finally:
        ACTIVE.remove(interpreter)
        _stack.above.pop()
