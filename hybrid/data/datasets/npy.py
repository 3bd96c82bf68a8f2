"""Arrays in ``.npy`` files, mapped into memory: what is never read never leaves the disk."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.exceptions import is_interrupt
from hybrid.data.datasets.dataset import TensorDataset
from hybrid.data.transforms import RowFunction
from hybrid.eager.frameworks.interop import asarray
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
    _refuse_archive(path)
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except OSError:  # there is none, or it may not be read
        raise
    except Exception as error:  # NumPy lets through what its parsers of headers raise
        parsed = mmap and type(error) is MemoryError  # nothing else takes memory
        if is_interrupt(error) and not parsed:
            raise
        array = _empty(path)
        if array is None:
            raise DataFileError(
                f"{path} cannot be read as a .npy file",
                why=f"{str(error).rstrip('.') or type(error).__name__}.",
                fix="write it with numpy.save; arrays of Python objects are not read",
            ) from error
    try:
        return asarray(np.asarray(array))
    except (DTypeError, HybridError) as error:
        raise DataFileError(
            f"{path} holds {array.dtype}", why="No tensor does.", fix="convert it with NumPy"
        ) from error


def _refuse_archive(path: str) -> None:
    """Raise DataFileError for what NumPy would take for a .npz file, and leave open."""
    with open(path, "rb") as file:
        archive = file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    if archive and zipfile.is_zipfile(path):
        raise DataFileError(f"{path} is a .npz file", fix="load it with numpy.load")
    if archive:
        raise DataFileError(
            f"{path} cannot be read as a .npy file",
            why="It begins like an archive, and is none.",
            fix="write it with numpy.save",
        )


def _empty(path: str) -> np.ndarray | None:
    """The array of a file without elements, which cannot be mapped."""
    try:
        array = np.load(path, allow_pickle=False)
    except Exception as error:
        if is_interrupt(error) and not isinstance(
            error, MemoryError
        ):  # which it takes if not empty
            raise
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
