"""Models of ONNX checked, and written whole or not at all; large weights lie beside them.

::

    m.onnx  m.onnx.5f0c61e2a7d3b948.data      # the name of the data follows from what they hold

So data never take the place of others: the model that is replaced has its own until it is gone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import onnx
from onnx import StringStringEntryProto, TensorProto, helper

from hybrid.core.output_file import is_regular, remove_abandoned, whole_file
from hybrid.errors import OnnxError

LARGEST = 2**31 - 2**24  # bytes of weights that a file holds beside the rest: protobuf ends at 2 GB
_SMALL = 1024  # bytes: what is below stays in the file
_PAGE = 4096  # where weights begin, so that readers can map them


def save_model(model: Any, path: Path, external_data: bool | None) -> None:
    """Check ``model`` and write it to ``path``; raises OnnxError, and OSError where it cannot be.

    ``external_data``: whether large weights go into a file beside it; None: if they have to.
    """
    check_model(model)
    size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if external_data is None:
        external_data = size > LARGEST
    if size > LARGEST and not external_data:
        raise OnnxError(
            f"{path.name} would have weights of {size} bytes",
            why="A file of ONNX holds less than 2 GB.",
            fix="leave external_data out",
        )
    if external_data and not is_regular(path):
        raise OnnxError(
            f"{path} is no regular file, beside which weights could lie",
            fix="leave external_data out, or name a file",
        )
    tensors = [t for t in model.graph.initializer if len(t.raw_data) >= _SMALL]
    before, own = _data_files(path), set[Path]()
    try:
        if external_data and tensors:
            own.add(_write_data(tensors, path))
        with whole_file(path) as file:  # after its data: a model never stands without them
            file.write(model.SerializeToString(deterministic=True))
    except BaseException:
        _remove(own - before)
        raise
    _remove(before - own)  # also those that a kill has left


def _data_files(path: Path) -> set[Path]:
    """Data of the model that ``path`` is, or was before; those that a kill has cut short go."""
    own = re.compile(re.escape(path.name) + r"\.[0-9a-f]{16}\.data")
    names = [item.name for item in path.parent.iterdir()] if path.parent.is_dir() else []
    for found in filter(None, map(own.match, names)):
        remove_abandoned(str(path.parent), found[0])
    return {path.with_name(name) for name in names if own.fullmatch(name)}


def _remove(files: set[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)


def _write_data(tensors: Sequence[Any], path: Path) -> Path:
    """Move the elements of ``tensors`` into a file beside ``path``, which is returned."""
    digest = blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(len(tensor.raw_data).to_bytes(8, "little"))
        digest.update(tensor.raw_data)
    beside = path.with_name(f"{path.name}.{digest.hexdigest()}.data")
    with whole_file(beside) as data:
        for tensor in tensors:
            _move(tensor, data, beside.name)
    return beside


def _move(tensor: Any, data: IO[bytes], name: str) -> None:
    """Write the elements of ``tensor`` to ``data``, and note where they are."""
    data.write(bytes(-data.tell() % _PAGE))
    place = {"location": name, "offset": data.tell(), "length": len(tensor.raw_data)}
    data.write(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.extend(
        [StringStringEntryProto(key=key, value=str(value)) for key, value in place.items()]
    )


def check_model(model: Any) -> None:
    """Raise OnnxError unless ``onnx.checker``, with all its checks, accepts ``model``.

    Its weights count as inputs there: their types are what matters, and they may be large.
    """
    try:
        onnx.checker.check_model(_without_weights(model), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise OnnxError(
            f"the model that was written is not valid: {error}",
            why="That is a mistake of hybrid's.",
            fix="report it, with the function",
        ) from error


def _without_weights(model: Any) -> Any:
    """``model`` with large initializers as inputs."""
    light = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name)
    light.opset_import.extend(model.opset_import)
    graph = model.graph
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    for tensor in graph.initializer:
        if len(tensor.raw_data) < _SMALL:
            light.graph.initializer.append(tensor)
        else:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(info)
    return light
