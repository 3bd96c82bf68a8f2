"""Supplying: what a captured loop over a loader has to know, and how its runs get their batches."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.calls.executable import others_first
from hybrid.core.exceptions import leave_last
from hybrid.core.loop_io import ItemKind
from hybrid.core.tree import describe, flatten
from hybrid.core.types import tensor_type
from hybrid.data.collate import default_collate, default_convert
from hybrid.data.datasets.dataset import is_columns
from hybrid.data.loops.queue_pass import QueuedPass
from hybrid.data.loops.seen_batches import MOST, facts_of, kind_of
from hybrid.data.passes import Pass, keys_of, order_sampler, own_generator
from hybrid.data.sampler import EVEN_BATCHES, SharedBatches
from hybrid.data.workers.worker import Job, Reader
from hybrid.eager.execution import EAGER
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, DatasetError, FirstPassError, author_location
from hybrid.ir import Value
from hybrid.ir.interpreter import interpreting
from hybrid.random import Generator, default_generator

if TYPE_CHECKING:
    from hybrid.data.loader import DataLoader

OUTSIDE = "go over the loader outside, and hybridize the function of one batch that the loop calls"


class LoaderSupply:
    """Passes over a loader.

    Its next pass is begun as the loop is captured, and the first batch read, to see what batches
    look like; the first run goes on with them.  Unless they are read ``ahead`` of all others, what
    comes before them in the run may draw first: then what was drawn is put back, and the run reads
    them anew.
    """

    def __init__(self, loader: DataLoader, *, ahead: bool = True) -> None:
        self.loader, self.ahead = loader, ahead
        self.batches_samples = loader.batch_size is not None
        self.alike = type(loader.batch_sampler) is SharedBatches
        self.length = self.batches()
        own = own_generator(loader)
        generators = [default_generator()] if own is None else [default_generator(), own]
        self.cells = tuple(dict.fromkeys([generator.state for generator in generators]))
        apart = loader.num_workers > 0 and loader.worker_kind == "process"
        self.draws = not (apart or is_columns(loader.dataset))
        self.held = loader.dataset, loader.collate_fn, loader.batch_sampler, loader.sampler
        rest = self.rest() if self.length else None
        self.even = (self.length or 0) - (rest is not None)
        self._require_outside()
        with interpreting(EAGER):
            before = [cell.detach() for cell in self.cells]
            try:
                self.kinds = (ItemKind(None, ()),) if self.length == 0 else self.kinds_of(rest)
                if not self.kinds:
                    self.length, self.even, self.kinds = 0, 0, (ItemKind(None, ()),)
            except CaptureError:
                raise
            except Exception as error:  # as the loop itself does, which has begun a pass then
                leave_last(error, self._begun)
                raise
            finally:
                for cell, value in zip(self.cells, before, strict=True):
                    cell.assign(value)
        self._met: Kinds | None = None

    def batches(self) -> int | None:
        """How many there will be: those that are left of a resumed pass; None: nobody knows."""
        length = known_length(self.loader)
        return None if length is None else max(length - self.loader.resumes_after, 0)

    def rest(self) -> int | None:
        """How many samples the last one has, if it is smaller than the others; otherwise None."""
        return rest_of(self.loader)

    def _require_outside(self) -> None:
        tensors = getattr(self.loader.dataset, "tensors", ())
        if any([isinstance(t, Tensor) and isinstance(t.content, Value) for t in tensors]):
            raise CaptureError(
                "a loop over a loader of values that the hybridized function computes",
                at=author_location(),
                why="Batches come from outside when the plan runs; tensors that a dataset is given "
                "inside the function count as computed there.",
                fix="go over x.reshape(-1, size, ...), or over slices of x; make datasets of other "
                "tensors outside",
            )

    def kinds_of(self, rest: int | None) -> tuple[ItemKind, ...]:
        """None of a stream that gives nothing, and may do so."""
        try:
            if self.ahead or is_queued(self.loader):
                return self.first_kinds(rest)
            facts, known = facts_of(self.loader), self.loader._kinds
            if known is None or known[0] != facts:
                if (found := self.kinds_seen(rest)) is None:
                    with self.reading_apart():
                        found = self.first_kinds(rest)
                known = self.loader._kinds = facts, found
            return known[1]
        except NothingGiven:
            if self.length is not None:
                raise
            return ()

    def kinds_seen(self, rest: int | None) -> Kinds | None:
        """Those of the pass before; None where they have to be read.

        Raises FirstPassError where to read them may draw random numbers, until a call has run.
        """
        loader, seen = self.loader, self.loader._seen
        kinds = [] if seen is None or loader.resumes_after else seen.kinds(loader)
        if seen is None and self.draws and not loader.awaited:
            error = FirstPassError(
                f"nobody has seen a batch of a {type(loader.dataset).__name__}",
                at=author_location(),
                why="What comes before this loop may draw first, so none is read ahead.",
                fix="call the function: it runs eagerly once",
            )
            error.loader = loader
            raise error
        if not kinds or rest is None or loader.collate_fn is default_collate:
            smaller = [] if rest is None else [_of_size(k, self._size, rest) for k in kinds[:1]]
            return (*kinds[:1], *smaller) or None
        return None if seen is None or seen.last is None else (kinds[0], seen.last)

    @contextmanager
    def reading_apart(self) -> Iterator[None]:
        """Put back what is drawn in the context, and let go of a pass that has drawn something."""
        drawn = random.getstate(), np.random.get_state()
        try:
            yield
        finally:
            begun = self.loader._ahead
            moved = repr((random.getstate(), np.random.get_state())) != repr(drawn)
            random.setstate(drawn[0])
            np.random.set_state(drawn[1])
            if begun is not None and (moved or begun.draws):
                self.loader._ahead = None
                begun.close()

    def first_kinds(self, rest: int | None) -> Kinds:
        """That of the first batch, and that of the last one if this has ``rest`` samples."""
        if is_queued(self.loader):
            return queued_kinds(self.loader, rest)
        batches, items = self.peek(1)
        if not batches:
            if not items.position.batches or self.loader.streams:
                raise nothing_given(self.loader)
            return queued_kinds(self.loader, rest)  # it was resumed where it ends
        kind = _kind(batches[0], self.loader)
        if rest is None:
            return (kind,)
        if items.position.batches == known_length(self.loader) - 1:  # it is the last one
            return _of_size(kind, rest, self._size), kind
        return kind, self._smaller(kind, rest, items.reader)

    def peek(self, count: int) -> tuple[list[Any], Pass]:
        """The next batches, and the pass that is to give them: one that is begun ahead."""
        with self.waiting():
            ahead = self.loader.ahead(self.cells)
            return ahead.peek(count), ahead.items

    @property
    def _size(self) -> int:
        batches: Any = self.loader.batch_sampler
        return batches.size_here if type(batches) in EVEN_BATCHES else self.loader.batch_size

    def _smaller(self, kind: ItemKind, rest: int, reader: Reader | None) -> ItemKind:
        """The kind of a batch of ``rest`` samples, where that of the first one is ``kind``."""
        loader = self.loader
        if loader.collate_fn is default_collate or reader is None or reader.samples is None:
            return _of_size(kind, self._size, rest)
        drawn = random.getstate(), np.random.get_state()
        try:
            return _kind(reader.collate(reader.samples[:rest]), loader)
        finally:
            random.setstate(drawn[0])
            np.random.set_state(drawn[1])

    @property
    def kinds_met(self) -> tuple[ItemKind, ...]:
        """Those of the first batches, where others may look unlike them; else none."""
        if self._met is None:
            self._met = ()
            seen = None if self.ahead else self.loader._seen
            if self.length != 0 and self.varies() and seen and (kinds := seen.kinds(self.loader)):
                self._met = tuple(kinds)
            elif self.length != 0 and self.varies():
                apart = nullcontext() if self.ahead else self.reading_apart()
                with interpreting(EAGER), apart:
                    batches, _ = self.peek(MOST)
                    self._met = tuple([_kind(batch, self.loader) for batch in batches])
        return self._met

    def varies(self) -> bool:
        """Whether a loop may meet batches that are unlike the first one."""
        return may_differ(self.loader)

    def _begun(self) -> None:
        if self.loader._ahead is None and not is_queued(self.loader):
            return  # it could not begin, or went on with a pass that has ended then
        with suppress(Exception), self.waiting():
            next(self.eagerly())

    def eagerly(self) -> Iterator[Any]:
        """What eager code goes over."""
        return iter(self.loader)

    def fact(self) -> Any:
        loader = self.loader
        now = loader.dataset, loader.collate_fn, loader.batch_sampler, loader.sampler
        same = all(map(operator.is_, now, self.held))
        return same, self.batches(), rest_of(loader), loader.num_workers > 0

    def begin(self) -> Pass:
        return self.loader.begin(QueuedPass if is_queued(self.loader) else Pass)

    @property
    def waits(self) -> bool:
        """Whether other threads make the batches."""
        return self.loader.num_workers > 0

    def waiting(self) -> AbstractContextManager[Any]:
        """Functions of the workers may have to be captured meanwhile."""
        return others_first() if self.waits else nullcontext()

    def refuse_end(self, count: int) -> Exception:
        name = type(self.loader.dataset).__name__
        if self.batches() is None:
            return DatasetError(
                f"a loader of a {name} gave batches, and none when the loop was captured",
                why="What they look like was not known then.",
                fix="capture the function once more (clear() of what hybridize gave)",
            )
        more = "more" if count > self.length else f"no more than {count}"
        return DatasetError(
            f"a loader of a {name} gave {more} batches in a pass; its length is {self.length}",
            why="A captured loop goes over as many batches as len() of the loader tells.",
            fix=f"let the length of the dataset be what it gives, or {OUTSIDE}",
        )

    def is_like(self, batch: Any) -> bool:
        """Whether the loop was made for batches like this one."""
        leaves, structure = flatten(batch)
        types = tuple([getattr(leaf, "type", None) for leaf in leaves])
        return ItemKind(structure, types) == self.kinds[0]

    def refuse_kind(self, at: int, found: ItemKind | None, wanted: ItemKind) -> Exception:
        batch = f"batch {at} of a pass over a {type(self.loader.dataset).__name__}"
        if found is None:
            return DatasetError(
                f"{batch} holds what is no tensor",
                why="A graph computes with tensors.",
                fix="let collate_fn make tensors of it, or leave it out",
            )
        return UnlikeBatch(
            f"{batch} is {_told(found)}; the captured loop was made for {_told(wanted)}",
            why=f"{_difference(found, wanted)}All batches of a captured loop look alike, but for a "
            "smaller last one where the length is known.",
            fix="let samples have one shape and dtype (collate_fn can pad them); for a stream give "
            f"drop_last=True; or {OUTSIDE}",
        )


def is_queued(loader: DataLoader) -> bool:
    """Whether its batches are rows of tensors, in an order that is known when a pass begins."""
    batches = loader.batch_sampler
    return (
        is_columns(loader.dataset)
        and type(batches) in EVEN_BATCHES
        and batches.size_here > 0
        and batches.rest_here != 0
        and order_sampler(loader) is not None
        and loader.collate_fn is default_collate
        and loader.worker_init_fn is None
    )


def known_length(loader: DataLoader) -> int | None:
    """The batches of a whole pass; None: nobody knows."""
    try:
        return len(loader)
    except TypeError:
        return None


def rest_of(loader: DataLoader) -> int | None:
    """The samples in a last batch that is smaller than the others; None if there is none."""
    if loader.streams:
        size = loader.batch_size
        with suppress(TypeError):  # of one that does not know its length
            known = not loader.drop_last and size is not None
            return (len(loader.dataset) % size or None) if known else None
        return None
    batches = loader.batch_sampler
    return batches.rest_here if type(batches) in EVEN_BATCHES else None


Kinds = tuple[ItemKind, ...]


def queued_kinds(loader: DataLoader, rest: int | None) -> Kinds:
    """Those of a loader whose batches are rows of tensors: nobody can tell that they are read."""
    reader = Reader(loader.recipe())
    reader.begin(0)
    key = next(iter(keys_of(loader, Generator(0))), None)
    if key is None:
        raise nothing_given(loader)
    keys = (key,) if rest is None else (key, key[:rest])
    return tuple([_kind(reader.read(Job(key=key)), loader) for key in keys])


def may_differ(loader: DataLoader) -> bool:
    """Whether batches may be of other sizes than the first, but for a last one that is known."""
    if is_queued(loader):
        return False
    own = loader.collate_fn not in (default_collate, default_convert)
    if loader.streams:
        unknown = known_length(loader) is None and not loader.drop_last
        return own or unknown or loader.batch_size is None
    return own or type(loader.batch_sampler) not in EVEN_BATCHES


class UnlikeBatch(DatasetError):
    """The next batch is of another kind than those that a captured loop was made for."""


class NothingGiven(DatasetError):
    """There is no batch where there must be one."""


def nothing_given(loader: DataLoader) -> DatasetError:
    """What to raise there."""
    return NothingGiven(
        f"a pass over a {type(loader.dataset).__name__} gave no batch",
        why="Its length, or a walk that repeats passes until there are enough, asks for some.",
        fix="give samples, batch_size of them at least with drop_last=True",
    )


def _of_size(kind: ItemKind, size: int | None, rest: int) -> ItemKind:
    """The kind of ``rest`` samples, as that of ``size`` is ``kind``."""
    shapes = [(rest, *t.shape[1:]) if t.shape[:1] == (size,) else t.shape for t in kind.types]
    found = zip(kind.types, shapes, strict=True)
    return ItemKind(kind.structure, tuple([tensor_type(t.dtype, shape) for t, shape in found]))


def _kind(batch: Any, loader: DataLoader) -> ItemKind:
    found = kind_of(batch)
    if found is None:
        other = next(leaf for leaf in flatten(batch)[0] if not isinstance(leaf, Tensor))
        raise CaptureError(
            f"batches of a {type(loader.dataset).__name__} hold a {type(other).__name__}",
            at=author_location(),
            why="A graph computes with tensors.",
            fix=f"let collate_fn make tensors of it, or leave it out; or {OUTSIDE}",
        )
    return found


def _difference(found: ItemKind, wanted: ItemKind) -> str:
    """The first field that is another one, where they have the same fields."""
    if found.structure != wanted.structure or len(found.types) < 2:
        return ""
    pairs = enumerate(zip(found.types, wanted.types, strict=True))
    for at, (got, made_for) in pairs:
        if got is not made_for:
            return f"Field {at} is {got} and not {made_for}. "
    return ""


def _told(kind: ItemKind) -> str:
    return f"{', '.join(map(str, kind.types))} in {describe(kind.structure)}"
