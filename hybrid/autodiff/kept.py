"""Snapshots: the operands and results that a record has saved, as tensors again."""

from __future__ import annotations

from typing import Any

from hybrid.core.types import TensorType
from hybrid.eager.tensor import make_tensor
from hybrid.ir.record import AnyRecord, Leaf, Output, Record, node_of


def make_snapshot(saved: Any) -> Any:
    """The saved operand as a Tensor with its history, or its type if only that was saved."""
    if type(saved) is TensorType:
        return saved
    type_, data, record = saved
    tensor = make_tensor(type_, data)
    tensor.record = record
    return tensor


def restored(node: Record, index: int) -> Any:
    """The saved result ``index`` of ``node`` as a Tensor with its history, or its type."""
    saved = node.results[index]
    if type(saved) is TensorType:
        return saved
    tensor = make_tensor(*saved)
    tensor.record = node if len(node.results) == 1 else Output(node, index)
    return tensor


def saved_type(saved: Any) -> TensorType:
    """The type of a saved operand or result."""
    return saved if type(saved) is TensorType else saved[0]


def type_of(record: AnyRecord) -> TensorType:
    """The type of the value that has this record."""
    node, index = node_of(record)
    return node.type if isinstance(node, Leaf) else saved_type(node.results[index])
