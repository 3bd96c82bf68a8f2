"""What an op call means right now: a stack of interpreters per thread, eager at the bottom.

``ACTIVE`` holds the stacks of all threads that have interpreters above eager.  It is one shared
dict, so that the fast path of an eager op can ask "is anything going on at all" with one truth
test; only when it is not empty does a call look at its own thread's stack.  Stacks are tuples, so
that a thread's stack is put back, whatever an interrupt has left there, by one assignment.
"""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import get_ident
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from hybrid.core.call_advice import advise_on_attributes
from hybrid.core.exceptions import handlers_wait
from hybrid.errors import shorten

if TYPE_CHECKING:
    from hybrid.ir.op import Op

P = ParamSpec("P")
R = TypeVar("R")


class Interpreter(Protocol):
    """Gives an op call its meaning."""

    traces: bool  # whether tensors are placeholders without values
    batches: bool  # whether tensors stand for many rows (vmap)
    watches: bool  # whether it wants to see every op, and no plan to run in place of many
    queues: bool  # whether it queues what it is to compute
    repeats: bool  # whether what it records is gone through several times
    exports: bool  # whether what it records goes into a file, where there is no Python
    many: int  # how many rows each value will have at most, by all vmap around

    def apply(
        self, op: Op, operands: Sequence[Any], attrs: dict[str, Any], regions: tuple = ()
    ) -> Any:
        """The result of ``op`` on ``operands`` (a tuple of results unless it has exactly one)."""

    def lift(self, obj: Any, dtype: Any = None) -> Any:
        """``obj`` (a number, a list, an array) as a tensor."""

    def sized(self, op: Op, operand: Any) -> Any:
        """The result of ``op``, whose size depends on the values of ``operand``."""

    def size_value(self, number: Any) -> Any | None:
        """The size that ``number``, an integer scalar, is in each run, if there can be such."""

    def stack_of(self, rows: Sequence[Any]) -> Any:
        """The tensor whose rows, all of them and in order, are ``rows``, if that is known."""

    def constant(self, tensor: Any) -> Any | None:
        """The elements of ``tensor``, if it traces and they are the same at every call."""

    def converted(self, function: Any, optional: bool = False) -> Any:
        """What to call in place of a function of the author's.

        What it returns can be used like any value, unless it is ``optional``: it may then hold a
        value that is None on some paths, which only the author's own code knows to handle.
        """

    def will_host(self, function: Any) -> None:
        """``function`` is about to be handed to ``py_call``, for a plan to call."""

    def variable(self, value: Any) -> Any:
        """A tensor of ``value``, which has no history, that gradients are taken by."""

    def assign(self, cell: Any, value: Any) -> None:
        """Put ``value`` into ``cell``."""

    def will_turn(self, tensor: Any, wanted: bool) -> None:
        """``requires_grad`` of ``tensor`` is about to change, while it traces."""

    def will_tell(self, tensor: Any, gradient: bool = False) -> Any | None:
        """Whether gradients flow to ``tensor`` is about to be told, while it traces.

        What is returned is told in place of what is known: a number that each run finds.  With
        ``gradient`` that it never had a gradient is told.
        """

    def will_clear(self, tensor: Any) -> None:
        """The gradient of ``tensor``, which has never had one, is cleared, while it traces."""

    def read_tensor_attribute(self, owner: Any, name: str) -> Any:
        """The attribute ``name`` of ``owner``, which holds tensors."""

    def first_gradient(self, leaf: Any, value: Any) -> Any:
        """What becomes the gradient of a leaf, which was read and has none yet, of ``value``."""

    def gradient_on_paths(self, old: Any, grad: Any) -> Any:
        """What becomes the gradient of a leaf, which is ``old`` or None, where ``grad`` is added.

        That one arrives on some paths alone (an OptionalCt); so may have ``old``.
        """

    def write_tensor_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set the attribute ``name`` of ``owner``."""

    def use_up(self, records: Sequence[Any]) -> None:
        """Free what records have kept: backward() has walked them."""

    def require_history(self, record: Any, cts: Sequence[Any], error: Any) -> None:
        """Raise ``error()`` where the value of ``record`` has no history, being differentiated.

        While it traces, it may have one on some paths alone: where the cotangents ``cts`` of
        leaves have arrived.
        """

    def going_back(self, ends: Sequence[Any], nodes: Sequence[Any]) -> AbstractContextManager:
        """What a gradient is within while it walks ``nodes`` from ``ends``."""


Stack = tuple[Interpreter, ...]

ACTIVE: dict[int, Stack] = {}  # by the threads; without those that are empty
_bottom: list[Interpreter] = []


def set_bottom(interpreter: Interpreter) -> None:
    """Install the interpreter below all others (eager); done once, at import."""
    _bottom[:] = [interpreter]


def current() -> Interpreter:
    """This thread's innermost interpreter."""
    above = ACTIVE.get(get_ident()) if ACTIVE else None
    return above[-1] if above else _bottom[0]


def stack() -> Stack:
    """This thread's interpreters above eager, the innermost last."""
    return ACTIVE.get(get_ident(), ())


def set_stack(interpreters: Stack) -> None:
    """Let these be this thread's interpreters above eager."""
    if interpreters:
        ACTIVE[get_ident()] = interpreters
    else:
        ACTIVE.pop(get_ident(), None)


def outward(error: BaseException) -> None:
    """``error`` leaves a function that authors call: its traceback gets short, if one did."""
    if not any([interpreter.traces for interpreter in stack()]):
        if type(error) is TypeError:
            advise_on_attributes(error)
        shorten(error)


def authors_call(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, whose errors have short tracebacks."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            outward(error)
            raise

    return call


def below(interpreter: Interpreter) -> Interpreter:
    """The interpreter under ``interpreter`` on this thread's stack."""
    above = stack()
    at = above.index(interpreter)
    return above[at - 1] if at else _bottom[0]


def innermost(kind: type) -> Any | None:
    """This thread's innermost interpreter of class ``kind``, if any."""
    for interpreter in reversed(stack()):
        if isinstance(interpreter, kind):
            return interpreter
    return None


class interpreting:
    """Give op calls of this thread the meaning of the last of ``interpreters``, above the others.

    What an interrupt on the way out leaves is put back by whoever has begun: see thread_state.py.
    """

    __slots__ = ("around", "interpreters")

    def __init__(self, *interpreters: Interpreter) -> None:
        self.interpreters = interpreters

    def __enter__(self) -> None:
        self.around = stack()
        set_stack((*self.around, *self.interpreters))

    def __exit__(self, *_error: object) -> None:
        set_stack(self.around)


class apart(interpreting):
    """``interpreting`` for work of the library's own, of which what comes between is no part.

    Handlers of signals and finalizers may compute, too: they come behind it.
    """

    __slots__ = ("collects", "waiting")

    def __enter__(self) -> None:
        needed = not stack()
        self.waiting = handlers_wait(needed=needed)
        self.waiting.__enter__()
        self.collects = needed and gc.isenabled()
        if self.collects:
            gc.disable()
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self.collects:
            gc.enable()
        self.waiting.__exit__(*error)


def _forked() -> None:
    """In a new process there is only the thread that made it."""
    own = stack()
    ACTIVE.clear()
    set_stack(own)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
