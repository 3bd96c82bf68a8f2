"""asarray and from_dlpack: tensors from what other libraries and Python hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.eager import as_tensor, from_numpy
from hybrid.errors import ArgumentTypeError
from hybrid.ir.interpreter import current
from hybrid.tensor import Tensor, make_tensor
from hybrid.types import dtype_of, require_device


def asarray(
    obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """``obj`` (a number, nested lists, an array, a Tensor) as a Tensor.

    A NumPy array of a supported dtype and contiguous layout is shared, not copied, unless ``copy``
    is True; with ``copy=False`` what cannot be shared raises.  Python's floats become float32, its
    ints int64.  A list that holds Tensors is stacked.
    """
    require_device(device)
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(obj, Tensor):
        if wanted is not None and wanted is not obj.dtype:
            if copy is False:
                raise ArgumentTypeError(f"{obj.type} as {wanted.name} needs a copy")
            return obj.astype(wanted)
        return obj.detach() if copy else obj
    interpreter = current()
    if interpreter.traces or interpreter.batches:
        return interpreter.lift(obj, wanted)
    if isinstance(obj, (np.ndarray, np.generic)):
        return from_numpy(np.asarray(obj), wanted, copy)
    if copy is False and isinstance(obj, (bool, int, float, list, tuple)):
        raise ArgumentTypeError(
            f"a {type(obj).__name__} cannot be shared without a copy", fix="pass copy=None"
        )
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
    return from_numpy(np.from_dlpack(x), None, copy)
