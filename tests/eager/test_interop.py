"""asarray and from_dlpack: what is shared, what is copied, what every kind of object becomes."""

import array
import gc
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, SharingError
from hybrid.memory import native
from tests.helpers import leaf, same


class WithArray:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class WithDLPack:
    """An array of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


OBJECTS = {
    "a bool": (True, "bool[]", True),
    "an int": (3, "i64[]", 3),
    "a float": (2.5, "f32[]", 2.5),
    "the smallest int": (-(2**63), "i64[]", -(2**63)),
    "a list": ([1, 2], "i64[2]", [1, 2]),
    "a tuple of lists": (([1.0], [2.0]), "f32[2,1]", [[1.0], [2.0]]),
    "bools and ints": ([True, 2], "i64[2]", [1, 2]),
    "bools, ints and floats": ([True, 2, 0.5], "f32[3]", [1.0, 2.0, 0.5]),
    "empty lists": ([[], []], "f32[2,0]", [[], []]),
    "NumPy scalars": ([np.float64(1.0), 2.0], "f64[2]", [1.0, 2.0]),
    "NumPy's int32": ([np.int32(1), np.int32(2)], "i32[2]", [1, 2]),
    "tensors": ([hy.ones(2), hy.zeros(2)], "f32[2,2]", [[1.0, 1.0], [0.0, 0.0]]),
    "arrays in a list": ([np.ones(2, np.float32)] * 2, "f32[2,2]", [[1.0, 1.0], [1.0, 1.0]]),
    "an array": (np.array([[1, 2]]), "i64[1,2]", [[1, 2]]),
    "a NumPy bool": (np.bool_(True), "bool[]", True),
    "__array__": (WithArray(np.ones(2)), "f64[2]", [1.0, 1.0]),
    "__dlpack__": (WithDLPack(np.arange(3.0)), "f64[3]", [0.0, 1.0, 2.0]),
    "a bytearray": (bytearray(b"ab"), "u8[2]", [97, 98]),
    "bytes": (b"ab", "u8[2]", [97, 98]),
    "array.array": (array.array("i", [1, 2]), "i32[2]", [1, 2]),
    "a memoryview": (memoryview(b"ab"), "u8[2]", [97, 98]),
}


@pytest.mark.parametrize(("obj", "type_", "values"), OBJECTS.values(), ids=OBJECTS)
def test_what_becomes_of_an_object(obj, type_, values) -> None:
    made = hy.asarray(obj)
    assert str(made.type) == type_ and made.tolist() == values
    traced = hy.hybridize(lambda: hy.asarray(obj))
    assert str(traced().type) == type_ and traced().tolist() == values


REFUSED = {
    "None": (None, ArgumentTypeError),
    "a string": ("1", ArgumentTypeError),
    "complex": (1j, ArgumentTypeError),
    "a range": (range(3), ArgumentTypeError),
    "a generator": ((i for i in range(3)), ArgumentTypeError),
    "a dict": ({}, ArgumentTypeError),
    "None in a list": ([None], ArgumentTypeError),
    "strings in a list": (["1"], ArgumentTypeError),
    "ragged": ([[1], [1, 2]], ShapeError),
    "too large": (2**63, DTypeError),
    "too large in a list": ([2**64], DTypeError),
    "too small": (-(2**63) - 1, DTypeError),
    "an array of strings": (np.array(["a"]), DTypeError),
    "an array of objects": (np.array([None]), DTypeError),
    "complex64": (np.ones(2, np.complex64), DTypeError),
}


@pytest.mark.parametrize(("obj", "error"), REFUSED.values(), ids=REFUSED)
def test_what_becomes_no_tensor(obj, error) -> None:
    with pytest.raises(error):
        hy.asarray(obj)


def test_numbers_in_lists_keep_their_bits_in_the_dtype_asked_for() -> None:
    values = [0.1, 16777217.0, 1e300]
    assert hy.asarray(values, dtype=hy.float64).tolist() == values
    assert hy.asarray([2**64 - 1, 3], dtype=hy.uint64).tolist() == [2**64 - 1, 3]
    add = hy.hybridize(lambda x: x + hy.asarray(values, dtype=hy.float64))
    assert add(hy.zeros(3, dtype=hy.float64)).tolist() == values
    with pytest.raises(DTypeError, match="does not fit int64"):
        hy.asarray([2**63])


def test_a_dtype_can_be_asked_for() -> None:
    assert hy.asarray([1, 2], dtype="f64").dtype is hy.float64
    assert hy.asarray(1, dtype=bool).tolist() is True
    assert hy.asarray(np.int8([1, 2]), dtype=hy.int64).tolist() == [1, 2]  # a dtype we lack
    assert hy.asarray(np.float16([1.5]), dtype="f32").tolist() == [1.5]
    assert hy.asarray([np.nan, 0.0], dtype=hy.bool).tolist() == [True, False]
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        hy.asarray(300, dtype="uint8")


@pytest.mark.parametrize("dtype", [hy.uint8, hy.int32, hy.int64])
@pytest.mark.parametrize("size", [10, 1000])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_floats_become_integers_by_the_rule_of_cast(dtype, size, source) -> None:
    values = np.array([1.9, -1.9, 300.0, -300.0, 3e9, -1e30, 1e30, np.nan, np.inf, 0.0], source)
    values = np.resize(values, size)
    made = hy.asarray(values, dtype=dtype)
    assert made.tolist() == hy.asarray(values).astype(dtype).tolist()
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    assert made.tolist()[5:8] == [low, high, 0]


def test_what_overflows_is_infinite() -> None:
    """Without a warning, which the tests would raise."""
    for made in (
        hy.asarray(1e300),
        hy.asarray([1e300])[0],
        hy.asarray(np.full(2000, 1e300), dtype=hy.float32)[0],
        hy.asarray(np.array([1e300]), dtype=hy.float32)[0],
        (hy.ones(1) * 1e300)[0],
    ):
        assert made.item() == np.inf


# Sharing ------------------------------------------------------------------------------------------


def test_arrays_are_shared_and_kept_alive() -> None:
    source = np.ones(1000, np.float32)
    made = hy.asarray(source)
    assert np.shares_memory(made.numpy(), source)
    alive = weakref.ref(source)
    del source
    gc.collect()
    assert alive() is not None and made.tolist() == [1.0] * 1000
    del made
    gc.collect()
    assert alive() is None


def test_a_tensor_is_written_without_its_lender() -> None:
    source = np.ones(3, np.float32)
    made = hy.asarray(source)
    made += 1
    made[0] = 5.0
    assert source.tolist() == [1.0] * 3 and made.tolist() == [5.0, 2.0, 2.0]


def test_copies() -> None:
    source = np.ones(3, np.float32)
    made = hy.asarray(source, copy=True)
    source[0] = 9.0
    assert made.tolist() == [1.0] * 3
    assert np.shares_memory(hy.asarray(source, copy=False).numpy(), source)
    for array_ in (source[::2], source.astype(">f4"), np.ones((2, 3)).T):
        with pytest.raises(SharingError, match="cannot be shared without a copy"):
            hy.asarray(array_, copy=False)
    with pytest.raises(SharingError, match=r"f32\[2\] as float64 cannot be shared"):
        hy.asarray(hy.ones(2), dtype=hy.float64, copy=False)


LENT = {
    "a bytearray": lambda array: bytearray(array.tobytes()),
    "a memoryview": memoryview,
    "__dlpack__": lambda array: WithDLPack(array),
    "__array__": lambda array: WithArray(array),
}


@pytest.mark.parametrize("lend", LENT.values(), ids=LENT)
def test_memory_of_other_objects_is_shared_or_copied(lend) -> None:
    obj = lend(np.array([1, 2, 3], np.uint8))
    memory = obj.array if isinstance(obj, (WithArray, WithDLPack)) else np.frombuffer(obj, np.uint8)
    shared, copied = hy.asarray(obj, copy=False), hy.asarray(obj, copy=True)
    assert np.shares_memory(shared.numpy(), memory)
    assert not np.shares_memory(copied.numpy(), memory) and copied.tolist() == [1, 2, 3]
    assert np.shares_memory(hy.asarray(obj).numpy(), memory)
    with pytest.raises(SharingError, match="of another dtype"):
        hy.asarray(obj, dtype=hy.float32, copy=False)


UNSHARED = {
    "a number": (1.5, "a float cannot be shared without a copy"),
    "a list": ([1.0], "a list cannot be shared without a copy"),
    "a NumPy scalar": (np.float32(1), "a float32 cannot be shared without a copy"),
    "an object": (object(), "a object cannot be shared without a copy"),
    "bfloat16 of float64": ((np.ones(2), "bfloat16"), "of another dtype"),
    "no elements of another dtype": ((np.ones((0, 2)), "float32"), "of another dtype"),
}


@pytest.mark.parametrize(("obj", "text"), UNSHARED.values(), ids=UNSHARED)
def test_what_cannot_be_shared_is_a_value_error_eagerly_and_captured(obj, text) -> None:
    obj, dtype = obj if isinstance(obj, tuple) else (obj, None)

    def f(x):
        return x + hy.asarray(obj, dtype=dtype, copy=False)

    for call in (f, hy.hybridize(f)):
        with pytest.raises(ValueError, match=text) as caught:
            call(hy.ones(2))
        assert isinstance(caught.value, SharingError)


def test_captured_arrays_are_shared_as_eagerly() -> None:
    array_ = np.arange(3, dtype=np.float32)

    def f(x):
        return x + hy.asarray(array_, copy=False)

    assert same(hy.hybridize(f)(hy.ones(3)), f(hy.ones(3)))


def test_tensors_pass_through() -> None:
    x = hy.ones(2)
    assert hy.asarray(x) is x and hy.asarray(x, dtype=hy.float32) is x
    copied = hy.asarray(x, copy=True)
    copied += 1
    assert x.tolist() == [1.0, 1.0]
    assert hy.asarray(leaf(2), dtype=hy.float64).requires_grad


def test_numbers_are_cells_of_their_own() -> None:
    a, b = hy.asarray(1.0), hy.asarray(1.0)
    a += 1
    assert (a.item(), b.item(), hy.asarray(1.0).item(), (hy.asarray(3.0) * 1.0).item()) == (
        2,
        1,
        1,
        3,
    )


def test_devices() -> None:
    assert hy.asarray(1.0, device="cpu").device == "cpu"
    for make in (hy.asarray, hy.from_dlpack):
        with pytest.raises(ArgumentError, match="no device 'gpu'"):
            make(np.ones(1), device="gpu")


# DLPack -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)])
def test_dlpack_there_and_back(dtype, shape) -> None:
    source = np.ones(shape, dtype)
    made = hy.from_dlpack(source)
    back = np.from_dlpack(made)
    assert made.dtype.name == dtype and back.dtype == source.dtype and back.shape == shape
    np.testing.assert_array_equal(back, source)
    if source.size:
        assert np.shares_memory(made.numpy(), source)


def test_from_dlpack() -> None:
    x = hy.ones(3)
    other = hy.from_dlpack(x)
    other += 1
    assert x.tolist() == [1.0] * 3
    turned = np.arange(6.0).reshape(2, 3).T
    assert hy.from_dlpack(turned).tolist() == turned.tolist()
    with pytest.raises(BufferError, match="cannot be shared"):
        hy.from_dlpack(turned, copy=False)
    with pytest.raises(ArgumentTypeError, match="list does not speak DLPack"):
        hy.from_dlpack([1.0])


def test_nobody_writes_through_dlpack() -> None:
    """A tensor's value never changes: what is exported is read-only, or a copy."""
    x = hy.ones(3)
    shared = np.from_dlpack(x)
    with pytest.raises(ValueError, match="read-only"):
        shared[0] = 5.0

    x.__dlpack__()  # to those who cannot be told what is read-only goes a copy, and no error


def test_dlpack_while_tracing() -> None:
    with pytest.raises(TypeError, match="DLPack of a traced value"):
        hy.hybridize(lambda x: np.from_dlpack(x))(hy.ones(2))


# In a capture -------------------------------------------------------------------------------------


def test_constants_of_a_capture() -> None:
    table = np.arange(3, dtype=np.float32)

    def function(x):
        return x + hy.asarray(table) + hy.asarray([1.0, 2.0, 3.0]) + hy.asarray(np.float32(1.0))

    hybridized = hy.hybridize(function)
    for _ in range(2):
        assert hybridized(hy.zeros(3)).tolist() == function(hy.zeros(3)).tolist() == [2, 4, 6]


def test_lists_with_tensors_are_stacked() -> None:
    def function(x):
        mixed = hy.asarray([x[0], 2.0, [x[1], x[2]][1]])
        return mixed, hy.asarray([[x[0], 1], [2, x[1]]]), hy.asarray([x, x], dtype=hy.float64)

    x = leaf(3)
    for eager, planned in zip(function(x), hy.hybridize(function)(x), strict=True):
        assert same(eager, planned) and eager.requires_grad and planned.requires_grad
    assert function(x)[0].dtype is hy.float32  # Python's numbers are weak
    hy.sum(function(x)[1] ** 2).backward()
    assert x.grad.tolist() == [2 * x[0].item(), 2 * x[1].item(), 0.0]


def test_large_arrays_are_copied_in_the_allocator() -> None:
    before = native.memory()["live_bytes"]
    made = hy.asarray(np.ones((500, 500)).T)
    assert native.memory()["live_bytes"] - before >= made.nbytes
    del made
    gc.collect()
    assert native.memory()["live_bytes"] - before < 1000


@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.int64(2), np.bool_(True)])
def test_full_of_a_scalar_of_numpys(scalar) -> None:
    def f():
        return hy.full((2,), scalar), hy.full((2,), scalar, dtype=hy.float32)

    for own, told in (f(), hy.hybridize(f)()):
        assert own.dtype.name == scalar.dtype.name and own.tolist() == [scalar.item()] * 2
        assert told.dtype is hy.float32 and told.tolist() == [float(scalar)] * 2
