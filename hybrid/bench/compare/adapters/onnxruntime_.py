"""Workloads in ONNX Runtime: graphs with constant weights, built by ``onnx``; inference alone."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from hybrid.bench.compare.adapter import WorkloadProgram, function, functions
from hybrid.bench.compare.problems import (
    ENCODER,
    GPT,
    HEADS,
    RESNET18,
    SMALL,
    STEP,
    Problem,
    blocks,
    projects,
)

VERSION = onnxruntime.__version__
_threads = {"count": 1}
OPSET, IR = 20, 10
GROUP = 32  # weights that share a scale


def set_threads(count: int) -> None:
    _threads["count"] = count


class ModelGraph:
    """A graph that grows by ``add``: names in, a name out."""

    def __init__(self, problem: Problem, prefix: str = "") -> None:
        self.problem, self.prefix = problem, prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs = [f"input{i}" for i in range(len(problem.inputs))]

    def add(self, op: str, *operands: Any, **attributes: Any) -> str:
        """The name of the result; operands that are no names are constants."""
        names = [x if isinstance(x, str) else self.constant(x) for x in operands]
        name = f"{self.prefix}value{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"{self.prefix}constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def linear(self, name: str, x: str, mark: str = ".") -> str:
        p = self.problem.parameters
        weight, bias = p[f"{name}{mark}weight"], p[f"{name}{mark}bias"]
        return self.add("Add", self.add("MatMul", x, weight.T), bias)

    def normed(self, name: str, x: str) -> str:
        p = self.problem.parameters
        scale, bias = p[f"{name}.weight"], p[f"{name}.bias"]
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def bytes(self, result: str, open_axes: tuple[int, ...] = ()) -> bytes:
        """The whole model, whose output is ``result``; sizes of ``open_axes`` are a run's."""
        given = [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                [f"n{axis}" if axis in open_axes else n for axis, n in enumerate(array.shape)],
            )
            for name, array in zip(self.inputs, self.problem.inputs, strict=True)
        ]
        made = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "workload", given, [made], self.constants)
        domains = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains)
        model.ir_version = IR
        return model.SerializeToString()


def as_built(model: bytes, _feed: dict[str, np.ndarray]) -> bytes:
    return model


def of(
    build: Callable[..., str],
    array: Callable[[Any], Any] = np.asarray,
    made: Callable[[bytes, dict[str, np.ndarray]], bytes] = as_built,
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that runs the graph of ``build(model, *inputs)``; its first call loads it.

    ``made`` gives the model that is loaded, of the model and what it is fed.
    """

    def program(problem: Problem, _: str) -> WorkloadProgram:
        model = ModelGraph(problem)
        text = model.bytes(build(model, *model.inputs))
        feed = dict(zip(model.inputs, problem.inputs, strict=True))
        session: Any = None

        def run() -> np.ndarray:
            nonlocal session
            session = session or loaded(made(text, feed))
            return session.run(None, feed)[0]

        return function(run, array)

    return program


def loaded(model: bytes | str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads["count"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@of
def chain20(model: ModelGraph, x: str, y: str) -> str:
    for _ in range(5):
        x = model.add("Add", x, y)
        x = model.add("Mul", x, y)
        x = model.add("Tanh", x)
        x = model.add("Sub", x, y)
    return x


@of
def d2l_mlp(model: ModelGraph, x: str) -> str:
    x = model.add("Relu", model.linear("0", x))
    x = model.add("Relu", model.linear("2", x))
    return model.linear("4", x)


def resnet18_graph(model: ModelGraph, x: str) -> str:
    p = model.problem.parameters

    def layer(x: str, conv: str, norm: str, stride: int, pad: int) -> str:
        weight = p[f"{conv}.weight"]
        x = model.add("Conv", x, weight, strides=[stride] * 2, pads=[pad] * 4)
        rest = [p[f"{norm}.{s}"] for s in ("weight", "bias", "running_mean", "running_var")]
        return model.add("BatchNormalization", x, *rest, epsilon=1e-5)

    x = model.add("Relu", layer(x, "conv1", "bn1", 2, 3))
    x = model.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for name, entering, leaving, stride in blocks(RESNET18):
        shortcut = x
        if projects(entering, leaving, stride):
            shortcut = layer(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0)
        x = model.add("Relu", layer(x, f"{name}.conv1", f"{name}.bn1", stride, 1))
        x = layer(x, f"{name}.conv2", f"{name}.bn2", 1, 1)
        x = model.add("Relu", model.add("Add", x, shortcut))
    x = model.add("Flatten", model.add("GlobalAveragePool", x))
    return model.linear("fc", x)


def attended(
    model: ModelGraph, query: str, key: str, value: str, width: int, causal: int = 0
) -> str:
    """Attention of [batch, heads, length, width]; ``causal`` is a length, or 0: all is seen."""
    back = model.add("Transpose", key, perm=[0, 1, 3, 2])
    scores = model.add("Mul", model.add("MatMul", query, back), 1 / math.sqrt(width))
    if causal:
        unseen = np.triu(np.full((causal, causal), -np.inf, np.float32), 1)
        scores = model.add("Add", scores, unseen)
    likely = model.add("Softmax", scores, axis=-1)
    return model.add("MatMul", likely, value)


@of
def attention(model: ModelGraph, query: str, key: str, value: str) -> str:
    length, width = model.problem.inputs[0].shape[2:]
    return attended(model, query, key, value, width, length)


def split_heads(model: ModelGraph, parts: str, width: int, heads: int) -> list[str]:
    """Query, key and value [batch, heads, length, width / heads] of [batch, length, 3 width]."""
    found = []
    apart = np.asarray([0, 0, heads, width // heads], np.int64)  # 0: as it is
    for i in range(3):
        at = [np.asarray([n], np.int64) for n in (i * width, (i + 1) * width, 2)]
        part = model.add("Reshape", model.add("Slice", parts, *at), apart)
        found.append(model.add("Transpose", part, perm=[0, 2, 1, 3]))
    return found


@of
def gpt_infer(model: ModelGraph, tokens: str) -> str:
    p = model.problem.parameters
    batch, length = model.problem.inputs[0].shape
    x = model.add("Add", model.add("Gather", p["wte.weight"], tokens), p["wpe.weight"][:length])
    for block in range(GPT.depth):
        name = f"h.{block}"
        parts = model.linear(f"{name}.attn.c_attn", model.normed(f"{name}.ln_1", x))
        heads = split_heads(model, parts, GPT.width, GPT.heads)
        seen = attended(model, *heads, GPT.width // GPT.heads, length)
        seen = model.add("Transpose", seen, perm=[0, 2, 1, 3])
        seen = model.add("Reshape", seen, np.asarray([batch, length, GPT.width], np.int64))
        x = model.add("Add", x, model.linear(f"{name}.attn.c_proj", seen))
        wide = model.linear(f"{name}.mlp.c_fc", model.normed(f"{name}.ln_2", x))
        wide = model.add("Gelu", wide, approximate="tanh")
        x = model.add("Add", x, model.linear(f"{name}.mlp.c_proj", wide))
    return model.add("MatMul", model.normed("ln_f", x), p["wte.weight"].T)


@of
def fused(model: ModelGraph, x: str) -> str:
    inner = model.add("Add", model.add("Mul", x, 1.5), 0.3)
    product = model.add("Mul", model.add("Tanh", inner), model.add("Sigmoid", x))
    return model.add("Add", product, model.add("Mul", x, x))


@of
def softmax(model: ModelGraph, x: str) -> str:
    return model.add("Softmax", x, axis=-1)


@of
def layernorm(model: ModelGraph, x: str) -> str:
    p = model.problem.parameters
    return model.add("LayerNormalization", x, p["weight"], p["bias"], axis=-1, epsilon=1e-5)


def gemm(problem: Problem, variant: str) -> WorkloadProgram:
    """The second matrix is a constant, as weights are: that is what it is fast with."""
    a, b = problem.inputs
    return of(lambda model, a: model.add("MatMul", a, b))(Problem((a,)), variant)


@of
def conv(model: ModelGraph, x: str) -> str:
    stride, pad = model.problem.sizes
    weight = model.problem.parameters["weight"]
    return model.add("Conv", x, weight, strides=[stride] * 2, pads=[pad] * 4)


def encoder_layer(model: ModelGraph, x: str, width: int, heads: int, prefix: str = "") -> str:
    """A layer whose parameters begin with ``prefix``, on [batch, length, width] of any length."""
    parts = model.linear(f"{prefix}self_attn.in_proj", x, "_")
    seen = attended(model, *split_heads(model, parts, width, heads), width // heads)
    seen = model.add("Transpose", seen, perm=[0, 2, 1, 3])
    seen = model.add("Reshape", seen, np.asarray([0, 0, width], np.int64))
    seen = model.linear(f"{prefix}self_attn.out_proj", seen)
    y = model.normed(f"{prefix}norm1", model.add("Add", x, seen))
    wide = model.add("Relu", model.linear(f"{prefix}linear1", y))
    return model.normed(
        f"{prefix}norm2", model.add("Add", y, model.linear(f"{prefix}linear2", wide))
    )


def encoder_graph(model: ModelGraph, x: str) -> str:
    for layer in range(ENCODER.depth):
        x = encoder_layer(model, x, ENCODER.width, ENCODER.heads, f"layers.{layer}.")
    return x


def lengths(problem: Problem, _: str) -> WorkloadProgram:
    """One session, whose model leaves the length open."""
    (width,) = problem.sizes
    model = ModelGraph(Problem(problem.inputs[:1], problem.parameters))
    (x,) = model.inputs
    y = encoder_layer(model, x, width, HEADS)
    session = loaded(model.bytes(y, open_axes=(1,)))
    return functions(lambda: [session.run(None, {x: one})[0] for one in problem.inputs])


def settle(model: ModelGraph, x: str) -> str:
    """A Loop, whose body tells whether it goes on."""
    body = ModelGraph(Problem(model.problem.inputs), prefix="body ")
    new = body.add("Sub", "x", body.add("Mul", body.add("Sin", "x"), STEP))
    size = body.add("ReduceMax", body.add("Abs", new), keepdims=0)
    again = body.add("Greater", size, SMALL)
    number, truth = TensorProto.INT64, TensorProto.BOOL
    shape = model.problem.inputs[0].shape
    given = [("i", number, []), ("before", truth, []), ("x", TensorProto.FLOAT, shape)]
    made = [(again, truth, []), (new, TensorProto.FLOAT, shape)]
    inputs, outputs = ([helper.make_tensor_value_info(*row) for row in rows]
                       for rows in (given, made))  # fmt: skip
    graph = helper.make_graph(body.nodes, "body", inputs, outputs, body.constants)
    most = np.asarray(10**6, np.int64)
    return model.add("Loop", most, np.asarray(True), x, body=graph)


def linear_layer(model: ModelGraph, x: str) -> str:
    return model.add("MatMul", x, model.problem.parameters["weight"].T)


class _Inputs:
    """The inputs of a problem, once, as the calibration of ONNX Runtime asks for them."""

    def __init__(self, feed: dict[str, np.ndarray]) -> None:
        self.left = [feed]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantized_by_rows(text: bytes, _feed: dict[str, np.ndarray]) -> bytes:
    """The model with weights of bytes, and rows that are made bytes as they come."""
    return _quantized(text, None)


def quantized_by_data(text: bytes, feed: dict[str, np.ndarray]) -> bytes:
    """The model with weights and activations of bytes, in the ranges of one run."""
    return _quantized(text, _Inputs(feed))


def _quantized(text: bytes, inputs: _Inputs | None) -> bytes:
    """``text`` as the tools of ONNX Runtime quantize it; with ``inputs`` all is calibrated."""
    from onnxruntime import quantization  # which needs the package onnx

    # Of 7 bits, as its documentation asks for: sums of 8 saturate where a machine lacks VNNI.
    kind = quantization.QuantType.QInt8
    types = {"weight_type": kind, "per_channel": True, "reduce_range": True}
    with tempfile.TemporaryDirectory() as folder:
        given, ready, made = (Path(folder, f"{name}.onnx") for name in ("given", "ready", "made"))
        given.write_bytes(text)
        if inputs is None:
            quantization.quantize_dynamic(given, made, **types)
        else:
            quantization.quant_pre_process(given, ready, skip_symbolic_shape=True)
            quantization.quantize_static(ready, made, inputs, **types)
        return made.read_bytes()


def grouped(level: int) -> Callable[[Problem, str], WorkloadProgram]:
    """A layer of weights of 4 bits in groups of 32; ``level`` 1: by floats, 4: by rows of int8."""

    def build(model: ModelGraph, x: str) -> str:
        weight = model.problem.parameters["weight"]
        leaving, entering = weight.shape
        groups = weight.reshape(leaving, entering // GROUP, GROUP)
        scale = np.abs(groups).max(-1) / 7
        halves = np.rint(groups / scale[..., None]).astype(np.int8) + 8
        packed = (halves[..., ::2] | halves[..., 1::2] << 4).astype(np.uint8)
        return model.add(
            "MatMulNBits", x, packed, scale.reshape(-1).astype(np.float32),
            domain="com.microsoft", K=entering, N=leaving, bits=4, block_size=GROUP,
            accuracy_level=level,
        )  # fmt: skip

    return of(build)


def onnx(problem: Problem, _: str) -> WorkloadProgram:
    """A model in a file."""
    session: Any = None

    def run() -> list[np.ndarray]:
        nonlocal session
        session = session or loaded(problem.path)
        names = [value.name for value in session.get_inputs()]
        return session.run(None, dict(zip(names, problem.inputs, strict=True)))

    return functions(run)


PROGRAMS = {
    "onnx": onnx,
    "chain20": chain20,
    "d2l_mlp": d2l_mlp,
    "resnet18_infer": of(resnet18_graph),
    "gpt_infer": gpt_infer,
    "fused": fused,
    "softmax": softmax,
    "layernorm": layernorm,
    "gemm": gemm,
    "int8_linear": of(linear_layer, made=quantized_by_rows),
    "int8_resnet18": of(resnet18_graph, made=quantized_by_data),
    "int8_encoder": of(encoder_graph, made=quantized_by_rows),
    "int4_linear": grouped(1),
    "int4_bytes": grouped(4),
    "conv": conv,
    "attention": attention,
    "lengths": lengths,
    "while_loop": of(settle, lambda found: found / SMALL),
}
