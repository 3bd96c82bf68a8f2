"""Interrupts: which exceptions come from outside of the code that they end.

Ctrl-C, what the handler of a signal raises (a time limit, say), and the end of memory can turn up
at any line.  They say nothing of the code that was running, so no capture learns from them: they
are neither a way that the program goes nor a reason why it cannot be captured.
"""

from __future__ import annotations

from types import FrameType


def is_interrupt(error: BaseException | None) -> bool:
    """Whether ``error`` came from outside of the code that it has ended."""
    if isinstance(error, (KeyboardInterrupt, MemoryError)):
        return True
    trace = None if error is None else error.__traceback__
    interrupted = frame = None
    while trace is not None:
        interrupted, frame = frame, trace.tb_frame
        if interrupted is not None and _handles(frame, interrupted):
            return True
        trace = trace.tb_next
    return False


def _handles(frame: FrameType, interrupted: FrameType) -> bool:
    """Whether ``frame`` is a handler: it alone is given the frame that it interrupts."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]  # and *args
    given = [frame.f_locals.get(name) for name in names]
    return any(
        part is interrupted
        for value in given
        for part in (value if type(value) is tuple else (value,))
    )
