"""Other dtypes for the tensors of a module, which remain the tensors that everybody knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hybrid.config import advance_epoch
from hybrid.core.types import DEVICE, dtype_of, require_device
from hybrid.eager.tensor import Tensor
from hybrid.errors import CaptureError, DTypeError, author_location
from hybrid.ir.interpreter import ACTIVE, current

if TYPE_CHECKING:
    from hybrid.nn.module import Module


def retype(cell: Tensor, value: Tensor) -> None:
    """Let ``cell`` hold ``value``, whose dtype is another: all who know the cell see it."""
    if ACTIVE and current().traces:
        raise CaptureError(
            f"a tensor of {cell.type} was converted in place inside a hybridized function",
            at=author_location(),
            why="A plan is made for the types that it has found.",
            fix="convert modules outside, or use what astype() returns",
        )
    grad, wanted = cell.grad, getattr(cell, "leaf", None) is not None
    cell.requires_grad = False
    cell.type, cell.content = value.type, value.content
    if wanted:
        cell.requires_grad = True
        cell.grad = None if grad is None else grad.astype(value.dtype)
    advance_epoch()


def convert(module: Module, args: Sequence[Any], dtype: Any, device: Any) -> None:
    """What ``Module.to`` does."""
    for given in args:
        if isinstance(given, Tensor):  # like that one
            dtype = given.dtype
        elif given == DEVICE:
            device = given
        else:
            dtype = given
    require_device(None if device is None else str(device))
    if dtype is None:
        return
    wanted = dtype_of(dtype)
    if not wanted.is_floating:
        raise DTypeError(
            f"a {type(module).__name__} cannot be converted to {wanted.name}",
            why="Parameters are floating; other buffers keep their dtypes.",
            fix="give a floating dtype",
        )
    cells = [*module.parameters(), *module.buffers()]
    for cell in {id(cell): cell for cell in cells}.values():
        if cell.dtype.is_floating and cell.dtype is not wanted:
            retype(cell, cell.detach().astype(wanted))
