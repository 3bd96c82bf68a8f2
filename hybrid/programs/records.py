"""Records of a program: its functions, the plans that run them, and the cells that they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import DType, TensorType
from hybrid.errors import Location
from hybrid.memory.native import PlanArrays
from hybrid.plan.formulas import Fill, Formula


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


class FileType(NamedTuple):
    """A type as it stands in a file: a size below 0 is number -1 - size of those at a run."""

    dtype: DType
    shape: tuple[int, ...]

    @classmethod
    def of(cls, type_: TensorType) -> FileType:
        return cls(type_.dtype, tuple(type_.shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Where no axis is open."""
        return self.dtype.itemsize * math.prod(self.shape)


class Symbol(NamedTuple):
    """The size of axes of inputs, from ``low`` to ``high``."""

    name: str
    low: int
    high: int


class ProgramInput(NamedTuple):
    """An input of a function."""

    name: str
    type: Any  # a FileType; when it is read a TensorType
    number: Any = None  # of NUMBERS


class ProgramOutput(NamedTuple):
    """An output of a function, and which external, input or cell it is."""

    name: str
    type: Any  # as that of an input
    number: Any  # of NUMBERS
    origin: Origin
    index: int


class Word(NamedTuple):
    """8 bytes of an array that depend on sizes: which ones, and what they are."""

    part: int
    word: int
    kind: int  # 0 a number of a formula, 1 the offset of a place of the arena, 2 of a literal
    number: int


class PlacedBytes(NamedTuple):
    """A place of an arena: the number that is its size, or -1 and that, and when it is in use."""

    number: int
    nbytes: int
    times: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The arrays of a plan, and what C cannot know of it."""

    arrays: PlanArrays
    outputs: tuple[FileType, ...]
    inputs: tuple[FileType, ...]
    donations: dict[int, int]  # output -> the input whose bytes it may overwrite
    exposed: frozenset[int]  # outputs that are written before a step that may fail
    places: tuple[Location | None, ...]  # of each step
    words: tuple[Word, ...] = ()  # what depends on sizes
    arena: tuple[PlacedBytes, ...] = ()
    fills: tuple[Fill, ...] = ()
    formulas: tuple[Formula, ...] = ()


@dataclass(frozen=True, slots=True)
class AheadRecord:
    """A plan that runs before that of a function, and what its externals are."""

    plan: PlanRecord
    bindings: tuple[External, ...]


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """What serves some sizes of a function."""

    graph: str  # before all passes
    outputs: tuple[ProgramOutput, ...]
    plan: PlanRecord
    bindings: tuple[External, ...]  # of each external of the plan: its outputs, then its inputs
    ahead: AheadRecord | None = None
    conditions: tuple[Formula, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionRecord:
    """A function of a program."""

    name: str
    inputs: tuple[ProgramInput, ...]
    given: str  # the tree of its arguments
    result: str  # the tree of its results
    cases: tuple[CaseRecord, ...]
    symbols: tuple[Symbol, ...] = ()


@dataclass(slots=True)
class CellRecord:
    """A tensor that functions share, and that runs may write."""

    name: str
    type: FileType
    role: Role
    content: Any  # its bytes
    aliases: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """All that a file holds."""

    functions: Sequence[FunctionRecord]
    cells: Sequence[CellRecord]
    notes: Sequence[tuple[str, str]] = ()
