"""Streams in C: order, failures, other streams, full rings, stops, forks, threads, no memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.control_specs import LINE, doubling, endless
from tests.csrc.specs import NativeFailure, Spec, X, find, last_error, live_bytes, pointer
from tests.threads import thread_count, thread_count_within

SECOND = 1_000_000_000
PLACE = np.zeros((1, 1, 1), np.float32)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    lib.hyb_memory_trim()
    before = live_bytes(), thread_count()
    yield
    lib.hyb_fail_allocation(0)
    assert live_bytes() == before[0]
    assert thread_count_within(before[1]) <= before[1]


def adding() -> Any:
    """``out = a + b``."""
    spec = Spec()
    o, a, b = (spec.external(X.nbytes) for _ in range(3))
    spec.step([(a, X), (b, X)], [(o, X)], ops=[(find("add", "float32"), [0, 1], [2])])
    return spec.create()


def picking() -> Any:
    """``out = table[index]``, which fails for an index beyond 2."""
    table, index = np.ones((1, 3, 1), np.float32), np.array([0])
    spec = Spec()
    o, a, i = (spec.external(m.nbytes) for m in (PLACE, table, index))
    spec.step([(a, table), (i, index)], [(o, PLACE)], find("take", "float32"))
    return spec.create()


class Stream:
    """A stream, and what its runs need."""

    def __init__(self, capacity: int = 16) -> None:
        self.handle = lib.hyb_stream_open(capacity)
        if not self.handle:
            raise NativeFailure(last_error())
        self.kept: list[Any] = []

    def submit(self, plan: Any, *arrays: np.ndarray, after: Any = ()) -> int:
        """The number of the run; 0: there was no room."""
        self.kept.append((plan, arrays))
        number = ffi.new("int64_t *")
        externals = ffi.new("void *[]", [pointer(a) for a in arrays])
        tickets = ffi.new("hyb_ticket[]", [(s.handle, n) for s, n in after])
        status = lib.hyb_stream_submit(
            self.handle, plan, externals, len(arrays), tickets, len(after), number
        )
        if status:
            raise NativeFailure(f"{status}: {last_error()}")
        return number[0]

    def wait(self, number: int, seconds: float = 60) -> int:
        return lib.hyb_stream_wait(self.handle, number, int(seconds * SECOND))

    def failure(self) -> tuple[int, int]:
        number = ffi.new("int64_t *")
        return lib.hyb_stream_failure(self.handle, number), number[0]

    def close(self) -> None:
        lib.hyb_stream_close(self.handle)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bad(stream: Stream) -> int:
    return stream.submit(picking(), PLACE.copy(), np.ones((1, 3, 1), np.float32), np.array([3]))


def block(stream: Stream) -> np.ndarray:
    """Keep the thread busy until the place is set to False."""
    go = np.array(True)
    stream.submit(endless().create(), go, X.copy())
    return go


def test_runs_are_done_in_order_and_counted() -> None:
    plan, x = adding(), np.ones_like(X)
    with Stream(4) as stream:
        assert lib.hyb_stream_finished(stream.handle) == 0
        for number in range(1, 200):
            while (given := stream.submit(plan, x, x, np.ones_like(X))) == 0:
                assert lib.hyb_stream_room(stream.handle, SECOND) == 1
            assert given == number
        assert stream.wait(199) == 1 and lib.hyb_stream_finished(stream.handle) == 199
        assert (x == 200).all() and stream.failure() == (lib.HYB_OK, 0)


def test_waits_end_in_time() -> None:
    with Stream() as stream:
        go = block(stream)
        started = time.monotonic()
        assert stream.wait(1, 0.05) == 0 and stream.wait(1, 0) == 0 and stream.wait(2, 0.05) == 0
        assert 0.09 < time.monotonic() - started < 5
        go[()] = False
        assert stream.wait(1) == 1


def test_a_full_ring_takes_nothing() -> None:
    plan, x = adding(), np.ones_like(X)
    with Stream(2) as stream:
        go = block(stream)
        assert stream.submit(plan, x, x, x) == 2
        assert stream.submit(plan, x, x, x) == 0 and lib.hyb_stream_room(stream.handle, 1000) == 0
        go[()] = False
        assert lib.hyb_stream_room(stream.handle, 60 * SECOND) == 1
        assert stream.wait(2) == 1 and (x == 2).all()


@pytest.mark.parametrize("capacity", [0, -1, 2**31 - 1])
def test_other_capacities_are_refused(capacity: int) -> None:
    with pytest.raises(NativeFailure, match=f"a stream of {capacity} runs: expected a number"):
        Stream(capacity)


def test_wrong_submissions_are_refused_and_take_nothing() -> None:
    plan, x = adding(), np.ones_like(X)
    with Stream(2) as stream, Stream(2) as other:
        with pytest.raises(NativeFailure, match="the plan takes 3 externals, 2 were given"):
            stream.submit(plan, x, x)
        for after, text in (
            ([(stream, 1)], "a run cannot wait for its own stream"),
            ([(other, 1)], "a run cannot wait for run 1 of a stream"),
            ([(other, 0)], "a run cannot wait for run 0 of a stream"),
        ):
            with pytest.raises(NativeFailure, match=text):
                stream.submit(plan, x, x, x, after=after)
        for number in range(1, 5):
            assert other.submit(plan, x, x, x) == number
            assert other.wait(number) == 1
        with pytest.raises(NativeFailure, match="a run cannot wait for run 2 of a stream"):
            stream.submit(plan, x, x, x, after=[(other, 3), (other, 4), (other, 2)])
        for number in range(5, 9):  # what it had asked for has been let go
            assert other.submit(plan, x, x, x) == number
            assert other.wait(number) == 1
        assert lib.hyb_stream_finished(stream.handle) == 0


def test_what_follows_a_failure_is_cancelled_until_it_is_cleared() -> None:
    plan, x, y = adding(), np.ones_like(X), np.ones_like(X)
    with Stream() as stream:
        go = block(stream)
        stream.submit(plan, x, x, x)
        assert bad(stream) == 3
        stream.submit(plan, y, y, y)
        with pytest.raises(NativeFailure, match="runs of the stream are under way"):
            if lib.hyb_stream_clear(stream.handle):
                raise NativeFailure(last_error())
        go[()] = False
        assert stream.wait(4) == 1
        for _ in range(2):
            assert stream.failure() == (lib.HYB_BAD_INDEX, 3)
            assert lib.hyb_last_step() == 0 and "index 3 at position 0" in last_error()
        stream.submit(plan, y, y, y)
        assert stream.wait(5) == 1
        assert (x == 2).all() and (y == 1).all()
        assert lib.hyb_stream_clear(stream.handle) == lib.HYB_OK
        assert stream.failure() == (lib.HYB_OK, 0)
        stream.submit(plan, y, y, y)
        assert stream.wait(6) == 1 and (y == 2).all()


def test_runs_wait_for_those_of_other_streams() -> None:
    plan, x, y = adding(), np.ones_like(X), np.zeros_like(X)
    with Stream() as first, Stream() as second:
        go = block(first)
        made = first.submit(plan, x, x, x)
        assert second.submit(plan, y, x, x, after=[(first, 1), (first, made)]) == 1
        assert second.wait(1, 0.05) == 0
        go[()] = False
        assert second.wait(1) == 1 and (y == 4).all()
        third = second.submit(plan, x, y, y, after=[(first, made)])  # which is over
        assert second.wait(third) == 1 and (x == 8).all()


def test_a_run_stays_in_its_ring_while_others_wait_for_it() -> None:
    plan, x, y = adding(), np.ones_like(X), np.zeros_like(X)
    with Stream(1) as first, Stream() as second:
        go = block(second)
        first.submit(plan, x, x, x)
        second.submit(plan, y, x, x, after=[(first, 1)])
        assert first.wait(1) == 1
        assert first.submit(plan, x, x, x) == 0 and lib.hyb_stream_room(first.handle, 1000) == 0
        go[()] = False
        assert lib.hyb_stream_room(first.handle, 60 * SECOND) == 1
        assert second.wait(2) == 1 and (y == 4).all()


def test_failures_cross_streams() -> None:
    plan, x = adding(), np.ones_like(X)
    with Stream() as first, Stream() as second:
        go = block(first)
        number = bad(first)
        second.submit(plan, x, x, x)
        second.submit(plan, x, x, x, after=[(first, number)])
        second.submit(plan, x, x, x)
        go[()] = False
        assert second.wait(3) == 1 and (x == 2).all()
        assert second.failure() == (lib.HYB_CANCELLED, 2)
        assert last_error() == "what the run waits for was in vain" and lib.hyb_last_step() == -1
        assert lib.hyb_stream_clear(first.handle) == lib.HYB_OK
        assert lib.hyb_stream_clear(second.handle) == lib.HYB_OK
        late = second.submit(plan, x, x, x, after=[(first, number)])  # it has failed all the same
        assert second.wait(late) == 1 and second.failure() == (lib.HYB_CANCELLED, late)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_streams_are_closed_with_work_under_way(order: tuple[int, int]) -> None:
    plan, x = adding(), np.ones_like(X)
    streams = Stream(), Stream()
    block(streams[0])
    for _ in range(3):
        number = streams[0].submit(plan, x, x, x)
        streams[1].submit(plan, x, x, x, after=[(streams[0], number)])
    started = time.monotonic()
    for at in order:
        streams[at].close()
    assert (x == 1).all() and time.monotonic() - started < 10


def test_a_stopped_stream_cancels_and_takes_no_more() -> None:
    plan, x = adding(), np.ones_like(X)
    with Stream() as stream:
        block(stream)
        stream.submit(plan, x, x, x)
        waiter = threading.Thread(target=stream.wait, args=(2,), daemon=True)
        waiter.start()
        for _ in range(2):
            lib.hyb_stream_stop(stream.handle)
        waiter.join()
        assert lib.hyb_stream_finished(stream.handle) == 2
        status, number = stream.failure()
        assert number == 1 and (x == 1).all()
        assert status in (lib.HYB_INTERRUPTED, lib.HYB_CANCELLED)  # the latter if not yet begun
        with pytest.raises(NativeFailure, match="the stream is stopped"):
            stream.submit(plan, x, x, x)


def test_nothing_is_closed_or_stopped() -> None:
    lib.hyb_stream_close(ffi.NULL)
    lib.hyb_stream_stop(ffi.NULL)


def test_threads_submit_to_one_stream() -> None:
    plan, made = adding(), [np.zeros_like(X) for _ in range(4)]
    with Stream(8) as stream:

        def go(y: np.ndarray) -> None:
            for _ in range(300):
                while stream.submit(plan, y, y, np.ones_like(X)) == 0:
                    lib.hyb_stream_room(stream.handle, SECOND)

        threads = [threading.Thread(target=go, args=(y,), daemon=True) for y in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stream.wait(1200) == 1 and all((y == 300).all() for y in made)


def test_without_memory_nothing_is_submitted() -> None:
    plan, x = adding(), np.ones_like(X)
    lib.hyb_fail_allocation(1)
    with pytest.raises(NativeFailure, match="cannot allocate"):
        Stream()
    with Stream() as other, Stream() as stream:
        other.submit(plan, x, x, x)
        assert other.wait(1) == 1
        lib.hyb_fail_allocation(1)  # what holds externals and tickets
        with pytest.raises(NativeFailure, match="cannot allocate"):
            stream.submit(plan, x, x, x, after=[(other, 1)])
        for nth in (1, 2):  # the thread
            lib.hyb_fail_allocation(nth)
            with pytest.raises(NativeFailure, match="gives no thread" if nth == 2 else "allocate"):
                stream.submit(plan, x, x, x, after=[(other, 1)])
        lib.hyb_fail_allocation(1)
        with pytest.raises(NativeFailure, match="the system gives no thread for a stream"):
            stream.submit(plan, x, x, x)
        assert stream.submit(plan, x, x, x, after=[(other, 1)]) == 1
        assert stream.wait(1) == 1 and (x == 4).all()


def test_a_run_without_memory_is_a_failure_like_others() -> None:
    plan, out, trips = doubling().create(), np.empty_like(LINE), np.zeros((), np.int64)
    arrays = out, trips, LINE.copy(), np.array(True), np.array(17, np.float32)
    with Stream() as stream:
        go = block(stream)
        stream.submit(plan, *arrays)
        lib.hyb_fail_allocation(1)  # what the plan puts between its steps
        go[()] = False
        assert stream.wait(2) == 1
        assert stream.failure() == (lib.HYB_NO_MEMORY, 2) and "cannot allocate" in last_error()
        assert lib.hyb_stream_clear(stream.handle) == lib.HYB_OK
        stream.submit(plan, *arrays)
        assert stream.wait(3) == 1 and stream.failure() == (lib.HYB_OK, 0) and trips == 1


def test_children_of_a_fork_have_no_streams() -> None:
    plan, x = adding(), np.ones_like(X)
    stream = Stream()
    go = block(stream)
    child = os.fork()
    if child == 0:
        fine = stream.wait(1, 0.01) == -1 and lib.hyb_stream_room(stream.handle, 10) == -1
        try:
            stream.submit(plan, x, x, x)
            fine = False
        except NativeFailure as failure:
            fine = fine and "the thread of the stream stayed behind in a fork" in str(failure)
        stream.close()
        own = Stream()
        fine = fine and own.submit(plan, x, x, x) == 1 and own.wait(1) == 1 and (x == 2).all()
        own.close()
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go[()] = False
    assert stream.wait(1) == 1
    stream.close()


def test_an_idle_thread_sleeps() -> None:
    with Stream() as stream:
        stream.submit(adding(), np.empty_like(X), X.copy(), X.copy())
        stream.wait(1)
        time.sleep(0.05)
        before = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - before < 0.02
