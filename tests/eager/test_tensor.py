"""The Tensor: a cell that holds an immutable value."""

import copy
import pickle
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    GradientError,
    ShapeError,
    SharingError,
)

# Cells ----------------------------------------------------------------------------------------


def test_operators_make_new_tensors() -> None:
    x = hy.ones(3)
    y = x + 1
    assert y is not x and x.tolist() == [1.0] * 3


def test_in_place_operators_write_the_cell() -> None:
    x = hy.ones(3)
    name, before = x, x.detach()
    x += 2
    x *= 3
    x -= 1
    x /= 2
    assert x is name
    assert name.tolist() == [4.0] * 3
    assert before.tolist() == [1.0] * 3


def test_a_slice_is_a_value() -> None:
    x = hy.asarray([[1.0, 2.0], [3.0, 4.0]])
    row = x[0]
    row[0] = 9.0
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    x[0] = 7.0
    assert row.tolist() == [9.0, 2.0]
    assert x.tolist() == [[7.0, 7.0], [3.0, 4.0]]


def test_the_method_reshape_takes_sizes_one_by_one() -> None:
    x = hy.arange(6)
    for y in (x.reshape(2, 3), x.reshape((2, 3)), x.reshape(2, -1), x.reshape(shape=(2, 3))):
        assert y.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.reshape(6).shape == (6,) and hy.asarray(1.0).reshape(()).shape == ()
    assert hy.hybridize(lambda v: v.reshape(3, 2))(x).tolist() == x.reshape(3, 2).tolist()
    with pytest.raises(TypeError, match="shape"):
        x.reshape()
    with pytest.raises(hy.errors.ShapeError, match=r"cannot turn i64\[6\] into shape \[2, 2\]"):
        x.reshape(2, 2)


def test_a_reshaped_value_is_not_a_view() -> None:
    x = hy.zeros(4)
    y = hy.reshape(x, (2, 2))
    x[0] = 1.0
    y[1, 1] = 5.0
    assert x.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert y.tolist() == [[0.0, 0.0], [0.0, 5.0]]


def test_operands_of_another_size_do_not_change_the_dtype_of_a_cell() -> None:
    def written(x, count):
        x += hy.asarray([1.5, 1e40], dtype=hy.float64)
        count -= hy.asarray([1, 2**33], dtype=hy.int64)
        return x, count

    for function in (written, hy.hybridize(written)):
        x, count = hy.ones(2), hy.ones(2, dtype=hy.int32)
        found = function(x, count)
        assert found[0].dtype is hy.float32 and found[1].dtype is hy.int32
        assert x.tolist() == [2.5, float("inf")] and count.tolist() == [0, 1]
    count = hy.ones(2, dtype=hy.uint8)
    with pytest.raises(DTypeError, match=r"i64\[2\], cannot be written in place to u8\[2\]"):
        count += hy.ones(2, dtype=hy.int64)


def test_a_number_that_was_converted_elsewhere_is_what_it_is_beside_a_tensor() -> None:
    whole, truths = hy.asarray([1, 2]), hy.asarray([True, False])
    assert hy.asarray(0.5, dtype=hy.int64).item() == 0
    assert hy.asarray(3, dtype=hy.bool).item() is True
    for _ in range(2):
        assert (whole + 0.5).tolist() == hy.add(whole, 0.5).tolist() == [1.5, 2.5]
        assert hy.maximum(whole, 1.5).tolist() == [1.5, 2]
        assert hy.equal(truths, 3).tolist() == [False, False]


def test_functions_take_numbers_as_operators_do() -> None:
    for x in (hy.asarray([-1.0, 2.0]), hy.asarray([-1, 2]), hy.asarray([1, 2], dtype=hy.uint8)):
        for number in (1, 1.0, True, 0.0, -0.0, 2.5):
            for _ in range(3):
                assert hy.multiply(x, number).tolist() == (x * number).tolist()
                assert hy.multiply(x, number).dtype is (x * number).dtype
                assert hy.subtract(number, x).tolist() == (number - x).tolist()


def test_the_transpose_method_takes_what_numpy_and_pytorch_give_it() -> None:
    x = hy.zeros((2, 3, 4))
    assert x.transpose().shape == x.transpose(None).shape == (4, 3, 2)
    assert x.transpose((1, 0, 2)).shape == x.transpose(1, 0, 2).shape == (3, 2, 4)
    assert x.transpose(1, 2).shape == x.transpose(-1, -2).shape == (2, 4, 3)


def test_in_place_writes_do_not_break_gradients() -> None:
    x = hy.asarray([1.0, 2.0])
    x.requires_grad = True
    y = hy.exp(x)
    saved = y.numpy().copy()
    z = hy.sum(y * y)
    y *= 0  # the tape holds the value, not the cell
    z.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * saved * saved, rtol=1e-6)


def test_a_cell_keeps_its_type() -> None:
    x = hy.zeros((2, 3))
    with pytest.raises(ShapeError, match=r"f32\[4\] cannot be assigned to a tensor of f32\[2,3\]"):
        x.assign(hy.zeros(4))
    with pytest.raises(DTypeError, match=r"f64\[2,3\] cannot be assigned"):
        x.assign(hy.zeros((2, 3), dtype=hy.float64))
    with pytest.raises(ShapeError):
        x += hy.ones((5, 2, 3))
    count = hy.asarray([1, 2])
    with pytest.raises(DTypeError, match="A tensor keeps its type"):
        count += 0.5
    assert x.tolist() == [[0.0] * 3] * 2 and count.tolist() == [1, 2]


# Values ---------------------------------------------------------------------------------------


def test_numpy_shares_memory_and_is_read_only() -> None:
    x = hy.asarray([1.0, 2.0])
    array = x.numpy()
    assert np.shares_memory(array, np.asarray(x))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5
    del x
    assert array.tolist() == [1.0, 2.0]


def test_numpy_arrays_are_borrowed() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = hy.asarray(array)
    assert np.shares_memory(array, x.numpy())
    assert not np.shares_memory(array, hy.asarray(array, copy=True).numpy())
    del array
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


NUMPY_ARRAYS = {
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "every other": np.arange(8, dtype=np.float64)[::2],
    "backwards": np.arange(4, dtype=np.int64)[::-1],
    "big endian": np.arange(4).astype(">i4"),
    "unaligned": np.frombuffer(b"\0" + np.arange(4, dtype=np.float32).tobytes(), np.uint8)[1:].view(
        np.float32
    ),
    "empty": np.empty((0, 3), np.float32),
    "rank 0": np.array(3.5),
    "scalar": np.float32(2.5),
    "bool": np.array([True, False]),
    "Fortran order": np.asfortranarray(np.ones((3, 2), np.float32)),
}


@pytest.mark.parametrize("array", NUMPY_ARRAYS.values(), ids=NUMPY_ARRAYS)
def test_any_layout_of_numpy(array) -> None:
    x = hy.asarray(array)
    assert x.shape == np.shape(array)
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal((x if x.dtype is hy.bool else x + 0).numpy(), array)


def test_read_only_arrays_can_be_borrowed() -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    x = hy.asarray(array)
    x += 1
    assert x.tolist() == [2.0] * 3 and array.tolist() == [1.0] * 3


def test_copy_false_raises_when_a_copy_is_needed() -> None:
    with pytest.raises(SharingError, match="cannot be shared without a copy"):
        hy.asarray(np.ones((2, 3)).T, copy=False)
    with pytest.raises(SharingError, match="a list cannot be shared"):
        hy.asarray([1.0], copy=False)


def test_dlpack() -> None:
    x = hy.asarray([1.0, 2.0])
    array = np.from_dlpack(x)
    assert array.tolist() == [1.0, 2.0] and np.shares_memory(array, x.numpy())
    source = np.arange(3.0)
    assert np.shares_memory(hy.from_dlpack(source).numpy(), source)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0, 2.0], hy.float32),
        ([1, 2], hy.int64),
        ([True], hy.bool),
        ([1, 2.5], hy.float32),
        (3, hy.int64),
        (3.0, hy.float32),
        ([], hy.float32),
        ([np.float64(1)], hy.float64),
    ],
)
def test_default_dtypes(values, dtype) -> None:
    assert hy.asarray(values).dtype is dtype


BAD_VALUES = {
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "the list is ragged"),
    "text": (["a"], TypeError, "not numbers"),
    "object": ([object()], TypeError, "not a number"),
    "huge integer": ([2**70], TypeError, "does not fit int64"),
    "a set": ({1.0}, TypeError, "set is not a tensor"),
    "complex": (np.ones(2, np.complex64), TypeError, "no dtype"),
    "None": (None, TypeError, "NoneType is not a tensor"),
}


@pytest.mark.parametrize(("values", "error", "message"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_values(values, error, message) -> None:
    with pytest.raises(error, match=message):
        hy.asarray(values)


def test_numbers() -> None:
    x = hy.asarray([2.5])
    assert x.item() == 2.5 and float(x) == 2.5 and int(x) == 2 and bool(x)
    assert [10, 20, 30][hy.asarray(1)] == 20
    assert f"{x:.1f}" == "2.5"
    with pytest.raises(ArgumentError, match="item"):
        hy.ones(2).item()
    with pytest.raises(ArgumentError, match=r"the truth of f32\[2\] is ambiguous"):
        bool(hy.ones(2))
    with pytest.raises(ArgumentTypeError, match="is not an index"):
        [1][hy.asarray(1.0)]


def test_a_tensor_is_not_made_by_its_class() -> None:
    with pytest.raises(ArgumentTypeError, match="use hybrid\\.asarray"):
        hy.Tensor([1.0])


def test_python_protocols() -> None:
    x = hy.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert {x: "by identity"}[x] == "by identity"
    assert (x.ndim, x.size, x.nbytes, x.device) == (2, 4, 16, "cpu")
    assert x.T.tolist() == x.mT.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], dtype=float32)"
    with pytest.raises(TypeError, match="rank 0"):
        len(hy.asarray(1.0))
    with pytest.raises(TypeError, match="rank 0"):
        iter(hy.asarray(1.0))
    with pytest.raises(ShapeError, match="T is for matrices"):
        hy.ones(3).T  # noqa: B018


def test_numpy_leaves_operators_to_the_tensor() -> None:
    array, x = np.ones(3, np.float32), hy.ones(3)
    for made in (array + x, x + array, array * x, np.float32(2) * x, 2 * x, x @ array):
        assert isinstance(made, hy.Tensor)


def test_unknown_operands_get_python_type_errors() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        hy.ones(2) + "a"
    with pytest.raises(TypeError, match="unsupported operand"):
        object() * hy.ones(2)
    assert (hy.ones(2) == "a") is False
    assert (hy.ones(2) != None) is True  # noqa: E711


PROMOTION = [
    (hy.int64, hy.float32, hy.float32),
    (hy.int32, hy.int64, hy.int64),
    (hy.uint8, hy.int32, hy.int32),
    (hy.float32, hy.float64, hy.float64),
    (hy.bool, hy.int64, hy.int64),
    (hy.bool, hy.float32, hy.float32),
]


@pytest.mark.parametrize(("a", "b", "out"), PROMOTION)
def test_promotion(a, b, out) -> None:
    assert (hy.ones(2, dtype=a) + hy.ones(2, dtype=b)).dtype is out
    assert (hy.ones(2, dtype=b) * hy.ones(2, dtype=a)).dtype is out


SCALARS = [
    (hy.float32, 2, hy.float32),
    (hy.float32, 2.5, hy.float32),
    (hy.float64, 2.5, hy.float64),
    (hy.int32, 2, hy.int32),
    (hy.int64, 2.5, hy.float32),
    (hy.uint8, 2, hy.uint8),
    (hy.bool, 2, hy.int64),
    (hy.float32, True, hy.float32),
]


@pytest.mark.parametrize(("dtype", "number", "out"), SCALARS)
def test_python_numbers_are_weak(dtype, number, out) -> None:
    x = hy.ones(2, dtype=dtype)
    for _ in range(2):
        assert (x + number).dtype is out
        assert (number + x).dtype is out


def test_signed_zeros_are_not_confused() -> None:
    x = hy.zeros(1)
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit(hy.where(x < 1, zero, x).numpy())[0] == np.signbit(zero)
        assert np.signbit(hy.full(1, zero).numpy())[0] == np.signbit(zero)


def test_copies() -> None:
    x = hy.ones(2)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        other += 1
        assert x.tolist() == [1.0, 1.0] and other.tolist() == [2.0, 2.0]
    x.requires_grad = True
    assert copy.deepcopy(x).requires_grad


# Gradients on the tensor ------------------------------------------------------------------------


def test_requires_grad() -> None:
    x = hy.ones(2)
    assert not x.requires_grad and x.grad is None
    x.requires_grad = True
    assert (x * 2).requires_grad and not (x * 2).detach().requires_grad
    with hy.no_grad():
        assert not (x * 2).requires_grad
    x.requires_grad = False
    assert not (x * 2).requires_grad
    with pytest.raises(DTypeError, match="cannot require a gradient"):
        hy.asarray([1]).requires_grad = True


def test_grad_is_checked() -> None:
    x = hy.ones(2)
    with pytest.raises(GradientError, match="requires no gradient"):
        x.grad = hy.ones(2)
    x.requires_grad = True
    with pytest.raises(ArgumentTypeError, match="must be a tensor of that type"):
        x.grad = hy.ones(3)
    x.grad = hy.ones(2)
    hy.sum(x).backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_assignment_keeps_a_leaf_a_leaf() -> None:
    x = hy.ones(2)
    x.requires_grad = True
    hy.sum(x * x).backward()
    with hy.no_grad():
        x -= 0.5 * x.grad
    assert x.tolist() == [0.0, 0.0] and x.requires_grad
    x.grad = None
    hy.sum(x + 3).backward()
    assert x.grad.tolist() == [1.0, 1.0]


# Sizes ------------------------------------------------------------------------------------------


def test_memory_that_cannot_be_had() -> None:
    with pytest.raises(MemoryError, match="no memory for"):
        hy.zeros((2**20, 2**30)) + 1
    with pytest.raises(ShapeError, match="too large"):
        hy.zeros((2**40, 2**40))
    with pytest.raises(ShapeError, match="negative size"):
        hy.zeros((2, -1))
    with pytest.raises(ShapeError, match="at most 32 dimensions"):
        hy.zeros((1,) * 33)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (), (1, 1)])
def test_degenerate_shapes(shape) -> None:
    x = hy.ones(shape)
    assert (x + x).shape == shape
    assert hy.sum(x).item() == float(np.ones(shape).sum())
    assert hy.exp(x).numpy().shape == shape


@pytest.mark.parametrize("change", ["+= 0.5", "/= 2", "**= 0.5", "-= hy.ones(2)"])
def test_integers_in_place_name_the_dtype(change: str) -> None:
    names = {"hy": hy, "x": hy.asarray([1, 2])}
    with pytest.raises(DTypeError) as found:
        exec(f"x {change}", names)
    assert str(found.value).startswith(
        "the result, f32[2], cannot be written in place to i64[2]\nA tensor keeps its type.\n"
        "Fix: begin with x = x.astype(hybrid.float32), or write "
        "x.assign(y.astype(hybrid.int64)) for what y = x + ... is."
    )
    assert names["x"].tolist() == [1, 2]


def test_in() -> None:
    x = hy.asarray([[1.0, 2.0], [3.0, float("nan")]])
    assert 3 in x and 2.0 in x and hy.asarray(1.0) in x
    assert 4 not in x and float("nan") not in x and 1 not in x[:0]
    assert [1.0, 5.0] in x  # as NumPy: any of those that broadcast

    @hy.hybridize
    def function(x, number):
        if number in x:
            return x + 1
        return x if number not in x else x - 1

    for number in (3, 4):
        for given in (x, x * 0):
            wanted = given + 1 if number in given else given
            np.testing.assert_array_equal(function(given, number).numpy(), wanted.numpy())


# Threads -----------------------------------------------------------------------------------------

ROWS, THREADS = 8, 3


def _column(i: int) -> hy.Tensor:
    return hy.asarray(np.eye(THREADS, dtype="f4")[i] * np.ones((ROWS, 1), "f4"))


def _iadd(x: hy.Tensor, i: int) -> None:
    x += _column(i) * (i + 1)


def _of_key(x: hy.Tensor, key: object, i: int) -> None:
    x[key] = i + 1.0


WRITES: dict[str, Callable[[hy.Tensor, int], object]] = {
    "slice": lambda x, i: _of_key(x, (slice(None), i), i),
    "elements": lambda x, i: [_of_key(x, (row, i), i) for row in range(ROWS)],
    "mask": lambda x, i: _of_key(x, _column(i) > 0, i),
    "indices": lambda x, i: _of_key(x, (hy.arange(ROWS), i), i),
    "+=": _iadd,
    "add_": lambda x, i: x.add_(_column(i) * (i + 1)),
    "masked_fill_": lambda x, i: x.masked_fill_(_column(i) > 0, i + 1),
}


@pytest.mark.parametrize("how", WRITES)
def test_threads_that_write_parts_of_one_tensor_lose_none(how: str) -> None:
    write, want = WRITES[how], np.tile(np.arange(1.0, THREADS + 1), (ROWS, 1))
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(15):
            x = hy.zeros((ROWS, THREADS))
            start = threading.Barrier(THREADS)

            def run(i: int, x: hy.Tensor = x, start: threading.Barrier = start) -> None:
                start.wait()
                write(x, i)

            threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            np.testing.assert_array_equal(x.numpy(), want)
    finally:
        sys.setswitchinterval(switch)
