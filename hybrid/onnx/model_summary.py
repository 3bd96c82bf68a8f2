"""What is in a model of ONNX, as tables: inputs, outputs, ops, weights; nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any

from hybrid.onnx import handlers as handlers  # they enter the table
from hybrid.onnx.function_bodies import has_body, is_handled, since_version
from hybrid.onnx.model_file import (
    DTYPES,
    ModelFile,
    all_nodes,
    domain_of,
    plain_domain,
    read_model,
)

Row = dict[str, Any]


def summary(model: str | PathLike[str] | bytes | Any) -> dict[str, list[Row]]:
    """Tables of rows: who wrote it and what it says of itself, what goes in and out, opsets, ops
    with their counts, and weights.

    Of each op it is said what stands for it in ``load``: ``handler``, a function of hybrid;
    ``body``, ops that define it, in the file or in ONNX; or ``nothing``.  Raises OnnxError where
    the file is no model.
    """
    file = read_model(model)
    graph = file.proto.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    proto = file.proto
    return {
        "model": [
            {
                "name": graph.name,
                "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
                "format": proto.ir_version,
                "about": proto.doc_string.strip().partition("\n")[0],
            }
        ],
        "inputs": [_value(value) for value in inputs],
        "outputs": [_value(value) for value in graph.output],
        "opsets": [{"domain": d or "ai.onnx", "opset": v} for d, v in file.versions.items()],
        "ops": _ops(file),
        "weights": _weights(graph.initializer),
    }


def _value(value: Any) -> Row:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return {"name": value.name, "type": (kind or "unknown").removesuffix("_type")}
    tensor = value.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type)
    name = dtype.short if dtype is not None else f"type {tensor.elem_type}"
    if not tensor.HasField("shape"):
        return {"name": value.name, "type": f"{name}[...]"}
    sizes = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in tensor.shape.dim
    ]
    return {"name": value.name, "type": f"{name}[{','.join(sizes)}]"}


def _ops(file: ModelFile) -> list[Row]:
    """The ops of all graphs, those that are there most often first."""
    own = {(plain_domain(f.domain), f.name) for f in file.proto.functions}
    nodes = [*all_nodes(file.proto.graph.node)]
    for function in file.proto.functions:
        nodes += all_nodes(function.node)
    rows: dict[str, Row] = {}
    for node in nodes:
        name = f"{domain_of(node)}{node.op_type}"
        if name not in rows:
            called = (plain_domain(node.domain), node.op_type) in own
            by = "handler" if is_handled(node, file) else "nothing"
            if called or (by == "nothing" and has_body(node, file)):
                by = "body"
            since = since_version(node, file)
            rows[name] = {"op": name, "since": since or "-", "count": 0, "by": by}
        rows[name]["count"] += 1
    return sorted(rows.values(), key=lambda row: (-row["count"], row["op"]))


def _weights(tensors: Sequence[Any]) -> list[Row]:
    """How many weights of each dtype there are, and what they take."""
    rows: dict[str, Row] = {}
    for tensor in tensors:
        dtype = DTYPES.get(tensor.data_type)
        name = dtype.short if dtype is not None else f"type {tensor.data_type}"
        row = rows.setdefault(name, {"dtype": name, "tensors": 0, "elements": 0, "bytes": 0})
        count = math.prod(tensor.dims)
        row["tensors"] += 1
        row["elements"] += count
        row["bytes"] += count * (dtype.itemsize if dtype is not None else 0)
    return list(rows.values())
