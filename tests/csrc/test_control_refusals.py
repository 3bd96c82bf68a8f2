"""Every broken spec of blocks, loops and moving slots is refused, or safe to run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.control_specs import (
    LINE,
    NUMBER,
    asking,
    choice,
    doubling,
    feeding,
    nested,
    running_sums,
)
from tests.csrc.specs import NativeFailure, Spec, find, last_error, require_refused, run
from tests.csrc.test_plan_refusals import BIG, change, counts, several

# Slots of the specs, by what they are for.
HOME, OTHER, NOW, NEW = 5, 6, 9, 10  # doubling
ROW_OF_X, ROW_OF_Y, SUM = 8, 9, 10  # running_sums


def loops_inside_each_other(depth: int) -> Spec:
    """``for i in range(n): for ...: x = x + 1``; externals: n, x."""
    spec = Spec()
    n, x = spec.external(8), spec.external(64)
    for inside in range(depth):
        spec.block(1)
        spec.control(lib.HYB_STEP_FOR, [(n, NUMBER)], block=inside + 1)
    spec.block(1)
    spec.step([(x, LINE), (x, LINE)], [(x, LINE)], find("add", "float32"))
    return spec


# What is broken -> (the spec, the change, the text).
BROKEN: dict[str, tuple[Callable[[], Spec], Callable[[Spec], None], str]] = {
    # blocks
    "block elsewhere": (
        choice,
        change("blocks", 1, first=2),
        "block 1: steps 2 + 1 do not follow the 1 before",
    ),
    "block too long": (
        choice,
        change("blocks", 2, count=2),
        "block 2: steps 2 + 2 do not follow the 2 before",
    ),
    "negative block": (
        choice,
        change("blocks", 2, count=-1),
        "block 2: steps 2 + -1 do not follow the 2 before",
    ),
    "steps in no block": (choice, change("blocks", 2, count=0), "blocks: they have 2 of 3 steps"),
    "block of nobody": (
        doubling,
        lambda spec: spec.block(0),
        "block 2: belongs to no step",
    ),
    "block that does not exist": (
        choice,
        change("controls", 0, block=3),
        "step 0: block 3 is not one of the later ones of 3",
    ),
    "block around itself": (
        choice,
        change("controls", 0, block=0),
        "step 0: block 0 is not one of the later ones of 3",
    ),
    "block inside itself": (
        nested,
        change("controls", 1, block=1),
        "step 1: block 1 is not one of the later ones of 3",
    ),
    "block of two": (
        choice,
        change("controls", 0, otherwise=1),
        "step 0: block 1 belongs to step 0",
    ),
    "second block of a loop": (
        doubling,
        change("controls", 0, otherwise=1),
        "step 1: a loop with a second block, 1",
    ),
    "control": (choice, change("steps", 0, kernel=1), "step 0: control 1 of 1"),
    "negative control": (choice, change("steps", 0, kernel=-1), "step 0: control -1 of 1"),
    "moves beyond": (doubling, change("controls", 0, n_moves=3), "step 1: moves 0 + 3 of 2"),
    "moves before": (doubling, change("controls", 0, first_move=-1), "step 1: moves -1 + 2 of 2"),
    "moves of a cond": (
        choice,
        several(
            lambda spec: spec.moves.append({"to": 0, "from": 0}), change("controls", 0, n_moves=1)
        ),
        "step 0: a cond with moves",
    ),
    # control steps
    "inputs of a cond": (
        choice,
        change("steps", 0, n_in=2),
        "step 0: 2 inputs and 0 outputs, not 1 and at most 0",
    ),
    "outputs of a cond": (
        choice,
        change("steps", 0, n_in=0, n_out=1),
        "step 0: 0 inputs and 1 outputs, not 1 and at most 0",
    ),
    "inputs of a while": (
        doubling,
        change("steps", 1, n_in=1, n_out=1),
        "step 1: 1 inputs and 1 outputs, not 2 and at most 1",
    ),
    "outputs of a for": (
        running_sums,
        change("steps", 1, n_out=2),
        "step 1: 1 inputs and 2 outputs, not 1 and at most 1",
    ),
    "negative outputs": (
        choice,
        change("steps", 0, n_out=-1),
        "step 0: 1 inputs, -1 outputs, 0 extra operands",
    ),
    "predicate of a wrong dtype": (
        choice,
        change("operands", 0, dtype=lib.HYB_U8),
        "step 0: operand 0 is not one bool",
    ),
    "predicate of several": (
        choice,
        several(change("slots", 1, nbytes=2), change("operands", 0, shape=[2], strides=[1])),
        "step 0: operand 0 is not one bool",
    ),
    "no test": (
        doubling,
        several(change("slots", 8, nbytes=8), change("operands", 3, dtype=lib.HYB_I64)),
        "step 1: operand 1 is not one bool",
    ),
    "trips of a wrong dtype": (
        doubling,
        change("operands", 4, dtype=lib.HYB_F64),
        "step 1: operand 2 is not one i64",
    ),
    "count of a wrong dtype": (
        running_sums,
        change("operands", 2, dtype=lib.HYB_F64),
        "step 1: operand 0 is not one i64",
    ),
    "ops of a loop": (
        doubling,
        change("steps", 1, n_ops=1),
        "step 1: extra operands, attributes or ops, which only kernels have",
    ),
    "written constant": (
        running_sums,
        several(
            lambda spec: spec.constants.extend(bytes(64 * 4)),
            change("slots", 1, kind=lib.HYB_SLOT_CONSTANT),
            change("controls", 0, n_moves=0),
        ),
        "step 3: output 0 is a constant",
    ),
    "number of the host": (asking, change("steps", 1, kernel=-1), "step 1: host function -1"),
    "output of the host over its input": (
        asking,
        change("operands", 4, slot=2),
        "step 1: output 0 overlaps operand 0",
    ),
    "strided output of the host": (
        asking,
        change("operands", 4, shape=[4], strides=[8]),
        "step 1: output 0 is not contiguous",
    ),
    # queues
    "no number of a queue": (
        feeding,
        change("steps", 1, first_operand=2, n_in=0),
        "step 1: 0 inputs and 1 outputs of a queue",
    ),
    "number of a queue that is none": (
        feeding,
        change("operands", 1, dtype=lib.HYB_F64),
        "step 1: operand 0 is not one i64",
    ),
    "strided output of a queue": (
        feeding,
        change("operands", 2, shape=[4], strides=[8]),
        "step 1: output 0 is not contiguous",
    ),
    "host of a queue": (feeding, change("steps", 1, kernel=-1), "step 1: host function -1"),
    # rows
    "loop of a row": (
        running_sums,
        change("slots", ROW_OF_X, loop=0),
        "slot 8: step 0 is not a loop",
    ),
    "loop that does not exist": (
        running_sums,
        change("slots", ROW_OF_X, loop=9),
        "slot 8: step 9 is not a loop",
    ),
    "later base": (
        running_sums,
        change("slots", ROW_OF_X, base=9),
        "slot 8: its base, 9, does not come before it",
    ),
    "negative base": (
        running_sums,
        change("slots", ROW_OF_X, base=-1),
        "slot 8: its base, -1, does not come before it",
    ),
    "number of rows": (running_sums, change("slots", ROW_OF_X, count=-1), "slot 8: -1 rows"),
    "rows beyond": (
        running_sums,
        change("slots", ROW_OF_X, count=5),
        "slot 8: rows beyond the 256 bytes of slot 3",
    ),
    "rows before": (
        running_sums,
        change("slots", ROW_OF_X, stride=-64),
        "slot 8: rows beyond the 256 bytes of slot 3",
    ),
    "rows far away": (
        running_sums,
        change("slots", ROW_OF_X, stride=BIG),
        "slot 8: rows beyond the 256 bytes of slot 3",
    ),
    "first row beyond": (
        running_sums,
        change("slots", ROW_OF_X, offset=BIG, stride=-BIG),
        "slot 8: rows beyond the 256 bytes of slot 3",
    ),
    "row of its own loop": (
        running_sums,
        several(
            change("slots", ROW_OF_Y, base=ROW_OF_X, count=1),
            change("controls", 0, limit=1),
        ),
        "slot 9: its base, slot 8, has no place when step 1 starts",
    ),
    "row of a row of a loop inside": (
        nested,
        change("slots", 6, loop=0),
        "slot 6: its base, slot 4, has no place when step 0 starts",
    ),
    "more iterations than rows": (
        running_sums,
        change("slots", ROW_OF_X, count=3),
        "slot 8: 3 rows for 4 iterations",
    ),
    "any number of iterations": (
        running_sums,
        change("controls", 0, limit=-1),
        "slot 8: 4 rows for -1 iterations",
    ),
    "spare row of a for": (
        running_sums,
        change("slots", ROW_OF_X, spare=0),
        "slot 8: a for of 4 iterations needs no spare row",
    ),
    "no spare row": (
        asking,
        change("slots", 6, spare=-1),
        "slot 6: its spare row, -1, does not come before it",
    ),
    "later spare row": (
        asking,
        change("slots", 6, spare=6),
        "slot 6: its spare row, 6, does not come before it",
    ),
    "small spare row": (
        asking,
        change("slots", 4, nbytes=31),
        "slot 6: slot 4 is no spare row for it",
    ),
    "spare row from outside": (
        asking,
        change("slots", 6, spare=2),
        "slot 6: slot 2 is no spare row for it",
    ),
    "row outside its loop": (
        running_sums,
        change("operands", 1, slot=ROW_OF_Y),
        "step 0: operand 1 is a row of step 1, which is not around it",
    ),
    "row that is not aligned": (
        running_sums,
        several(
            change("slots", ROW_OF_X, offset=2, count=3),
            change("controls", 0, limit=3),
        ),
        "operand 7: not aligned to its items of 4 bytes",
    ),
    "rows that are not aligned": (
        running_sums,
        change("slots", ROW_OF_X, stride=62),
        "operand 7: not aligned to its items of 4 bytes",
    ),
    # carried slots
    "carried constant": (
        doubling,
        several(
            lambda spec: spec.constants.extend(bytes(64)),
            change("slots", HOME, kind=lib.HYB_SLOT_CONSTANT),
        ),
        "slot 9: slot 5 is no place for it",
    ),
    "carried beyond its place": (
        doubling,
        change("slots", NOW, nbytes=65),
        "slot 9: slot 5 is no place for it",
    ),
    "carried at an odd place": (
        doubling,
        several(counts(arena_nbytes=512), change("slots", OTHER, offset=352)),
        "slot 10: slot 6 is no place for it",
    ),
    "two at one place": (
        doubling,
        change("slots", NEW, base=HOME),
        "slot 10: starts where slot 9 does",
    ),
    "places that overlap": (
        doubling,
        change("slots", OTHER, offset=0),
        "slot 10: starts where slot 9 does",
    ),
    "carried where rows come": (
        running_sums,
        change("slots", SUM, base=1),
        "slot 10: starts where row 9 comes",
    ),
    # moves
    "move of no slot": (
        doubling,
        change("moves", 0, to=11),
        "step 1: move 0: slots 11 and 10 of 11",
    ),
    "move from no slot": (
        doubling,
        change("moves", 0, **{"from": -1}),
        "step 1: move 0: slots 9 and -1 of 11",
    ),
    "move of a fixed slot": (
        doubling,
        change("moves", 0, to=HOME),
        "step 1: move 0: slot 5 cannot go where slot 10 is",
    ),
    "move to a fixed slot": (
        doubling,
        change("moves", 0, **{"from": HOME}),
        "step 1: move 0: slot 9 cannot go where slot 5 is",
    ),
    "move of another size": (
        doubling,
        change("slots", NEW, nbytes=60),
        "step 1: move 0: slot 9 cannot go where slot 10 is",
    ),
    "same move twice": (
        doubling,
        change("moves", 1, to=NOW, **{"from": NOW}),
        "step 1: move 0: like move 1",
    ),
    "two to one place": (
        doubling,
        change("moves", 1, **{"from": NEW}),
        "step 1: move 0: like move 1",
    ),
    "no exchange": (
        doubling,
        change("controls", 0, n_moves=1),
        "step 1: move 0: slot 10 does not leave its place",
    ),
    "carried constant row": (
        running_sums,
        several(
            lambda spec: spec.constants.extend(bytes(64 * 4)),
            change("slots", 1, kind=lib.HYB_SLOT_CONSTANT),
        ),
        "step 1: move 0: row 9 cannot be carried",
    ),
    "carried rows that overlap": (
        running_sums,
        change("slots", ROW_OF_Y, stride=0),
        "step 1: move 0: row 9 cannot be carried",
    ),
    "carried row that is not aligned": (
        running_sums,
        several(
            change("slots", 1, nbytes=1024),
            change("slots", ROW_OF_Y, stride=96),
        ),
        "step 1: move 0: row 9 cannot be carried",
    ),
    # what slots that move may share
    "output over a carried input": (
        doubling,
        change("operands", 11, slot=NEW),
        "step 4: output 0 of sum overlaps its operand 0",
    ),
    "output over where a carried slot may be": (
        doubling,
        change("operands", 9, slot=OTHER),
        "step 3: output 0 of add overlaps its operand 0",
    ),
    "output over the rows of an input": (
        running_sums,
        several(change("operands", 8, slot=3), change("controls", 0, n_moves=0)),
        "step 3: output 0 of add overlaps its operand 1",
    ),
    "output over another row": (
        running_sums,
        several(
            change("slots", ROW_OF_Y, base=3, offset=64, count=3), change("controls", 0, limit=3)
        ),
        "step 3: output 0 of add overlaps its operand 1",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_specs_are_refused(name: str) -> None:
    require_refused(*BROKEN[name])


def test_missing_tables_are_refused() -> None:
    for table in ("blocks", "controls", "moves"):
        spec = ffi.new("hyb_plan_spec *", {f"n_{table}": 1})
        assert lib.hyb_plan_create(spec) == ffi.NULL
        assert last_error() == f"{table}: 1 of them at no address"


def test_blocks_inside_each_other_have_a_limit() -> None:
    most = lib.HYB_MAX_DEPTH
    x = np.ones(16, np.float32)
    run(loops_inside_each_other(most).create(), np.array(1), x)
    assert (x == 2).all()
    with pytest.raises(NativeFailure) as failure:
        loops_inside_each_other(most + 1).create()
    assert str(failure.value) == f"block {most + 1}: more than {most} blocks inside each other"
