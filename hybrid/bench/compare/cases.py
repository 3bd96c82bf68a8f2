"""The workloads: what is computed, from what, how much of it there is, and how near results are.

A case states the floating-point operations of one run, a multiplication and an addition being two
and a function such as ``exp`` one, and the bytes that one run has to move: inputs, results and
what it changes, each once.  Both are of the computation, not of anyone's way of doing it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from hybrid.bench.compare import problems
from hybrid.bench.compare.problems import (
    D2L,
    ENCODER,
    GPT,
    LSTM,
    MLP,
    RESNET18,
    RESNET20,
    TINY,
    Problem,
)


@dataclass(frozen=True)
class Amount:
    """One computation on numbers of stated sizes."""

    label: str
    problem: Callable[[], Problem]
    flops: float
    nbytes: float
    parts: int = 1  # a run is so many equal parts, steps or iterations: times are of one


@dataclass(frozen=True)
class Contest:
    """Cases of one computation; results may be ``tolerance`` apart, as a share of the greatest."""

    name: str
    description: str
    cases: tuple[Amount, ...]
    tolerance: float = 1e-4

    def case(self, label: str) -> Amount:
        return next(case for case in self.cases if case.label == label)


def _macs(sizes: Sequence[int]) -> int:
    return sum(a * b for a, b in pairwise(sizes))


def _weights(sizes: Sequence[int]) -> int:
    return sum(a * b + b for a, b in pairwise(sizes))


def _learning(sizes: Sequence[int], batch: int, state: int) -> tuple[float, float]:
    """FLOPs and bytes of a training step; ``state``: numbers an optimizer keeps per parameter."""
    flops = 2 * batch * (3 * _macs(sizes) - sizes[0] * sizes[1])
    return flops, 4 * (2 * (1 + state) * _weights(sizes) + batch * (sizes[0] + sizes[-1]))


def _product(rows: int, inner: int, columns: int) -> Amount:
    return Amount(
        f"{rows}x{inner}x{columns}",
        partial(problems.matrices, rows, inner, columns),
        2 * rows * inner * columns,
        4 * (rows * inner + inner * columns + rows * columns),
    )


def _layer(rows: int, inner: int, columns: int, bits: int) -> Amount:
    return Amount(
        f"{rows}x{inner}x{columns}",
        partial(problems.layer, rows, inner, columns),
        2 * rows * inner * columns,
        4 * (rows * inner + rows * columns) + inner * columns * bits // 8,
    )


def _convolution(
    batch: int, entering: int, side: int, leaving: int, kernel: int, stride: int
) -> Amount:
    out = side // stride
    pixels = batch * leaving * out * out
    stepping = f"/{stride}" if stride > 1 else ""
    return Amount(
        f"{batch}x{entering}x{side}x{side} {kernel}x{kernel}{stepping} {leaving}",
        partial(problems.convolution, batch, entering, side, leaving, kernel, stride),
        2 * pixels * entering * kernel**2,
        4 * (batch * entering * side**2 + leaving * entering * kernel**2 + pixels),
    )


def _attention(batch: int, heads: int, length: int, width: int) -> Amount:
    return Amount(
        f"{batch}x{heads}x{length}x{width}",
        partial(problems.heads, batch, heads, length, width),
        2 * batch * heads * length**2 * width,  # causal: half of two products
        16 * batch * heads * length * width,
    )


def _residual(groups: Sequence[tuple[int, int, int]], stem: int, side: int, out: int) -> int:
    """The multiplications of a ResNet on one image whose first block sees ``side`` x ``side``."""
    first = groups[0][0]
    found = 3 * first * stem**2 * (4 * side**2 if stem == 7 else side**2)
    for _, entering, leaving, stride in problems.blocks(groups):
        side //= stride
        found += side**2 * 9 * leaving * (entering + leaving)
        if problems.projects(entering, leaving, stride):
            found += side**2 * entering * leaving
    return found + groups[-1][0] * out


def _photographs(batch: int) -> Amount:
    flops = 2 * batch * _residual(RESNET18, 7, 56, 1000)
    moved = 4 * (11_689_512 + batch * (3 * 224 * 224 + 1000))
    return Amount(f"batch {batch}", partial(problems.photographs, batch), flops, moved)


def _thumbnails() -> Amount:
    inner = _residual(RESNET20, 3, 32, 10)
    flops = 2 * 32 * (3 * inner - 3 * 16 * 9 * 32**2)
    return Amount("batch 32", problems.thumbnails, flops, 4 * (4 * 272_474 + 32 * 3 * 32**2))


def _lenet() -> Amount:
    first = 28 * 28 * 6 * 25
    macs = first + 100 * 16 * 6 * 25 + _macs((400, 120, 84, 10))
    return Amount(
        "batch 64", problems.lenet, 2 * 64 * (3 * macs - first), 4 * (2 * 61_706 + 64 * 785)
    )


def _sequence() -> Amount:
    steps, batch, features, hidden = LSTM
    flops = 2 * steps * batch * 4 * hidden * (3 * hidden + 2 * features)
    weights = 4 * hidden * (features + hidden + 2)
    return Amount(
        f"{steps} steps", problems.sequence, flops, 4 * (2 * weights + steps * batch * features)
    )


def _text(batch: int, *, learning: bool) -> Amount:
    layers = GPT.depth * 12 * GPT.width**2 + GPT.tokens * GPT.width  # multiplied with each token
    attention = GPT.depth * GPT.length * GPT.width  # causal: half of two products
    flops = 2 * batch * GPT.length * (layers + attention) * (3 if learning else 1)
    weights = layers + GPT.length * GPT.width + GPT.width * (13 * GPT.depth + 2)
    moved = 4 * weights * (6 if learning else 1) + 4 * batch * GPT.length * GPT.tokens
    return Amount(f"batch {batch}", partial(problems.text, batch, targets=learning), flops, moved)


def _sentences(width: int) -> Amount:
    length = sum(problems.LENGTHS)
    macs = length * (4 + 2 * problems.WIDEN) * width**2
    macs += 2 * sum([n * n for n in problems.LENGTHS]) * width
    moved = 4 * (2 * length * width + (4 + 2 * problems.WIDEN) * width**2)
    return Amount(f"{width} wide", partial(problems.sentences, width), 2 * macs, moved,
                parts=len(problems.LENGTHS))  # fmt: skip


def _embedded(batch: int) -> Amount:
    """Weights of bytes are read once, numbers of the sentences come and go."""
    weights = ENCODER.depth * (4 + 2 * ENCODER.widen) * ENCODER.width**2
    attention = ENCODER.depth * 2 * ENCODER.length * ENCODER.width
    flops = 2 * batch * ENCODER.length * (weights + attention)
    moved = weights + 8 * batch * ENCODER.length * ENCODER.width
    return Amount(f"batch {batch}", partial(problems.embedded, batch), flops, moved)


def _elementwise(size: int, label: str) -> Amount:
    return Amount(label, partial(problems.vectors, size), 7 * size, 8 * size)


def _stacked(name: Callable[..., Problem], steps: int, of_one: tuple[float, float]) -> Amount:
    """``steps`` training steps as one call."""
    flops, nbytes = of_one
    return Amount(f"{steps} steps in one call", partial(name, steps), steps * flops, steps * nbytes,
                parts=steps)  # fmt: skip


_TINY, _MLP = _learning(TINY, 32, 0), _learning(MLP, 128, 2)
_SIDE = 1024

# Everybody rounds weights and rows in its own way: how far results may be apart.
_OF_BYTES, _OF_HALVES, _OF_NETWORKS = 0.15, 0.8, 0.6
_LAYERS = ((1024, 1024, 1024), (128, 384, 1536), (1, 4096, 4096), (1, 256, 256))
_FEW = ((1, 4096, 4096), (32, 4096, 4096))

WORKLOADS = {
    workload.name: workload
    for workload in (
        Contest("dispatch", "a + b on 8 float32, as an eager op", (
            Amount("8", partial(problems.vectors, 8, 2), 8, 96),)),
        Contest("chain20", "five times x+y, x*y, tanh, x-y on 16 float32", (
            Amount("20 ops", partial(problems.vectors, 16, 2), 320, 192),)),
        Contest("d2l_mlp", "inference of one row through Linear 512-256-128-2 with ReLU", (
            Amount("one row", problems.d2l_row, 2 * _macs(D2L), 4 * (_weights(D2L) + 514)),)),
        Contest("tiny_train", "a training step of 16-32-1 with ReLU: batch 32, MSE, SGD", (
            Amount("each step a call", problems.regression, *_TINY),
            _stacked(problems.regression, 100, _TINY)), 1e-3),
        Contest("mlp_train", "a training step of 784-512-256-10: batch 128, cross-entropy, Adam", (
            Amount("each step a call", problems.classes, *_MLP),
            _stacked(problems.classes, 20, _MLP)), 5e-3),
        Contest("lenet_train", "a training step of a LeNet: 28 x 28, batch 64, SGD", (
            _lenet(),), 1e-3),
        Contest("resnet18_infer", "inference of ResNet-18 on images of 224 x 224", (
            _photographs(1), _photographs(8)), 1e-3),
        Contest("resnet20_train", "a training step of ResNet-20: 32 x 32, batch 32, momentum", (
            _thumbnails(),), 1e-2),
        Contest("lstm_train", "an LSTM over 50 steps of 32 x 64, 128 hidden: loss and gradients", (
            _sequence(),), 1e-3),
        Contest("gpt_train", "a training step of a GPT: 4 layers of 256, 128 tokens, AdamW", (
            _text(8, learning=True),), 5e-3),
        Contest("gpt_infer", "inference of that GPT, batch 1", (_text(1, learning=False),), 1e-3),
        Contest("fused", "tanh(1.5 x + 0.3) * sigmoid(x) + x * x", (
            _elementwise(1000, "1e3"), _elementwise(1_000_000, "1e6"))),
        Contest("softmax", "softmax of the rows of 1024 x 1024", (
            Amount("1024x1024", partial(problems.rows, _SIDE, _SIDE), 5 * _SIDE**2,
                8 * _SIDE**2),)),
        Contest("layernorm", "layer norm of the rows of 1024 x 1024, with weight and bias", (
            Amount("1024x1024", partial(problems.rows, _SIDE, _SIDE), 8 * _SIDE**2,
                8 * _SIDE**2),)),
        Contest("gemm", "a product of two matrices", tuple(
            _product(*sizes) for sizes in (
                *[(n, n, n) for n in (256, 512, 1024, 2048)], (32, 768, 3072), (1, 1024, 1024)))),
        Contest("int8_linear", "a linear layer of int8 weights and rows, quantized by each", tuple(
            _layer(*sizes, 8) for sizes in _LAYERS), _OF_BYTES),
        Contest("int8_resnet18", "ResNet-18 of int8 weights and uint8 images, quantized by each", (
            _photographs(1),), _OF_NETWORKS),
        Contest("int8_encoder", "six encoder layers of 384, 128 tokens, int8 weights and rows", (
            _embedded(1), _embedded(8)), _OF_NETWORKS),
        Contest("int4_linear", "a linear layer of weights of 4 bits in groups of 32", tuple(
            _layer(*sizes, 4) for sizes in _FEW), _OF_HALVES),
        Contest("int4_bytes", "the same with rows of int8", tuple(
            _layer(*sizes, 4) for sizes in _FEW), _OF_HALVES),
        Contest("conv", "a convolution of ResNet-18: image, kernel, channels", tuple(
            _convolution(*sizes) for sizes in (
                (1, 3, 224, 64, 7, 2), (1, 64, 56, 64, 3, 1), (1, 64, 56, 128, 3, 2),
                (1, 128, 28, 128, 3, 1), (1, 256, 14, 256, 3, 1), (1, 512, 7, 512, 3, 1),
                (1, 64, 56, 128, 1, 2)))),
        Contest("attention", "causal attention: batch, heads, length, width", (
            _attention(8, 4, 128, 64), _attention(1, 8, 1024, 64))),
        Contest("lengths", "an encoder layer on sentences of 200 lengths, each time anew", (
            _sentences(64), _sentences(256)), 1e-3),
        Contest("while_loop", "x - 0.1 sin(x) on 64 float32 until all are small: an iteration", (
            Amount("64", problems.newton, 5 * 64 * problems.ITERATIONS, 512,
                 parts=problems.ITERATIONS),)),
    )
}  # fmt: skip


MODEL = Contest("onnx", "a model of ONNX: onnx:FILE, or onnx:FILE@batch=8,length=64", (), 1e-3)


def case_of(workload: str, label: str) -> Amount:
    """The case of a workload; of ``onnx`` the label is a file, and sizes that it leaves open."""
    return model_case(label) if workload == MODEL.name else WORKLOADS[workload].case(label)


def model_case(label: str) -> Amount:
    """A run of the model in a file, which reads the whole file; nobody counts its operations."""
    path, _ = problems.sizes_in(label)
    beside = f"{path}.data"
    nbytes = sum(os.path.getsize(file) for file in (path, beside) if os.path.exists(file))
    return Amount(label, partial(problems.model_in_file, label), 0, nbytes)


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], tolerance: float) -> str:
    """How two results, as ``serve.brief`` tells of them, differ; empty when they agree.

    Elements may be ``tolerance`` apart, as a share of their own size or of the root of the mean
    square of the array, whichever is greater.
    """
    if ours.keys() != theirs.keys():
        return f"it computes {', '.join(sorted(theirs))} instead of {', '.join(sorted(ours))}"
    for name, mine in ours.items():
        other = theirs[name]
        if mine["shape"] != other["shape"]:
            return f"the shape of its {name} is {other['shape']} instead of {mine['shape']}"
        a, b = np.asarray(mine["values"], float), np.asarray(other["values"], float)
        size = mine["root mean square"]
        a, b = np.append(a, size), np.append(b, other["root mean square"])
        bounds = tolerance * np.maximum(np.abs(a), size)
        gaps = np.abs(a - b)
        if not np.all(gaps <= bounds):  # NaN is no agreement
            worst = int(np.argmax(np.where(gaps <= bounds, 0, np.nan_to_num(gaps, nan=np.inf))))
            return f"its {name} has {b[worst]:.6g} where {a[worst]:.6g} is expected"
    return ""
