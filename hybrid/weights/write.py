"""save: tensors by name into a safetensors file, which is whole or as it was before.

Written here and not by the package ``safetensors``, which orders metadata anew in every process:
the same tensors give the same bytes.  The package reads what was written before the file gets its
name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from hybrid.core.imports import optional
from hybrid.core.output_file import whole_file
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor, refused_part
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.memory import native
from hybrid.weights.header import METADATA, NAMES, PREFIX, SHARED
from hybrid.weights.state_tree import TREE, is_flat, taken_apart

ALIGNMENT = 64  # bytes: the data begin at a multiple of it, as kernels like it best
_STATE = "pass a module, its state_dict(), or a dict of names and tensors"


def save(state: Any, path: Any, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a module's ``state_dict()``, or tensors or arrays by name, as safetensors to ``path``.

    ``save(path, state)`` does the same: one of the two is a path, a text or a ``PathLike``.

    ``state`` may be nested, too: ``{"model": model, "optimizer": optimizer, "epoch": 3}``, dicts
    with keys that are texts or ints, lists and tuples of tensors, numbers, texts and None, and what
    has a ``state_dict()``.  Tensors are named by their dotted paths, the rest is a text of the
    file; ``load`` gives it back as it was.

    The file appears when it is whole and on the disk: whatever goes wrong before, one that was
    there is still there.  A tensor that has several names (tied weights) is written once; ``load``
    gives it back under all, and ``safetensors.torch.load_model`` knows it, too.  The same state
    gives the same bytes.

    ``metadata`` are texts to keep; by default those of the checkpoint that ``state`` is, if any.
    "format" is "pt" unless given: names and layouts are PyTorch's.  Needs the package
    ``safetensors`` (extra ``io``).
    """
    state, path = _in_order(state, path)
    safetensors = optional("safetensors", "io", "hybrid.save")
    tensors, tree = _tensors(state)
    for tensor in tensors.values():
        if tensor.type.layout is not None:
            raise refused_part("saving", tensor.type)
    if metadata is None:
        metadata = getattr(state, "metadata", {})
    kept, shared = _distinct(tensors)
    header = _header(kept, _texts(metadata, shared) | tree)
    with whole_file(path) as file:
        file.write(header)
        for tensor in kept.values():
            file.write(native.view(tensor.content, tensor.nbytes))
        file.flush()
        if isinstance(file.name, str):  # not the number of an open descriptor
            with safetensors.safe_open(file.name, framework="numpy"):
                pass


def _in_order(state: Any, path: Any) -> tuple[Any, str | os.PathLike[str]]:
    """The two arguments of ``save``, of which one is a path."""
    paths = [isinstance(value, (str, os.PathLike)) for value in (state, path)]
    if all(paths):
        raise ArgumentTypeError(
            f"save got two paths, {os.fspath(state)!r} and {os.fspath(path)!r}",
            fix="give a state and a path: save(state, path)",
        )
    if not any(paths):
        raise ArgumentTypeError(
            f"save got no path, but a {type(state).__name__} and a {type(path).__name__}",
            fix="give a state and a path: save(state, path)",
        )
    return (path, state) if paths[0] else (state, path)


def _tensors(state: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
    """``state`` as tensors by name, whose values do not change from now on; the text of a nested
    one.
    """
    given = state.state_dict() if hasattr(state, "state_dict") else state
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"a {type(state).__name__} cannot be saved", fix=_STATE)
    tree = {}
    if not is_flat(given):
        given, tree[TREE] = taken_apart(given)
    return {name: _tensor(name, value) for name, value in given.items()}, tree


def _tensor(name: str, value: Any) -> Tensor:
    if name == METADATA:
        raise ArgumentError(f"a tensor cannot be called {name!r}", why="Files keep texts there.")
    if isinstance(value, (np.ndarray, np.generic)):
        return asarray(value)
    value._require_value("saving")
    return value.detach()


def _distinct(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors that are written, and the other names of some: {other: first}.

    Those of the largest elements come first, so that all lie aligned.
    """
    first: dict[Any, str] = {}
    shared = {}
    for name, tensor in tensors.items():
        of = first.setdefault((id(tensor.content), tensor.type), name)
        if of != name:
            shared[name] = of
    kept = [(name, tensor) for name, tensor in tensors.items() if name not in shared]
    return dict(sorted(kept, key=lambda item: -item[1].dtype.itemsize)), shared


def _texts(metadata: Mapping[str, str], shared: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a file; ``shared`` is told in a way of its own and in PyTorch's."""
    if not isinstance(metadata, Mapping) or not all(
        isinstance(text, str) for item in metadata.items() for text in item
    ):
        raise ArgumentTypeError("metadata are not texts by name", fix="give a dict of str to str")
    taken = next((name for name in metadata if name in shared or name in (SHARED, TREE)), None)
    if taken is not None:
        raise ArgumentError(
            f"metadata cannot have the name {taken!r}",
            why="It is needed to say which tensors are the same."
            if taken != TREE
            else "It is needed to say how the tensors belong together.",
            fix="choose another name",
        )
    texts = {"format": "pt", **metadata, **shared}
    return texts | ({SHARED: json.dumps(shared)} if shared else {})


def _header(tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> bytes:
    """The length and the JSON; spaces after it let the data begin at a multiple of ALIGNMENT."""
    fields: dict[str, Any] = {METADATA: metadata}
    at = 0
    for name, tensor in tensors.items():
        offsets = [at, at := at + tensor.nbytes]
        dtype, shape = NAMES[tensor.dtype], list(tensor.shape)
        fields[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(PREFIX + len(text)) % ALIGNMENT)
    return len(text).to_bytes(PREFIX, "little") + text
