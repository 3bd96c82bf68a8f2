"""Steps side by side in C: same bits by any number of threads, errors, poison, refusals."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.control_specs import NUMBER, side_by_side
from tests.csrc.specs import (
    NativeFailure,
    Spec,
    find,
    in_threads,
    last_error,
    live_bytes,
    require_refused,
    run,
)
from tests.csrc.test_plan_refusals import change, several

THREADS = (1, 2, 4)
LARGE = 300_007  # elements: enough for several chunks of any kernel


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = lib.hyb_num_threads()
    yield
    lib.hyb_set_num_threads(before)
    lib.hyb_fail_allocation(0)


def floats(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n, np.float32)


@pytest.mark.parametrize("n", [1, 16, 4096, LARGE])
@pytest.mark.parametrize("poison", [0, 1])
@pytest.mark.parametrize("threads", THREADS)
def test_members_give_what_steps_give(n: int, poison: int, threads: int) -> None:
    lib.hyb_set_num_threads(threads)
    spec = side_by_side(n)
    spec.counts["poison"] = poison
    plan = spec.create()
    for seed in range(3):
        x, total, c = floats(n, seed), np.empty(n, np.float32), np.empty(n, np.float32)
        run(plan, total, c, x)
        assert np.array_equal(total, (x + x) + -(x * x))
        assert np.array_equal(c, -x)


def many(sizes: Sequence[int], names: Sequence[str], grouped: bool = True) -> Spec:
    """A member for each size, of the kernels ``names`` in a row; externals: x and y of each."""
    spec = Spec()
    if grouped:
        spec.block(1)
        spec.parallel(len(sizes))
    for n in sizes:
        x = np.empty(n, np.float32)
        slots = [spec.external(x.nbytes), *[spec.arena(x.nbytes) for _ in names[1:]]]
        slots.append(spec.external(x.nbytes))
        if grouped:
            spec.block(len(names))
        for name, source, target in zip(names, slots, slots[1:], strict=False):
            spec.step([(source, x)], [(target, x)], find(name, "float32"))
    return spec


@pytest.mark.parametrize("names", [("tanh",), ("tanh", "exp", "sin")])
def test_the_bits_are_those_of_steps_one_by_one(names: tuple[str, ...]) -> None:
    sizes = [3, 100_000, 17, 1, 5000, LARGE, 64, 2, 2, 2, 40_000, *range(1, 60)]
    given = [floats(n, n) for n in sizes]

    def results(plan: object) -> list[bytes]:
        made = [np.full(n, np.nan, np.float32) for n in sizes]
        run(plan, *[a for pair in zip(given, made, strict=True) for a in pair])
        return [a.tobytes() for a in made]

    serial, grouped = many(sizes, names, grouped=False).create(), many(sizes, names).create()
    lib.hyb_set_num_threads(1)
    wanted = results(serial)
    for threads in (*THREADS, 3, 8):
        lib.hyb_set_num_threads(threads)
        for _ in range(5):
            assert results(grouped) == wanted


def takes(lengths: Sequence[int], before: int = 0) -> Spec:
    """A member for each length: ``before`` copies, then items of table[4] by an index that long."""
    spec = Spec()
    spec.block(1)
    spec.parallel(len(lengths))
    table = np.empty((1, 4, 1), np.float32)
    source = spec.external(table.nbytes)
    for n in lengths:
        index, out = np.empty(n, np.int64), np.empty((1, n, 1), np.float32)
        slots = spec.external(index.nbytes), spec.external(out.nbytes), spec.arena(out.nbytes)
        spec.block(1 + before)
        for _ in range(before):
            spec.step([(slots[1], out)], [(slots[2], out)], find("copy", "float32"))
        spec.step([(source, table), (slots[0], index)], [(slots[1], out)], find("take", "float32"))
    return spec


@pytest.mark.parametrize(("length", "before"), [(3, 0), (3, 2), (LARGE, 0), (LARGE, 1)])
@pytest.mark.parametrize("threads", THREADS)
def test_the_first_member_that_fails_gives_the_error(
    length: int, before: int, threads: int
) -> None:
    """Whoever finds which mistake first: status, text and step are those of one thread."""
    lib.hyb_set_num_threads(threads)
    plan = takes([length] * 6, before).create()
    table = np.arange(4, dtype=np.float32)
    arrays = [np.zeros(length, np.int64) for _ in range(6)]
    outs = [np.empty(length, np.float32) for _ in range(6)]
    externals = [table, *[a for pair in zip(arrays, outs, strict=True) for a in pair]]
    run(plan, *externals)
    for bad in (2, 4, 5):
        arrays[bad][-1] = 40 + bad
    for _ in range(10):
        with pytest.raises(NativeFailure) as failure:
            run(plan, *externals)
        step = 1 + 2 * (1 + before) + before
        assert str(failure.value).startswith(f"bad index at step {step}: ")
        assert "42" in str(failure.value)
    for bad in (2, 4, 5):
        arrays[bad][-1] = 3
    run(plan, *externals)
    assert all(np.array_equal(out[-1], table[a[-1]]) for a, out in zip(arrays, outs, strict=True))


@pytest.mark.parametrize("threads", THREADS)
def test_post_ops_and_pre_ops_run_in_members(threads: int) -> None:
    """Members: ``x @ x + bias``, and the sums of the rows of ``-x``, which are stored."""
    lib.hyb_set_num_threads(threads)
    n = 40
    spec, x = Spec(), np.empty((1, n, n), np.float32)
    product, bias = np.empty((1, n, n), np.float32), np.empty(n, np.float32)
    sums = np.empty((n, 1), np.float32)
    slots = [spec.external(a.nbytes) for a in (x, bias, product, sums, x)]
    spec.block(1)
    spec.parallel(2)
    spec.block(1)
    add, negative = find("add", "float32"), find("negative", "float32")
    spec.step(
        [(slots[0], x), (slots[0], x)], [(slots[2], product)], find("matmul", "float32"),
        [(add, [2, 3], [2])], [(slots[1], np.broadcast_to(bias, x.shape))],
    )  # fmt: skip
    spec.block(1)
    flat = x[0]
    spec.step(
        [(-1, x.reshape(n, n, 1))], [(slots[3], sums), (slots[4], flat)], find("sum", "float32"),
        [(negative, [3], [0]), (negative, [3], [2])], [(slots[0], flat)],
    )  # fmt: skip
    plan = spec.create()
    given, row = floats(n * n).reshape(1, n, n), floats(n, 5)
    stored = np.empty_like(given)
    for _ in range(3):
        run(plan, given, row, product, sums, stored)
        np.testing.assert_allclose(product, given @ given + row, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(sums[:, 0], -given[0].sum(1), rtol=1e-4, atol=1e-4)
        assert np.array_equal(stored, -given)


@pytest.mark.parametrize("threads", (1, 2))
def test_no_memory_ends_a_run_and_the_next_one_is_whole(threads: int) -> None:
    lib.hyb_set_num_threads(threads)
    plan = side_by_side(LARGE).create()
    x, total, c = floats(LARGE), np.empty(LARGE, np.float32), np.empty(LARGE, np.float32)
    lib.hyb_fail_allocation(1)
    with pytest.raises(NativeFailure, match=r"^no memory at step -1: "):
        run(plan, total, c, x)
    run(plan, total, c, x)
    assert np.array_equal(c, -x)


def test_every_failed_allocation_of_a_plan_is_survived() -> None:
    side_by_side().create()
    before = live_bytes()
    for nth in range(1, 20):
        lib.hyb_fail_allocation(nth)
        try:
            plan = side_by_side().create()
        except NativeFailure:
            assert live_bytes() == before
            continue
        break
    else:
        raise AssertionError("it never succeeds")
    assert nth > 2
    del plan


def test_several_python_threads_run_one_plan() -> None:
    lib.hyb_set_num_threads(2)
    n, wrong = 4096, []
    plan = side_by_side(n).create()

    def work(seed: int) -> None:
        x, total, c = floats(n, seed), np.empty(n, np.float32), np.empty(n, np.float32)
        for _ in range(200):
            total[:] = c[:] = np.nan
            run(plan, total, c, x)
            if not (np.array_equal(total, (x + x) + -(x * x)) and np.array_equal(c, -x)):
                wrong.append(seed)

    in_threads(work)
    assert not wrong


def test_a_loop_around_members_is_interrupted() -> None:
    """The poll of the host ends the loop, between its iterations."""
    lib.hyb_set_num_threads(2)
    spec, x = Spec(), np.empty(16, np.float32)
    n, given, *made = spec.external(8), *(spec.external(x.nbytes) for _ in range(3))
    spec.block(1)
    spec.control(lib.HYB_STEP_FOR, [(n, NUMBER)])
    spec.block(1)
    spec.parallel(2, block=2)
    for name, slot in zip(("tanh", "exp"), made, strict=True):
        spec.block(1)
        spec.step([(given, x)], [(slot, x)], find(name, "float32"))
    plan, asked = spec.create(), [0]

    def stop() -> int:
        asked[0] += 1
        return lib.HYB_INTERRUPTED if asked[0] == 3 else lib.HYB_OK

    poll = ffi.callback("hyb_poll_fn", stop)
    lib.hyb_set_poll(poll)
    try:
        with pytest.raises(
            NativeFailure, match=r"^interrupted at step 0: the run was interrupted$"
        ):
            run(plan, np.array(1 << 60), floats(16), np.empty_like(x), np.empty_like(x))
    finally:
        lib.hyb_set_poll(lib.hybrid_poll)
    assert asked[0] == 3


@pytest.mark.parametrize("threads", (1, 2))
def test_a_profile_has_each_part_of_each_member_once(threads: int) -> None:
    lib.hyb_set_num_threads(threads)
    plan = many([LARGE, 16, 16, LARGE], ["tanh"]).create()
    arrays = [floats(n) for n in (LARGE, LARGE, 16, 16, 16, 16, LARGE, LARGE)]
    assert lib.hyb_profile_start(1000) == lib.HYB_OK
    run(plan, *arrays)
    count = lib.hyb_profile_stop()
    size = count * ffi.sizeof("hyb_event")
    rows = list(struct.iter_unpack("=qqqiiii", bytes(ffi.buffer(lib.hyb_profile_events(), size))))
    lib.hyb_profile_free()
    assert sorted({row[3] for row in rows}) == [-1, 0, 1, 2, 3, 4]
    [group] = [row for row in rows if row[3] == 0]
    for step in (1, 2, 3, 4):
        parts = [row[5:] for row in rows if row[3] == step]
        assert sorted(part for part, _ in parts) == list(range(parts[0][1]))
        assert (len(parts) > 1) == (threads > 1 and step in (1, 4))
    assert all(group[1] <= row[1] <= row[2] <= group[2] for row in rows if row[3] > 0)


def with_row() -> Spec:
    """Rows of x in a loop, read by a member beside another one; externals: n, a, b, x, y."""
    spec, x = Spec(), np.empty(16, np.float32)
    n, a, b, rows = spec.external(8), spec.external(64), spec.external(64), spec.external(256)
    other = spec.external(64)
    row = spec.row(0, rows, 64, 4)
    spec.block(1)
    spec.control(lib.HYB_STEP_FOR, [(n, NUMBER)], limit=4)
    spec.block(1)
    spec.parallel(2, block=2)
    for source, slot in ((row, a), (other, b)):
        spec.block(1)
        spec.step([(source, x)], [(slot, x)], find("negative", "float32"))
    return spec


def writes_the_rows(spec: Spec) -> None:
    spec.operands[4]["slot"] = 3  # what the second member writes


APART = "in members that run side by side"
BROKEN: dict[str, tuple[Callable[[], Spec], Callable[[Spec], None], str]] = {
    "no members": (
        side_by_side,
        change("controls", 0, members=0),
        "step 0: members in blocks 1 + 0 of 4",
    ),
    "too many": (
        side_by_side,
        change("controls", 0, members=4),
        "step 0: members in blocks 1 + 4 of 4",
    ),
    "its own block": (
        side_by_side,
        change("controls", 0, block=0, members=4),
        "step 0: block 0 is not one of the later ones of 4",
    ),
    "too few": (side_by_side, change("controls", 0, members=2), "block 3: belongs to no step"),
    "moves": (
        side_by_side,
        change("controls", 0, n_moves=1),
        "step 0: a parallel step with moves or another block",
    ),
    "another block": (
        side_by_side,
        change("controls", 0, otherwise=2),
        "step 0: a parallel step with moves or another block",
    ),
    "an empty member": (
        side_by_side,
        several(change("blocks", 1, count=0), change("blocks", 2, first=2, count=3)),
        "step 0: block 1 is an empty member",
    ),
    "a host function": (
        side_by_side,
        change("steps", 2, kind=lib.HYB_STEP_HOST),
        "step 0: step 2 of a member is neither a kernel nor a map",
    ),
    "operands": (
        side_by_side,
        change("steps", 0, n_in=1),
        "step 0: 1 inputs and 0 outputs, not 0 and at most 0",
    ),
    "one result": (
        side_by_side,
        change("operands", 12, slot=3),
        f"step 0: operands 5 and 12 share bytes, {APART}",
    ),
    "a result that another member reads": (
        side_by_side,
        change("operands", 12, slot=2),
        f"step 0: operands 3 and 12 share bytes, {APART}",
    ),
    "scratch of another member": (
        side_by_side,
        change("slots", 4, offset=32),
        f"step 0: operands 5 and 8 share bytes, {APART}",
    ),
    "rows that are written": (
        with_row,
        writes_the_rows,
        f"step 1: operands 1 and 4 share bytes, {APART}",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_specs_are_refused(name: str) -> None:
    require_refused(*BROKEN[name])


def test_steps_that_share_operands_are_compared_all() -> None:
    """More uses than operands: each one counts."""
    spec = side_by_side()
    spec.steps[4]["first_operand"] = spec.steps[2]["first_operand"]
    spec.steps[4].update(n_in=2, kernel=find("multiply", "float32"))
    with pytest.raises(NativeFailure, match=r"share bytes, in members that run side by side$"):
        spec.create()
    assert last_error().startswith("step 0: operands ")
