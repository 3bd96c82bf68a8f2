"""Models as files say them: protobuf to checked graphs, tensors to arrays, weights beside the file.

Nothing here trusts a file: sizes are compared before memory is asked for, and data outside the file
are read from regular files inside its folder alone.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from hybrid import ops
from hybrid.core import types
from hybrid.core.dataclass import dataclass
from hybrid.core.types import DType
from hybrid.eager.execution import from_numpy
from hybrid.errors import ArgumentTypeError, OnnxError
from hybrid.memory.bfloat16 import from_bfloat16
from hybrid.onnx.node_table import ML, TRAINING

DTYPES: dict[int, DType] = {
    TensorProto.FLOAT: types.float32,
    TensorProto.UINT8: types.uint8,
    TensorProto.INT8: types.int8,
    TensorProto.UINT16: types.uint16,
    TensorProto.INT16: types.int16,
    TensorProto.INT32: types.int32,
    TensorProto.INT64: types.int64,
    TensorProto.BOOL: types.bool_,
    TensorProto.FLOAT16: types.float16,
    TensorProto.DOUBLE: types.float64,
    TensorProto.UINT32: types.uint32,
    TensorProto.UINT64: types.uint64,
    TensorProto.BFLOAT16: types.bfloat16,
}
DOMAINS = ("", ML, TRAINING, "ai.onnx.preview")
DEEPEST = 100  # graphs in graphs
_PORTION = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """A model, and where it is from."""

    proto: Any  # ModelProto
    label: str  # what errors call it
    folder: str | None  # that data outside the file may be in
    versions: dict[str, int]  # opsets, by domain

    def fail(self, what: str, node: Any = None, **parts: str) -> OnnxError:
        """An error that names the file, and the node that is at fault."""
        return OnnxError(f"{self.label}: {place(node)}{what}", **parts)


def place(node: Any) -> str:
    """``node 'conv1' (Conv): ``, as messages begin; nothing if there is no node."""
    if node is None:
        return ""
    name = node.name or (node.output[0] if node.output else "")
    return f"node {name!r} ({domain_of(node)}{node.op_type}): "


def domain_of(node: Any) -> str:
    domain = plain_domain(node.domain)
    return f"{domain}." if domain else ""


def plain_domain(domain: str) -> str:
    """``""`` is what the domain ai.onnx is called, too."""
    return "" if domain == "ai.onnx" else domain


def read_model(model: Any, folder: str | PathLike[str] | None = None) -> ModelFile:
    """The model in a file, in bytes, or a ModelProto, whose weights beside it are in ``folder``."""
    label, place_ = "the model", None if folder is None else os.fspath(folder)
    if isinstance(model, onnx.ModelProto):
        proto = model
    elif isinstance(model, (bytes, bytearray, memoryview)):
        proto = _parsed(bytes(model), label)
    elif isinstance(model, (str, PathLike)):
        path = os.fspath(model)
        label = os.path.basename(path)
        place_ = os.path.dirname(os.path.abspath(path)) if folder is None else place_
        try:
            with open(path, "rb") as file:
                proto = _parsed(file.read(), label)
        except OSError as error:
            raise OnnxError(f"{path} cannot be read: {error.strerror}") from error
    else:
        raise ArgumentTypeError(
            f"a {type(model).__name__} is no ONNX model",
            fix="pass the path of a file, its bytes, or an onnx.ModelProto",
        )
    if not all(isinstance(name, str) for name in _names(proto)):  # protobuf gives bytes for those
        raise OnnxError(f"{label} has a name that is no text in UTF-8")
    return ModelFile(proto, label, place_, _versions(proto, label))


def _names(proto: Any) -> Iterator[Any]:
    """All names in a model."""
    for entry in proto.opset_import:
        yield entry.domain
    bodies = [proto.graph, *proto.functions]
    for function in proto.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
    for body in bodies:
        yield from _names_in(body, 0)


def _names_in(body: Any, depth: int) -> Iterator[Any]:
    if depth > DEEPEST:
        raise OnnxError(f"graphs lie in graphs more than {DEEPEST} deep")
    yield body.name
    if isinstance(body, onnx.GraphProto):
        yield from (value.name for value in (*body.input, *body.output, *body.initializer))
        yield from (tensor.values.name for tensor in body.sparse_initializer)
    for node in body.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
        for graph in subgraphs(node):
            yield from _names_in(graph, depth + 1)


def _parsed(data: bytes, label: str) -> Any:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise OnnxError(f"{label} is no ONNX model: {error}") from error
    if not proto.HasField("graph"):
        raise OnnxError(
            f"{label} is no ONNX model: it has no graph",
            why="A file of another kind, or one that was cut off, can look like an empty model.",
        )
    return proto


def _versions(proto: Any, label: str) -> dict[str, int]:
    found: dict[str, int] = {}
    newest = {
        "": onnx.defs.onnx_opset_version(),
        ML: onnx.defs.onnx_ml_opset_version(),
        TRAINING: 1,
        "ai.onnx.preview": 1,
    }
    for entry in proto.opset_import:
        domain, version = plain_domain(entry.domain), entry.version
        if domain in found and found[domain] != version:
            raise OnnxError(f"{label} names two opsets of {domain or 'ai.onnx'}")
        found[domain] = version
        most = newest.get(domain)
        if most is not None and not 1 <= version <= most:
            raise OnnxError(
                f"{label} is of opset {version} of {domain or 'ai.onnx'}",
                why=f"The installed package onnx {onnx.__version__} knows opsets 1 to {most}.",
                fix="install a newer onnx, or export the model for an older opset",
            )
    if not found:
        found[""] = 1  # files of IR version 1 and 2 say nothing
    return found


# Tensors -----------------------------------------------------------------------------------------

_FIELDS = {  # where values stand that are not raw, and as what
    TensorProto.FLOAT: ("float_data", np.float32),
    TensorProto.DOUBLE: ("double_data", np.float64),
    TensorProto.INT64: ("int64_data", np.int64),
    TensorProto.UINT32: ("uint64_data", np.uint32),
    TensorProto.UINT64: ("uint64_data", np.uint64),
}


def dtype_at(code: int, file: ModelFile, what: str, node: Any = None) -> DType:
    """The dtype of a number of TensorProto.DataType; OnnxError if tensors do not hold it."""
    if code not in DTYPES:
        known = TensorProto.DataType.values()
        name = TensorProto.DataType.Name(code) if code in known else str(code)
        raise file.fail(
            f"{what} is of type {name}",
            node,
            why="Tensors hold bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 "
            "and float64.",
        )
    return DTYPES[code]


def array_of(tensor: Any, file: ModelFile) -> np.ndarray:
    """The values of a TensorProto; those of bfloat16 as their bits, uint16."""
    what = f"tensor {tensor.name!r}"
    dtype = dtype_at(tensor.data_type, file, what)
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape) or len(shape) > types.MAX_RANK:
        raise file.fail(f"{what} has the shape {list(shape)}")
    count = math.prod(shape)
    kind = np.dtype(np.uint16) if dtype is types.bfloat16 else dtype.numpy
    wanted = count * kind.itemsize
    if tensor.data_location == TensorProto.EXTERNAL:
        data = external_bytes(tensor, file, wanted)
        return np.frombuffer(data, kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
    if tensor.HasField("raw_data"):
        data = tensor.raw_data
        if len(data) != wanted:
            raise file.fail(
                f"{what} has {len(data)} bytes", why=f"{dtype.short}{list(shape)} takes {wanted}."
            )
        return np.frombuffer(data, kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
    name, held = _FIELDS.get(tensor.data_type, ("int32_data", np.int32))
    values = getattr(tensor, name)
    if len(values) != count:
        raise file.fail(
            f"{what} has {len(values)} values", why=f"Its shape {list(shape)} takes {count}."
        )
    found = np.array(values, np.uint64 if name == "uint64_data" else held)
    if dtype is types.float16:
        return found.astype(np.uint16).view(np.float16).reshape(shape)
    return found.astype(kind).reshape(shape)


def tensor_of(array: np.ndarray, code: int) -> Any:
    """A tensor of what ``array_of`` has given for a TensorProto of the type ``code``.

    Its memory is its own: plans may keep what they compute of it ahead.
    """
    if code == TensorProto.BFLOAT16:
        return ops.astype(ops.as_tensor(from_bfloat16(array)), types.bfloat16)
    return from_numpy(array, copy=True)


def dense_of(sparse: Any, file: ModelFile) -> np.ndarray:
    """The values of a SparseTensorProto, zeros included."""
    what = f"sparse tensor {sparse.values.name!r}"
    values, indices = array_of(sparse.values, file), array_of(sparse.indices, file)
    shape = tuple(sparse.dims)
    count = math.prod(shape)
    if any(size < 0 for size in shape) or count > 1 << 31:
        raise file.fail(f"{what} has the shape {list(shape)}")
    if values.ndim != 1 or indices.shape not in ((len(values),), (len(values), len(shape))):
        raise file.fail(f"{what} has values {values.shape} at indices {indices.shape}")
    if indices.ndim == 2:
        below = (indices >= 0).all() and (indices < np.array(shape)).all()
        places = indices @ np.array([math.prod(shape[at + 1 :]) for at in range(len(shape))], int)
    else:
        below, places = (indices >= 0).all() and (indices < count).all(), indices
    if not below:
        raise file.fail(f"{what} has an index outside its shape {list(shape)}")
    dense = np.zeros(count, values.dtype)
    dense[places.astype(np.int64)] = values
    return dense.reshape(shape)


def external_bytes(tensor: Any, file: ModelFile, wanted: int) -> bytearray:
    """What a tensor has in a file beside the model: ``wanted`` bytes from its offset on."""
    what = f"tensor {tensor.name!r}"
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", wanted))
    except ValueError:
        raise file.fail(f"{what} has no numbers for its offset and length outside") from None
    if length != wanted or offset < 0:
        raise file.fail(
            f"{what} takes {length} bytes from {offset} on of {location!r}",
            why=f"Its type takes {wanted}, from 0 on at least.",
        )
    if file.folder is None:
        raise file.fail(
            f"{what} is in the file {location!r} beside the model",
            why="A model that is given as bytes is in no folder.",
            fix="pass the path of the file, or folder=",
        )
    try:
        handle = _open_inside(file.folder, location)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise file.fail(
            f"{what} cannot be read from {location!r}: {reason}",
            why="Weights lie in regular files in the folder of the model or below, named by a "
            "relative path without links.",
        ) from None
    with os.fdopen(handle, "rb") as opened:
        size = os.fstat(handle).st_size
        if offset + length > size:
            raise file.fail(
                f"{what} takes {length} bytes from {offset} on of {location!r}",
                why=f"The file has {size}.",
            )
        opened.seek(offset)
        data = bytearray(length)
        view, at = memoryview(data), 0
        while at < length:
            count = opened.readinto(view[at : at + _PORTION])
            if not count:
                raise file.fail(f"{what} was cut off: {location!r} ends while it is read")
            at += count
    return data


def _open_inside(folder: str, location: str) -> int:
    """A descriptor of the regular file at ``location`` in ``folder``; no link is followed."""
    if not isinstance(location, str):
        raise ValueError("the path is no text in UTF-8")
    parts = location.replace("\\", "/").split("/")
    if not location or location.startswith(("/", "\\")) or "\0" in location or ":" in parts[0]:
        raise ValueError("the path is not relative")
    parts = [part for part in parts if part not in ("", ".")]
    if not parts or ".." in parts:
        raise ValueError("the path leads out of the folder of the model")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        found = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    finally:
        os.close(handle)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise ValueError("it is no regular file")
    return found


# Graphs ------------------------------------------------------------------------------------------


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs among the attributes of ``node``."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes: Any) -> Iterator[Any]:
    """Those of ``nodes``, and those in their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def outer_names(node: Any) -> list[str]:
    """The names that a node reads, those that its subgraphs take from around them included."""
    found = [name for name in node.input if name]
    for graph in subgraphs(node):
        own = {value.name for value in (*graph.input, *graph.initializer)}
        own |= {tensor.values.name for tensor in graph.sparse_initializer}
        own |= {name for inner in graph.node for name in inner.output}
        read = [name for inner in graph.node for name in outer_names(inner)]
        read += [value.name for value in graph.output]
        found += [name for name in read if name not in own]
    return found


def in_order(nodes: Any, known: set[str], file: ModelFile) -> list[Any]:
    """``nodes`` so that each comes after those it reads of; ``known`` are the names from before."""
    makers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in node.output:
            if name and (name in makers or name in known):
                raise file.fail(f"the name {name!r} is given twice", node)
            if name:
                makers[name] = position
    waiting: list[int] = []
    readers: dict[int, list[int]] = {}
    for position, node in enumerate(nodes):
        sources = set()
        for name in outer_names(node):
            if name in makers:
                sources.add(makers[name])
            elif name not in known:
                raise file.fail(f"it reads {name!r}, which nothing gives", node)
        waiting.append(len(sources))
        for source in sources:
            readers.setdefault(source, []).append(position)
    ready = [position for position, count in enumerate(waiting) if count == 0][::-1]
    ordered = []
    while ready:
        position = ready.pop()
        ordered.append(position)
        for reader in reversed(readers.get(position, ())):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(ordered) < len(waiting):
        left = [nodes[position] for position, count in enumerate(waiting) if count]
        raise file.fail(f"{len(left)} nodes read of one another in a circle", left[0])
    in_place = all(
        makers.get(name, -1) < position
        for position, node in enumerate(nodes)
        for name in outer_names(node)
    )
    return list(nodes) if in_place else [nodes[position] for position in ordered]
