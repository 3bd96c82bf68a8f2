"""DataLoader: every sample once, in order or shuffled by a seed."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError
from tests.data.samples import Stream

X = np.arange(22, dtype=np.float32).reshape(11, 2)
Y = np.arange(11)


class Pairs(Dataset):
    """The same samples as the TensorDataset's, one by one."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        return X[index], int(Y[index])


DATASETS = [TensorDataset(X, Y), Pairs(), [(X[i], i) for i in range(11)]]


def labels(loader):
    return [y.tolist() for _, y in loader]


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda d: type(d).__name__)
class TestEveryDataset:
    def test_in_order(self, dataset):
        loader = DataLoader(dataset, batch_size=4)
        assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
        assert len(loader) == 3
        x, y = next(iter(loader))
        assert (str(x.type), str(y.type)) == ("f32[4,2]", "i64[4]")
        assert x.tolist() == X[:4].tolist()

    def test_drop_last(self, dataset):
        loader = DataLoader(dataset, batch_size=4, drop_last=True)
        assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]] and len(loader) == 2
        assert len(DataLoader(dataset, batch_size=12, drop_last=True)) == 0
        assert len(DataLoader(dataset, batch_size=11, drop_last=True)) == 1

    def test_shuffled(self, dataset):
        loader = DataLoader(dataset, batch_size=4, shuffle=True, generator=5)
        first, second = labels(loader), labels(loader)
        assert [len(batch) for batch in first] == [4, 4, 3]
        order = [label for batch in first for label in batch]
        assert sorted(order) == list(range(11)) and order != list(range(11))
        assert first != second
        again = DataLoader(dataset, batch_size=4, shuffle=True, generator=hy.random.Generator(5))
        assert [labels(again), labels(again)] == [first, second]
        for x, y in loader:
            assert x.tolist() == X[y.numpy()].tolist()


def test_all_datasets_are_shuffled_alike():
    orders = [labels(DataLoader(d, 4, shuffle=True, generator=1)) for d in DATASETS]
    assert orders[0] == orders[1] == orders[2]


def test_the_default_generator_shuffles_by_default():
    loader = DataLoader(DATASETS[0], shuffle=True)
    hy.random.seed(0)
    first = labels(loader)
    hy.random.seed(0)
    assert labels(loader) == first


def test_batches_stay_when_the_source_is_written_to():
    source = hy.asarray(X.copy())
    loader = DataLoader(TensorDataset(source), batch_size=11)
    ((before,),) = loader
    source.assign(source * 2)
    assert before.tolist() == X.tolist()
    ((after,),) = loader
    assert after.tolist() == X.tolist()


def test_a_subclass_may_change_the_samples():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(t * 2 for t in super().__getitem__(index))

    assert labels(DataLoader(Doubled(X, Y), batch_size=3))[0] == [0, 2, 4]


def test_samples_need_not_be_tuples():
    (batch,) = DataLoader([1.0, 2.0], batch_size=2)
    assert batch.tolist() == [1.0, 2.0]


def test_arrays_are_datasets_too():
    for data in (X, hy.asarray(X)):
        (batch,) = DataLoader(data, batch_size=11)
        assert type(batch) is hy.Tensor and batch.numpy().tobytes() == X.tobytes()
        (shuffled,) = DataLoader(data, batch_size=11, shuffle=True, generator=2)
        assert sorted(shuffled.tolist()) == X.tolist() != shuffled.tolist()


def test_an_empty_dataset_has_no_batches():
    for options in ({}, {"shuffle": True}, {"workers": 1}, {"batch_size": None}):
        loader = DataLoader([], **options)
        assert len(loader) == 0 and list(loader) == []


def test_samples_without_batches():
    loader = DataLoader(Pairs(), batch_size=None)
    assert len(loader) == 11 and loader.batch_size is None
    x, y = list(loader)[3]
    assert type(x) is hy.Tensor and x.tolist() == X[3].tolist() and y == 3
    assert list(DataLoader([1, 2], batch_size=None, collate_fn=str)) == ["1", "2"]
    assert sorted(DataLoader(range(9), None, shuffle=True)) == list(range(9))
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_samplers_choose():
    loader = DataLoader(Pairs(), 2, sampler=[3, 1, 3])
    assert labels(loader) == [[3, 1], [3]] and len(loader) == 2
    loader = DataLoader(Pairs(), batch_sampler=[[0], [4, 5]])
    assert labels(loader) == [[0], [4, 5]] and len(loader) == 2 and loader.batch_size is None
    words = {"a": 1.0, "b": 2.0}
    assert [b.tolist() for b in DataLoader(words, 2, sampler=["b", "a"])] == [[2.0, 1.0]]
    drawn = RandomSampler(Pairs(), num_samples=4, generator=3)
    assert [y for b in labels(DataLoader(Pairs(), 3, sampler=drawn)) for y in b] == list(
        RandomSampler(Pairs(), num_samples=4, generator=3)
    )


def test_a_subclass_of_a_sampler_chooses():
    class Backwards(SequentialSampler):
        def __iter__(self):
            return iter(reversed(range(len(self))))

    class Twice(BatchSampler):
        def __iter__(self):
            for batch in super().__iter__():
                yield batch * 2

    assert labels(DataLoader(Pairs(), 6, sampler=Backwards(Pairs())))[1] == [4, 3, 2, 1, 0]
    twice = Twice(SequentialSampler(Pairs()), 1)
    assert labels(DataLoader(Pairs(), batch_sampler=twice))[2] == [2, 2]


def test_functions_collate():
    loader = DataLoader([1, 2, 3], 2, collate_fn=tuple)
    assert list(loader) == [(1, 2), (3,)]
    batches = DataLoader(TensorDataset(X), 11, collate_fn=lambda samples: len(samples))
    assert list(batches) == [11]


def test_datasets_may_give_several_samples_at_once():
    asked = []

    class Several(Pairs):
        def __getitems__(self, indices):
            asked.append(indices)
            return [self[i] for i in indices]

    assert labels(DataLoader(Several(), 6)) == [list(range(6)), list(range(6, 11))]
    assert asked == [list(range(6)), list(range(6, 11))]

    class Other(Several):
        def __getitem__(self, index):
            return X[index], -index

    asked.clear()

    class Forgetful(Pairs):
        def __getitems__(self, indices):
            return []

    with pytest.raises(ArgumentError) as caught:
        list(DataLoader(Forgetful(), 6))
    assert str(caught.value) == (
        "Forgetful.__getitems__ gave 0 samples for 6 numbers\nFix: give one for each, in order."
    )
    assert labels(DataLoader(Other(), 6))[0] == [0, -1, -2, -3, -4, -5] and asked == []


def test_streams():
    loader = DataLoader(Stream(5), 2)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="a Stream does not know how many samples it has"):
        len(loader)
    assert len(list(loader)) == 3


def test_both_names_of_an_argument():
    loader = DataLoader([1], num_workers=2, prefetch_factor=3)
    assert (loader.workers, loader.num_workers, loader.prefetch_factor) == (2, 2, 3)
    loader = DataLoader([1], workers=2, prefetch=3, num_workers=2)
    assert (loader.workers, loader.num_workers, loader.prefetch_factor) == (2, 2, 3)
    assert DataLoader([1], pin_memory=True).num_workers == 0
    assert DataLoader([1], multiprocessing_context="spawn", workers=1).worker_kind == "process"


def test_order_of_arguments_is_pytorchs():
    names = list(inspect.signature(DataLoader).parameters)[:13]
    assert names == [
        "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "workers", "collate_fn",
        "pin_memory", "drop_last", "timeout", "worker_init_fn", "multiprocessing_context",
        "generator",
    ]  # fmt: skip


def test_copies():
    loader = DataLoader([1, 2, 3], 2, shuffle=True, generator=1, workers=1, persistent_workers=True)
    next(iter(loader))
    for made in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert [b.tolist() for b in made] == [b.tolist() for b in copy.deepcopy(loader)]


@hy.hybridize
def total(batches, scale):
    return sum([x.sum() * scale for x, _ in batches])


def test_hybridized_functions_go_over_loaders_by_for_statements_alone():
    loader, scale = DataLoader(TensorDataset(X, Y), 4), hy.asarray(2.0)
    with pytest.raises(CaptureError) as caught:
        total(loader, scale)
    line = total.__wrapped__.__code__.co_firstlineno + 2
    assert str(caught.value) == (
        "a loader is gone over inside a hybridized function, and not by a for statement "
        f"({__file__}:{line})\n"
        f"    {line} | return sum([x.sum() * scale for x, _ in batches])\n"
        "Its batches are read from outside, and in another order in each pass; a graph would have "
        "those of one pass for ever.  A for statement asks for them when it runs.\n"
        "Fix: write a for statement over the loader, enumerate() or zip() of it; or pass "
        "list(loader) as an argument."
    )
    begun = iter(loader)
    with pytest.raises(CaptureError):
        hy.hybridize(lambda x: x + next(begun)[0].sum())(scale)
    expected = 2 * X.sum()
    assert total(list(loader), scale).item() == expected
    eagerly = hy.hybridize(total.__wrapped__, fallback="eager")
    with pytest.warns(UserWarning, match="a loader is gone over inside a hybridized function"):
        assert eagerly(loader, scale).item() == expected


def test_loops_over_loaders_call_hybridized_functions():
    step = hy.hybridize(lambda x, scale: x.sum() * scale)
    for options in ({}, {"workers": 2}):
        loader = DataLoader(TensorDataset(X, Y), 4, drop_last=True, **options)
        assert [step(x, 2.0).item() for x, _ in loader] == [2 * X[:4].sum(), 2 * X[4:8].sum()]
    assert len(step.plans) == 1


NO_STREAM = (
    "an order for the samples of a Stream\n"
    "An IterableDataset gives its samples in its own order.\n"
    "Fix: leave out shuffle, sampler and batch_sampler, and shuffle in the dataset."
)
ALONE = (
    "a batch_sampler beside batch_size, shuffle, sampler or drop_last\n"
    "It says what makes a batch all by itself.\nFix: leave the others out."
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataLoader([1], 0), "batch_size is 0\nFix: give an int >= 1."),
        (lambda: DataLoader([1], 1.5), "batch_size is 1.5\nFix: give an int >= 1."),
        (lambda: DataLoader([1], True), "batch_size is True\nFix: give an int >= 1."),
        (
            lambda: DataLoader(iter([1])),
            "a list_iterator is not a dataset\nIt needs __len__ and __getitem__.\n"
            "Fix: subclass hybrid.data.Dataset or IterableDataset, or pass a list of samples.",
        ),
        (
            lambda: DataLoader({1, 2}, sampler=[1]),
            "a set is not a dataset\nIt needs __getitem__.\n"
            "Fix: subclass hybrid.data.Dataset or IterableDataset, or pass a list of samples.",
        ),
        (lambda: DataLoader([1], generator="a"), "the seed 'a' is not an int\nFix: give any int."),
        (lambda: DataLoader(Stream(3), shuffle=True), NO_STREAM),
        (lambda: DataLoader(Stream(3), sampler=[1]), NO_STREAM),
        (lambda: DataLoader(Stream(3), batch_sampler=[[1]]), NO_STREAM),
        (
            lambda: DataLoader([1], shuffle=True, sampler=[0]),
            "both shuffle and a sampler\nFix: give one of them.",
        ),
        (lambda: DataLoader([1], 2, batch_sampler=[[0]]), ALONE),
        (lambda: DataLoader([1], batch_sampler=[[0]], shuffle=True), ALONE),
        (lambda: DataLoader([1], batch_sampler=[[0]], sampler=[0]), ALONE),
        (lambda: DataLoader([1], batch_sampler=[[0]], drop_last=True), ALONE),
        (
            lambda: DataLoader([1], None, drop_last=True),
            "drop_last without batches\nFix: give a batch_size.",
        ),
        (lambda: DataLoader([1], workers=-1), "workers is -1\nFix: give an int >= 0."),
        (lambda: DataLoader([1], num_workers=1.0), "workers is 1.0\nFix: give an int >= 0."),
        (
            lambda: DataLoader([1], workers=1, num_workers=2),
            "workers is 1 and num_workers 2\nFix: give one.",
        ),
        (
            lambda: DataLoader([1], prefetch=2),
            "prefetch is 2 without workers\nThe batches are made when they are asked for.\n"
            "Fix: give workers=1 or more.",
        ),
        (
            lambda: DataLoader([1], timeout=2),
            "timeout is 2 without workers\nThe batches are made when they are asked for.\n"
            "Fix: give workers=1 or more.",
        ),
        (
            lambda: DataLoader([1], persistent_workers=True),
            "persistent_workers is True without workers\n"
            "The batches are made when they are asked for.\nFix: give workers=1 or more.",
        ),
        (lambda: DataLoader([1], workers=1, prefetch=0), "prefetch is 0\nFix: give an int >= 1."),
        (lambda: DataLoader([1], workers=1, timeout=-1), "timeout is -1\nFix: give seconds >= 0."),
        (
            lambda: DataLoader([1], workers=1, worker_kind="fibre"),
            'worker_kind is \'fibre\'\nFix: give "thread" or "process".',
        ),
        (
            lambda: DataLoader([1], worker_kind="thread", multiprocessing_context="spawn"),
            "a multiprocessing_context for workers that are threads\n"
            'Fix: give worker_kind="process".',
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message
