"""The caching allocator: alignment, reuse, limits, statistics, and failing on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.specs import TILES, NativeFailure, Spec, find, last_error, live_bytes, map_spec, run

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(autouse=True)
def no_injection() -> Iterator[None]:
    yield
    lib.hyb_fail_allocation(0)


def address(data: object) -> int:
    return int(ffi.cast("uintptr_t", data))


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 255, 257, 1000, 4096, 70_000, 5 * MIB])
def test_blocks_are_aligned_and_hold_what_was_asked_for(nbytes: int) -> None:
    blocks = [lib.hyb_alloc(nbytes) for _ in range(3)]
    for value, block in enumerate(blocks):
        assert address(block) % 64 == 0
        ffi.memmove(block, bytes([value]) * nbytes, nbytes)
    for value, block in enumerate(blocks):
        assert bytes(ffi.buffer(block, nbytes)) == bytes([value]) * nbytes
        lib.hyb_free(block)


@pytest.mark.parametrize("nbytes", [1, 3000, 2 * MIB, 40 * MIB])
def test_a_freed_block_is_used_again(nbytes: int) -> None:
    first = lib.hyb_alloc(nbytes)
    before = address(first)
    lib.hyb_free(first)
    second = lib.hyb_alloc(nbytes)
    assert address(second) == before
    lib.hyb_free(second)


def test_classes_waste_at_most_a_quarter() -> None:
    for nbytes in [*range(64, 5000, 64), *range(5000, 1_000_000, 7919)]:
        before = lib.hyb_memory().live_bytes
        block = lib.hyb_alloc(nbytes)
        assert nbytes <= lib.hyb_memory().live_bytes - before <= max(64, nbytes * 1.25 + 64)
        lib.hyb_free(block)


def test_statistics_follow_what_happens() -> None:
    live_bytes()  # for its collection of garbage
    lib.hyb_memory_trim()
    start = lib.hyb_memory()
    assert start.cached_bytes == 0
    block = lib.hyb_alloc(MIB)
    held = lib.hyb_memory()
    assert held.live_bytes == start.live_bytes + MIB
    assert held.peak_bytes >= held.live_bytes
    assert held.allocations == start.allocations + 1
    lib.hyb_free(block)
    freed = lib.hyb_memory()
    assert (freed.live_bytes, freed.cached_bytes) == (start.live_bytes, MIB)
    lib.hyb_memory_trim()
    assert lib.hyb_memory().cached_bytes == 0


def test_freeing_nothing_is_allowed() -> None:
    before = live_bytes()
    lib.hyb_free(ffi.NULL)
    assert live_bytes() == before


@pytest.mark.parametrize("nbytes", [1 << 45, 1 << 47, 1 << 62, (1 << 64) - 1])
def test_what_the_machine_does_not_have_is_refused(nbytes: int) -> None:
    before = live_bytes()
    assert lib.hyb_alloc(nbytes) == ffi.NULL
    assert last_error() == f"cannot allocate {nbytes} bytes"
    assert live_bytes() == before


def test_the_cache_is_bounded() -> None:
    with open("/proc/meminfo") as lines:
        total = int(next(lines).split()[1]) * KIB
    for _ in range(2):  # untouched pages cost nothing
        blocks = [lib.hyb_alloc(total // 20) for _ in range(8)]
        for block in blocks:
            assert block
            lib.hyb_free(block)
    assert lib.hyb_memory().cached_bytes <= total // 8
    lib.hyb_memory_trim()


def test_the_nth_allocation_fails() -> None:
    lib.hyb_fail_allocation(3)
    blocks = [lib.hyb_alloc(100) for _ in range(4)]
    assert [block != ffi.NULL for block in blocks] == [True, True, False, True]
    for block in blocks:
        lib.hyb_free(block)


def test_threads_share_the_allocator() -> None:
    before = live_bytes()
    wrong: list[int] = []

    def churn(value: int) -> None:
        for i in range(300):
            nbytes = 1 + (i * 37) % 5000
            block = lib.hyb_alloc(nbytes)
            ffi.memmove(block, bytes([value]) * nbytes, nbytes)
            if bytes(ffi.buffer(block, nbytes)) != bytes([value]) * nbytes:
                wrong.append(value)
            lib.hyb_free(block)

    threads = [threading.Thread(target=churn, args=(value,), daemon=True) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert live_bytes() == before


def live_bytes_settle_at(expected: int) -> bool:
    """``Thread.join`` returns a little before the thread's own end, where its scratch is freed."""
    deadline = time.monotonic() + 5
    while lib.hyb_memory().live_bytes != expected and time.monotonic() < deadline:
        time.sleep(0.001)
    return lib.hyb_memory().live_bytes == expected


def every_part() -> Spec:
    """A plan with a constant, an arena, a map with a tile and post-ops: something of everything."""
    add, matmul = find("add", "float32"), find("matmul", "float32")
    x, bias = np.ones((1, 4, 4), np.float32), np.ones(4, np.float32)
    spec = Spec()
    out, a = spec.external(x.nbytes), spec.external(x.nbytes)
    product, constant = spec.arena(x.nbytes), spec.constant(bias)
    row = np.broadcast_to(bias, x.shape)
    spec.step([(a, x), (a, x)], [(product, x)], matmul, [(add, [2, 3], [2])], [(constant, row)])
    ops = [(add, [0, 1], TILES[:1]), (add, [TILES[0], 0], [2])]
    spec.step([(product, x), (constant, row)], [(out, x)], ops=ops)
    return spec


def test_making_a_plan_survives_every_failed_allocation() -> None:
    spec, _keep = every_part().native()
    before = live_bytes()
    failures = 0
    while True:
        lib.hyb_fail_allocation(failures + 1)
        plan = lib.hyb_plan_create(spec)
        lib.hyb_fail_allocation(0)
        if plan:
            break
        failures += 1
        assert last_error().startswith("cannot allocate ")
        assert live_bytes() == before
    assert failures >= 2
    lib.hyb_plan_free(plan)
    assert live_bytes() == before


def test_a_run_survives_every_failed_allocation() -> None:
    """In a new thread each time, so that its scratch memory has to be allocated too."""
    x, out = np.ones((1, 4, 4), np.float32), np.zeros((1, 4, 4), np.float32)
    before = live_bytes()
    outcomes: list[str] = []

    def attempt(nth: int) -> None:
        plan = every_part().create()
        lib.hyb_fail_allocation(nth)
        try:
            run(plan, out, x)
            outcomes.append("ok")
        except NativeFailure as failure:
            outcomes.append(str(failure))
        finally:
            lib.hyb_fail_allocation(0)

    while "ok" not in outcomes:
        thread = threading.Thread(target=attempt, args=(len(outcomes) + 1,), daemon=True)
        thread.start()
        thread.join()
        assert live_bytes_settle_at(before)
    assert len(outcomes) >= 3  # the arena, and the scratch of a kernel or a map, at least
    assert all(text.startswith("no memory at step ") for text in outcomes[:-1])
    assert np.array_equal(out, np.full((1, 4, 4), 11, np.float32))


def test_scratch_memory_ends_with_its_thread() -> None:
    x, out = np.ones((50, 10), np.float32), np.empty((50, 10), np.float32)
    add = find("add", "float32")
    ops = [(add, [0, 1], TILES[:1]), (add, [TILES[0], 0], [2])]
    plan = map_spec(ops, [x, np.broadcast_to(x[0].copy(), x.shape)], [out]).create()
    before = live_bytes()
    during: list[int] = []

    def use() -> None:
        run(plan, x, x[0].copy(), out)
        during.append(lib.hyb_memory().live_bytes)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join()
    assert during[0] > before
    assert live_bytes_settle_at(before)
