"""Portion: what is left of the pass of a walk, as loops that end with the pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hybrid.core.loop_io import Supplying
from hybrid.data.loops.loader_supply import LoaderSupply, known_length
from hybrid.data.loops.walk import Walk
from hybrid.data.passes import Pass


class Remainder(NamedTuple):
    """The batches of a pass that are still to come."""

    even: int  # those that look alike
    last: int  # 1 if a smaller one follows these


ENDLESS = 2**62  # batches: more than there will be
UNKNOWN = Remainder(ENDLESS, 0)


class Portion(Supplying):
    """Loops over it leave off and go on within a pass of ``walk``, and end with the pass.

    A captured loop goes over a whole pass, or breaks off before the pass ends: it does not find out
    by itself that the pass has begun before the loop, so it may not ask for more than the ``even``
    batches that are ``left``.
    """

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._supply: _PortionSupply | None = None

    def __iter__(self) -> Iterator[Any]:
        return _Part(self.walk)

    def supply(self, *, ahead: bool = True) -> LoaderSupply:
        if self._supply is None or self._supply.fact() != self._supply.seen:
            self._supply = _PortionSupply(self.walk)
        return self._supply

    @property
    def is_even(self) -> bool:
        """Whether all batches of all passes look alike, and there are some."""
        supply = self.supply()
        return bool(supply.length) and supply.even == supply.length

    @property
    def is_over(self) -> bool:
        """Whether the pass has ended, and the next one not begun."""
        return not self.walk.is_under_way

    @property
    def given(self) -> int:
        """The batches of the pass that were given, in this process or before."""
        return self.walk.given_of_pass

    def left(self) -> Remainder:
        """The batches of the pass, or of the next one, that are to come; 0: this one is to end.

        ``UNKNOWN`` where nobody knows: loops find out by themselves when the pass ends.
        """
        supply, given = self.supply(), self.given
        if supply.length is None:
            return UNKNOWN
        last = min(max(supply.length - given, 0), supply.length - supply.even)
        return Remainder(max(supply.even - given, 0), last)


class _PortionSupply(LoaderSupply):
    """What loops over a portion have to know: passes are whole ones, or broken off."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        super().__init__(walk.loader)
        self.seen = self.fact()

    def batches(self) -> int | None:
        return known_length(self.loader)

    def varies(self) -> bool:
        return False  # unlike batches end a loop

    def peek(self, count: int) -> tuple[list[Any], Pass]:
        with self.waiting():
            found = self.walk.peek(self.cells, count)
        return super().peek(count) if found is None else found

    def begin(self) -> _Part:  # type: ignore[override]
        return _Part(self.walk)


class _Part:
    """Items of a pass, which goes on when they are left."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.items: Pass = walk.begun()
        self.is_over = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.is_over:  # the next pass is another part
            raise StopIteration
        try:
            return self.walk.next_of_pass()
        except BaseException:
            self.is_over = True
            raise

    @property
    def queue(self) -> int:
        return self.items.queue

    @property
    def given(self) -> int:
        return self.items.given

    def give_back(self, batch: Any) -> None:
        self.items.give_back(batch)

    def leave(self) -> None:
        """Other loops go on with what is left."""
        self.walk.look()
