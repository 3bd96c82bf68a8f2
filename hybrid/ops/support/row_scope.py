"""The scope of rows: of which batch, shared out among processes, code now has which rows.

``hybrid.distributed.data_parallel`` enters one around the call of a model.  What looks across rows
asks for it: batch norms, which go by the rows of all processes, and draws, which are by the numbers
that rows have in the whole batch.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Protocol


class RowScope(Protocol):
    """Rows of a batch, as many as ``rows``, which follow each other."""

    rows: Any

    def first_element(self, shape: tuple[Any, ...]) -> Any:
        """Where draws of ``shape`` for these rows begin among those for the whole batch.

        An i64 [1], or None if a draw of that shape is not one for each row.
        """

    def batch_norm(self, x: Any, given: Any) -> Any:
        """``x`` normalised by the rows of all processes; ``given`` as ops.batch_norm has it."""


def stretch_of(shape: tuple[Any, ...], rows: Any, before: Callable[[], Any]) -> Any:
    """``first_element`` of ``rows`` with ``before()`` rows in front of them, an i64 [1].

    A draw is one for each row if its first axis has the rows, or a multiple of them: that of
    attention weights [rows * heads, ...], say.
    """
    known = isinstance(rows, int) and bool(shape) and isinstance(shape[0], int)
    same = bool(shape) and shape[0] is rows  # of sizes that only a run knows
    if not (rows > 0 and shape[0] % rows == 0 if known else same):
        return None
    each = math.prod(shape[1:])
    return before() * (each * (shape[0] // rows) if known else each)


class _Now(threading.local):
    scope: RowScope | None = None


NOW = _Now()


def row_scope() -> RowScope | None:
    """That of the code that runs now; None: its batches are all its own."""
    return NOW.scope


class entered:
    """A context in which ``scope`` is that of the code that runs."""

    __slots__ = ("before", "scope")

    def __init__(self, scope: RowScope | None) -> None:
        self.scope = scope

    def __enter__(self) -> None:
        self.before = NOW.scope
        NOW.scope = self.scope

    def __exit__(self, *_: object) -> None:
        NOW.scope = self.before
