"""Values of records: saved operands and results as tensors, and their aliases on the tape.

``Aliases`` is what ops say whose results are not all made by them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hybrid.core.dataclass import dataclass, field
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir.record import AnyRecord, Leaf, Output, Record, node_of


def make_snapshot(saved: Any) -> Any:
    """The saved operand as a Tensor with its history, or its type if only that was saved."""
    if isinstance(saved, TensorType):
        return saved
    type_, data, record = saved
    tensor = make_tensor(type_, data)
    tensor.record = record
    return tensor


def restored(node: Record, index: int) -> Any:
    """The saved result ``index`` of ``node`` as a Tensor with its history, or its type."""
    saved = node.results[index]
    if isinstance(saved, TensorType):
        return saved
    tensor = make_tensor(*saved)
    tensor.record = node if len(node.results) == 1 else Output(node, index)
    return tensor


def saved_type(saved: Any) -> TensorType:
    """The type of a saved operand or result."""
    return saved if isinstance(saved, TensorType) else saved[0]


def type_of(record: AnyRecord) -> TensorType:
    """The type of the value that has this record."""
    node, index = node_of(record)
    return node.type if isinstance(node, Leaf) else saved_type(node.results[index])


Node = Leaf | Record
TapeValue = tuple[Node, int]  # a value: a result of a node


@dataclass(frozen=True, slots=True)
class Aliases:
    """The aliases of the results of a node: operands, and results before it, with flags."""

    places: tuple[tuple[int, ...], ...]  # the position of an operand; ~i for result i
    made: tuple[bool, ...]  # whether it may be none of them
    flags: Callable[[], Sequence[Sequence[Tensor]]]  # which it is, in the order of ``places``
    asks: str  # of which operands the vjp rule asks which they may be: "all", or those of "several"
    items: Mapping[int, ItemAliases] = field(default_factory=dict)  # of results that are lists
    # Of a loop: which results may be which operands all along, and which operands its body reads.
    lasting: Mapping[int, Collection[int]] = field(default_factory=dict)
    read: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class ItemAliases:
    """The aliases of items of a list: results, or operands, of the same node."""

    duplicate_of: int  # a list of the same items; all of these are -1 where there is none
    behind: int  # a list whose item i is item i + 1 here
    first: int  # the operand that is the first item
    ends: tuple[tuple[int, int], ...]  # the results that are items so far from the last one
    count: Callable[[], int | Tensor]  # how many items there are


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the alias graph: ``value`` is ``source`` itself where ``flag`` holds."""

    value: TapeValue
    source: TapeValue
    flag: Tensor
