"""A pass over a loader: which batches it consists of, and where it is."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.data.collate import default_collate
from hybrid.data.loops.seen_batches import SeenBatches, kind_of
from hybrid.data.sampler import (
    EVEN_BATCHES,
    OrderSampler,
    RandomOrderSampler,
)
from hybrid.data.workers.prefetch import AheadOfStreams, Prefetch
from hybrid.data.workers.worker import ENDED, Job, Reader
from hybrid.eager.frameworks.interop import asarray
from hybrid.errors import ArgumentError, CaptureError, DatasetError, author_location
from hybrid.ir.interpreter import current
from hybrid.random import Generator, default_generator

if TYPE_CHECKING:
    from hybrid.data.loader import DataLoader

VERSION = 1
State = tuple[int, int]  # of a generator: the seed, and the draws so far


@dataclasses.dataclass
class Position:
    """How far a pass is, and what its order is drawn from."""

    passes: int  # which pass it is, from 1 on
    batches: int  # given so far
    order: State | None  # of the generator when the pass began, if it has
    sampler: Any = None  # the state of a sampler that has a state_dict()

    def state(self, loader: DataLoader) -> dict[str, Any]:
        """Plain numbers that say where ``loader`` is."""
        own = own_generator(loader)
        return {
            "version": VERSION,
            **dataclasses.asdict(self),
            "order": None if self.order is None else list(self.order),
            "generator": None if own is None else list(state_of(own)),
            **_facts(loader),
        }

    @staticmethod
    def from_state(loader: DataLoader, state: dict[str, Any]) -> Position:
        """The position in ``state``, which is checked; a generator of the loader's is set."""
        keys = {"version", "passes", "batches", "order", "sampler", "generator", *_facts(loader)}
        if not isinstance(state, dict) or set(state) != keys or state["version"] != VERSION:
            raise ArgumentError(
                "this is not the state of a loader",
                why=f"That is a dict with {', '.join(sorted(keys))}, of version {VERSION}.",
                fix="pass what state_dict() gave",
            )
        for name, value in _facts(loader).items():
            if state[name] != value:
                raise ArgumentError(
                    f"the state is of a loader whose {name} is {state[name]!r}; here it is "
                    f"{value!r}",
                    why="The batches left would be others.",
                    fix="make the loader as that one was made",
                )
        for name, least in (("passes", 1), ("batches", 0)):
            if type(state[name]) is not int or state[name] < least:
                raise ArgumentError(f"{name} of the state is {state[name]!r}")
        for name in ("order", "generator"):
            free = name == "generator" or not state["batches"]  # to be None
            if not _is_state(state[name]) and not (free and state[name] is None):
                raise ArgumentError(f"{name} of the state is {state[name]!r}")
        own = own_generator(loader)
        if own is not None and state["generator"] is not None:
            _restore(own, state["generator"])
        order = None if state["order"] is None else (state["order"][0], state["order"][1])
        return Position(state["passes"], state["batches"], order, state["sampler"])


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple)) and len(value) == 2 and all(type(n) is int for n in value)
    )


def _facts(loader: DataLoader) -> dict[str, Any]:
    """What must be the same for a state to make sense."""
    by_number = not loader.streams
    return {
        "batch_size": loader.batch_size,
        "samples": _length(loader) if by_number else None,
        "workers": None if by_number else loader.num_workers,
    }


def _length(loader: DataLoader) -> int | None:
    """The length of a dataset whose samples have numbers, if it has one."""
    if loader.streams or not hasattr(loader.dataset, "__len__"):
        return None
    try:
        return len(loader.dataset)
    except (NotImplementedError, TypeError):  # its sampler knows the numbers
        return None


def own_generator(loader: DataLoader) -> Generator | None:
    """The generator that was given to the loader or its sampler."""
    for holder in (order_sampler(loader), loader):
        found = getattr(holder, "generator", None)
        if isinstance(found, Generator):
            return found
    return None


def order_sampler(loader: DataLoader) -> OrderSampler | None:
    """The sampler whose order is known when a pass begins, where there is one."""
    sampler: Any = loader.sampler
    if loader.batch_sampler is not None:
        if type(loader.batch_sampler) not in EVEN_BATCHES:
            return None
        sampler = loader.batch_sampler.sampler
    own_way = isinstance(sampler, OrderSampler) and type(sampler).__iter__ is OrderSampler.__iter__
    return sampler if own_way else None


def state_of(generator: Generator) -> State:
    """The seed of ``generator`` and how often it was drawn from."""
    seed, draws = generator.state.tolist()
    return seed, draws


def _restore(generator: Generator, state: Iterable[int]) -> None:
    generator.state.assign(asarray(np.array(list(state), np.int64)))


def position_of(loader: DataLoader, passes: int, *, begins: bool) -> Position:
    """The beginning of a pass, which is at hand or (``begins`` False) still to come."""
    order = state_of(_source(loader)) if begins else None
    sampler = stateful(loader)
    return Position(passes, 0, order, None if sampler is None else sampler.state_dict())


def _source(loader: DataLoader) -> Generator:
    sampler = order_sampler(loader)
    if isinstance(sampler, RandomOrderSampler):
        return sampler.source()
    return loader.generator or default_generator()


def stateful(loader: DataLoader) -> Any:
    for sampler in (loader.batch_sampler, loader.sampler):
        if hasattr(sampler, "state_dict") and hasattr(sampler, "load_state_dict"):
            return sampler
    return None


def keys_of(loader: DataLoader, generator: Generator | None) -> Iterable[Any]:
    """The keys of the batches of a pass; ``generator``: drawn from in place of the loader's."""
    sampler = order_sampler(loader)
    if sampler is None:
        return loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    order = sampler.order(generator)
    if loader.batch_sampler is None:
        return order if isinstance(order, range) else order.tolist()
    return loader.batch_sampler.stretches(order)


class Pass:
    """An iterator over the batches of a pass, which begins where ``resumed`` says."""

    def __init__(self, loader: DataLoader, resumed: Position | None) -> None:
        _require_eager()
        self.loader, self.length = loader, _length(loader)
        passes, generator = loader._passes + 1, None
        if resumed is not None and resumed.sampler is not None:
            sampler = stateful(loader)
            if sampler is not None:
                sampler.load_state_dict(resumed.sampler)
        if resumed is None or resumed.order is None:
            self.position = position_of(loader, passes, begins=True)
        else:
            self.position = dataclasses.replace(resumed)
            generator = Generator(0)
            _restore(generator, resumed.order)
        self.crew: Any = None
        self.is_over = False
        self.skipped = self.position.batches
        self.reader: Reader | None = None  # that makes the batches here
        self.seen, self.latest = SeenBatches(loader), None
        self.batches = self._begun(generator, self.skipped)

    def _seed(self) -> int:
        """What the draws of the pass's own generators follow from."""
        seed, draws = self.position.order
        mixed = np.random.SeedSequence([seed % 2**64, draws, self.position.passes])
        return int(mixed.generate_state(1, np.uint64)[0] >> 2)

    def begins_anew(self) -> bool:
        """Go by generators as they are now, which have changed since the pass began.

        False where something was drawn from its seed, or may have been.
        """
        if self.reader is None or self.reader.drew:
            return False
        self.position.order = position_of(self.loader, self.position.passes, begins=True).order
        self.reader.seed = self._seed()
        return True

    def _begun(self, generator: Generator | None, skips: int) -> Iterator[Any]:
        loader = self.loader
        keys = () if loader.streams else keys_of(loader, generator)
        if skips and not loader.streams:
            keys = itertools.islice(keys, skips, None)
        base = self._seed()
        if not loader.num_workers and not loader.streams:
            return self.read(keys, skips, base)
        if not loader.num_workers:
            reader = self.reader = Reader(loader.recipe())
            reader.begin(base)
            for _ in range(skips):
                reader.read(Job(skips=True))
            return iter(lambda: reader.read(Job()), ENDED)
        self.crew = loader.crew()
        ahead = base, loader.prefetch_factor, loader.timeout
        if loader.streams:
            return AheadOfStreams(self.crew, *ahead, skips)
        return Prefetch(self.crew, keys, skips, *ahead)

    def read(self, keys: Iterable[Any], skips: int, seed: int = 0) -> Iterator[Any]:
        """The batches of samples with these numbers, made here when they are asked for."""
        reader = self.reader = Reader(self.loader.recipe())
        reader.begin(seed)
        return map(reader.read, map(_job, keys, itertools.count(skips)))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        _require_eager()
        try:
            batch = next(self.batches)
        except StopIteration:
            if self.latest is not None:
                self.seen.last = kind_of(self.latest)
            self._over()
            if self.loader._position is self.position:
                self.loader._position = None
            self._require_length(None)
            raise
        except BaseException as error:
            self._failed(error)
            self._require_length(error)
            raise
        self._require_length(None)
        self.position.batches += 1
        self.seen.add(batch)
        self.loader._seen = self.seen
        if self.loader.collate_fn is not default_collate:  # of that one the smaller kind is known
            self.latest = batch
        if self.loader.streams:
            self._count()
        return batch

    @property
    def queue(self) -> int:
        """The number of the queue that the batches come from; 0: there is none."""
        return 0

    @property
    def given(self) -> int:
        """How many batches of this pass were given."""
        return self.position.batches - self.skipped

    def give_back(self, batch: Any) -> None:
        """``batch``, which was given last, is the next one again."""
        self.batches = itertools.chain([batch], self.batches)
        self.position.batches -= 1

    def leave(self) -> None:
        """No more batches are wanted."""
        self.batches, self.is_over = iter(()), True

    def end(self) -> None:
        """Let go of the workers."""
        self._over()

    def _failed(self, error: BaseException) -> None:
        """A batch could not be made, or an interrupt came between: the pass is over."""
        self._over(error)

    def _over(self, error: BaseException | None = None) -> None:
        """No more batches come; workers end, but for those that are kept and well."""
        self.batches, self.is_over, self.latest = iter(()), True, None
        if self.crew is not None and (
            not self.loader.persistent_workers or not isinstance(error, (Exception, type(None)))
        ):
            self.crew.close()
        self.crew = None

    def _require_length(self, cause: BaseException | None) -> None:
        if self.length is None:
            return
        now = _length(self.loader)
        if now != self.length:
            self._over()
            raise DatasetError(
                f"the dataset had {self.length} samples when the pass began, and has {now} now",
                why="The order of a pass is settled when it begins.",
                fix="change a dataset between passes",
            ) from cause

    def _count(self) -> None:
        """Warn when a stream gives more batches than its length says."""
        try:
            expected = len(self.loader)
        except TypeError:
            return
        if self.position.batches == expected + 1:
            warnings.warn(
                f"a {type(self.loader.dataset).__name__} gives more than the {expected} batches "
                "that its length comes to: with several workers, let each give its part "
                "(hybrid.data.get_worker_info)",
                stacklevel=3,
            )


def _job(key: Any, at: int) -> Job:
    return Job(key=key, at=at)


def _require_eager() -> None:
    """Refuse to be captured: a plan would repeat the batches of one pass for ever."""
    if current().traces:
        raise CaptureError(
            "a loader is gone over inside a hybridized function, and not by a for statement",
            at=author_location(),
            why="Its batches are read from outside, and in another order in each pass; a graph "
            "would have those of one pass for ever.  A for statement asks for them when it runs.",
            fix="write a for statement over the loader, enumerate() or zip() of it; or pass "
            "list(loader) as an argument",
        )
