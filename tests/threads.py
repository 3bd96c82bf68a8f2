"""Threads of this process, counted as the operating system does."""

from __future__ import annotations

import os
import time


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def thread_count_within(most: int) -> int:
    """Their number, when there are no more than ``most``, or after five seconds.

    The system still lists a thread for a moment after it has been joined.
    """
    deadline = time.monotonic() + 5.0
    while (number := thread_count()) > most and time.monotonic() < deadline:
        time.sleep(0.001)
    return number
