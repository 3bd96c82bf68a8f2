"""Parameter: a tensor of its own that asks for a gradient."""

import copy
import pickle

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import DTypeError
from hybrid.nn import Parameter


def test_is_a_tensor_that_requires_a_gradient():
    p = Parameter([[1.0, 2.0]])
    assert isinstance(p, hy.Tensor)
    assert p.requires_grad and p.grad is None
    assert (p.shape, p.dtype) == ((1, 2), hy.float32)
    assert repr(p).startswith("Parameter containing:\ntensor([[1., 2.]]")


def test_can_be_frozen():
    assert not Parameter([1.0], requires_grad=False).requires_grad


def test_integers_have_no_gradient():
    with pytest.raises(DTypeError, match="i64\\[2\\] cannot require a gradient"):
        Parameter([1, 2])
    assert Parameter([1, 2], requires_grad=False).dtype is hy.int64


def test_values_are_copied():
    array = np.ones(3, np.float32)
    tensor = hy.asarray(array.copy())
    from_array, from_tensor = Parameter(array), Parameter(tensor)
    array[:] = 5
    tensor.assign([5.0, 5.0, 5.0])
    assert from_array.tolist() == from_tensor.tolist() == [1.0, 1.0, 1.0]


def test_results_are_plain_tensors_with_a_history():
    p = Parameter([1.0, 2.0])
    y = p * 3
    assert type(y) is hy.Tensor
    hy.sum(y).backward()
    assert p.grad.tolist() == [3.0, 3.0]


def test_assigning_keeps_the_leaf():
    p = Parameter([1.0])
    with hy.no_grad():
        p.assign(p * 2)
    assert p.requires_grad
    hy.sum(p * 3).backward()
    assert p.grad.tolist() == [3.0]


@pytest.mark.parametrize("remake", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_copies_are_parameters_of_their_own(remake, requires_grad):
    p = Parameter([1.0, 2.0], requires_grad)
    twin = remake(p)
    assert type(twin) is Parameter and twin.requires_grad is requires_grad
    twin.assign([9.0, 9.0])
    assert p.tolist() == [1.0, 2.0]
