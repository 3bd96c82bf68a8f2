"""Queued work: failures, threads, memory, forks, interrupts, and the end of the interpreter."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import errors
from hybrid.core.types import tensor_type
from hybrid.eager.fused_calls import plan_of
from hybrid.eager.tensor import make_tensor
from hybrid.memory import native
from hybrid.memory import work_queue as pending
from hybrid.memory.channels import Channel, open_channel
from hybrid.ops.communication.collectives import all_gather
from tests.helpers import is_pending, slow
from tests.helpers import value_bits as bits

HERE = __file__
DOUBLED = hy.hybridize(lambda x: x * 2)


pytestmark = pytest.mark.usefixtures("streams_end")


FEW = tensor_type(hy.float32, (4,))


class Broken(Channel):
    """A channel whose other rank has failed, as Python finds when it is to move bytes."""

    compares = False

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        raise errors.RankFailedError("rank 1 has failed: bad luck")


# Failures ---------------------------------------------------------------------------------------


def line() -> int:
    return sys._getframe(1).f_lineno


def test_errors_are_raised_at_the_wait_with_the_line_that_queued_the_work() -> None:
    x = hy.asarray([1.0, 2.0, 3.0])
    with hy.stream() as s:
        good = x + 1
        bad, at = hy.take(x, hy.asarray([5])), line()
        later = good * 2
        much_later = later + bad
    with pytest.raises(IndexError, match=r"index 5 at position 0 is out of range") as caught:
        much_later.numpy()
    assert type(caught.value) is errors.OutOfRangeError
    assert (caught.value.at.path, caught.value.at.line) == (HERE, at)
    assert "hy.take(x, hy.asarray([5]))" in str(caught.value)
    assert good.tolist() == [2.0, 3.0, 4.0]
    for value in (later, much_later):
        with pytest.raises(errors.CancelledError, match="a value was never computed") as caught:
            value + 1
        assert (
            f"OutOfRangeError: index 5 at position 0 is out of range for an axis of size 3 ({HERE}"
            in str(caught.value)
        )
        assert isinstance(caught.value.__cause__, errors.OutOfRangeError)
    with pytest.raises(errors.OutOfRangeError):
        bad.item()
    with s:  # which is used on
        assert (good + x).tolist() == [3.0, 5.0, 7.0]
        with pytest.raises(errors.CancelledError):
            later + 1
    hy.wait_all()


def test_what_a_transfer_raises_in_the_thread_is_raised_at_the_wait() -> None:
    open_channel(Broken("broken", 0, 2))

    def gathered(x: hy.Tensor) -> list[hy.Tensor]:
        return [all_gather(x, comm="broken", ranks=2)]

    plan = plan_of("sums", gathered, [FEW])
    assert [step.call.function.kind for step in plan.steps] == [
        "all_gather"
    ]  # and nothing compared
    queue, outputs = pending.WorkQueue(), [native.allocate(t.nbytes) for t in plan.output_types]
    [made], at = queue.submit(plan, outputs, [hy.ones(4).content]), line()
    with pytest.raises(errors.RankFailedError, match="rank 1 has failed: bad luck") as caught:
        made.wait()
    assert caught.value.at is not None
    assert (caught.value.at.path, caught.value.at.line) == (HERE, at)
    assert queue.wait()


@pytest.mark.parametrize("wait", [lambda s: s.wait(), lambda s: hy.wait_all()])
def test_waits_raise_a_failure_once(wait: Any) -> None:
    with hy.stream() as s:
        hy.take(hy.ones(3), hy.asarray([5]))
        y = hy.ones(3) + 1
    with pytest.raises(errors.OutOfRangeError):
        wait(s)
    wait(s)
    with pytest.raises(errors.CancelledError):
        y.numpy()
    wait(s)


def test_a_failing_line_of_a_hybridized_function_is_named() -> None:
    @hy.hybridize
    def pick(x: Any, i: Any) -> Any:
        y = x * 2
        return hy.take(y, i)

    at = pick.function.__code__.co_firstlineno + 3
    y = pick.submit(hy.ones(3), hy.asarray([9]))
    with pytest.raises(errors.OutOfRangeError) as caught:
        y.numpy()
    assert (caught.value.at.path, caught.value.at.line) == (HERE, at)
    assert pick.submit(hy.ones(3), hy.asarray([1])).tolist() == [2.0]


def test_another_stream_fails_with_the_value_that_it_waits_for() -> None:
    a, b = hy.stream(), hy.stream()
    with a:
        x = hy.take(hy.ones(3), hy.asarray([5]))
    with b:
        fine = hy.ones(2) + 1
        y = x + 1
        z = fine + 1
    assert fine.tolist() == [2.0, 2.0]
    with pytest.raises(errors.OutOfRangeError):
        z.numpy()
    with pytest.raises(errors.OutOfRangeError):
        hy.wait_all()  # of the first stream nobody was told
    with pytest.raises(errors.OutOfRangeError):
        y.numpy()
    hy.wait_all()


def test_a_failure_that_has_left_the_ring_is_raised_to_whoever_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "CAPACITY", 4)
    monkeypatch.setattr(pending, "_spare", [])
    a, b = hy.stream(), hy.stream()
    with a:
        x = hy.take(hy.ones(3), hy.asarray([5]))
        for _ in range(10):
            hy.ones(3) + 1
    a._queue.drain()
    with b, pytest.raises(errors.OutOfRangeError):
        x + 1
    assert a.wait() and b.wait()


def test_cells_go_back_to_what_they_held_when_what_failed_was_queued() -> None:
    w, grads, s = hy.asarray([1.0, 2.0, 3.0]), hy.zeros(3), hy.stream()
    count = hy.zeros(())
    count.requires_grad = True

    @hy.hybridize
    def pull(i: Any) -> Any:
        w.assign(w + hy.take(w, i).sum())
        return w * 1

    with s:
        w += 1
        pull(hy.asarray([0]))
        pull(hy.asarray([7]))
        w *= 100
        pull(hy.asarray([1]))
        grads.assign(grads + 5)
        (count * 2).backward()
    with pytest.raises(errors.OutOfRangeError):
        w.numpy()
    assert w.tolist() == [4.0, 5.0, 6.0]  # as if it had ended at the failing call
    assert grads.tolist() == [0.0] * 3 and count.grad is None
    with s:
        pull(hy.asarray([0]))
    assert w.tolist() == [8.0, 9.0, 10.0]


def test_what_is_written_after_it_by_others_stays() -> None:
    w = hy.zeros(2)
    with hy.stream() as s:
        hy.take(hy.ones(3), hy.asarray([5]))
        w += 1
    w.assign(hy.ones(2) * 7)
    with pytest.raises(errors.OutOfRangeError):
        s.wait()
    assert w.tolist() == [7.0, 7.0]


def test_a_failure_in_the_block_leaves_what_is_queued() -> None:
    with pytest.raises(ValueError, match="mine"), hy.stream() as s:
        y = hy.ones(3) + 1
        raise ValueError("mine")
    assert y.tolist() == [2.0] * 3 and s.wait()
    assert hy.ones(3).content.__class__ is not pending.Waiting  # the block was left


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (lambda x: hy.stream().__enter__() and x, "a stream", "take it out of the function"),
        (lambda x: hy.wait_all() or x, "wait_all", "take it out of the function"),
        (lambda x: DOUBLED.submit(x), "submit", "call the function itself"),
    ],
)
def test_captures_have_no_streams(call: Any, what: str, fix: str) -> None:
    with pytest.raises(errors.CaptureError, match=f"{what} inside a hybridized function") as caught:
        hy.hybridize(call)(hy.ones(2))
    assert fix in str(caught.value) and caught.value.at.path == HERE
    with pytest.raises(errors.CaptureError, match=f"{what} inside vmap"):
        hy.vmap(call)(hy.ones((2, 2)))


def test_a_with_block_of_a_captured_function_is_refused_too() -> None:
    @hy.hybridize
    def function(x: Any) -> Any:
        with hy.stream():
            return x + 1

    with pytest.raises(errors.CaptureError, match="a stream inside a hybridized function"):
        function(hy.ones(2))


def test_timeouts() -> None:
    work = slow()
    with hy.stream() as s:
        y = work()
        assert s.wait(0) is False and not s.done()
    assert s.wait(60) is True and s.wait(0) and s.done()
    assert not is_pending(y)
    for wrong in (-1, float("nan")):
        with pytest.raises(errors.ArgumentError, match="a timeout of"):
            s.wait(wrong)


# Threads, memory, processes -----------------------------------------------------------------------


def test_a_stream_serves_two_threads() -> None:
    s, x = hy.stream(), hy.ones((64, 64))
    found: list[list[hy.Tensor]] = [[], []]

    def go(which: int) -> None:
        with s:
            for i in range(200):
                found[which].append(x * i + which)

    threads = [threading.Thread(target=go, args=(i,), daemon=True) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for which in range(2):
        for i, y in enumerate(found[which]):
            assert y.numpy()[5, 5] == i + which


def test_threads_submit_and_read_side_by_side() -> None:
    wrong: list[int] = []

    @hy.hybridize
    def square(x: Any) -> Any:
        return x @ x + 1

    x = hy.ones((50, 50))
    expected = bits(square(x))

    def go() -> None:
        for _ in range(50):
            if bits(square.submit(x)) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=go, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_number_of_threads_may_change_meanwhile() -> None:
    work, before = slow(), hy.num_threads()
    expected = bits(work())
    try:
        with hy.stream():
            found = []
            for i in range(12):
                found.append(work())
                hy.set_num_threads(1 + i % 2)
                time.sleep(0.005)
        assert all(bits(y) == expected for y in found)
    finally:
        hy.set_num_threads(before)


def test_a_thread_is_told_of_what_another_one_has_queued() -> None:
    with hy.stream() as s:
        y = hy.take(hy.ones(3), hy.asarray([5]))
    told: list[BaseException] = []

    def read() -> None:
        try:
            y.numpy()
        except errors.OutOfRangeError as error:
            told.append(error)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 3 and len(set(map(id, told))) == 3
    assert s.wait()


def test_what_calls_python_comes_after_what_is_queued(capsys: pytest.CaptureFixture) -> None:
    @hy.hybridize
    def check(x: Any) -> Any:
        print("checks", x.sum())
        assert x.sum() > 0, "too little"
        return x * 2

    with hy.stream() as s:
        y = check(slow()()[0, 0])
        assert s.done() and not is_pending(y)
        with pytest.raises(AssertionError, match="too little"):
            check(hy.ones(2) * -1)
        hy.take(hy.ones(3), hy.asarray([5]))
        capsys.readouterr()
        with pytest.raises(errors.OutOfRangeError):  # of the line before: nothing is printed
            check(y)
        assert capsys.readouterr().out == ""
        with pytest.raises(errors.OutOfRangeError):
            hy.take(hy.ones(3), hy.asarray([5]))
            hy.py_call(lambda a: a, hy.ones(2), result=hy.ones(2).type)


def test_memory_is_flat_and_the_queue_bounded() -> None:
    x = hy.ones((100, 100))  # 40 kB
    with hy.stream() as s:
        for _ in range(2000):
            x + 1
        s.wait()
        native.trim_memory()
        before = native.memory()["peak_bytes"]
        longest = 0
        for i in range(100_000):
            y = x + i
            longest = max(longest, len(s._queue.runs))
    assert longest <= pending.CAPACITY
    assert y.numpy()[0, 0] == 100_000
    del y
    s.wait()
    assert native.memory()["peak_bytes"] <= before + pending.CAPACITY * 48_000
    assert not s._queue.runs and s._queue.nbytes == 0


def test_results_of_what_is_queued_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_BYTES", 1 << 20)
    x, most = hy.ones((300, 300)), 0
    with hy.stream() as s:
        for _ in range(50):
            x @ x
            most = max(most, s._queue.nbytes)
    assert 0 < most <= 1 << 20


def test_a_queue_says_whether_it_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, plan = pending.WorkQueue(), plan_of("sums", lambda x: [hy.exp(x)], [FEW])
    assert queue.has_room(pending.MOST_BYTES) and not queue.has_room(pending.MOST_BYTES + 1)
    [made] = queue.submit(plan, [native.allocate(FEW.nbytes)], [hy.zeros(4).content])
    monkeypatch.setattr(pending, "CAPACITY", 0)
    assert not queue.has_room(0)
    assert make_tensor(FEW, made).tolist() == [1.0] * 4


def test_dropped_tensors_give_their_memory_back() -> None:
    work, s = slow(), hy.stream()
    with s:
        work()
    s.wait()
    gc.collect()
    before = native.memory()["live_bytes"]
    with s:
        work()
    assert s.wait()
    assert native.memory()["live_bytes"] == before


def test_many_streams_share_few_threads() -> None:
    gc.collect()
    x = hy.ones((50, 50))
    before = len(os.listdir("/proc/self/task"))
    found = []
    for i in range(100):
        with hy.stream():
            found.append(x * i)
    assert len(os.listdir("/proc/self/task")) <= before + pending.MOST_BUSY + pending.SPARE
    assert all(y.numpy()[0, 0] == i for i, y in enumerate(found))
    del found
    hy.wait_all()
    gc.collect()
    assert len(os.listdir("/proc/self/task")) <= before + pending.SPARE


def test_an_idle_thread_takes_no_time() -> None:
    with hy.stream() as s:
        hy.ones(3) + 1
    s.wait()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.02


def test_values_that_others_are_lent_are_not_read_later() -> None:
    work, x = slow(), hy.ones((50,)) * 1
    with hy.stream():
        work()
        y = x + 1
    lent = np.from_dlpack(x)  # whoever has it may write to it
    assert not is_pending(y)
    lent.flags.writeable or lent.setflags(write=False)
    with hy.stream():
        z = x + 1
    assert bits(z) == bits(y)


def test_profiles_have_what_is_queued_in_them() -> None:
    work = slow()
    with hy.stream():
        work()
        with hy.profile() as p:
            work()
    (row,) = [row for row in p.steps if row.name.startswith("matmul")]
    assert row.calls == 6


def test_a_fork_waits_and_the_child_has_all_values() -> None:
    work, s = slow(), hy.stream()
    expected = bits(work())
    with s:
        y = work()
        child = os.fork()
        if child == 0:
            fine = not is_pending(y) and bits(y) == expected and bits(work()) == expected
            fine = fine and bits(DOUBLED.submit(hy.ones(2))) == bits(hy.ones(2) * 2)
            os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bits(y) == expected
    with s:
        assert bits(work()) == expected


def test_a_child_is_told_of_a_failure_before_the_fork() -> None:
    with hy.stream() as s:
        y = hy.take(hy.ones(3), hy.asarray([5]))
    child = os.fork()
    if child == 0:
        told = 0
        try:
            with s:
                hy.ones(3) + 1
        except errors.OutOfRangeError:
            told = 1
        with s:
            fine = (hy.ones(3) + 1).tolist() == [2.0] * 3
        os._exit(0 if fine and told else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(errors.OutOfRangeError):
        y.numpy()


def test_an_interrupt_ends_the_wait_and_not_the_work() -> None:
    work = slow()
    expected = bits(work())
    with hy.stream():
        for _ in range(20):
            y = work()
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt):
            y.numpy()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert bits(y) == expected


ENDLESS = """
import hybrid as hy
x = hy.ones((1500, 1500))
with hy.stream() as s:
    for _ in range(20):
        y = x @ x
@hy.hybridize
def forever(x):
    x = x * 1  # else the call waits to know whether it returns its argument
    while x.sum() >= 0:
        x = x * 1
    return x
{more}
print("end")
"""


@pytest.mark.parametrize(
    "more", ["", "z = forever.submit(hy.ones(3))", "import sys; y = None; s = None; sys.exit(0)"]
)
def test_the_interpreter_exits_with_work_queued(more: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ENDLESS.format(more=more))
    started = time.perf_counter()
    run = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert time.perf_counter() - started < 30
