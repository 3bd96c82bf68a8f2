"""Plans as records of a program: for fixed sizes, or with formulas for what depends on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import TensorType
from hybrid.memory import native
from hybrid.memory.native import PlanArrays
from hybrid.plan import Plan
from hybrid.plan.formulas import FormulaWriter
from hybrid.plan.open_plan import OpenPlan
from hybrid.plan.plan import OpenOffset
from hybrid.programs.records import FileType, PlacedBytes, PlanRecord, Word

PARTS = (*PlanArrays.ROWS,)
_WORD = {"place": 1, "constant": 2}  # kinds of words that are offsets
_HEAD = 3  # words of an operand before its shape


def fixed_plan(plan: Plan, inputs: Sequence[FileType] = ()) -> PlanRecord | None:
    """The record of ``plan``, whose first inputs are ``inputs``; None if it calls Python."""
    arrays = plan.arrays()
    if arrays is None:
        return None
    return PlanRecord(
        arrays=arrays,
        outputs=tuple(map(FileType.of, plan.output_types)),
        inputs=(*inputs, *map(FileType.of, plan.input_types[len(inputs) :])),
        donations=dict(plan.donations),
        exposed=frozenset(plan.exposed),
        places=tuple([step.location for step in plan.steps]),
    )


def open_plan(
    plan: OpenPlan, symbols: Sequence[str], inputs: Sequence[FileType]
) -> PlanRecord | None:
    """The record of ``plan``, whose first inputs are ``inputs``; None if it calls Python."""
    found = plan.open_arrays()
    if found is None:
        return None
    writer = FormulaWriter(symbols)

    def closed(type_: TensorType) -> FileType:
        return FileType(type_.dtype, tuple(map(writer.dim, type_.shape)))

    given = [closed(v.type) for v in plan.graph.params]
    outputs = tuple([closed(v.type) for v in plan.graph.results])
    sizes = [
        PlacedBytes(writer.number(size) if isinstance(size, SizeValue) else -1,
                    0 if isinstance(size, SizeValue) else size, times)
        for size, times in zip(found.layout.sizes, found.layout.times, strict=True)
    ]  # fmt: skip
    rank = rank_of(found.arrays)
    return PlanRecord(
        arrays=found.arrays,
        outputs=outputs,
        inputs=(*inputs, *given[len(inputs) :]),
        donations=dict(plan.placement.donations),
        exposed=frozenset(plan.placement.exposed),
        places=tuple([step.location for step in plan.steps]),
        words=tuple([_word(writer, rank, *word) for word in found.words]),
        arena=tuple(sizes),
        fills=tuple([writer.fill(data) for data in found.constants]),
        formulas=tuple(writer.rows),
    )


def rank_of(arrays: PlanArrays) -> int:
    """How many axes operands have at most."""
    words = np.frombuffer(arrays.rows["operands"], np.int64)
    words = words.reshape(-1, PlanArrays.ROWS["operands"] // 8)
    return int(max(words[:, _HEAD - 1] >> 32, default=0))


def _word(writer: FormulaWriter, rank: int, name: str, word: int, value: Any) -> Word:
    """Where a number stands; in operands as short as they are in files."""
    if name == "operands":
        row, at = divmod(word, PlanArrays.ROWS["operands"] // 8)
        at -= native.MAX_RANK - rank if at >= _HEAD + native.MAX_RANK else 0
        word = row * (_HEAD + 2 * rank) + at
    if isinstance(value, OpenOffset):
        return Word(PARTS.index(name), word, _WORD[value.of], value.number)
    return Word(PARTS.index(name), word, 0, writer.number(value))
