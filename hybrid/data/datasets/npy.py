"""Arrays in ``.npy`` files, mapped into memory: what is never read never leaves the disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.data.datasets.dataset import TensorDataset
from hybrid.data.transforms import RowFunction
from hybrid.eager.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import DataFileError, DTypeError, HybridError

Path = str | os.PathLike[str]


def read_npy(path: Path, *, mmap: bool = True) -> Tensor:
    """The array in a ``.npy`` file as a tensor.

    ``mmap``: its memory is the file, which must stay as it is; a file in another byte order or in
    Fortran order is read whole.  DataFileError: the file is no such file, ends early, or holds what
    no tensor does.
    """
    path = os.fspath(path)
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        array = _empty(path)
        if array is None:
            raise DataFileError(
                f"{path} cannot be read as a .npy file",
                why=f"{str(error).rstrip('.')}.",
                fix="write it with numpy.save; arrays of Python objects are not read",
            ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise DataFileError(f"{path} is a .npz file", fix="load it with numpy.load")
    try:
        return asarray(np.asarray(array))
    except (DTypeError, HybridError) as error:
        raise DataFileError(
            f"{path} holds {array.dtype}", why="No tensor does.", fix="convert it with NumPy"
        ) from error


def _empty(path: str) -> np.ndarray | None:
    """The array of a file without elements, which cannot be mapped."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        return None
    return array if isinstance(array, np.ndarray) and not array.size else None


class NpyDataset(TensorDataset):
    """Samples are the slices of ``.npy`` files along their first axes, as tuples.

    The files are mapped, here and in worker processes: they may be larger than the memory.
    ``transforms`` are those of a TensorDataset.
    """

    def __init__(
        self, *paths: Path, transforms: Sequence[RowFunction | None] | None = None
    ) -> None:
        self.paths = tuple(os.path.abspath(os.fspath(path)) for path in paths)
        super().__init__(*[read_npy(path) for path in self.paths], transforms=transforms)

    def __reduce__(self) -> Any:
        return _opened, (type(self), self.paths, self.transforms)


def _opened(kind: type[NpyDataset], paths: tuple[str, ...], transforms: Any) -> NpyDataset:
    return kind(*paths, transforms=transforms) if any(transforms) else kind(*paths)
