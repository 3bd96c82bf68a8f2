"""Precomputed results: parts of a plan that depend only on cells, kept from call to call.

A cell is a tensor that the function holds, or one that is found at a place outside the arguments at
each call, such as a buffer of a module.
They are computed at the first call, and again when one of those cells holds another buffer.  That
is enough to ask: a buffer that is held here is never written in place (see ``generate.py``), and
those that others can write (see ``ownership``) take no part.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.errors import OutOfMemoryError
from hybrid.memory import buffers, native
from hybrid.plan import Plan
from hybrid.trace.capture.captured_graph import Capture, Source
from hybrid.trace.places.address import GIVEN, Address, ArgumentLeaf

PATIENCE = 3  # times in a row that what is kept serves no second call
LIMIT = 1 << 29  # bytes that all plans of a process keep; those that were renewed first go first
PAUSE, LONGEST = 64, 1024  # calls after that in which nothing is kept, at first and at most


def fixed_sources(capture: Capture) -> list[int]:
    """The sources with values that last from run to run: cells and places that no run writes.

    None of a function that takes part in gradients: what it reads is about to change.  That is not
    so where a derivative is missing.
    """
    if capture.gradient is not None and not capture.gradient.refused:
        return []
    written = {source for source, _ in capture.writes}
    places = [write.address for write in capture.place_writes]
    return [
        i
        for i, source in enumerate(capture.sources)
        if i not in written
        and (tensor := _lasting(source, places)) is not None
        and buffers.is_own(tensor.content)
    ]


def _lasting(source: Source, written: Sequence[Address]) -> Tensor | None:
    """The tensor of ``source`` if it is a cell, or at a place that is not ``written``."""
    if source.kind == "cell":
        return source.tensor
    place = source.address
    if source.kind != "attribute" or place.owner is GIVEN or type(place.owner) is ArgumentLeaf:
        return None
    if any([other.owner is place.owner and other.name == place.name for other in written]):
        return None
    tensor = place.now()
    return tensor if isinstance(tensor, Tensor) else None


# By their ids; the one that was renewed last is at the end.
_holders: dict[int, weakref.ref[PrecomputedResults]] = {}


def fits(plan: Plan) -> bool:
    """Whether the results of ``plan`` are small enough to be kept."""
    return _nbytes(plan) <= LIMIT


def _nbytes(plan: Plan) -> int:
    return sum([t.nbytes for t in plan.output_types])


def _make_room(newest: PrecomputedResults) -> None:
    """Let others forget what is beyond the limit with ``newest``."""
    key = id(newest)
    _holders.pop(key, None)
    _holders[key] = weakref.ref(newest, lambda gone: _holders.pop(key, None))
    held = [other for ref in list(_holders.values()) if (other := ref()) is not None]
    total = sum([other.nbytes for other in held if other.now is not None])
    for other in held:
        if total <= LIMIT:
            break
        if other.now is not None:
            total -= other.nbytes
            other.forget()


class PrecomputedResults:
    """The results of ``plan``, on the sources ``cells`` of a capture, kept between calls.

    ``now`` is None or a mark of its own, the buffers that the cells held, and the results.  Buffers
    are equal if they are one memory.
    """

    def __init__(self, plan: Plan, cells: Sequence[int], calls: Callable[[], int]) -> None:
        """``calls`` counts the calls begun so far."""
        self.plan, self.cells, self._calls = plan, tuple(cells), calls
        self.now: tuple[Any, ...] | None = None
        self.lock = threading.RLock()
        self._served = -2  # the number of the call that ``now`` was made for
        self._vain = 0  # how often, in a row, it served no other
        self._left, self._pause = 0, PAUSE
        buffers.watch(self)

    @property
    def nbytes(self) -> int:
        """Of the results."""
        return _nbytes(self.plan)

    def forget(self) -> None:
        self.now = None

    def renewed(self, datas: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """``now`` for cells that hold ``datas``; None if this call is to do without."""
        with self.lock:
            now = self.now
            if now is not None and now[1] == datas:  # another thread was faster
                return now
            self.now = None
            if self._left > 0:
                self._left -= 1
                return None
            if not all(map(buffers.is_own, datas)):
                return None
            call = self._calls()
            self._vain = self._vain + 1 if call - self._served <= 1 else 0
            self._served = call
            if self._vain >= PATIENCE:
                self._left = self._pause
                self._pause = min(2 * self._pause, LONGEST)
                return None
            try:
                made = self._computed(datas)
            except OutOfMemoryError:  # a run without takes less
                return None
            with buffers.LOCK:
                if not all(map(buffers.is_own, datas)):
                    return None
                self.now = now = object(), datas, made
                _make_room(self)
                return now

    def _computed(self, datas: tuple[Any, ...]) -> list[Any]:
        made = [native.allocate(t.nbytes) for t in self.plan.output_types]
        externals = native.pointers(len(made) + len(datas))
        for i, data in enumerate((*made, *datas)):
            externals[i] = data
        self.plan.run(externals)
        return made
