"""Exceptions: which come from outside, and what a call had written when it raised one.

Interrupts come from outside of the code that they end: Ctrl-C, what the handler of a signal raises
(a time limit, say), and the end of memory can turn up at any line.  They say nothing of the code
that was running, so no capture learns from them: they are neither a way that the program goes nor a
reason why it cannot be captured.  Where one would find something half done it waits.

Remains are on their way to whoever puts them in force.  A plan computes what it writes and hands it
over when it is done.  Where Python code that it calls may raise, that code also gets the values
that are written so far, and leaves them with the error.

Control exceptions are what the library raises for its own purposes while it captures: it refuses
the function, needs a value, or starts again.  No handler of the author's is to see them.  Converted
code lets them pass; code that nobody converts (of a library that calls the author's back, or of a
finalizer, whose exceptions Python drops) may stop one on its way, so a capture remembers them all.
"""

from __future__ import annotations

import _signal
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any

from hybrid.core.package import FOLDER

_PACKAGE = FOLDER + os.sep
_RAISED: dict[int, list[BaseException]] = {}  # by the threads that capture


class CaptureSignal(BaseException):
    """Base class of control exceptions that tell the capture itself something.

    No Exception: code of the author's, or of a library, must not take one for its own.
    """

    stopped = False  # whether code that has caught it has taken its traceback away

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        remember(self)

    def with_traceback(self, trace: TracebackType | None) -> CaptureSignal:
        self.stopped = self.stopped or trace is None
        return super().with_traceback(trace)


@contextmanager
def remembering() -> Iterator[list[BaseException]]:
    """A context with the list of the control exceptions that are made on this thread inside it."""
    thread = get_ident()
    around, _RAISED[thread] = _RAISED.get(thread), []
    try:
        yield _RAISED[thread]
    finally:
        if around is None:
            _RAISED.pop(thread, None)
        else:
            _RAISED[thread] = around


def remember(error: BaseException) -> None:
    """Note a control exception, which has to reach the capture under way, if there is one."""
    if _RAISED:
        raised = _RAISED.get(get_ident())
        if raised is not None:
            raised.append(error)


def settle(error: BaseException) -> None:
    """Forget a control exception: the library itself has caught it, and found another way."""
    raised = _RAISED.get(get_ident(), [])
    raised[:] = [other for other in raised if other is not error]


def swallowed(
    raised: Sequence[BaseException], last: BaseException | None = None
) -> BaseException | None:
    """The first exception that code outside the package has stopped; None if there is none.

    ``last`` is the one that has got through, which may have come of others.
    """
    through = set()
    while last is not None and id(last) not in through:
        through.add(id(last))
        last = last.__cause__ or last.__context__
    for error in raised:
        if id(error) not in through and _has_left_package(error):
            return error
    return None


def _has_left_package(error: BaseException) -> bool:
    if getattr(error, "stopped", False):
        return True
    trace = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            return True
        trace = trace.tb_next
    return False


def is_interrupt(error: BaseException | None) -> bool:
    """Whether ``error`` came from outside of the code that it has ended."""
    if isinstance(error, (KeyboardInterrupt, MemoryError)):
        return True
    trace = None if error is None else error.__traceback__
    interrupted = frame = None
    while trace is not None:
        interrupted, frame = frame, trace.tb_frame
        if interrupted is not None and is_handler(frame, interrupted):
            return True
        trace = trace.tb_next
    return False


def is_handler(frame: FrameType, interrupted: FrameType) -> bool:
    """Whether ``frame`` is a handler: it alone is given the frame that it interrupts."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]  # and *args
    given = [frame.f_locals.get(name) for name in names]
    return any(
        part is interrupted
        for value in given
        for part in (value if type(value) is tuple else (value,))
    )


Put = Callable[..., None]  # what puts it in force, given what the call has been given

_KEY, _LAST = "_hybrid_remains", "_hybrid_remains_last"
_taken = threading.local()  # .last: the identity of the error from which that was last taken


def leave(error: BaseException, put: Put) -> None:
    """Let ``error`` carry what was written; what it carries already was closer to the place."""
    last = vars(error).pop(_LAST, None)

    def both(*given: Any) -> None:
        put(*given)
        last()

    vars(error).setdefault(_KEY, put if last is None else both)


def leave_last(error: BaseException, put: Callable[[], None]) -> None:
    """Let ``put`` go with what ``error`` is about to carry: what the call itself has written."""
    vars(error)[_LAST] = put


def taken(error: BaseException) -> Put | None:
    """What ``error`` carries, and does no longer."""
    last = vars(error).pop(_LAST, None)
    found = vars(error).pop(_KEY, None if last is None else lambda *_given: last())
    _taken.last = None if found is None else id(error)
    return found


def carried(error: BaseException) -> bool:
    """Whether ``error``, which is the last one of this thread, has carried what was written."""
    return getattr(_taken, "last", None) == id(error)


class Leaving:
    """``function`` as a plan calls it; the arrays after its ``own`` are what is written so far."""

    def __init__(
        self, function: Callable[..., Any], own: int, left: Callable[[Leaving, Sequence[Any]], Put]
    ) -> None:
        self.function, self.own, self.left = function, own, left
        self.__qualname__ = getattr(function, "__qualname__", type(function).__name__)

    def __call__(self, *arrays: Any) -> Any:
        return self.call(arrays[: self.own], lambda: arrays[self.own :])

    def call(self, arrays: Sequence[Any], rest: Callable[[], Sequence[Any]]) -> Any:
        """The same; ``rest`` is asked for only where it is needed."""
        try:
            return self.function(*arrays)
        except BaseException as error:
            self.leave(error, rest())
            raise

    def leave(self, error: BaseException, rest: Sequence[Any]) -> None:
        """Let ``error``, which ended a call, carry what is written so far."""
        leave(error, self.left(self, rest))

    @property
    def takes_bits(self) -> bool:
        """Whether it takes arrays of bfloat16, as the bits that they are."""
        return getattr(self.function, "takes_bits", False)

    @property
    def asks_queue(self) -> int | None:
        """Not None: it gives a batch of a queue, which the plan may also get by itself, and then as
        many of its arrays, those after the first.
        """
        return getattr(self.function, "asks_queue", None)

    @property
    def settles(self) -> bool:
        """Whether what is written so far counts where an interrupt ends the call at any place."""
        return getattr(self.function, "settles", False)

    @property
    def release(self) -> Callable[[], None] | None:
        """What ends that which calls in a failed run have begun, if there is such."""
        return getattr(self.function, "release", None)

    def __repr__(self) -> str:
        return repr(self.function)


# Interrupts that wait -----------------------------------------------------------------------------


SIGNALS = tuple(sorted(map(int, _signal.valid_signals())))


class handlers_wait:
    """Run the handlers of signals that come within the ``with`` behind it, each once.

    That of Python for Ctrl-C, which raises KeyboardInterrupt, waits with ``interrupts`` alone.  In
    other threads nothing has to wait, as handlers run in the main one, nor where it is not
    ``needed``.
    """

    __slots__ = ("before", "came", "interrupts", "needed")

    def __init__(self, *, interrupts: bool = False, needed: bool = True) -> None:
        self.interrupts, self.needed = interrupts, needed

    def __enter__(self) -> None:
        self.before: dict[int, Any] = {}
        self.came: dict[int, None] = {}
        if not self.needed or threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            handler = _signal.getsignal(number)
            if callable(handler) and (
                self.interrupts or handler is not _signal.default_int_handler
            ):
                self.before[number] = handler
                _signal.signal(number, self._note)

    def _note(self, number: int, _frame: Any) -> None:
        self.came[number] = None

    def __exit__(self, *_error: object) -> None:
        for number, handler in self.before.items():
            _signal.signal(number, handler)
        for number in self.came:
            _signal.raise_signal(number)
