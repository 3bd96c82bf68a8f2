"""phase: how long the parts of a capture take, noted while a profile is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hybrid.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time: ns of the monotonic clock."""

    name: str
    begin: int
    end: int
    thread: int


_open: list[list[Span]] = []  # where to note them: of the profiles under way


@contextmanager
def noting(spans: list[Span]) -> Iterator[None]:
    """Note all phases in ``spans``, those of other threads included."""
    _open.append(spans)
    try:
        yield
    finally:
        _open[:] = [other for other in _open if other is not spans]


@contextmanager
def phase(name: str | Callable[[], str]) -> Iterator[None]:
    """What runs inside is the phase ``name``, or one more of that name.

    A function is asked for the name at the end.
    """
    if not _open:
        yield
        return
    begin = time.monotonic_ns()
    try:
        yield
    finally:
        named = name if isinstance(name, str) else name()
        span = Span(named, begin, time.monotonic_ns(), threading.get_ident())
        for spans in _open:
            spans.append(span)
