"""The memory budget for residuals: how many rows the stacks of unbounded loops get."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid import config
from hybrid.core.types import TensorType
from hybrid.ir.interpreter import current
from hybrid.ir.record import is_recording, orders

LEAST_ROWS = 16
MOST_ROWS = 2**20
MOST_ROWS_OF_MANY = 2**9  # under vmap, which turns whole stacks: rows that it has, not iterations
LIST_SHARE = 4  # what lists may grow to is that part of the budget, so that residuals fit beside
# Where further gradients are taken of a way back, its loops over all rows are led through, too, and
# a row of their stacks may be a stack.  By the number of further gradients: the most rows and the
# part of the budget, of loops and of loops inside them.
FURTHER = {
    False: ((MOST_ROWS, 1), (2**12, 16), (2**7, 64)),
    True: ((MOST_ROWS, 4), (2**9, 64), (2**5, 256)),
}


def further_gradients() -> int:
    """How many gradients may be taken of the way back that this thread makes."""
    return max(orders() - 1, is_recording())


def rows_back(types: Sequence[TensorType], inside: bool) -> int:
    """The number of rows of ``types`` for a way back; ``inside`` the region of another loop."""
    most, share = FURTHER[inside][min(further_gradients(), 2)]
    return capacity(types, share, most)


def capacity(types: Sequence[TensorType], share: int = 1, most: int = MOST_ROWS) -> int:
    """The number of rows of ``types``, at most ``most``, in a ``share``-th part of the budget."""
    many = current().many
    nbytes = many * share * sum([t.nbytes for t in types])
    most = most if many == 1 else min(most, MOST_ROWS_OF_MANY)
    return min(max(config.RESIDUAL_NBYTES // max(nbytes, 1), LEAST_ROWS), most)
