"""Aliases on the tape: the values that a result of a control-flow op may be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from hybrid.core.dataclass import dataclass, field
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import Leaf, Record

Node = Leaf | Record
TapeValue = tuple[Node, int]  # a value: a result of a node


@dataclass(frozen=True, slots=True)
class Aliases:
    """The aliases of the results of a node: operands, and results before it, with flags."""

    places: tuple[tuple[int, ...], ...]  # the position of an operand; ~i for result i
    made: tuple[bool, ...]  # whether it may be none of them
    flags: Callable[[], Sequence[Sequence[Tensor]]]  # which it is, in the order of ``places``
    asks: str  # of which operands the vjp rule asks which they may be: "all", or those of "several"
    items: Mapping[int, Items] = field(default_factory=dict)  # of results that are lists
    # Of a loop: which results may be which operands all along, and which operands its body reads.
    lasting: Mapping[int, Collection[int]] = field(default_factory=dict)
    read: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """The aliases of items of a list: results, or operands, of the same node."""

    duplicate_of: int  # a list of the same items; all of these are -1 where there is none
    behind: int  # a list whose item i is item i + 1 here
    first: int  # the operand that is the first item
    last: int  # the result that is the last item
    count: Callable[[], int | Tensor]  # how many items there are


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the alias graph: ``value`` is ``source`` itself where ``flag`` holds."""

    value: TapeValue
    source: TapeValue
    flag: Tensor
