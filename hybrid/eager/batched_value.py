"""Lanes: what a tensor holds inside a function that ``vmap`` runs on many rows at once.

Such a tensor has the type of one row.  Its lane holds the tensor of all rows, with the rows as its
first axis, or one that is the same in every row.  Here is, too, what tells a tensor whose value is
known from one that holds what stands for it.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.dataclass import dataclass
from hybrid.errors import BatchedValueError, LeakedValueError, author_location
from hybrid.ir import Value
from hybrid.ir.interpreter import ACTIVE, current


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
    while isinstance(tensor.content, Lane):
        if tensor.content.batched:
            return False
        tensor = tensor.content.outer
    return True


def leaked(tensor: Any) -> bool:
    """Whether ``tensor`` holds a Value that no capture under way has made."""
    data = tensor.content
    if isinstance(data, Lane):
        return not any(data.level in stack for stack in list(ACTIVE.values()))
    return isinstance(data, Value) and not any(
        data in getattr(interpreter, "owned", ())
        for stack in list(ACTIVE.values())
        for interpreter in stack
    )


def refuse_leaked(tensor: Any) -> None:
    """Raise when ``tensor`` holds a Value of a capture that is over (or of another thread's)."""
    data = tensor.content
    if leaked(tensor):
        if isinstance(data, Lane):
            raise LeakedValueError(
                f"a value of one row ({tensor.type}) was used after its vmap had ended",
                at=author_location(),
                why="Inside vmap a tensor stands for what each of the rows has there.",
                fix="return the tensor from the function instead of storing it elsewhere",
            )
        raise LeakedValueError(
            f"a traced value ({tensor.type}) was used after its capture had ended",
            at=author_location(),
            why="It was made while a hybridized function was traced"
            + (f" (at {data.location})" if data.location else "")
            + ", and stands for a value of that graph only.",
            fix="return the tensor from the hybridized function instead of storing it elsewhere",
        )
