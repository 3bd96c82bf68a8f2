"""Workloads in hybrid: networks and training steps, hybridized whole.

The variant ``eager`` leaves hybridizing out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.compare.adapter import WorkloadProgram, function, functions, gradients, training
from hybrid.bench.compare.problems import (
    ENCODER,
    GPT,
    HEADS,
    RESNET18,
    RESNET20,
    SMALL,
    STEP,
    WIDEN,
    Problem,
    projects,
)
from hybrid.bench.workloads.training_steps import perceptron
from hybrid.compress import quantize
from hybrid.models import gpt
from hybrid.nn import functional

VERSION = hy.__version__


def set_threads(count: int) -> None:
    hy.set_num_threads(count)


def ready(call: Callable[..., Any], variant: str) -> Callable[..., Any]:
    """``call``, a function or a network, as the variant runs it."""
    return call if variant == "eager" else hy.hybridize(call)


def of(build: Callable[..., Any]) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls ``build()`` with the problem's inputs."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        inputs = [hy.asarray(array) for array in problem.inputs]
        call = ready(build, variant)
        return function(lambda: call(*inputs))

    return program


def loaded(network: hy.nn.Module, problem: Problem) -> hy.nn.Module:
    network.load_state_dict({k: hy.asarray(v) for k, v in problem.parameters.items()})
    return network


def in_order(network: hy.nn.Module, problem: Problem) -> list[hy.Tensor]:
    """What is trained, in the order of the problem's parameters."""
    named = dict(network.named_parameters())
    return [named[name] for name in problem.parameters if name in named]


def inference(make: Callable[[Problem], hy.nn.Module]) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls a network on the problem's inputs."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        network = loaded(make(problem), problem).eval()
        network.requires_grad_(False)
        inputs = [hy.asarray(array) for array in problem.inputs]
        call = ready(network, variant)
        return function(lambda: call(*inputs))

    return program


def learning(
    make: Callable[[Problem], hy.nn.Module],
    loss: Callable[[hy.Tensor, hy.Tensor], hy.Tensor],
    optimizer: Callable[..., hy.optim.Optimizer],
    stacked_rank: int = 0,
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that trains a network; inputs of ``stacked_rank`` are batches for many steps."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        network = loaded(make(problem), problem)
        trained = in_order(network, problem)
        rule = optimizer(trained)

        def step(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
            rule.zero_grad()
            value = loss(network(x), y)
            value.backward()
            rule.step()
            return value

        def steps(xs: hy.Tensor, ys: hy.Tensor) -> hy.Tensor:
            losses = []
            for i in range(xs.shape[0]):
                losses.append(step(xs[i], ys[i]))
            return hy.stack(losses)

        x, y = (hy.asarray(array) for array in problem.inputs)
        stacked = x.ndim == stacked_rank
        call = ready(steps if stacked else step, variant)
        more = {"runs": 1} if stacked else {}
        return training(lambda: call(x, y), lambda: [p.detach() for p in trained], **more)

    return program


@of
def chain20(x: hy.Tensor, y: hy.Tensor) -> hy.Tensor:
    for _ in range(5):
        x = x + y
        x = x * y
        x = hy.tanh(x)
        x = x - y
    return x


def dispatch(problem: Problem, _: str) -> WorkloadProgram:
    a, b = (hy.asarray(array) for array in problem.inputs)
    return function(lambda: a + b)


class LeNet(hy.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = hy.nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = hy.nn.Conv2d(6, 16, 5)
        self.fc1 = hy.nn.Linear(400, 120)
        self.fc2 = hy.nn.Linear(120, 84)
        self.fc3 = hy.nn.Linear(84, 10)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


def conv3x3(entering: int, leaving: int, stride: int = 1) -> hy.nn.Module:
    return hy.nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)


class Block(hy.nn.Module):
    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(entering, leaving, stride), hy.nn.BatchNorm2d(leaving)
        self.conv2, self.bn2 = conv3x3(leaving, leaving), hy.nn.BatchNorm2d(leaving)
        self.downsample = None
        if projects(entering, leaving, stride):
            projection = hy.nn.Conv2d(entering, leaving, 1, stride, bias=False)
            self.downsample = hy.nn.Sequential(projection, hy.nn.BatchNorm2d(leaving))

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(x)) + shortcut)


class ResNet(hy.nn.Module):
    """For photographs with a large kernel and a pool in front, for thumbnails without."""

    def __init__(self, groups: Sequence[tuple[int, int, int]], classes: int, large: bool) -> None:
        super().__init__()
        entering = groups[0][0]
        stem = (7, 2, 3) if large else (3, 1, 1)
        self.conv1 = hy.nn.Conv2d(3, entering, *stem, bias=False)
        self.bn1 = hy.nn.BatchNorm2d(entering)
        self.pool = hy.nn.MaxPool2d(3, 2, 1) if large else hy.nn.Identity()
        self.names = []
        for group, (channels, count, stride) in enumerate(groups, 1):
            blocks = []
            for block in range(count):
                blocks.append(Block(entering, channels, 1 if block else stride))
                entering = channels
            self.names.append(f"layer{group}")
            setattr(self, self.names[-1], hy.nn.Sequential(*blocks))
        self.fc = hy.nn.Linear(entering, classes)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = self.pool(functional.relu(self.bn1(self.conv1(x))))
        for name in self.names:
            x = getattr(self, name)(x)
        return self.fc(x.mean((2, 3)))


def lstm_train(problem: Problem, variant: str) -> WorkloadProgram:
    (x,) = (hy.asarray(array) for array in problem.inputs)
    _, _, features, hidden = problem.sizes
    network = loaded(hy.nn.LSTM(features, hidden), problem)
    trained = list(network.parameters())

    def learn(x: hy.Tensor) -> hy.Tensor:
        network.zero_grad()
        _, (last, _) = network(x)
        value = (last * last).mean()
        value.backward()
        return value

    call = ready(learn, variant)
    return gradients(lambda: (call(x), [parameter.grad for parameter in trained]))


def small_gpt(_: Problem) -> hy.nn.Module:
    return gpt.GPT(
        gpt.Config(
            tokens=GPT.tokens, block=GPT.length, width=GPT.width, heads=GPT.heads, depth=GPT.depth
        )
    )


def next_token(logits: hy.Tensor, targets: hy.Tensor) -> hy.Tensor:
    return functional.cross_entropy(logits.reshape((-1, GPT.tokens)), targets.reshape((-1,)))


@of
def fused(x: hy.Tensor) -> hy.Tensor:
    return hy.tanh(x * 1.5 + 0.3) * hy.sigmoid(x) + x * x


@of
def softmax(x: hy.Tensor) -> hy.Tensor:
    return hy.softmax(x, axis=-1)


@of
def gemm(a: hy.Tensor, b: hy.Tensor) -> hy.Tensor:
    return a @ b


def quantized(
    make: Callable[[Problem], hy.nn.Module], method: str, **settings: Any
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls a network of small integers on the problem's inputs."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        inputs = [hy.asarray(array) for array in problem.inputs]
        network = loaded(make(problem), problem).eval()
        data = [tuple(inputs)] if method == "static" else None
        call = ready(quantize(network, method, data=data, **settings), variant)
        return function(lambda: call(*inputs))

    return program


def linear(problem: Problem) -> hy.nn.Module:
    leaving, entering = problem.parameters["weight"].shape
    return hy.nn.Linear(entering, leaving, bias=False)


def layer_norm(problem: Problem) -> hy.nn.Module:
    return hy.nn.LayerNorm(problem.inputs[0].shape[1])


def convolution(problem: Problem) -> hy.nn.Module:
    leaving, entering, kernel, _ = problem.parameters["weight"].shape
    return hy.nn.Conv2d(entering, leaving, kernel, *problem.sizes, bias=False)


@of
def attention(query: hy.Tensor, key: hy.Tensor, value: hy.Tensor) -> hy.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def encoder_layer(problem: Problem) -> hy.nn.Module:
    (width,) = problem.sizes
    layer = hy.nn.TransformerEncoderLayer(width, HEADS, WIDEN * width, batch_first=True)
    return loaded(layer, problem).eval().requires_grad_(False)


def encoder(_: Problem) -> hy.nn.Module:
    width = ENCODER.width
    layer = hy.nn.TransformerEncoderLayer(
        width, ENCODER.heads, ENCODER.widen * width, batch_first=True
    )
    return hy.nn.TransformerEncoder(layer, ENCODER.depth)


def lengths(problem: Problem, variant: str) -> WorkloadProgram:
    layer, inputs = encoder_layer(problem), [hy.asarray(array) for array in problem.inputs]
    layer(inputs[0][:, :2])  # what is imported when first needed is

    def run() -> list[hy.Tensor]:
        call = ready(lambda x: layer(x), variant)  # that has met none of the lengths
        return [call(x) for x in inputs]

    return functions(run)


def settle(x: hy.Tensor) -> hy.Tensor:
    while hy.max(hy.abs(x)) > SMALL:
        x = x - STEP * hy.sin(x)
    return x


def while_loop(problem: Problem, variant: str) -> WorkloadProgram:
    x, call = hy.asarray(problem.inputs[0]), ready(settle, variant)
    return function(lambda: call(x), lambda found: np.asarray(found) / SMALL)


def onnx(problem: Problem, variant: str) -> WorkloadProgram:
    """The module of a model in a file, whose weights are constants to gradients."""
    network = hy.onnx.load(problem.path)
    network.requires_grad_(False)
    inputs = [hy.asarray(array) for array in problem.inputs]
    call = ready(network, variant)

    def run() -> Sequence[hy.Tensor]:
        found = call(*inputs)
        return found if isinstance(found, tuple) else (found,)

    return functions(run)


PROGRAMS = {
    "onnx": onnx,
    "dispatch": dispatch,
    "chain20": chain20,
    "d2l_mlp": inference(lambda p: perceptron(p.sizes, seed=0)),
    "tiny_train": learning(
        lambda p: perceptron(p.sizes, seed=0), hy.nn.MSELoss(),
        lambda trained: hy.optim.SGD(trained, lr=1e-3), stacked_rank=3,
    ),
    "mlp_train": learning(
        lambda p: perceptron(p.sizes, seed=0), hy.nn.CrossEntropyLoss(),
        lambda trained: hy.optim.Adam(trained, lr=1e-3), stacked_rank=3,
    ),
    "lenet_train": learning(
        lambda _: LeNet(), hy.nn.CrossEntropyLoss(), lambda trained: hy.optim.SGD(trained, lr=1e-2)
    ),
    "resnet18_infer": inference(lambda _: ResNet(RESNET18, 1000, large=True)),
    "resnet20_train": learning(
        lambda _: ResNet(RESNET20, 10, large=False), hy.nn.CrossEntropyLoss(),
        lambda trained: hy.optim.SGD(trained, lr=1e-2, momentum=0.9),
    ),
    "lstm_train": lstm_train,
    "gpt_train": learning(
        small_gpt, next_token, lambda trained: hy.optim.AdamW(trained, lr=1e-3)
    ),
    "gpt_infer": inference(small_gpt),
    "fused": fused,
    "softmax": softmax,
    "layernorm": inference(layer_norm),
    "gemm": gemm,
    "int8_linear": quantized(linear, "dynamic"),
    "int8_resnet18": quantized(lambda _: ResNet(RESNET18, 1000, large=True), "static"),
    "int8_encoder": quantized(encoder, "dynamic"),
    "int4_linear": quantized(linear, "weight_only", bits=4, group_size=32),
    "int4_bytes": quantized(linear, "dynamic", bits=4, group_size=32),
    "conv": inference(convolution),
    "attention": attention,
    "lengths": lengths,
    "while_loop": while_loop,
}  # fmt: skip
