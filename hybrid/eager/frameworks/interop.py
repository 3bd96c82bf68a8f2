"""Exchange with other libraries: asarray and from_dlpack, and the backend that einops asks for.

einops finds its backends among the subclasses of a class of its own.  Ours is declared when einops
is imported, before or after this package, which does not import it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from hybrid import ops
from hybrid.core.types import dtype_of, require_device
from hybrid.eager.execution import array_from, as_tensor, from_numpy, memory_of, require_sharable
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentTypeError, SharingError
from hybrid.ir.interpreter import current

_EINOPS = "einops._backends"


def register() -> None:
    """Make tensors known to einops, now if it is imported, else as soon as it is."""
    module = sys.modules.get(_EINOPS)
    if module is None:
        sys.meta_path.insert(0, _Finder())
    else:
        _declare_backend(module)


class _Finder:
    """Sees to it that the backend is declared once einops is loaded; finds nothing itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _EINOPS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """The loader of einops, with our declaration behind it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _declare_backend(module)


def _declare_backend(einops_backends: ModuleType) -> None:
    class HybridBackend(einops_backends.AbstractBackend):
        framework_name = "hybrid"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: Any) -> Tensor:
            return asarray(x)

        def to_numpy(self, x: Tensor) -> Any:
            return x.numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return ops.arange(start, stop)

        def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
            return ops.reshape(x, tuple(shape))

        def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
            return ops.permute_dims(x, axes)

        def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
            return getattr(ops, operation)(x, axis=tuple(axes))

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return ops.stack(tensors)

        def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
            return ops.tile(x, tuple(repeats))

        def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
            return ops.concat(tensors, axis=axis)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return ops.expand_dims(x, axis=new_position)

        def is_float_type(self, x: Tensor) -> bool:
            return x.dtype.is_floating

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return ops.einsum(pattern, *x)

    # einops holds its backends weakly, by type.__subclasses__.
    einops_backends.HybridBackend = HybridBackend


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
