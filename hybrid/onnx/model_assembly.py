"""Models of ONNX from graphs: inputs, weights, nodes by their rules, opset and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from hybrid.core.dataclass import dataclass
from hybrid.core.package import __version__
from hybrid.core.types import DType, Shape, TensorType
from hybrid.errors import ArgumentError
from hybrid.ir import Graph, Value
from hybrid.ir.rewrite import inlined
from hybrid.onnx import rules as rules  # they enter the table
from hybrid.onnx.graph_writer import GraphWriter, ModelWriter, Wire, names_read, tensor_proto

OPSETS = range(17, 24)  # that models are written in


@dataclass(frozen=True)
class Weight:
    """A tensor that goes into the model: its elements lie in row-major order, little end first."""

    name: str
    dtype: DType
    shape: Shape
    data: bytes


@dataclass(frozen=True)
class ModelInput:
    """An input of a model, and the value of the graph that it is, if that needs it."""

    name: str
    type: TensorType
    value: Value | None


def require_opset(opset: Any) -> None:
    """Raise ArgumentError unless models are written in ``opset``."""
    if type(opset) is not int or opset not in OPSETS:
        raise ArgumentError(
            f"opset is {opset!r}",
            why=f"Models are written in opsets {OPSETS[0]} to {OPSETS[-1]}.",
            fix="leave it out, or give one of these",
        )


def model_of(
    graph: Graph, weights: Mapping[Value, Weight], inputs: Sequence[ModelInput],
    output_names: Sequence[str], opset: int, doc: str = "",
) -> Any:  # fmt: skip
    """The ModelProto of ``graph``, whose parameters are ``weights`` or among the ``inputs``.

    ``doc`` is what it says of itself.

    The same graph gives the same bytes.  Raises OnnxError for what ONNX has no words for.
    """
    graph = inlined(graph)
    model = ModelWriter(opset)
    g = GraphWriter(model)
    initializers = []
    for weight in {weight.name: weight for weight in weights.values()}.values():
        model.names.add(weight.name)
        initializers.append(tensor_proto(weight.name, weight.dtype, weight.shape, weight.data))
    model.names.update([*[given.name for given in inputs], *output_names])
    terms = []
    for given in inputs:
        value = given.value or Value(given.type)
        terms.append((g.bind(value, Wire(given.name, given.type.dtype)), given.type))
    for value, weight in weights.items():
        g.bind(value, Wire(weight.name, weight.dtype))
    results = g.write(graph)
    own = []
    for name, term, value in zip(output_names, results, graph.results, strict=True):
        g.nodes.append(helper.make_node("Identity", [term.name], [name], name=name))
        own.append((Wire(name, term.dtype), value.type))
    proto = g.finished(graph.name or "graph", terms, own)
    _without_copies(proto)
    needed = names_read(proto.node)
    proto.initializer.extend([t for t in (*initializers, *model.initializers) if t.name in needed])
    imports = [helper.make_opsetid("", opset)]
    made = helper.make_model(
        proto, producer_name="hybrid", producer_version=__version__, opset_imports=imports
    )
    if doc:
        made.doc_string = doc
    made.ir_version = helper.find_min_ir_version_for(imports)
    return made


def _without_copies(graph: Any) -> None:
    """Give a node's result the name of the output that copies it, where nothing else reads it."""
    reads: dict[str, int] = {}
    _count_reads(graph, reads)
    makers = {name: node for node in graph.node for name in node.output}
    outputs = {output.name for output in graph.output}
    kept = []
    for node in graph.node:
        name = node.output[0]
        source = node.input[0] if node.input else ""
        maker = makers.get(source)
        if node.op_type == "Identity" and name in outputs and maker and reads[source] == 1:
            at = list(maker.output).index(source)
            if maker.name == source:
                maker.name = name
            maker.output[at] = name
            makers[name] = maker
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)


def _count_reads(graph: Any, reads: dict[str, int]) -> None:
    for node in graph.node:
        for name in node.input:
            reads[name] = reads.get(name, 0) + 1
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _count_reads(attribute.g, reads)
    for output in graph.output:  # of graphs inside, which may read what is around
        reads[output.name] = reads.get(output.name, 0) + 1
