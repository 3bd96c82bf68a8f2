"""The QDQ form of quantized models: products of floats between QuantizeLinear and DequantizeLinear.

::

    y = Gemm(x, weight, bias)

    x_q = QuantizeLinear(x, scale, zero)  # uint8
    x_d = DequantizeLinear(x_q, scale, zero)
    w_d = DequantizeLinear(weight_q, scales, 128)  # uint8, a scale for each output
    b_d = DequantizeLinear(bias_q, scale * scales, 0)  # int32
    y = Gemm(x_d, w_d, b_d)

Runtimes make products of integers of it.  Weights are uint8 around 128, as onnxruntime's products
of uint8 and int8 saturate on machines without an instruction for them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hybrid.core.dataclass import dataclass
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.nn.modules.module import Module
from hybrid.onnx.graph_writer import names_read, needed_nodes

FORMATS = ("integer", "qdq")
PRODUCTS = {"MatMul", "Gemm", "Conv", "ConvTranspose"}
MIDDLE = 128  # the zero point of weights
MOST = 2**31 - 1  # of a bias in integers
FINE = 1 / 4096  # steps of a bias in integers, of the largest product: those of few bits are coarse


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A weight of a static layer, with what quantizes what it multiplies."""

    q: np.ndarray  # int8
    scale: np.ndarray  # of one element, or one for each output, which are along ``axis``
    axis: int
    input_scale: np.float32
    input_zero: int
    high: int  # the largest activation
    bias: np.ndarray | None = None  # float32

    @property
    def steps(self) -> np.ndarray:
        """What the numbers of sums stand for: the bias is rounded to these."""
        return np.asarray(self.input_scale * self.scale, np.float32)

    @property
    def is_beyond(self) -> bool:
        """Whether the bias has no place in 32 bits; onnxruntime puts it there whatever it is."""
        if self.bias is None:
            return False
        return not (np.abs(self.bias / self.steps.astype(np.float64)) < MOST).all()

    @property
    def is_fine(self) -> bool:
        """Whether a bias of integers is near to that of floats."""
        return int(np.abs(self.q).max(initial=0)) * self.high * FINE >= 1


def with_floats(function: Any) -> tuple[Any, dict[int, QuantizedWeight]]:
    """``function`` with layers of floats for static ones, and their weights by ids of parameters.

    The layers compute with what the bytes stand for.  ArgumentError where there is no static layer.
    """
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(owner, Module):
        raise ArgumentError(
            f'format="qdq" cannot take {name}',
            why="Layers are written in another way, and what a plain function calls is not known.",
            fix="export the module itself, or a method of it",
        )
    kept = [tensor for module in owner.modules() for tensor in vars(module).values()
            if isinstance(tensor, Tensor)]  # fmt: skip
    network = copy.deepcopy(owner, {id(tensor): tensor for tensor in kept})
    made: dict[int, Module] = {}
    weights: dict[int, QuantizedWeight] = {}
    for layer in network.modules():
        if "input_scale" in layer._buffers and hasattr(layer, "in_floats"):
            made[id(layer)] = twin = layer.in_floats()
            q, scale = layer.weight_q.numpy(), layer.weight_scale.numpy()
            weights[id(twin.weight)] = QuantizedWeight(
                q=q,
                scale=scale,
                axis=0 if scale.ndim == 0 or scale.size == q.shape[0] else 1,
                input_scale=np.float32(layer.input_scale.numpy()),
                input_zero=int(layer.input_zero.numpy()),
                high=layer.activations.high,
                bias=None if twin.bias is None else twin.bias.detach().numpy(),
            )
    if not made:
        raise ArgumentError(
            f'format="qdq" is of static layers, and this {type(owner).__name__} has none',
            why="What goes into them has a scale that is known; other layers are as in integers.",
            fix='quantize(model, "static", data=...), or leave format out',
        )
    for parent in network.modules():
        for child_name, child in parent._modules:
            if id(child) in made:
                setattr(parent, child_name, made[id(child)])
    network = made.get(id(network), network)
    return (network if owner is function else getattr(network, function.__name__)), weights


def in_qdq_form(model: Any, weights: Mapping[str, QuantizedWeight]) -> None:
    """Let the products of ``model``, a ModelProto, compute with what has been quantized.

    ``weights`` are initializers, by name.
    """
    _Editor(model, weights).edit()


class _Editor:
    """A model on its way into the QDQ form."""

    def __init__(self, model: Any, weights: Mapping[str, QuantizedWeight]) -> None:
        self.graph, self.weights = model.graph, weights
        self.floats = {tensor.name: tensor for tensor in model.graph.initializer}
        self.names = set(self.floats) | {given.name for given in model.graph.input}
        self.added: dict[Any, str] = {}  # initializers and nodes by what they are
        for graph in _graphs(model.graph):
            self.names.update(name for node in graph.node for name in node.output)

    def edit(self) -> None:
        """Write all graphs anew, and leave out what nothing reads."""
        for graph in _graphs(self.graph):
            self.nodes: list[Any] = []
            self.made = dict[Any, str]()  # nodes of this graph
            self.sums: dict[str, QuantizedWeight] = {}  # products that biases are to come to
            self.turned: dict[str, str] = {}  # weights by the names of what transposes them
            for node in graph.node:
                self._node(node)
            del graph.node[:]
            graph.node.extend(needed_nodes(self.nodes, {output.name for output in graph.output}))
        needed = {name for graph in _graphs(self.graph) for name in names_read(graph.node)}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in needed]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)

    def _node(self, node: Any) -> None:
        if node.op_type == "Transpose" and node.input[0] in self.weights:
            self.turned[node.output[0]] = node.input[0]
            node.input[0] = self._weight(node.input[0], False)
        elif node.op_type in PRODUCTS and len(node.input) > 1:
            name = node.input[1]
            known = self.turned.get(name, name)
            if known in self.weights:
                self._product(node, known, name != known)
        elif node.op_type == "Add":
            for at, other in ((0, 1), (1, 0)):
                weight = self.sums.get(node.input[at])
                if weight is not None and node.input[other] in self.floats:
                    node.input[other] = self._bias(node.input[other], weight)
        for at, name in enumerate(node.input):
            if name in self.weights:
                node.input[at] = self._weight(name, False)
        self.nodes.append(node)

    def _product(self, node: Any, name: str, turned: bool) -> None:
        weight = self.weights[name]
        node.input[1] = self._weight(name, turned)
        if weight.is_beyond:  # a product of floats
            return
        node.input[0] = self._activations(node.input[0], weight)
        if node.op_type == "MatMul":
            self.sums[node.output[0]] = weight
        elif len(node.input) > 2 and node.input[2] in self.floats:
            node.input[2] = self._bias(node.input[2], weight)

    def _weight(self, name: str, turned: bool) -> str:
        """What a weight stands for, with its axes turned round if ``turned``."""
        weight = self.weights[name]
        key = ("weight", name, turned)
        if key not in self.made:
            q = (weight.q.astype(np.int16) + MIDDLE).astype(np.uint8)
            axis = weight.axis
            if turned:
                q, axis = np.ascontiguousarray(q.T), q.ndim - 1 - axis
            zero = np.full(weight.scale.shape, MIDDLE, np.uint8)
            self.made[key] = self._dequantized(f"{name}_q", q, weight.scale, zero, axis)
        return self.made[key]

    def _activations(self, name: str, weight: QuantizedWeight) -> str:
        """What goes into a product, rounded to what integers stand for."""
        scale, zero = weight.input_scale, weight.input_zero
        key = ("activations", name, scale.tobytes(), zero, weight.high)
        if key not in self.made:
            if weight.high < 255:  # fewer bits than those of a byte
                ends = [np.float32(scale * np.float32(at - zero)) for at in (0, weight.high)]
                limits = [self._constant(f"{name}_end", np.asarray(end)) for end in ends]
                name = self._append("Clip", f"{name}_clipped", name, *limits)
            parts = (
                self._constant(f"{name}_scale", np.asarray(scale)),
                self._constant(f"{name}_zero", np.asarray(zero, np.uint8)),
            )
            q = self._append("QuantizeLinear", f"{name}_q", name, *parts)
            self.made[key] = self._append("DequantizeLinear", f"{name}_d", q, *parts)
        return self.made[key]

    def _bias(self, name: str, weight: QuantizedWeight) -> str:
        """What a bias in steps of the sums stands for; itself if they are too many, or coarse."""
        bias, scale = numpy_helper.to_array(self.floats[name]), weight.steps
        steps = np.rint(bias / scale.astype(np.float64))
        fits = bias.ndim == 1 and bool((np.abs(steps) < MOST).all())
        if not fits or not weight.is_fine:
            return name
        key = ("bias", name, scale.tobytes())
        if key not in self.made:
            zero = np.zeros(scale.shape, np.int32)
            self.made[key] = self._dequantized(f"{name}_q", steps.astype(np.int32), scale, zero, 0)
        return self.made[key]

    def _dequantized(
        self, name: str, q: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int
    ) -> str:
        given = self._constant(name, q), self._constant(f"{name}_scale", scale)
        given = (*given, self._constant(f"{name}_zero", zero))
        attributes = {"axis": axis} if scale.ndim else {}
        return self._append("DequantizeLinear", f"{name}_d", *given, **attributes)

    def _constant(self, name: str, array: np.ndarray) -> str:
        """The name of an initializer; equal ones are there once."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.added:
            self.added[key] = self._free(name)
            tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
            tensor.name = self.added[key]
            self.graph.initializer.append(tensor)
        return self.added[key]

    def _append(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; the name of it and of its result."""
        name = self._free(name)
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def _free(self, base: str) -> str:
        name, count = base, 0
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name


def _graphs(graph: Any) -> Iterator[Any]:
    """``graph``, and those in its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)
