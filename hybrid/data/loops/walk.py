"""Walk: the batches of a loader pass after pass, without end, some at a time."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hybrid.core.loop_io import ItemKind, Supply, Supplying
from hybrid.data.loops.begun_pass import peek
from hybrid.data.loops.loader_supply import (
    OUTSIDE,
    LoaderSupply,
    is_queued,
    nothing_given,
    rest_of,
)
from hybrid.data.loops.queue_pass import BatchQueue, QueuedPass
from hybrid.data.passes import Pass, order_sampler
from hybrid.data.sampler import RandomOrderSampler, require_count
from hybrid.errors import CaptureError, DatasetError, author_location
from hybrid.ir.interpreter import current

if TYPE_CHECKING:
    from hybrid.data.loader import DataLoader


class Walk:
    """What ``DataLoader.repeat`` gives: an iterator that does not end."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self._pass: Pass | None = None  # the one under way
        self._before = 0  # batches of the passes before it
        self._queue: BatchQueue | None = None  # of the passes before it
        self.is_captured = current().traces  # each call of what made it makes another one

    @property
    def given(self) -> int:
        """How many batches were given."""
        return self._before + self.look()

    def look(self) -> int:
        """Count what plans have taken; how many batches of the pass under way were given."""
        return 0 if self._pass is None else self._pass.given

    def take(self, count: int) -> Taken:
        """The next ``count`` batches, for a ``for`` statement to go over, once.

        In a hybridized function that is one loop of the graph, for which all batches have to be of
        one size: the last one of a pass, too (``drop_last=True``).
        """
        require_count("count", count)
        return Taken(self, count)

    def begun(self) -> Pass:
        """The pass under way, or else the next one."""
        if self._pass is None:
            kind: Any = Pass
            if is_queued(self.loader):
                kind = functools.partial(QueuedPass, known=self._queue)
            self._pass = self.loader.begin(kind)
        return self._pass

    @property
    def queue(self) -> int:
        """The number of the queue that batches come from; 0: of none."""
        known = self._known()
        return 0 if known is None else known.number

    def _known(self) -> BatchQueue | None:
        return self._queue if self._pass is None else getattr(self._pass, "known", None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while True:
            under_way = self.begun()
            try:
                return self.next_of_pass()
            except StopIteration:
                if not under_way.given and not under_way.skipped:
                    raise nothing_given(self.loader) from None

    def next_of_pass(self) -> Any:
        """The next batch of the pass under way or the next one; StopIteration where it ends."""
        under_way = self.begun()
        try:
            return next(under_way)
        except BaseException:
            if under_way.is_over:
                self._leave()
            raise

    def peek(self, cells: Sequence[Any], count: int) -> tuple[list[Any], Pass] | None:
        """The next batches of the pass under way, which gives them again; None: it has none."""
        items = self._pass
        if items is None or items.is_over:
            return None
        try:
            found = peek(items, cells, count)
        except BaseException:
            if items.is_over:
                self._leave()
            raise
        return (found, items) if found else None

    @property
    def is_under_way(self) -> bool:
        """Whether there is a pass that has begun and not ended."""
        return self._pass is not None

    @property
    def given_of_pass(self) -> int:
        """The batches that were given of the pass under way, or of one that is to be resumed."""
        if self._pass is None:
            return self.loader.resumes_after
        return self._pass.skipped + self._pass.given

    def close(self) -> None:
        """End the pass under way: the next one begins anew."""
        if self._pass is not None:
            self._pass.leave()
            self._leave()

    def _leave(self) -> None:
        self._queue = self._known()
        self._before, self._pass = self.given, None


class Taken(Supplying):
    """Some batches of a walk."""

    def __init__(self, walk: Walk, count: int) -> None:
        self.walk, self.count = walk, count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        return Stretch(self.walk, self.count)

    def supply(self, *, ahead: bool = True) -> Supply:
        return WalkSupply(self.walk, self.count)


class Stretch:
    """The next batches of a walk, which goes on behind them.

    A plan takes batches without a word: then it is told at the end that others did, too.
    """

    def __init__(self, walk: Walk, count: int, *, planned: bool = False) -> None:
        self.walk, self.count, self.first = walk, count, walk.given
        self.own = None if planned else 0  # batches given here

    @property
    def queue(self) -> int:
        return self.walk.queue

    @property
    def given(self) -> int:
        return self.walk.given - self.first

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        given = self.given
        if given > self.count or (self.own is not None and self.own != given):
            raise disturbed(given, self.count)
        if given == self.count:
            raise StopIteration
        batch = next(self.walk)
        self.own = None if self.own is None else self.own + 1
        return batch

    def give_back(self, batch: Any) -> None:
        self.walk.begun().give_back(batch)
        self.own = None if self.own is None else self.own - 1

    def leave(self) -> None:
        self.walk.look()


def disturbed(given: int, count: int) -> DatasetError:
    """Where others have taken batches of a walk, too."""
    return DatasetError(
        f"{given} batches of a walk were taken during a loop over {count} of them",
        why="A walk has one place, which each batch that is taken moves.",
        fix="take a list of batches first, or let each loop have a walk over a loader of its own",
    )


class WalkSupply(LoaderSupply):
    """Batches of one kind, from passes that begin where the one before is over."""

    def __init__(self, walk: Walk, count: int) -> None:
        if walk.is_captured:
            raise CaptureError(
                "a loop over a walk that the hybridized function makes itself",
                at=author_location(),
                why="Each run of the plan would go on with the walk of the first one; eagerly each "
                "call makes a walk of its own, which begins with a pass.",
                fix="make it outside (walk = loader.repeat()), or write for statements over the "
                "loader, one in another",
            )
        self.walk, self.count = walk, count
        super().__init__(walk.loader)
        self.draws = self.draws or isinstance(order_sampler(walk.loader), RandomOrderSampler)

    def batches(self) -> int:
        return self.count

    def rest(self) -> int | None:
        return None

    def kinds_of(self, _rest: int | None) -> tuple[ItemKind, ...]:
        rest = rest_of(self.loader)
        if rest is None:
            return self.first_kinds(None)
        if len(self.loader) > 1:
            raise CaptureError(
                f"a walk over a loader whose last batch has {rest} samples and not "
                f"{self.loader.batch_size}",
                at=author_location(),
                why="The batches of a captured loop over take() have to be of one size.",
                fix=f"give the loader drop_last=True, or {OUTSIDE}",
            )
        return self.first_kinds(None)  # the only batch of a pass

    def varies(self) -> bool:
        return False

    def peek(self, count: int) -> tuple[list[Any], Pass]:
        with self.waiting():
            found = self.walk.peek(self.cells, count)
        return super().peek(count) if found is None else found

    def eagerly(self) -> Iterator[Any]:
        return self.walk

    def refuse_end(self, count: int) -> Exception:
        return disturbed(count, self.count)

    def begin(self) -> Stretch:
        if self.count:
            self.walk.begun()
        return Stretch(self.walk, self.count, planned=True)
