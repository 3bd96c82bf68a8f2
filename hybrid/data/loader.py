"""DataLoader: batches of a dataset, in order or shuffled, made here or ahead of time by workers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hybrid.core.loop_io import Supply, Supplying
from hybrid.data.collate import default_collate, default_convert
from hybrid.data.datasets.dataset import Dataset, IterableDataset
from hybrid.data.passes import Pass, Position, position_of
from hybrid.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    as_generator,
    require_count,
)
from hybrid.data.workers.prefetch import Crew
from hybrid.data.workers.threads import ThreadCrew
from hybrid.data.workers.worker import Recipe
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.random import Generator

if TYPE_CHECKING:
    from hybrid.data.loops.begun_pass import BegunPass
    from hybrid.data.loops.seen_batches import SeenBatches
    from hybrid.data.loops.walk import Walk
    from hybrid.eager.tensor import Tensor

PREFETCH = 2  # batches that each worker makes ahead of time
KINDS = ("thread", "process")


class DataLoader(Supplying):
    """Iterating gives batches: samples' tensors, numbers and arrays stacked along a new first axis.

    ``dataset`` has ``__len__`` and ``__getitem__``, or is an IterableDataset.

    Which samples: ``shuffle`` draws a new order for each pass, from ``generator`` (a
    ``hybrid.random.Generator``, or a seed for one of the loader's own; by default the default
    generator); ``sampler``, any iterable of sample numbers, or ``batch_sampler``, of lists of
    them, take its place.  ``drop_last`` leaves out a last batch of fewer than ``batch_size``
    samples; ``batch_size=None`` gives the samples themselves.  The order does not depend on
    the workers.

    How: ``collate_fn`` makes a batch of a list of samples (``default_collate``).  ``workers`` of
    ``worker_kind`` "thread" or "process" make up to ``prefetch`` batches each ahead of time
    (``num_workers`` and ``prefetch_factor`` are the same); threads suit code that
    computes in C, processes suit Python's own.  The kernels that a worker calls use one thread.
    Processes are started by "forkserver" unless ``multiprocessing_context`` says otherwise, and
    get pickled copies of the dataset.
    ``worker_init_fn`` is called in each worker with its number; ``timeout`` is how many seconds a
    batch may take (0: any); ``persistent_workers`` stay from pass to pass.  ``pin_memory`` is
    taken for the sake of programs that pass it: a CPU has nothing to pin for.

    Code of the dataset that draws random numbers takes them from ``batch_generator()``, to have the
    same ones whatever the workers are.  Otherwise processes have seeds of their own for ``random``,
    NumPy and ``hybrid.random`` (that of ``get_worker_info()``), and threads share the default ones.

    What a worker raises is raised here, with its traceback as the cause; a worker that dies raises
    WorkerError.  Nothing is left running after an error, a ``break``, or the last batch.
    ``state_dict()`` within a pass lets another loader of the kind go on with the batches left.

    A ``for`` statement over it in a hybridized function is a loop of the graph: batches are asked
    for when the plan runs, those of a ``TensorDataset``, or a ``Subset`` of one, without Python.
    Batches that look alike, and a smaller last one where the loader has a ``len()``, are what the
    loop is made for.  Where batches may differ (``collate_fn`` or ``batch_sampler`` of one's own,
    ``batch_size=None``, streams that do not know their length), those from the first unlike one on
    get plans of their sizes; the loop may not break then, nor hand gradients on.  What the loop
    cannot take raises DatasetError.
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        workers: int | None = None,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | int | None = None,
        *,
        prefetch: int | None = None,
        persistent_workers: bool = False,
        worker_kind: str | None = None,
        num_workers: int | None = None,
        prefetch_factor: int | None = None,
    ) -> None:
        self.dataset, self.drop_last = dataset, drop_last
        self.generator = as_generator(generator)
        self.pin_memory = pin_memory
        self.streams = isinstance(dataset, IterableDataset)
        require_dataset(dataset, sampler is not None or batch_sampler is not None)
        self._choose_samples(batch_size, bool(shuffle), sampler, batch_sampler)

        self.num_workers = _one_of("workers", workers, "num_workers", num_workers) or 0
        require_count("workers", self.num_workers)
        ahead = _one_of("prefetch", prefetch, "prefetch_factor", prefetch_factor)
        if worker_kind is None:
            worker_kind = KINDS[multiprocessing_context is not None]
        for name, value, wanted in (
            ("prefetch", ahead, ahead is not None),
            ("timeout", timeout, timeout != 0),
            ("persistent_workers", persistent_workers, persistent_workers),
        ):
            if wanted and not self.num_workers:
                raise ArgumentError(
                    f"{name} is {value!r} without workers",
                    why="The batches are made when they are asked for.",
                    fix="give workers=1 or more",
                )
        if ahead is not None:
            require_count("prefetch", ahead, least=1)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout >= 0:
            raise ArgumentError(f"timeout is {timeout!r}", fix="give seconds >= 0")
        if worker_kind not in KINDS:
            raise ArgumentError(f"worker_kind is {worker_kind!r}", fix='give "thread" or "process"')
        if worker_kind == "thread" and multiprocessing_context is not None:
            raise ArgumentError(
                "a multiprocessing_context for workers that are threads",
                fix='give worker_kind="process"',
            )
        self.prefetch_factor = (ahead or PREFETCH) if self.num_workers else None
        self.timeout, self.persistent_workers = timeout, persistent_workers
        self.worker_kind, self.multiprocessing_context = worker_kind, multiprocessing_context
        self.worker_init_fn = worker_init_fn

        self.collate_fn = collate_fn or (default_convert if batch_size is None else default_collate)
        if batch_size is None and batch_sampler is not None:
            self.collate_fn = collate_fn or default_collate
        self._passes = 0
        self._position: Position | None = None  # of the pass that was begun last, until it ends
        self._resumed: Position | None = None  # where the next pass begins
        self._crew: Crew | None = None
        self._walk: weakref.ref[Walk] | None = None  # the last one
        self._ahead: BegunPass | None = None  # the next pass, if a capture has begun it
        self._kinds: Any = None  # what its batches look like, and of what they were read
        self._seen: SeenBatches | None = None  # what those of the last pass looked like
        self.awaited = False  # whether a call has run eagerly for that

    def _choose_samples(
        self, batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any
    ) -> None:
        if self.streams and (shuffle or sampler is not None or batch_sampler is not None):
            raise ArgumentError(
                f"an order for the samples of a {type(self.dataset).__name__}",
                why="An IterableDataset gives its samples in its own order.",
                fix="leave out shuffle, sampler and batch_sampler, and shuffle in the dataset",
            )
        if sampler is not None and shuffle:
            raise ArgumentError("both shuffle and a sampler", fix="give one of them")
        if batch_sampler is not None and (
            batch_size != 1 or shuffle or sampler is not None or self.drop_last
        ):
            raise ArgumentError(
                "a batch_sampler beside batch_size, shuffle, sampler or drop_last",
                why="It says what makes a batch all by itself.",
                fix="leave the others out",
            )
        if batch_size is None and self.drop_last:
            raise ArgumentError("drop_last without batches", fix="give a batch_size")
        if batch_size is not None:
            require_count("batch_size", batch_size, least=1)
        self.batch_size = None if batch_sampler is not None else batch_size
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if self.streams or batch_sampler is not None:
            return
        if sampler is None and shuffle:
            self.sampler = RandomSampler(self.dataset, generator=self.generator)
        elif sampler is None:
            self.sampler = SequentialSampler(self.dataset)
        shared = getattr(self.sampler, "shared_batches", None)  # with other processes
        if batch_size is not None and shared is not None:
            self.batch_sampler = shared(batch_size, self.drop_last)
        elif batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, self.drop_last)
        elif shared is not None:
            raise ArgumentError(
                f"a {type(self.sampler).__name__} without batches",
                why="It says which part of a batch is given here.",
                fix="give a batch_size, that of all processes together",
            )

    def __len__(self) -> int:
        """The number of batches of a pass; TypeError where nobody knows."""
        if not self.streams:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        full, rest = divmod(len(self.dataset), self.batch_size or 1)
        return full + (rest > 0 and not self.drop_last)

    @property
    def workers(self) -> int:
        """How many workers make batches; 0: they are made when they are asked for."""
        return self.num_workers

    def __iter__(self) -> Iterator[Any]:
        return self.begin(Pass)

    def begin(self, kind: Callable[[DataLoader, Position | None], Pass]) -> Pass:
        """Begin a pass of this kind."""
        begun = self._take_over() or kind(self, self._resumed)
        self._resumed, self._position = None, begun.position
        self._passes = begun.position.passes
        return begun

    def ahead(self, cells: Sequence[Tensor]) -> BegunPass:
        """The next pass, which is begun now to see its first batches; ``cells``: of generators."""
        from hybrid.data.loops.begun_pass import BegunPass

        found = self._ahead
        if found is None or not found.is_next():
            if found is not None:
                found.close()
            found = self._ahead = BegunPass(self, cells)
        return found

    def _take_over(self) -> Pass | None:
        """The pass that was begun ahead, if it is the one to begin now."""
        found, self._ahead = self._ahead, None
        if found is None:
            return None
        if found.is_next():
            return found.taken()
        found.close()
        return None

    def supply(self, *, ahead: bool = True) -> Supply:
        """For loops that are captured."""
        from hybrid.data.loops.loader_supply import LoaderSupply

        return LoaderSupply(self, ahead=ahead)

    def repeat(self) -> Walk:
        """Pass after pass without end, so many batches at a time.

        ::

            walk = loader.repeat()
            for x, y in walk.take(100):  # the next 100 batches; in a hybridized function one loop
                ...

        The batches are those of passes one after the other (``for epoch in ...: for x, y in
        loader``), in the same order: a pass is begun when its first batch is asked for, and what it
        draws from a generator is drawn then.  ``state_dict()`` of the loader tells where the walk
        is, to the batch; ``load_state_dict`` before ``repeat`` lets another one go on from there.
        One walk, and no pass beside it, goes over a loader at a time.
        """
        from hybrid.data.loops.walk import Walk

        walk = Walk(self)
        self._walk = weakref.ref(walk)
        return walk

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: plain numbers, for ``load_state_dict`` of another one.

        The batches that were given count, not those that workers have made ahead of time.
        """
        if self._walk is not None and (walk := self._walk()) is not None:
            walk.look()
        position = self._resumed or self._position
        if position is None:
            position = position_of(self, self._passes + 1, begins=False)
        return position.state(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on where ``state`` was taken, and the ones after it follow.

        The loader must have the dataset, the samplers and the ``batch_size`` of the one that
        ``state`` is from, and for an IterableDataset the number of workers; the samples given so
        far of such a one are read again and thrown away.
        """
        self._resumed = Position.from_state(self, state)
        self._position, self._passes = None, self._resumed.passes - 1

    @property
    def resumes_after(self) -> int:
        """How many batches of the next pass have been given already."""
        return 0 if self._resumed is None else self._resumed.batches

    def recipe(self) -> Recipe:
        """What a worker has to know."""
        batched = self.batch_size is not None or self.batch_sampler is not None
        size = (self.batch_size or 1) if batched else None
        collate = None if batched and self.collate_fn is default_collate else self.collate_fn
        return Recipe(
            dataset=self.dataset,
            batch_size=size,
            collate=collate,
            streams=self.streams,
            drop_last=self.drop_last,
            init=self.worker_init_fn,
        )

    def crew(self) -> Crew:
        """The workers for a new pass: those that are kept, or others."""
        if self._crew is not None and not self._crew.closed:
            return self._crew
        if self.worker_kind == "thread":
            crew: Crew = ThreadCrew(self.recipe(), self.num_workers)
        else:
            # It brings in multiprocessing, which `import hybrid` does without.
            from hybrid.data.workers.processes import ProcessCrew

            crew = ProcessCrew(self.recipe(), self.num_workers, self.multiprocessing_context)
        self._crew = crew if self.persistent_workers else None
        return crew

    def __getstate__(self) -> dict[str, Any]:
        passing = ("_crew", "_walk", "_ahead", "_kinds", "_seen")
        return self.__dict__ | dict.fromkeys(passing)


def require_dataset(dataset: Any, has_sampler: bool) -> None:
    """Raise ArgumentTypeError for what has no samples, neither by number nor one by one."""
    needed = ["__getitem__"] if has_sampler else ["__len__", "__getitem__"]
    if isinstance(dataset, IterableDataset) or all(hasattr(dataset, name) for name in needed):
        return
    raise ArgumentTypeError(
        f"a {type(dataset).__name__} is not a dataset",
        why=f"It needs {' and '.join(needed)}.",
        fix="subclass hybrid.data.Dataset or IterableDataset, or pass a list of samples",
    )


def _one_of(name: str, value: Any, other_name: str, other: Any) -> Any:
    """The value of an argument that has two names."""
    if value is not None and other is not None and value != other:
        raise ArgumentError(f"{name} is {value!r} and {other_name} {other!r}", fix="give one")
    return other if value is None else value
