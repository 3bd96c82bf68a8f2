"""The thread pool, through plans: same bits by any number of threads, errors, forks, and rest."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.specs import (
    NativeFailure,
    Spec,
    find,
    in_threads,
    last_error,
    live_bytes,
    map_spec,
    run,
)

N = 1_000_003  # elements: enough for several chunks of any kernel


@pytest.fixture(autouse=True)
def several_threads() -> Iterator[None]:
    before = lib.hyb_num_threads()
    assert lib.hyb_set_num_threads(4) == lib.HYB_OK
    yield
    lib.hyb_set_num_threads(before)


def floats(n: int = N) -> np.ndarray:
    return np.random.default_rng(n).standard_normal(n, np.float32)


def sum_plan(n: int) -> object:
    spec = Spec()
    x = np.empty((64, n // 64, 1), np.float32)
    total = np.empty((64, 1), np.float32)
    spec.step(
        [(spec.external(x.nbytes), x)],
        [(spec.external(total.nbytes), total)],
        find("sum", "float32"),
    )
    return spec.create()


def take_plan(rows: int, n: int) -> object:
    spec = Spec()
    x, index = np.empty((1, rows, 1), np.float32), np.empty(n, np.int64)
    out = np.empty((1, n, 1), np.float32)
    slots = [spec.external(array.nbytes) for array in (x, index, out)]
    spec.step([(slots[0], x), (slots[1], index)], [(slots[2], out)], find("take", "float32"))
    return spec.create()


def run_script(script: str) -> None:
    """Run ``script`` in a fresh process that imports what this one imports."""
    head = f"import os, sys\nsys.path[:] = {sys.path!r}\nfrom tests.csrc.test_pool import *\n"
    arguments = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", head + script]
    subprocess.run(arguments, check=True, timeout=120)


@pytest.mark.parametrize("n", [0, -1, 257, 1 << 30])
def test_impossible_numbers_of_threads_are_refused(n: int) -> None:
    assert lib.hyb_set_num_threads(n) == lib.HYB_BAD_ARGUMENT
    assert last_error() == f"{n} threads: expected a number from 1 to 256"
    assert lib.hyb_num_threads() == 4


def test_sums_have_the_same_bits_by_any_number_of_threads() -> None:
    x, plan = floats(64 * 20_000), sum_plan(64 * 20_000)
    totals = []
    for threads in (1, 2, 3, 8):
        lib.hyb_set_num_threads(threads)
        totals.append(np.full(64, np.nan, np.float32))
        run(plan, x, totals[-1])
    for total in totals:
        assert total.tobytes() == totals[0].tobytes()
    assert np.allclose(totals[0], x.reshape(64, -1).sum(1), rtol=1e-3, atol=1e-2)


def test_the_first_failing_chunk_gives_the_error() -> None:
    """The text is that of one thread, whoever finds which mistake first."""
    x, out, plan = floats(100), np.empty(N, np.float32), take_plan(100, N)
    texts = set()
    for threads in (1, 2, 4, 4, 4, 4, 4, 4):
        lib.hyb_set_num_threads(threads)
        index = np.zeros(N, np.int64)
        index[500::1000] = np.arange(1000, 1000 + len(index[500::1000]))
        with pytest.raises(NativeFailure, match=r"^bad index at step 0: ") as failure:
            run(plan, x, index, out)
        texts.add(str(failure.value))
    assert len(texts) == 1
    assert "1000" in texts.pop()
    run(plan, x, np.arange(N) % 100, out)
    assert np.array_equal(out, x[np.arange(N) % 100])


def test_several_python_threads_at_once() -> None:
    """They run one plan and share the pool: whoever finds it busy does its own work."""
    add = find("add", "float32")
    x = floats()
    plan = map_spec([(add, [0, 1], [2])], [x, x.copy()], [x.copy()]).create()
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, out = x + np.float32(seed), np.empty_like(x)
        for _ in range(20):
            out[:] = np.nan
            run(plan, a, x, out)
            if not np.array_equal(out, a + x):
                wrong.append(seed)

    in_threads(work)
    assert not wrong


@pytest.mark.alone
def test_two_python_threads_do_not_get_less_done_than_one() -> None:
    """On a pool of two: whoever finds it busy computes alone, and a worker stands back for it."""
    lib.hyb_set_num_threads(2)
    x, plan = floats(64 * 20_000), sum_plan(64 * 20_000)

    def seconds(threads: int, runs: int = 200) -> float:
        def work() -> None:
            total = np.empty(64, np.float32)
            for _ in range(runs // threads):
                run(plan, x, total)

        workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - start

    ratios = sorted(seconds(1) / seconds(2) for _ in range(9))
    assert ratios[-3] > 0.9, ratios  # a busy machine makes some of them worse, never better


def test_a_plan_with_an_arena_runs_in_more_threads_than_it_keeps_states_for() -> None:
    add = find("add", "float32")
    x = floats(5000)
    spec = Spec()
    slots = spec.external(x.nbytes), spec.external(x.nbytes), spec.arena(x.nbytes)
    spec.step([(slots[0], x), (slots[0], x)], [(slots[2], x)], add)
    spec.step([(slots[2], x), (slots[0], x)], [(slots[1], x)], add)
    before = live_bytes()
    plan = spec.create()
    wrong: list[int] = []
    start = threading.Barrier(12)

    def work(seed: int) -> None:
        a, out = x + np.float32(seed), np.empty_like(x)
        start.wait()
        for _ in range(50):
            run(plan, a, out)
            if not np.array_equal(out, (a + a) + a):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    ffi.release(plan)
    assert live_bytes() == before


def test_an_idle_pool_costs_no_time() -> None:
    x, plan = floats(64 * 20_000), sum_plan(64 * 20_000)
    run(plan, x, np.empty(64, np.float32))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.05


def test_fewer_workers_than_asked_for_is_slower_but_not_wrong() -> None:
    """In a process of its own, where no worker has been started yet."""
    run_script("""
lib.hyb_set_num_threads(4)
x, plan, total = floats(64 * 20_000), sum_plan(64 * 20_000), np.empty(64, np.float32)
lib.hyb_fail_allocation(1)
run(plan, x, total)
again = np.empty(64, np.float32)
run(plan, x, again)
assert total.tobytes() == again.tobytes()
""")


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    """Forked while other threads allocate and run, so that locks are held at that moment."""
    run_script("""
lib.hyb_set_num_threads(4)
x, plan = floats(64 * 20_000), sum_plan(64 * 20_000)
expected = np.empty(64, np.float32)
run(plan, x, expected)
stop = False

def churn():
    total = np.empty(64, np.float32)
    while not stop:
        lib.hyb_free(lib.hyb_alloc(1000))
        run(plan, x, total)

threads = [threading.Thread(target=churn, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        total = np.empty(64, np.float32)
        for _ in range(3):
            lib.hyb_free(lib.hyb_alloc(1000))
            run(plan, x, total)
        os._exit(0 if total.tobytes() == expected.tobytes() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
""")
