"""load: the tensors of a safetensors file, on the pages that it is mapped to."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from hybrid.core.imports import optional
from hybrid.core.types import bool_
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import CaptureError, CheckpointError, author_location
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.memory import native
from hybrid.weights.header import TensorEntry, open_regular, read_header
from hybrid.weights.state_tree import TREE, put_together


class Checkpoint(dict[Any, Any]):
    """The tensors of a file by name, or the nested state that was saved.

    ``metadata`` has its texts, ``path`` says where it was.
    """

    metadata: dict[str, str]
    path: str

    def __init__(self, tensors: Any, metadata: dict[str, str], path: str) -> None:
        super().__init__(tensors)
        self.metadata, self.path = metadata, path

    def __reduce__(self) -> Any:
        return type(self), (dict(self), self.metadata, self.path)


def load(path: str | os.PathLike[str], *, copy: bool = False) -> Checkpoint:
    """The tensors of the safetensors file ``path`` by name, of any dtype that tensors have.

    Of a nested state that ``save`` has written, the state as it was.

    The file is mapped, not read: a tensor's bytes come from the disk when they are first used, and
    processes that load one file share its memory.  So leave the file as it is while tensors of it
    live: who writes into it changes their values, and who cuts it off ends this process with
    SIGBUS at the next use.  To replace or delete the file is safe (``save`` replaces).  With
    ``copy=True`` the values are read into memory, and the file is free.

    The whole header is checked first.  A file that breaks the format raises CheckpointError, which
    names the key; one that cannot be opened, OSError.  Needs the package ``safetensors`` (extra
    ``io``), which looks at the header, too.
    """
    if ACTIVE and current().traces:
        raise CaptureError(
            "hybrid.load was called inside a hybridized function",
            at=author_location(),
            why="A plan repeats what is computed, and does not read files again.",
            fix="load outside, and pass what is needed",
        )
    path = os.fsdecode(path)
    safetensors = optional("safetensors", "io", "hybrid.load")
    with open_regular(path) as file:
        header = read_header(file, path)
        try:
            with safetensors.safe_open(path, framework="numpy"):
                pass
        except safetensors.SafetensorError as error:
            raise CheckpointError(
                f"{path} is no safetensors file that can be loaded: {error}"
            ) from None
        if copy or not header.nbytes:
            whole = np.frombuffer(file.read(header.nbytes), np.uint8)
        else:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            whole = np.frombuffer(pages, np.uint8)[header.start :][: header.nbytes]
        if whole.size < header.nbytes:
            raise CheckpointError(f"{path} became shorter while it was read")
    found = {entry.name: _tensor(entry, whole, path) for entry in header.entries}
    for name, of in header.shared.items():
        found[name] = make_tensor(found[of].type, found[of].content)
    tree = header.metadata.pop(TREE, None)
    if tree is not None:
        try:
            found = put_together(tree, found)
        except ValueError:
            raise CheckpointError(
                f"{path} is no safetensors file that can be loaded: its text {TREE!r} does not "
                "tell how its tensors belong together"
            ) from None
    return Checkpoint(found, header.metadata, path)


def _tensor(entry: TensorEntry, whole: np.ndarray, path: str) -> Tensor:
    """The tensor of ``entry``: on the pages themselves if its first byte lies as kernels need."""
    kind = entry.type
    data = whole[entry.begin : entry.end]
    if kind.dtype is bool_ and kind.size and data.max() > 1:
        raise CheckpointError(
            f"{path} is no safetensors file that can be loaded: tensor {entry.name!r} has a byte "
            f"{data.max()}",
            why="Bytes of a BOOL are 0 or 1.",
        )
    if not kind.nbytes:
        return make_tensor(kind, native.allocate(0))
    if data.ctypes.data % kind.dtype.itemsize:
        buffer = native.allocate(kind.nbytes)
        native.view(buffer, kind.nbytes)[:] = memoryview(data)
        return make_tensor(kind, buffer)
    return make_tensor(kind, native.borrow(data))
