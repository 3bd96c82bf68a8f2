"""Lanes: what a tensor holds inside a function that ``vmap`` runs on many rows at once.

Such a tensor has the type of one row.  Its lane holds the tensor of all rows, with the rows as its
first axis, or one that is the same in every row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hybrid.errors import BatchedValueError, author_location
from hybrid.ir import Value
from hybrid.ir.interpreter import current


@dataclass(frozen=True, slots=True, eq=False)
class Lane(Value):
    """A Value of one level of vmap; ``outer`` is a Tensor of the level around it."""

    level: Any = None
    outer: Any = None
    batched: bool = False

    def __repr__(self) -> str:
        return f"<{self.type} in each of {self.level.rows} rows>"


def shared(lane: Lane, asked: str) -> Any:
    """The tensor that is the same in every row; BatchedValueError if rows differ."""
    if lane.batched:
        raise BatchedValueError(asked, str(lane.type), lane.level.rows, at=author_location())
    return lane.outer


def is_known(tensor: Any) -> bool:
    """Whether the value of ``tensor`` can be looked at: it is neither traced nor one of rows."""
    if current().traces:
        return False
    while isinstance(tensor.data, Lane):
        if tensor.data.batched:
            return False
        tensor = tensor.data.outer
    return True
