"""Handlers of signals that wait for the end of a block, which they would find half done."""

from __future__ import annotations

import _signal
import threading
from typing import Any


class handlers_wait:
    """Run the handlers of signals that come within the ``with`` behind it, each once.

    That of Python for Ctrl-C, which raises KeyboardInterrupt, waits with ``interrupts`` alone.  In
    other threads nothing has to wait: handlers run in the main one.
    """

    __slots__ = ("before", "came", "interrupts")

    def __init__(self, *, interrupts: bool = False) -> None:
        self.interrupts = interrupts

    def __enter__(self) -> None:
        self.before: dict[int, Any] = {}
        self.came: dict[int, None] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _signal.valid_signals():
            handler = _signal.getsignal(number)
            if callable(handler) and (self.interrupts or handler is not _INTERRUPT):
                self.before[number] = handler
                _signal.signal(number, self._note)

    def _note(self, number: int, _frame: Any) -> None:
        self.came[number] = None

    def __exit__(self, *_error: object) -> None:
        for number, handler in self.before.items():
            _signal.signal(number, handler)
        for number in self.came:
            _signal.raise_signal(number)


_INTERRUPT = _signal.default_int_handler
