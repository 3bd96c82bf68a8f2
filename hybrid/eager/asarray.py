"""asarray and from_dlpack: tensors from what other libraries and Python hold."""

from __future__ import annotations

from typing import Any

from hybrid.core.types import dtype_of, require_device
from hybrid.eager.execution import array_from, as_tensor, from_numpy, memory_of, require_sharable
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentTypeError, SharingError
from hybrid.ir.interpreter import current


def asarray(
    obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """``obj`` (a number, nested lists, an array, a Tensor) as a Tensor.

    The memory of NumPy arrays, of objects with ``__dlpack__`` and of buffers is shared, not copied,
    if their dtype and layout allow, unless ``copy`` is True; with ``copy=False`` what cannot be
    shared raises SharingError, a ValueError.  Python's floats become float32, its ints int64.  A
    list that holds Tensors is stacked.
    """
    require_device(device)
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(obj, Tensor):
        if wanted is not None and wanted is not obj.dtype:
            if copy is False:
                raise SharingError(
                    f"{obj.type} as {wanted.name} cannot be shared without a copy",
                    fix="pass copy=None or copy=True",
                )
            return obj.astype(wanted)
        return obj.detach() if copy else obj
    if copy is False:
        obj = memory_of(obj)
        require_sharable(obj, dtype_of(obj.dtype) if wanted is None else wanted)
    interpreter = current()
    if interpreter.traces or interpreter.batches:
        return interpreter.lift(obj, wanted)
    if not isinstance(obj, (bool, int, float, list, tuple)):
        return from_numpy(array_from(obj), wanted, copy)
    made = as_tensor(obj, wanted)
    # The tensor of a number is shared by all who use it: this one gets a cell of its own.
    return made if isinstance(obj, (list, tuple)) else make_tensor(made.type, made.content)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A Tensor over the memory of ``x``, any object with ``__dlpack__``; CPU only."""
    require_device(device)
    if isinstance(x, Tensor):
        return x.detach()
    if not hasattr(x, "__dlpack__"):
        raise ArgumentTypeError(f"{type(x).__name__} does not speak DLPack")
    return from_numpy(memory_of(x) if copy is False else array_from(x), None, copy)
