"""phase: how long the parts of a capture take, noted while a profile is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
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


class phase:
    """A context: what runs inside is the phase ``name``, or one more of that name."""

    __slots__ = ("begin", "name")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.begin = time.monotonic_ns() if _open else 0

    def __exit__(self, *_error: object) -> None:
        if self.begin and _open:
            span = Span(self.name, self.begin, time.monotonic_ns(), threading.get_ident())
            for spans in _open:
                spans.append(span)
