"""Eager execution: launches are remembered within bounds, operands are prepared, threads agree."""

import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid import ops
from hybrid.eager import execution as eager
from hybrid.eager.execution import MAX_SCALARS, as_tensor, scalar
from hybrid.eager.launch import MAX_LAUNCHES
from hybrid.eager.tensor import SCALARS
from hybrid.errors import ArgumentTypeError, DTypeError, OutOfRangeError
from hybrid.ir import get_op
from tests.helpers import leaf, same, tensor
from tests.staging.harness import describe

# Launches -----------------------------------------------------------------------------------------


def test_a_launch_is_made_once_per_types_and_attributes() -> None:
    op = get_op("sum")
    x = tensor(7, 11, 2, 3, 2)  # of a rank that no other test has met, by whose launch it would be
    hy.sum(x, axis=0)
    made = len(op.launches)
    for _ in range(3):
        hy.sum(tensor(7, 11, 2, 3, 2, seed=1), axis=0)
    assert len(op.launches) == made
    hy.sum(x, axis=1)
    assert len(op.launches) == made + 1
    hy.sum(tensor(7, 12, 2, 3, 2), axis=0)  # by the launch for all sizes
    assert len(op.launches) == made + 1


def test_launches_are_bounded() -> None:
    op = get_op("exp")
    for n in range(MAX_LAUNCHES + 100):
        assert hy.exp(hy.zeros((1, n))).shape == (1, n)
    assert len(op.launches) <= MAX_LAUNCHES
    assert hy.exp(hy.zeros((1, 3))).tolist() == [[1.0] * 3]


def test_scalars_are_bounded_and_right() -> None:
    x = hy.zeros(1)
    for n in range(MAX_SCALARS + 100):
        assert (x + n).item() == n
    assert len(SCALARS) <= MAX_SCALARS
    assert (hy.ones(1, dtype=hy.int64) + True).item() == 2
    assert (hy.ones(1) * 2).item() == (hy.ones(1) * 2.0).item() == 2.0


def test_scalars_of_one_value_and_several_types() -> None:
    """1, 1.0 and True are equal, and yet promote differently."""
    x = hy.asarray([1, 2])
    for _ in range(2):
        assert [(x * k).dtype for k in (1, True, 1.0)] == [hy.int64, hy.int64, hy.float32]


@pytest.mark.parametrize("dtype", [hy.float16, hy.bfloat16])
def test_numbers_beside_storage_dtypes_are_of_float32(dtype) -> None:
    """Whether one has been made a tensor of that dtype before or not."""
    x = hy.asarray([0.20996, 3.0, -1.0], dtype=dtype)
    first = describe(x - 1 / 3), describe(x * 0.1)
    for number in (1 / 3, 0.1):
        hy.asarray(number, dtype=dtype), scalar(number, dtype)
    assert (describe(x - 1 / 3), describe(x * 0.1)) == first
    wide = hy.astype(x, hy.float32)
    assert first == tuple([describe(hy.astype(t, dtype)) for t in (wide - 1 / 3, wide * 0.1)])


def test_nan_and_zeros_are_not_mixed_up() -> None:
    for value in (0.0, -0.0, float("nan"), float("inf")):
        made = scalar(value, hy.float32).numpy()
        assert np.signbit(made) == np.signbit(value)
        np.testing.assert_array_equal(made, np.float32(value))


def test_an_alias_shares_the_value_and_nobody_can_tell() -> None:
    x = tensor(4, 6)
    turned = hy.reshape(x, (6, 4))
    assert np.shares_memory(x.numpy(), turned.numpy())
    before = x.numpy().copy()
    turned += 1
    turned[0, 0] = 9.0
    assert x.numpy().tobytes() == before.tobytes()


# Operands -----------------------------------------------------------------------------------------

OPERANDS = [
    (np.float32(2), hy.float32),
    (np.ones(3, np.float32), hy.float32),
    (np.ones(3), hy.float64),
    ([1.0, 2.0, 3.0], hy.float32),
    ((1, 2, 3), hy.float32),
    (2, hy.float32),
    (2.5, hy.float32),
    (True, hy.float32),
    (np.int64(2), hy.float32),
]


@pytest.mark.parametrize(("operand", "dtype"), OPERANDS)
def test_operands_that_are_not_tensors(operand, dtype) -> None:
    x = hy.ones(3)
    plain = np.asarray(operand, dtype.numpy)
    for found in (hy.add(x, operand), hy.add(operand, x), x + operand, operand + x):
        assert found.dtype is dtype
        np.testing.assert_array_equal(found.numpy(), np.broadcast_to(1 + plain, 3))


def test_numbers_alone() -> None:
    assert hy.add(1, 2).dtype is hy.int64 and hy.add(1, 2).item() == 3
    assert hy.add(1, 2.5).dtype is hy.float32
    assert hy.divide(1, 2).item() == 0.5 and hy.exp(0).item() == 1.0
    assert hy.maximum(True, 2).dtype is hy.int64


def test_operands_that_cannot_be() -> None:
    with pytest.raises(ArgumentTypeError, match="add does not take operands of type str, NoneType"):
        hy.add("a", None)
    with pytest.raises(ArgumentTypeError, match="str is not a tensor"):
        hy.add(hy.ones(1), "a")
    with pytest.raises(DTypeError, match="does not fit uint8"):
        hy.ones(1, dtype="uint8") + 300


def test_as_tensor_keeps_tensors() -> None:
    x = hy.ones(2)
    assert as_tensor(x) is x and as_tensor(2.0) is as_tensor(2.0)


# Cells --------------------------------------------------------------------------------------------


def test_assignment_shares_the_value_not_the_cell() -> None:
    a, b = hy.ones(3), hy.zeros(3)
    a.assign(b)
    b += 1
    assert a.tolist() == [0.0] * 3 and b.tolist() == [1.0] * 3
    a.assign([1.0, 2.0, 3.0])
    assert a.tolist() == [1.0, 2.0, 3.0]


def test_assignment_of_a_record() -> None:
    w, cell = leaf(3), hy.zeros(3)
    cell.assign(w * 2)
    assert cell.requires_grad
    hy.sum(cell * 3).backward()
    assert w.grad.tolist() == [6.0] * 3
    cell.assign(hy.ones(3))
    assert not cell.requires_grad
    w.assign(hy.ones(3))
    assert w.requires_grad  # a leaf stays one


# Failure and threads
# --------------------------------------------------------------------------------


def test_a_failed_op_names_its_line_and_leaves_nothing_behind() -> None:
    x = tensor(3)
    for index in (hy.asarray([0, 3]), hy.asarray([-4])):
        with pytest.raises(OutOfRangeError):
            hy.take(x, index, axis=0)
    assert same(hy.take(x, hy.asarray([2, -3]), axis=0), hy.take(x, hy.asarray([2, 0]), axis=0))


def test_threads_make_launches_at_the_same_time() -> None:
    ops.multiply.launches.clear()
    expected = {n: hy.sum(hy.ones(n) * 3).item() for n in range(1, 60)}
    ops.multiply.launches.clear()
    wrong = []

    def work() -> None:
        for n, value in expected.items():
            if hy.sum(hy.ones(n) * 3).item() != value:
                wrong.append(n)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_recording_is_a_threads_own_matter() -> None:
    w = leaf(2)
    seen = []
    with hy.no_grad():
        t = threading.Thread(target=lambda: seen.append((w * 2).requires_grad), daemon=True)
        t.start()
        t.join()
        assert not (w * 2).requires_grad
    assert seen == [True]


def test_another_thread_is_eager_while_one_captures() -> None:
    inside, done = threading.Lock(), threading.Lock()
    inside.acquire()
    done.acquire()
    seen = []

    def function(x):
        inside.release()
        assert done.acquire(timeout=10)
        return x + 1

    def other() -> None:
        assert inside.acquire(timeout=10)
        seen.append((hy.ones(2) * 3).tolist())
        done.release()

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    assert hy.hybridize(function)(hy.ones(1)).tolist() == [2.0]
    thread.join()
    assert seen == [[3.0, 3.0]]
    assert eager.EAGER.traces is False
