"""DataLoader: every sample once, in order or shuffled by a seed."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, Dataset, TensorDataset
from hybrid.errors import ArgumentError, ArgumentTypeError

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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataLoader([1], 0), "batch_size is 0\nFix: give an int >= 1."),
        (lambda: DataLoader([1], 1.5), "batch_size is 1.5\nFix: give an int >= 1."),
        (lambda: DataLoader([1], True), "batch_size is True\nFix: give an int >= 1."),
        (lambda: DataLoader([]), "the dataset is empty\nFix: give one with samples."),
        (
            lambda: DataLoader(iter([1])),
            "a list_iterator is not a dataset\nIt needs __len__ and __getitem__.\n"
            "Fix: subclass hybrid.data.Dataset, or pass a list of samples.",
        ),
        (lambda: DataLoader([1], generator="a"), "the seed 'a' is not an int\nFix: give any int."),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message
