"""progress: a bar on the terminal for a long loop; nothing at all where there is no terminal."""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from hybrid.errors import ArgumentError, ArgumentTypeError, HybridError
from hybrid.ir.interpreter import ACTIVE, current

T = TypeVar("T")
REDRAW = 0.1  # seconds between two drawings: between them, an iteration only looks at the clock


class Bar:
    """How far something has come, of ``total`` if that is known, on the terminal if there is one.

    It is drawn at most ten times a second, when it advances, and for the last time at its end.
    """

    def __init__(self, description: str, total: int | None) -> None:
        self._shown = _SCREEN.is_there()
        self._done, self._postfix = 0, {}
        self._begun = time.monotonic()
        self._next = self._begun + REDRAW
        self._task = _SCREEN.begin(description, total) if self._shown else None

    def advance(self, count: int = 1) -> None:
        """``count`` more are done."""
        self._done += count
        if self._shown:
            now = time.monotonic()
            if now >= self._next:
                _SCREEN.draw(self._task, self._done, self._fields(now))
                self._next = time.monotonic() + REDRAW

    def set_postfix(self, values: Mapping[str, Any]) -> None:
        """Show ``values`` behind the bar from the next drawing on."""
        self._postfix = values

    def end(self) -> None:
        """It is over, or broken off."""
        if self._shown:
            self._shown = False
            _SCREEN.end(self._task, self._done, self._fields(time.monotonic()))

    def _fields(self, now: float) -> dict[str, str]:
        postfix = "  ".join([f"{name} {_text(value)}" for name, value in self._postfix.items()])
        return {"rate": _rate(self._done, now - self._begun), "postfix": postfix}


class ProgressBar(Generic[T]):
    """An iterable that shows how far a loop over it has come; ``progress`` makes it."""

    def __init__(self, iterable: Iterable[T], total: int | None, description: str) -> None:
        self.iterable, self.total, self.description = iterable, total, description
        self._bar: Bar | None = None

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[T]:
        captured = ACTIVE and current().traces
        return iter(self.iterable) if captured or not _SCREEN.is_there() else self._shown_items()

    def set_postfix(self, **values: Any) -> None:
        """Show ``values`` behind the bar: numbers, texts, tensors of one element.

        They become text when the bar is drawn, at most ten times a second, so that a step may set
        its loss at next to no cost.  Captured code and loops that are not shown pass over it.
        """
        if self._bar is not None and not (ACTIVE and current().traces):
            # Without its history, a loss does not keep the memory of its step.
            plain = {k: v.detach() if hasattr(v, "detach") else v for k, v in values.items()}
            self._bar.set_postfix(plain)

    def _shown_items(self) -> Iterator[T]:
        items = iter(self.iterable)
        total = _length(self.iterable) if self.total is None else self.total
        bar = self._bar = Bar(self.description, total)
        try:
            for item in items:
                yield item
                bar.advance()
        finally:  # the end, a break, or what the loop raised
            self._bar = None
            bar.end()


def progress(
    iterable: Iterable[T], *, total: int | None = None, description: str = ""
) -> ProgressBar[T]:
    """``iterable``, showing on stderr how far a loop over it has come and how long it will take.

    ::

        for images, labels in (bar := hy.progress(loader, description="epoch 1")):
            loss = step(images, labels)
            bar.set_postfix(loss=loss)

    ``total`` is the number of items, where ``len(iterable)`` does not tell.  Nothing is written
    unless stderr is a terminal, nor by worker processes.  A bar within another goes away at its
    end, the outermost stays; all end with their loops, however those end.  Inside a hybridized
    function, the loop is captured as one over ``iterable`` itself, and nothing is shown.
    """
    if not hasattr(type(iterable), "__iter__") and not hasattr(type(iterable), "__getitem__"):
        raise ArgumentTypeError(
            f"progress() of {iterable!r}, which cannot be iterated over",
            fix="give what the loop goes over, such as range(n) or a DataLoader",
        )
    if total is not None and (isinstance(total, bool) or not isinstance(total, int)):
        raise ArgumentTypeError(f"total is {total!r}", fix="give the number of items, or None")
    if total is not None and total < 0:
        raise ArgumentError(f"total is {total}", fix="give the number of items, or None")
    if not isinstance(description, str):
        raise ArgumentTypeError(f"description is {description!r}", fix="give a text")
    return ProgressBar(iterable, total, description)


def unwrapped(iterable: Any) -> Any:
    """What a loop over ``iterable`` goes over: captured code does without the bar."""
    while type(iterable) is ProgressBar:
        iterable = iterable.iterable
    return iterable


def _length(iterable: Any) -> int | None:
    hint = operator.length_hint(iterable, -1)
    return None if hint < 0 else hint


def _text(value: Any) -> str:
    """``value`` in a few characters; a bar never ends a loop, so this does not raise."""
    try:
        if getattr(value, "size", None) == 1:
            value = value.item()
        return f"{value:.4g}" if isinstance(value, float) else str(value)
    except HybridError as error:
        return f"<{type(error).__name__}>"


def _rate(done: int, seconds: float) -> str:
    if not done or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{rate:.3g}/s" if rate >= 1 else f"{1 / rate:.3g} s each"


class _Screen:
    """The terminal, which all bars of a process share; drawn by the loops, without a thread."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.owner = os.getpid()
        self.live: Any = None  # what draws all bars, while there are some

    def is_there(self) -> bool:
        """Whether bars are seen: not in a forked worker, nor in a file or a pipe."""
        try:
            return sys.stderr.isatty() and os.getpid() == self.owner
        except (AttributeError, ValueError):  # there is none, it cannot tell, it is closed
            return False

    def begin(self, description: str, total: int | None) -> Any:
        """A new bar."""
        with self.lock:
            if self.live is None:
                self.live = _live()
                self.live.start()
            return self.live.add_task(description, total=total, rate="", postfix="")

    def draw(self, task: Any, done: int, fields: dict[str, str]) -> None:
        with self.lock:
            self.live.update(task, completed=done, **fields)
            self.live.refresh()

    def end(self, task: Any, done: int, fields: dict[str, str]) -> None:
        """A bar is no more; the last one leaves what it shows."""
        with self.lock:
            self.live.update(task, completed=done, **fields)
            if len(self.live.tasks) > 1:
                self.live.remove_task(task)
                return
            live, self.live = self.live, None
            live.stop()  # which draws for the last time


_SCREEN = _Screen()


def _live() -> Any:
    from rich import progress as rich_progress
    from rich.console import Console

    return rich_progress.Progress(
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(compact=True),
        rich_progress.TextColumn("{task.fields[rate]}", style="dim", markup=False),
        rich_progress.TextColumn("{task.fields[postfix]}", markup=False),
        console=Console(stderr=True),
        auto_refresh=False,
    )
