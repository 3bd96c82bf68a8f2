"""Damaged specs of blocks, loops and moving slots are refused, or stay within their slots."""

from __future__ import annotations

import numpy as np
from hybrid._native import ffi, lib

from tests.csrc.control_specs import (
    asking,
    choice,
    doubling,
    feeding,
    nested,
    running_sums,
    side_by_side,
)
from tests.csrc.specs import NativeFailure, Spec, run

BIG = 1 << 62
TABLES = ("steps", "operands", "slots", "blocks", "controls", "moves")


def damage(spec: Spec, random: np.random.Generator) -> None:
    """Change one number."""
    edges = [0, 1, -1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 64, -64, 1 << 20, (1 << 31) - 1, -(1 << 31)]
    wide = [*edges, 16, 32, 63, 128, 192, 256, -128, 1 << 33, BIG, -BIG, (1 << 63) - 1, -(1 << 63)]
    rows = getattr(spec, TABLES[random.integers(len(TABLES))])
    if not rows:
        return
    row = rows[random.integers(len(rows))]
    field = list(row)[random.integers(len(row))]
    large = ("offset", "nbytes", "stride", "count", "limit", "shape", "strides")
    values = wide if field in large else edges
    value = values[random.integers(len(values))]
    if not isinstance(row[field], list):
        row[field] = value
    elif row[field]:
        row[field][random.integers(len(row[field]))] = value


def damaged_runs(tries: int, seed: int) -> int:
    """How many of ``tries`` damaged specs were accepted; all of them stayed within their slots."""
    random = np.random.default_rng(seed)
    started = [0]

    def stop() -> int:  # a damaged loop may never end
        started[0] += 1
        return lib.HYB_INTERRUPTED

    poll = ffi.callback("hyb_poll_fn", stop)
    host = ffi.callback("hyb_host_fn", lambda _context, _number, _data: lib.HYB_HOST_FAILED)
    lib.hyb_set_poll(poll)
    accepted = 0
    try:
        for _ in range(tries):
            made = (doubling, running_sums, choice, asking, nested, side_by_side, feeding)
            spec = made[random.integers(len(made))]()
            spec.counts["poison"] = int(random.integers(2))
            for _ in range(random.integers(1, 4)):
                damage(spec, random)
            try:
                plan = spec.create()
            except (NativeFailure, OverflowError):
                continue
            lib.hyb_plan_set_host(plan, host, ffi.NULL)
            accepted += _run_guarded(spec, plan, random)
    finally:
        lib.hyb_set_poll(lib.hybrid_poll)
    return accepted


def _run_guarded(spec: Spec, plan: object, random: np.random.Generator) -> bool:
    sizes = [0] * spec.counts["n_externals"]
    for slot in spec.slots:
        if slot["kind"] == lib.HYB_SLOT_EXTERNAL:
            sizes[slot["external"]] = max(sizes[slot["external"]], slot["nbytes"])
    if max(sizes, default=0) > 1 << 21 or lib.hyb_plan_arena_nbytes(plan) > 1 << 21:
        return False
    guarded = [np.full(n + 128, 0x55, np.uint8) for n in sizes]
    for memory in guarded:  # bools and counts of any kind
        memory[64:-64] = random.integers(0, 4) if len(memory) < 140 else 1
    try:
        run(plan, *(memory[64:-64] for memory in guarded))
    except NativeFailure as failure:
        assert str(failure).startswith(("interrupted", "host failed")), failure
    for memory in guarded:
        assert (memory[:64] == 0x55).all() and (memory[-64:] == 0x55).all()
    return True


def test_damaged_specs_are_refused_or_safe_to_run() -> None:
    assert damaged_runs(4000, 11) > 500
