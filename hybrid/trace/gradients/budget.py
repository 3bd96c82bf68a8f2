"""The memory budget for residuals: how many rows the stacks of unbounded loops get."""

from __future__ import annotations

from collections.abc import Sequence

from hybrid import config
from hybrid.core.types import TensorType
from hybrid.ir.interpreter import current

LEAST_ROWS = 16
MOST_ROWS = 2**20
MOST_ROWS_OF_MANY = 2**9  # under vmap, which turns whole stacks: rows that it has, not iterations
LIST_SHARE = 4  # what lists may grow to is that part of the budget, so that residuals fit beside


def capacity(types: Sequence[TensorType], share: int = 1) -> int:
    """The number of rows of ``types`` that the budget, or a ``share``-th part of it, holds."""
    many = current().many
    nbytes = many * share * sum([t.nbytes for t in types])
    most = MOST_ROWS if many == 1 else MOST_ROWS_OF_MANY
    return min(max(config.RESIDUAL_NBYTES // max(nbytes, 1), LEAST_ROWS), most)
