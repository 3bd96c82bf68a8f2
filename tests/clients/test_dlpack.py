"""DLPack to and from NumPy, PyTorch and JAX: the same memory, both ways."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import HybridError

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float32", "float64"]  # fmt: skip


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    x = hy.from_dlpack(array)
    assert x.dtype is hy.asarray(array).dtype and address(x.numpy()) == address(array)
    back = np.from_dlpack(x)
    assert back.dtype == array.dtype and address(back) == address(array)
    np.testing.assert_array_equal(back, array)


def test_a_graph_takes_shared_memory():
    array = np.arange(6.0)
    f = hy.hybridize(lambda x: x * 2.0)
    np.testing.assert_array_equal(f(hy.from_dlpack(array)).numpy(), array * 2)
    array += 1
    np.testing.assert_array_equal(f(hy.from_dlpack(array)).numpy(), array * 2)


def test_what_is_shared_outlives_its_maker():
    x = hy.from_dlpack(np.arange(1000.0) + 1)
    view = np.from_dlpack(x)
    del x
    assert view.sum() == 500500


def test_strides_are_copied_and_copy_false_says_so():
    array = np.arange(12.0).reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(hy.from_dlpack(array).numpy(), array)
    with pytest.raises(HybridError, match="without a copy"):
        hy.from_dlpack(array, copy=False)


def test_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6.0)
    x = hy.from_dlpack(tensor)
    assert address(x.numpy()) == tensor.data_ptr()
    assert torch.from_dlpack(x).data_ptr() == tensor.data_ptr()


def test_jax():
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(6.0)
    x = hy.from_dlpack(array)
    assert address(x.numpy()) == array.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(x)), array)


class Foreign:
    """A tensor of another library, as far as DLPack goes."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


SHAPES = [(2, 3), (0, 3), ()]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bfloat16_by_way_of_a_capsule(shape):
    x = hy.reshape(hy.arange(6.0)[: math.prod(shape)], shape).astype(hy.bfloat16)
    for made in (hy.from_dlpack(Foreign(x)), hy.asarray(Foreign(x), copy=False)):
        assert made.type is x.type
        assert made.tolist() == x.tolist()


def test_numpy_has_no_bfloat16():
    with pytest.raises((BufferError, RuntimeError), match="dtype"):
        np.from_dlpack(hy.ones(3, dtype=hy.bfloat16))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bfloat16_of_torch(shape):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6.0)[: math.prod(shape)].reshape(shape).to(torch.bfloat16)
    ours = hy.from_dlpack(theirs)
    assert ours.dtype is hy.bfloat16
    assert ours.tolist() == theirs.tolist()
    back = torch.from_dlpack(ours)
    assert back.dtype is torch.bfloat16
    assert torch.equal(back, theirs)


def test_bfloat16_of_torch_is_shared_and_may_be_strided():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6.0).reshape(2, 3).to(torch.bfloat16)
    ours = hy.from_dlpack(theirs)
    theirs[0, 0] = 7
    assert ours.tolist()[0][0] == 7
    assert hy.asarray(theirs.T).tolist() == theirs.T.tolist()
    assert hy.asarray(theirs[:, ::2]).tolist() == theirs[:, ::2].tolist()
