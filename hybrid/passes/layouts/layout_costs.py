"""About how long it takes to compute an op, and to move parts of tensors between ranks.

Only comparisons count: which way of sharing an op's work is the quicker one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hybrid.core.layouts import PARTIAL, Held, Placement, Split
from hybrid.core.types import TensorType

ALPHA = 5.0  # microseconds that a collective takes, however little it moves
BYTES = 4e3  # that it moves in a microsecond
SMALL = 32768  # bytes of a sum: see ``hybrid/memory/channels.py``
MEMORY = 1e4  # bytes that an elementwise op reads and writes in a microsecond
FLOPS = 4e4  # that a matrix product does in a microsecond


def moving(type: TensorType, now: Placement, then: Placement, ranks: int) -> float:
    """Microseconds to make of what ``now`` says of a tensor of ``type`` what ``then`` says."""
    if now == then:
        return 0.0
    part = type.nbytes / ranks
    sent = part * (ranks - 1)
    if isinstance(then, Held):  # the whole first
        return moving(type, now, None, ranks)
    if isinstance(now, Held):
        return ALPHA + type.nbytes * math.log2(ranks) / BYTES + moving(type, None, then, ranks)
    if now is None:  # each takes its part of what it has
        return part / MEMORY
    if now == PARTIAL:
        if isinstance(then, Split):
            return ALPHA + sent / BYTES
        if type.nbytes <= SMALL:  # all go to all, who each add all
            return ALPHA + type.nbytes * (ranks - 1) / BYTES
        return 2 * (ALPHA + sent / BYTES)
    if isinstance(then, Split):
        if now.axis == then.axis:
            return ALPHA + sent / BYTES
        return ALPHA + sent / ranks / BYTES
    return ALPHA + sent / BYTES


def asking(results: Sequence[TensorType], ranks: int) -> float:
    """Microseconds for what ranks ask each other of each row of ``results``: two sums, say."""
    rows = max([t.size // max(t.shape[-1], 1) if t.rank else 1 for t in results], default=1)
    return 3 * (ALPHA + 4 * rows * (ranks - 1) / BYTES)


def is_long(name: str) -> bool:
    """Whether the op called ``name`` does much with each element."""
    return name.startswith(("matmul", "conv", "attention"))


def computing(
    name: str, operands: Sequence[TensorType], results: Sequence[TensorType], share: float
) -> float:
    """Microseconds for the op called ``name``, if a rank does ``share`` of it."""
    if not results:
        return 0.0
    if name.startswith("matmul"):
        sizes = math.prod([max(t.size, 1) for t in operands[:2]])
        inner = math.sqrt(sizes / max(results[0].size, 1))
        return share * 2 * results[0].size * inner / FLOPS
    if name.startswith("conv"):
        return share * 2 * results[0].size * operands[1].size / FLOPS
    return share * sum([t.nbytes for t in (*operands, *results)]) / MEMORY
