"""TensorDataset: slices of tensors of one length."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import Dataset, TensorDataset
from hybrid.errors import ArgumentError, ShapeError


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
