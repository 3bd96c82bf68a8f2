"""Serialization of plans: flat arrays to bytes of a file and back, with all of them checked.

C checks that every step stays inside its operands.  What it cannot know is checked here: which
bytes the pointers of a run have, which of them a run may write, and which may be the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hybrid.core.types import TensorType
from hybrid.errors import GraphError, NativeError
from hybrid.ir import Graph
from hybrid.memory import native
from hybrid.memory.native import PlanArrays
from hybrid.plan.plan import Plan, Sizes, known, lowered_again

_SLOT = np.dtype(
    [("kind", "i4"), ("external", "i4"), ("offset", "i8"), ("nbytes", "i8"), ("last_step", "i4"),
     ("loop", "i4"), ("base", "i4"), ("spare", "i4"), ("stride", "i8"), ("count", "i8")]
)  # fmt: skip
_STEP = np.dtype([(name, "i4") for name in (
    "kind", "kernel", "operand", "n_in", "n_out", "n_extra", "attr", "n_attrs", "op", "n_ops",
)])  # fmt: skip
_MOVE = np.dtype([("to", "i4"), ("from", "i4")])
_OPERAND = PlanArrays.ROWS["operands"]
_HEAD = 3  # of the words of an operand, before its shape; strides are behind that
# What arrays are in files: how many axes there are at most, the rows of each kind, the constants.
PARTS = ("rank", *PlanArrays.ROWS, "constants")


def packed(arrays: PlanArrays) -> list[bytes]:
    """``arrays`` as the parts of a file, one for each of ``PARTS``."""
    operands = np.frombuffer(arrays.rows["operands"], np.int64).reshape(-1, _OPERAND // 8)
    shapes, strides = np.split(operands[:, _HEAD:], 2, axis=1)
    rank = int(max(operands[:, _HEAD - 1] >> 32, default=0))
    short = np.hstack([operands[:, :_HEAD], shapes[:, :rank], strides[:, :rank]])
    rows = {**arrays.rows, "operands": short.tobytes()}
    parts = [bytes([rank]), *[rows[name] for name in PlanArrays.ROWS], arrays.constants]
    return [bytes(part) for part in parts]


def unpacked(parts: Sequence[bytes], arena_nbytes: int, n_externals: int) -> PlanArrays:
    """The plan arrays of the parts of a file; raises GraphError and the like if damaged."""
    head, *rows, constants = parts
    (rank,) = head
    made = PlanArrays()
    made.rows = dict(zip(PlanArrays.ROWS, rows, strict=True))
    short = np.frombuffer(made.rows["operands"], np.int64).reshape(-1, _HEAD + 2 * rank)
    operands = np.zeros((len(short), _OPERAND // 8), np.int64)
    operands[:, : _HEAD + rank] = short[:, : _HEAD + rank]
    operands[:, _HEAD + native.MAX_RANK :][:, :rank] = short[:, _HEAD + rank :]
    for name, nbytes in PlanArrays.ROWS.items():
        if name != "operands" and len(made.rows[name]) % nbytes:
            raise GraphError(f"the {name} of a plan end in the middle")
    made.rows["operands"] = operands
    made.constants, made.arena_nbytes, made.n_externals = constants, arena_nbytes, n_externals
    return made


def plan_of(
    arrays: PlanArrays,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    donations: Mapping[int, int],
    exposed: frozenset[int],
    sizes: Sizes,
    graph: Callable[[], Graph],
) -> Plan:
    """The plan of ``arrays``, for these types; ``graph`` gives the graph it was made of.

    Whatever the arrays are, no run of it reads or writes where it may not; raises GraphError, or
    NativeError, which C has the say in.
    """
    handle = native.make_plan(arrays)
    slots = np.frombuffer(arrays.rows["slots"], _SLOT)
    steps = np.frombuffer(arrays.rows["steps"], _STEP)
    nbytes = np.array([t.nbytes for t in (*outputs, *inputs)], np.int64)
    if arrays.n_externals != len(nbytes):
        raise GraphError(f"a plan of {len(nbytes)} values takes {arrays.n_externals}")
    external = slots["kind"] == native.EXTERNAL
    if (slots["nbytes"][external] > nbytes[slots["external"][external]]).any():
        raise GraphError("a plan takes more bytes than its values have")
    if np.isin(steps["kind"], (native.HOST_STEP, native.TRANSFER_STEP)).any():
        raise GraphError("a plan calls functions that are not there")
    written = _written(arrays, slots, steps)
    if (slots["external"][external & written] >= len(outputs)).any():
        raise GraphError("a plan writes to what it is given")
    if donations:
        _refuse_overlaps(arrays, inputs, outputs, donations)
    return known(
        Plan(
            handle=handle,
            input_types=tuple(inputs),
            output_types=tuple(outputs),
            donations=dict(donations),
            exposed=exposed,
            sizes=sizes,
            origin=lambda: lowered_again(graph()),
        )
    )


def provable(
    arrays: PlanArrays,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    donations: Mapping[int, int],
) -> dict[int, int]:
    """The ``donations`` that ``plan_of`` accepts: not a copy of an input to where it is."""
    try:
        _refuse_overlaps(arrays, inputs, outputs, donations)
        return dict(donations)
    except (GraphError, NativeError):
        pass
    found: dict[int, int] = {}
    for output, given in donations.items():
        with contextlib.suppress(GraphError, NativeError):
            _refuse_overlaps(arrays, inputs, outputs, {**found, output: given})
            found[output] = given
    return found


def _written(arrays: PlanArrays, slots: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Of each slot, whether a step may write to its bytes."""
    slot_of = _slot_of(arrays)
    first, count = steps["operand"] + steps["n_in"], steps["n_out"]
    before = np.cumsum(count) - count
    at = np.repeat(first - before, count) + np.arange(count.sum())
    found = np.zeros(len(slots), bool)
    found[slot_of[at]] = True
    moving = np.flatnonzero((slots["kind"] == native.ROW) | (slots["kind"] == native.CARRIED))
    moves = np.frombuffer(arrays.rows["moves"], _MOVE)
    while len(moving):  # rows are parts of their bases; carried slots get to where others were
        before = found.copy()
        mine = moving[found[moving]]
        found[slots["base"][mine]] = True
        found[slots["spare"][mine[slots["spare"][mine] >= 0]]] = True
        either = found[moves["to"]] | found[moves["from"]]
        found[moves["to"][either]] = found[moves["from"][either]] = True
        if (found == before).all():
            break
    return found


def _refuse_overlaps(
    arrays: PlanArrays,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    donations: Mapping[int, int],
) -> None:
    """Raise unless each output may lie where the input is that it is to overwrite.

    C shows it: in the plan that it is to make, both are the same bytes.
    """
    at = np.arange(arrays.n_externals, dtype=np.int32)
    for output, given in donations.items():
        if outputs[output].nbytes != inputs[given].nbytes:
            raise GraphError("an output would overwrite an input of another size")
        at[output] = len(outputs) + given
    slots = np.frombuffer(arrays.rows["slots"], _SLOT).copy()
    external = slots["kind"] == native.EXTERNAL
    number = np.where(external, slots["external"], 0)
    moved = external & (at[number] != number)
    slots["external"][external] = at[number[external]]
    alike = PlanArrays()
    alike.rows = {**arrays.rows, "slots": slots}
    if len(arrays.rows["controls"]) == 0:  # those steps will do that write to one of them
        slots["last_step"] = -1
        steps = np.frombuffer(arrays.rows["steps"], _STEP)
        touches = np.append(0, np.cumsum(moved[_slot_of(arrays)] & (_slot_of(arrays) >= 0)))
        count = steps["n_in"] + steps["n_out"] + steps["n_extra"]
        chosen = steps[touches[steps["operand"] + count] > touches[steps["operand"]]]
        alike.rows["steps"] = chosen
        alike.rows["blocks"] = np.array([0, len(chosen)], np.int32)
    alike.constants, alike.arena_nbytes = arrays.constants, arrays.arena_nbytes
    alike.n_externals = arrays.n_externals
    native.make_plan(alike)


def _slot_of(arrays: PlanArrays) -> np.ndarray:
    """Of each operand."""
    return np.frombuffer(arrays.rows["operands"], np.int32)[:: _OPERAND // 4]
