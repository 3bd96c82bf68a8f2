"""Queues of batches: rows in order, ahead of time or not, bad input, threads, forks, no memory."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.control_specs import X, feeding, keeping, lending
from tests.csrc.specs import NativeFailure, Spec, find, last_error, live_bytes, run
from tests.threads import thread_count, thread_count_within

SMALL, LARGE = 3, 40_000  # floats in a row: batches of the second kind are made ahead of time


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    gc.collect()
    lib.hyb_memory_trim()
    before = live_bytes(), thread_count()
    yield
    lib.hyb_fail_allocation(0)
    gc.collect()
    assert live_bytes() <= before[0]  # less: what others had left went meanwhile
    assert thread_count_within(before[1]) <= before[1]


class Queue:
    """A queue of two columns: floats, and the number of each row."""

    def __init__(self, rows: int, width: int, order: np.ndarray, batch: int) -> None:
        self.x = np.random.default_rng(rows).random((rows, width), np.float32)
        self.y = np.arange(rows)
        self.order, self.batch = np.ascontiguousarray(order, np.int64), batch
        columns = [column(self.x, rows, width * 4), column(self.y, rows, 8)]
        self.number = opened(columns, self.order, batch)
        self.at = 0

    def next(self) -> tuple[np.ndarray, np.ndarray]:
        rows = min(self.batch, len(self.order) - self.at * self.batch)
        found = np.empty((rows, self.x.shape[1]), np.float32), np.empty(rows, np.int64)
        assert asked(self.number, *found) == lib.HYB_OK, last_error()
        self.at += 1
        return found

    def expected(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = self.order[at * self.batch : (at + 1) * self.batch]
        return self.x[numbers], numbers

    def close(self) -> None:
        lib.hyb_queue_close(self.number)


def column(data, rows, nbytes, made=None, whole=ffi.NULL, rest=ffi.NULL):
    made = nbytes if made is None else made
    return ffi.cast("void *", ffi.from_buffer(data)), rows, nbytes, made, whole, rest


def opened(columns, order, batch):
    number = ffi.new("int64_t *")
    made = ffi.new("hyb_column[]", columns)
    status = lib.hyb_queue_open(
        made, len(columns), ffi.from_buffer("int64_t[]", order), len(order), batch, number
    )
    return number[0] if status == lib.HYB_OK else -status


def asked(number, *arrays):
    pointers = [ffi.cast("void *", ffi.from_buffer(a)) for a in arrays]
    sizes = [a.nbytes for a in arrays]
    return lib.hyb_queue_next(number, pointers, sizes, len(arrays))


@pytest.mark.parametrize("width", [SMALL, LARGE])
@pytest.mark.parametrize("order", ["in order", "shuffled", "with gaps"])
def test_batches_are_rows_in_order(width, order):
    rows = 57
    numbers = {
        "in order": np.arange(rows),
        "shuffled": np.random.default_rng(1).permutation(rows),
        "with gaps": np.r_[0:20, 19, 3:40:3, 50:57, 50:57],
    }[order]
    queue = Queue(rows, width, numbers, 5)
    for at in range(-(-len(numbers) // 5)):
        assert lib.hyb_queue_taken(queue.number) == at
        for found, expected in zip(queue.next(), queue.expected(at), strict=True):
            np.testing.assert_array_equal(found, expected)
    over = np.empty((5, width), np.float32), np.empty(5, np.int64)
    assert asked(queue.number, *over) == lib.HYB_BAD_INDEX
    assert "the queue has no batch" in last_error()
    queue.close()
    assert lib.hyb_queue_taken(queue.number) == -1


def test_queues_are_closed_at_any_time():
    for taken in range(4):
        queue = Queue(40, LARGE, np.arange(40), 4)
        for _ in range(taken):
            queue.next()
        queue.close()
        queue.close()


@pytest.mark.parametrize("number", [0, -1, 2**62, -(2**63), 2**63 - 1])
def test_unknown_numbers_are_refused(number):
    assert asked(number, np.empty(1)) == lib.HYB_BAD_ARGUMENT
    assert last_error() == f"no queue {number} is open"
    assert lib.hyb_queue_taken(number) == -1
    lib.hyb_queue_close(number)


def test_other_sizes_are_refused_and_take_nothing():
    queue = Queue(10, SMALL, np.arange(10), 4)
    x, y = np.empty((4, SMALL), np.float32), np.empty(4, np.int64)
    for arrays in ((x,), (x, y, y), (x[:3], y), (x, np.empty(5, np.int64)), (y, x)):
        assert asked(queue.number, *arrays) == lib.HYB_BAD_ARGUMENT
        assert "is of another size" in last_error()
    assert queue.next()[1].tolist() == [0, 1, 2, 3]
    queue.close()


@pytest.mark.parametrize(
    ("rows", "nbytes", "order", "batch", "message"),
    [
        ((4, 4), 8, [0, 4], 2, "row 4 of 4 in the order"),
        ((4, 4), 8, [0, -1], 2, "row -1 of 4 in the order"),
        ((4, 5), 8, [0], 2, "column 1 of a queue: 5 rows of 8 bytes"),
        ((4, 4), -8, [0], 2, "column 0 of a queue: 4 rows of -8 bytes"),
        ((4, 4), 2**60, [0], 2**10, "column 0 of a queue"),
        ((4, 4), 8, [0], 0, "a queue of 2 columns, 1 rows, 0 in a batch"),
        ((), 8, [0], 1, "a queue of 0 columns"),
        ((4,) * 65, 8, [0], 1, "a queue of 65 columns"),
    ],
)
def test_bad_queues_are_refused(rows, nbytes, order, batch, message):
    data = np.zeros((8, 8))
    columns = [column(data, n, nbytes) for n in rows]
    assert opened(columns, np.asarray(order, np.int64), batch) < 0
    assert message in last_error()


def test_a_queue_without_memory_is_none_and_without_a_ring_makes_batches_when_asked():
    data = np.zeros((8, 50_000))
    columns = [column(data, 8, 400_000)]
    for which in (1, 2):
        lib.hyb_fail_allocation(which)
        assert opened(columns, np.arange(8), 2) == -lib.HYB_NO_MEMORY
    lib.hyb_fail_allocation(3)
    queue = Queue(20, LARGE, np.arange(20)[::-1], 4)
    lib.hyb_fail_allocation(0)
    for at in range(5):
        np.testing.assert_array_equal(queue.next()[0], queue.expected(at)[0])
    queue.close()


def test_a_second_thread_that_asks_is_refused_or_waits_its_turn():
    queue = Queue(4000, SMALL, np.arange(4000), 2)
    found: list[list[int]] = [[], []]

    def ask(which: int) -> None:
        x, y = np.empty((2, SMALL), np.float32), np.empty(2, np.int64)
        while (status := asked(queue.number, x, y)) != lib.HYB_BAD_INDEX:
            if status == lib.HYB_OK:
                found[which] += y.tolist()

    threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found[0] + found[1]) == list(range(4000))
    queue.close()


def test_closing_from_another_thread_ends_whoever_asks():
    for _ in range(20):
        queue = Queue(400, LARGE // 4, np.arange(400), 8)
        ready, statuses = threading.Event(), []

        def ask(number=queue.number, ready=ready, statuses=statuses) -> None:
            x, y = np.empty((8, LARGE // 4), np.float32), np.empty(8, np.int64)
            while (status := asked(number, x, y)) == lib.HYB_OK:
                ready.set()
            ready.set()
            statuses.append(status)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        ready.wait()
        queue.close()
        thread.join()
        assert statuses[0] in (lib.HYB_BAD_INDEX, lib.HYB_BAD_ARGUMENT)


def test_children_of_a_fork_have_no_queues():
    queue = Queue(40, LARGE, np.arange(40), 4)
    child = os.fork()
    if child == 0:
        x, y = np.empty((4, LARGE), np.float32), np.empty(4, np.int64)
        own = Queue(40, LARGE, np.arange(40), 4)
        fine = asked(queue.number, x, y) == lib.HYB_BAD_ARGUMENT
        fine = fine and own.next()[1].tolist() == [0, 1, 2, 3]
        own.close()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert queue.next()[1].tolist() == [0, 1, 2, 3]
    queue.close()


# Refilled ---------------------------------------------------------------------------------------


def refilled(number, order):
    order = np.ascontiguousarray(order, np.int64)
    return lib.hyb_queue_refill(number, ffi.from_buffer("int64_t[]", order), len(order))


@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_queues_go_on_with_other_orders(width):
    rng = np.random.default_rng(2)
    queue = Queue(30, width, np.arange(30), 4)
    for turn, rows in enumerate([30, 28, 2, 0, 57]):
        if turn:
            queue.order, queue.at = rng.integers(0, 30, rows), 0
            assert refilled(queue.number, queue.order) == lib.HYB_OK, last_error()
        for at in range(-(-rows // 4)):
            assert lib.hyb_queue_taken(queue.number) == at
            assert refilled(queue.number, [1]) == lib.HYB_BAD_ARGUMENT
            assert "a queue that is not empty" in last_error()
            for found, expected in zip(queue.next(), queue.expected(at), strict=True):
                np.testing.assert_array_equal(found, expected)
    assert refilled(queue.number, [30]) == lib.HYB_BAD_INDEX
    assert lib.hyb_queue_taken(queue.number) == -(-57 // 4)
    queue.close()
    assert refilled(queue.number, [1]) == lib.HYB_BAD_ARGUMENT


def test_one_batch_at_first_and_many_later_are_made_ahead():
    before = thread_count()
    queue = Queue(30, LARGE, np.arange(4), 4)
    assert thread_count() == before
    queue.next()
    queue.order, queue.at = np.arange(30)[::-1].copy(), 0
    assert refilled(queue.number, queue.order) == lib.HYB_OK
    assert thread_count() == before + 1
    for at in range(8):
        np.testing.assert_array_equal(queue.next()[1], queue.expected(at)[1])
    queue.close()


# Of what plans make of rows ---------------------------------------------------------------------


def squares(rows: int, width: int):
    """The plan of ``x * x``; externals: that, and x."""
    spec, x = Spec(), np.empty(rows * width, np.float32)
    made, given = spec.external(x.nbytes), spec.external(x.nbytes)
    spec.step([(given, x), (given, x)], [(made, x)], find("multiply", "float32"))
    return spec.create()


@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_plans_make_batches(width):
    x, y = np.random.default_rng(1).random((30, width), np.float32), np.arange(30)
    order = np.r_[0:9, 7, 3, 25:30, 2, 1, 0]
    whole, rest = squares(4, width), squares(len(order) % 4, width)
    columns = [column(x, 30, width * 4, whole=whole, rest=rest), column(y, 30, 8)]
    number = opened(columns, order, 4)
    for at in range(0, len(order), 4):
        numbers = order[at : at + 4]
        found = np.empty((len(numbers), width), np.float32), np.empty(len(numbers), np.int64)
        assert asked(number, *found) == lib.HYB_OK, last_error()
        np.testing.assert_array_equal(found[0], x[numbers] * x[numbers])
        np.testing.assert_array_equal(found[1], numbers)
    assert refilled(number, [1, 2]) == lib.HYB_BAD_ARGUMENT  # no plan for a batch of two
    assert refilled(number, [1, 2, 3]) == lib.HYB_OK
    lib.hyb_queue_close(number)


def test_plans_that_do_not_fit_are_refused():
    x, fits = np.zeros((30, 8), np.float32), squares(4, 8)
    other, three = squares(4, 9), feeding().create()
    hosted = squares(4, 8)
    lib.hyb_plan_set_host(hosted, ffi.callback("hyb_host_fn", lambda *_: 0), ffi.NULL)
    for whole, rest, rows in (
        (other, fits, 8), (three, fits, 8), (hosted, fits, 8), (ffi.NULL, fits, 8),
        (fits, ffi.NULL, 9), (fits, fits, 9),
    ):  # fmt: skip
        made = [column(x, 30, 32, whole=whole, rest=rest)]
        assert opened(made, np.arange(rows), 4) == -lib.HYB_BAD_ARGUMENT
        assert last_error() == "column 0 of a queue has no plan for its batches"
    assert opened([column(x, 30, 32, made=16)], np.arange(8), 4) == -lib.HYB_BAD_ARGUMENT


@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_a_plan_that_fails_fails_the_batch(width):
    """The batch is no batch, and whoever asks once more is told the same."""
    spec, x = Spec(), np.ones(4 * width, np.float32)
    y, number = np.arange(30), np.array([3])
    made, given = spec.external(x.nbytes), spec.external(x.nbytes)
    line, which = np.ones((1, 3), np.float32), spec.constant(number)
    spec.step([(given, x), (given, x)], [(made, x)], find("multiply", "float32"))
    operands = [(spec.constant(line), line), (which, number)]
    spec.step(operands, [(spec.arena(4), line[:, 0])], find("class_at", "float32"))
    plan, rows = spec.create(), np.ones((30, width), np.float32)
    columns = [column(rows, 30, width * 4, whole=plan), column(y, 30, 8)]
    queue = opened(columns, np.arange(8), 4)
    for _ in range(2):
        assert asked(queue, x, y[:4]) == lib.HYB_BAD_INDEX
        assert "3" in last_error()
    assert lib.hyb_queue_taken(queue) == 0
    lib.hyb_queue_close(queue)


# In plans ---------------------------------------------------------------------------------------


class Host:
    """A host function that gives sevens, and ends the run at some call."""

    def __init__(self, last: int) -> None:
        self.calls = 0

        def call(_context, number, data) -> int:
            assert number == 7
            self.calls += 1
            np.frombuffer(ffi.buffer(data[1], X.nbytes), np.float32)[:] = 7
            return lib.HYB_HOST_FAILED if self.calls == last else lib.HYB_OK

        self.function = ffi.callback("hyb_host_fn", call)


def fed(number: int, count: int, last: int = 0) -> tuple[np.ndarray, int]:
    """What the plan makes of ``count`` batches, and how often it has called the host."""
    plan, host, found = feeding().create(), Host(last), np.zeros((6, len(X)), np.float32)
    lib.hyb_plan_set_host(plan, host.function, ffi.NULL)
    run(plan, found, np.asarray(number), np.asarray(count))
    return found, host.calls


def rows_of_x(rows: int) -> tuple[int, np.ndarray]:
    data = np.arange(rows * len(X), dtype=np.float32).reshape(rows, len(X))
    kept.append(data)
    return opened([column(data, rows, X.nbytes)], ORDER, 1), data


ORDER, kept = np.array([3, 1, 0, 2]), []


def test_plans_take_batches_and_ask_the_host_for_those_that_there_are_not():
    number, data = rows_of_x(4)
    found, calls = fed(number, 3)
    assert calls == 0 and np.array_equal(found[:3], 2 * data[ORDER[:3]]) and not found[3:].any()
    found, calls = fed(number, 3)  # the fourth, and two of the host's
    assert calls == 2 and np.array_equal(found[0], 2 * data[2]) and (found[1:3] == 14).all()
    lib.hyb_queue_close(number)
    assert fed(number, 6)[1] == fed(-1, 6)[1] == 6


def test_inputs_that_are_passed_on_come_out():
    number, data = rows_of_x(4)
    plan, found = keeping().create(), np.zeros_like(X)
    kept, after = np.array([5, 6]), np.zeros(2, np.int64)
    run(plan, found, after, np.asarray(number), kept)
    assert np.array_equal(found, 2 * data[3]) and after.tolist() == [5, 6]
    lib.hyb_queue_close(number)


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        (-1, 2, "passes -1 of 2 inputs on"),
        (2, 2, "passes 2 of 2 inputs on"),
        (2**40, 2, "passes 1099511627776 of 2 inputs on"),
        (1, 1, "output 1 is to be input 1, of another size"),
    ],
)
def test_what_cannot_be_passed_on_is_refused(declared, given, message):
    with pytest.raises(NativeFailure) as caught:
        keeping(declared, given).create()
    assert message in str(caught.value)


@pytest.mark.parametrize(("asks", "stride"), [(1, 0), (2, 0), (1, 64)])
@pytest.mark.parametrize("width", [SMALL, 10_000])
def test_loops_read_batches_where_the_queue_has_them(width, asks, stride):
    """One that asks twice in an iteration, or whose slot moves, gets copies."""
    x = np.random.default_rng(1).integers(0, 99, (40, width)).astype(np.float32)
    order = np.random.default_rng(2).permutation(40)
    number, y = opened([column(x, 40, width * 4)], order, 2), np.zeros(2 * width, np.float32)
    spec = lending(y, asks, stride and 64)
    plan, host = spec.create(), Host(0)
    lib.hyb_plan_set_host(plan, host.function, ffi.NULL)
    rounds = [(3, 3 * asks), (2, 5 * asks)] if not stride else [(2, 2), (1, 3)]
    for count, taken in rounds:
        run(plan, y, np.asarray(number), np.asarray(count))
        assert lib.hyb_queue_taken(number) == taken and host.calls == 0
    seen = [b for b in range(taken) if b % asks == asks - 1]
    expected = sum(x[order[2 * b : 2 * b + 2]] for b in seen)
    np.testing.assert_array_equal(y.reshape(2, width), expected)
    between = np.empty((2, width), np.float32)  # more than the ring has beside the one that is lent
    for at in range(taken, min(taken + 6, 20)):
        assert asked(number, between) == lib.HYB_OK
        np.testing.assert_array_equal(between, x[order[2 * at : 2 * at + 2]])
    lib.hyb_queue_close(number)


def test_batches_of_other_sizes_are_the_hosts():
    data = np.zeros((4, 5), np.float32)
    columns = [column(data, 4, 20)]
    number = opened(columns, ORDER, 1)
    assert fed(number, 2)[1] == 2 and lib.hyb_queue_taken(number) == 0
    lib.hyb_queue_close(number)


def test_a_poll_hands_the_next_batch_to_the_host():
    polled = []

    def poll() -> int:
        polled.append(1)
        return lib.HYB_INTERRUPTED

    number, _ = rows_of_x(4)
    interrupting = ffi.callback("hyb_poll_fn", poll)
    lib.hyb_set_poll(interrupting)
    try:
        found, calls = fed(-5, 1)  # what was polled, the host decides
        assert calls == 1 and (found[0] == 14).all() and polled
    finally:
        lib.hyb_set_poll(lib.hybrid_poll)
    lib.hyb_queue_close(number)
    with pytest.raises(NativeFailure, match="host failed at step 1"):
        fed(-5, 3, last=2)
