"""Datasets: samples by number, whole batches at once, and datasets made of others."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.tree import flatten
from hybrid.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    default_collate,
)
from hybrid.data.datasets.dataset import reader_of
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from tests.data.samples import Rows, Stream


def test_samples_are_tuples_of_slices():
    dataset = TensorDataset(hy.asarray([[1.0, 2.0], [3.0, 4.0]]), np.array([5, 6]))
    assert len(dataset) == 2
    x, y = dataset[1]
    assert (x.tolist(), y.item()) == ([3.0, 4.0], 6)
    assert [t.dtype for t in dataset.tensors] == [hy.float32, hy.int64]


def test_errors():
    with pytest.raises(ArgumentError, match="a TensorDataset of nothing"):
        TensorDataset()
    with pytest.raises(ShapeError) as caught:
        TensorDataset(hy.zeros((2, 3)), hy.zeros((3,)))
    assert str(caught.value) == (
        "a TensorDataset of f32[2,3], f32[3]\n"
        "The first axes, which count the samples, must be of one length.\n"
        "Fix: cut the tensors to one length."
    )
    with pytest.raises(ShapeError, match="Each tensor needs an axis of samples"):
        TensorDataset(hy.asarray(1.0))


@pytest.mark.parametrize(("method", "call"), [("__len__", len), ("__getitem__", lambda d: d[0])])
def test_subclasses_define_both(method, call):
    with pytest.raises(NotImplementedError, match=f"Dataset does not define {method}"):
        call(Dataset())


X, Y = np.arange(24.0).reshape(8, 3), np.arange(8, dtype=np.int32)
TENSORS = TensorDataset(X, Y, hy.asarray(Y).astype(hy.bfloat16))
WHOLE = {  # datasets that give whole batches
    "tensors": TENSORS,
    "array": X,
    "tensor": hy.asarray(Y),
    "subset": Subset(TENSORS, [5, 0, 5, 2, 7]),
    "subset of a subset": Subset(Subset(TENSORS, range(2, 8)), np.array([5, 0, 1])),
    "stack": StackDataset(TENSORS, hy.asarray(Y)),
    "named stack": StackDataset(x=X, pair=TENSORS),
}


@pytest.mark.parametrize("dataset", WHOLE.values(), ids=WHOLE)
@pytest.mark.parametrize("numbers", [range(0), range(1), range(1, 3), np.array([2, 0, 2, 1])])
def test_whole_batches_are_what_collating_gives(dataset, numbers):
    found, structure = flatten(reader_of(dataset)(numbers))
    if len(numbers):
        collated = default_collate([dataset[int(n)] for n in numbers])
        expected, its_structure = flatten(collated)
        assert structure == its_structure
        for one, two in zip(found, expected, strict=True):
            assert one.type is two.type and one.tolist() == two.tolist()
    assert all(t.shape[0] == len(numbers) for t in found)


@pytest.mark.parametrize("index", [0, 7, -1, -8, np.int64(3), slice(2, 4), [1, 0]], ids=str)
def test_a_sample_is_what_indexing_gives(index):
    for found, tensor in zip(TENSORS[index], TENSORS.tensors, strict=True):
        expected = tensor[index]
        assert found.type is expected.type and found.tolist() == expected.tolist()
    for beyond in (8, -9):
        with pytest.raises(IndexError):
            TENSORS[beyond]


def test_samples_stay_when_tensors_are_written_to():
    source = hy.asarray(X.copy())
    (sample,) = TensorDataset(source)[2]
    source[2] = 0.0
    sample += 1
    assert sample.tolist() == (X[2] + 1).tolist() and source.tolist()[2] == [0.0] * 3


def test_others_are_read_sample_by_sample():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(t * 2 for t in super().__getitem__(index))

    doubled = Doubled(X)
    for dataset in (
        [1, 2],
        Rows(),
        doubled,
        Subset(doubled, [1]),
        StackDataset(X, doubled),
        TENSORS + TENSORS,
        np.float64(3),
    ):
        assert reader_of(dataset) is None
    ((x,),) = DataLoader(Subset(doubled, [1]), 1)
    assert x.tolist() == [(2 * X[1]).tolist()]


def test_subsets():
    subset = Subset("abcdef", [4, 0, 4])
    assert len(subset) == 3 and [subset[i] for i in range(3)] == ["e", "a", "e"]
    assert subset.__getitems__([2, 1]) == subset[[2, 1]] == ["e", "a"]
    with pytest.raises(IndexError):
        subset[3]


def test_stacks():
    stack = StackDataset("abc", [1, 2, 3])
    assert len(stack) == 3 and stack[1] == ("b", 2)
    assert stack.__getitems__([2, 0]) == [("c", 3), ("a", 1)]
    assert StackDataset(x="abc", y=Subset([1, 2, 3], [2, 1, 0])).__getitems__([0]) == [
        {"x": "a", "y": 3}
    ]


def test_concatenation():
    both = Rows(3) + Rows(2)
    assert type(both) is ConcatDataset and len(both) == 5 and both.cumulative_sizes == [3, 5]
    assert [both[i][1] for i in range(-5, 5)] == [0, 1, 2, 0, 1] * 2
    three = ConcatDataset(["ab", "", "cde"])
    assert [three[i] for i in range(5)] == list("abcde")
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"sample {index} of 5"):
            three[index]
    assert [y.tolist() for _, y in DataLoader(both, 2)] == [[0, 1], [2, 0], [1]]


def test_chains():
    chain = Stream(2) + Stream(3)
    assert type(chain) is ChainDataset and list(chain) == [0, 1, 0, 1, 2]
    assert [b.tolist() for b in DataLoader(chain, 2)] == [[0, 1], [0, 1], [2]]

    class Long(Stream):
        def __len__(self):
            return self.count

    assert len(ChainDataset([Long(2), Long(3)])) == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: StackDataset(),
            "a StackDataset of nothing\n"
            "Fix: give datasets by position, for tuples, or by name, for dicts.",
        ),
        (
            lambda: StackDataset([1], x=[1]),
            "a StackDataset of both kinds of arguments\n"
            "Fix: give datasets by position, for tuples, or by name, for dicts.",
        ),
        (
            lambda: StackDataset([1], [1, 2]),
            "a StackDataset of datasets with 1, 2 samples\n"
            "Each sample has a part from each of them.\n"
            "Fix: give datasets of one length, or Subsets of them.",
        ),
        (
            lambda: ConcatDataset([]),
            "a ConcatDataset of nothing\nFix: give at least one dataset.",
        ),
        (
            lambda: ConcatDataset([Stream(1)]),
            "a ConcatDataset of a Stream\nThe samples of an IterableDataset have no numbers.\n"
            "Fix: use ChainDataset.",
        ),
        (
            lambda: ChainDataset([[1]]),
            "a ChainDataset of a list\nIt goes over IterableDatasets.\n"
            "Fix: use ConcatDataset for datasets whose samples have numbers.",
        ),
        (
            lambda: Stream(1)[0],
            "sample 0 of a Stream was asked for\n"
            "The samples of an IterableDataset have no numbers.\nFix: iterate over it.",
        ),
        (lambda: len(Stream(1)), "a Stream does not know how many samples it has"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError, ShapeError)) as caught:
        make()
    assert str(caught.value) == message


def test_a_stream_defines_iter():
    with pytest.raises(NotImplementedError, match="IterableDataset does not define __iter__"):
        iter(IterableDataset())
