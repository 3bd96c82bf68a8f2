"""Records of a program: its functions, the plans that run them, and the cells that they share."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import TensorType
from hybrid.errors import Location
from hybrid.memory.native import PlanArrays


class Bound(IntEnum):
    """What an external of a plan is."""

    RESULT = 0  # an output of the function
    WRITE = 1  # takes the place of a cell
    SCRATCH = 2  # nobody asks for it
    INPUT = 3  # an input of the function
    CELL = 4
    KEPT = 5  # a result of the early plan


class Origin(IntEnum):
    """Where an output of a function comes from."""

    EXTERNAL = 0  # an output of the plan
    INPUT = 1
    CELL = 2


class Role(IntFlag):
    """What a cell is to a model."""

    PARAMETER = 1
    BUFFER = 2
    OPTIMIZER = 4
    RANDOM = 8


NUMBERS: tuple[Any, ...] = (None, bool, int, float)  # what values are to Python; None: tensors


class External(NamedTuple):
    """What an external is: its kind, and which one of these."""

    kind: Bound
    index: int = 0


class ProgramInput(NamedTuple):
    """An input of a function."""

    name: str
    type: TensorType


class ProgramOutput(NamedTuple):
    """An output of a function, and which external, input or cell it is."""

    name: str
    type: TensorType
    number: Any  # of NUMBERS
    origin: Origin
    index: int


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The arrays of a plan, and what C cannot know of it."""

    arrays: PlanArrays
    outputs: tuple[TensorType, ...]
    inputs: tuple[TensorType, ...]
    donations: dict[int, int]  # output -> the input whose bytes it may overwrite
    exposed: frozenset[int]  # outputs that are written before a step that may fail
    places: tuple[Location | None, ...]  # of each step


@dataclass(frozen=True, slots=True)
class FunctionRecord:
    """A function of a program."""

    name: str
    inputs: tuple[ProgramInput, ...]
    outputs: tuple[ProgramOutput, ...]
    given: str  # the tree of its arguments
    result: str  # the tree of its results
    graph: str  # before all passes
    plan: PlanRecord
    bindings: tuple[External, ...]  # of each external of the plan: its outputs, then its inputs
    early: PlanRecord | None = None
    early_bindings: tuple[External, ...] = ()


@dataclass(slots=True)
class CellRecord:
    """A tensor that functions share, and that runs may write."""

    name: str
    type: TensorType
    role: Role
    content: Any  # its bytes
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """All that a file holds."""

    functions: Sequence[FunctionRecord]
    cells: Sequence[CellRecord]
    notes: Sequence[tuple[str, str]] = ()
