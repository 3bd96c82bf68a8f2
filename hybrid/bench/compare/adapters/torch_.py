"""Workloads in PyTorch: its fused layers and optimizers; the variant ``compile`` compiles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

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
    GPTSizes,
    Problem,
    projects,
)

VERSION = torch.__version__


def set_threads(count: int) -> None:
    torch.set_num_threads(count)


def ready(call: Callable[..., Any], variant: str) -> Callable[..., Any]:
    """``call``, a function or a network, as the variant runs it."""
    return torch.compile(call, dynamic=False) if variant == "compile" else call


def tensors(problem: Problem) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in problem.inputs]


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def inferring(call: Callable[..., torch.Tensor], inputs: list[torch.Tensor]) -> WorkloadProgram:
    """The program that is ``call`` of ``inputs``, recording nothing."""

    def run() -> torch.Tensor:
        with torch.inference_mode():
            return call(*inputs)

    return function(run, array)


def of(build: Callable[..., torch.Tensor]) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls ``build()`` with the problem's inputs, recording nothing."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        return inferring(ready(build, variant), tensors(problem))

    return program


def loaded(network: nn.Module, problem: Problem) -> nn.Module:
    network.load_state_dict({k: torch.from_numpy(v) for k, v in problem.parameters.items()})
    return network


def in_order(network: nn.Module, problem: Problem) -> list[torch.Tensor]:
    """What is trained, in the order of the problem's parameters."""
    named = dict(network.named_parameters())
    return [named[name] for name in problem.parameters if name in named]


def inference(
    make: Callable[[Problem], nn.Module], *, channels_last: bool = False
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls a network on the problem's inputs."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        network, inputs = loaded(make(problem), problem).eval(), tensors(problem)
        if channels_last:
            network = network.to(memory_format=torch.channels_last)
            inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        return inferring(ready(network, variant), inputs)

    return program


def learning(
    make: Callable[[Problem], nn.Module],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    optimizer: Callable[..., torch.optim.Optimizer],
    stacked_rank: int = 0,
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that trains a network; inputs of ``stacked_rank`` are batches for many steps."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        network = loaded(make(problem), problem)
        trained = in_order(network, problem)
        rule = optimizer(trained)
        forward = ready(lambda x, y: loss(network(x), y), variant)
        update = ready(rule.step, variant)

        def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            rule.zero_grad(set_to_none=True)
            value = forward(x, y)
            value.backward()
            update()
            return value.detach()

        x, y = tensors(problem)
        if x.ndim != stacked_rank:
            return training(lambda: step(x, y), lambda: trained, array)
        return training(
            lambda: torch.stack([step(*batch) for batch in zip(x, y, strict=True)]),
            lambda: trained, array, runs=1,
        )  # fmt: skip

    return program


def dispatch(problem: Problem, _: str) -> WorkloadProgram:
    a, b = tensors(problem)
    return function(lambda: a + b, array)


@of
def chain20(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = x + y
        x = x * y
        x = torch.tanh(x)
        x = x - y
    return x


def perceptron(sizes: Sequence[int]) -> nn.Module:
    layers: list[nn.Module] = []
    for entering, leaving in pairwise(sizes):
        layers += [nn.Linear(entering, leaving), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return self.fc3(functional.relu(self.fc2(x)))


class Block(nn.Module):
    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(leaving)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(leaving)
        self.downsample = None
        if projects(entering, leaving, stride):
            projection = nn.Conv2d(entering, leaving, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(leaving))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(x)) + shortcut, inplace=True)


class ResNet(nn.Module):
    """For photographs with a large kernel and a pool in front, for thumbnails without."""

    def __init__(self, groups: Sequence[tuple[int, int, int]], classes: int, large: bool) -> None:
        super().__init__()
        entering = groups[0][0]
        stem = (7, 2, 3) if large else (3, 1, 1)
        self.conv1 = nn.Conv2d(3, entering, *stem, bias=False)
        self.bn1 = nn.BatchNorm2d(entering)
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        self.names = []
        for group, (channels, count, stride) in enumerate(groups, 1):
            blocks = []
            for block in range(count):
                blocks.append(Block(entering, channels, 1 if block else stride))
                entering = channels
            self.names.append(f"layer{group}")
            setattr(self, self.names[-1], nn.Sequential(*blocks))
        self.fc = nn.Linear(entering, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(functional.relu(self.bn1(self.conv1(x)), inplace=True))
        for name in self.names:
            x = getattr(self, name)(x)
        return self.fc(x.mean((2, 3)))


def lstm_train(problem: Problem, variant: str) -> WorkloadProgram:
    (x,) = tensors(problem)
    _, _, features, hidden = problem.sizes
    network = loaded(nn.LSTM(features, hidden), problem)
    trained = list(network.parameters())

    def learn(x: torch.Tensor) -> torch.Tensor:
        _, (last, _) = network(x)
        return (last * last).mean()

    forward = ready(learn, variant)

    def run() -> tuple[torch.Tensor, Any]:
        network.zero_grad(set_to_none=True)
        value = forward(x)
        value.backward()
        return value, [parameter.grad for parameter in trained]

    return gradients(run, array)


class Layer(nn.Module):
    """One layer of a GPT: attention, then a perceptron."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        width, self.heads = sizes.width, sizes.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict(
            {"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)}
        )
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attn["c_attn"](self.ln_1(x)).split(width, 2)
        query, key, value = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn["c_proj"](seen.transpose(1, 2).reshape(batch, length, width))
        wide = functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](wide)


class SmallGPT(nn.Module):
    def __init__(self, sizes: GPTSizes = GPT) -> None:
        super().__init__()
        self.wte = nn.Embedding(sizes.tokens, sizes.width)
        self.wpe = nn.Embedding(sizes.length, sizes.width)
        self.h = nn.ModuleList([Layer(sizes) for _ in range(sizes.depth)])
        self.ln_f = nn.LayerNorm(sizes.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for layer in self.h:
            x = layer(x)
        return functional.linear(self.ln_f(x), self.wte.weight)


def next_token(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.view(-1, GPT.tokens), targets.view(-1))


@of
def fused(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 1.5 + 0.3) * torch.sigmoid(x) + x * x


@of
def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


@of
def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def convolution(problem: Problem) -> nn.Module:
    leaving, entering, kernel, _ = problem.parameters["weight"].shape
    return nn.Conv2d(entering, leaving, kernel, *problem.sizes, bias=False)


@of
def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def lengths(problem: Problem, variant: str) -> WorkloadProgram:
    """What serves any length is compiled once: that takes longer than all the runs."""
    (width,) = problem.sizes
    layer = nn.TransformerEncoderLayer(width, HEADS, WIDEN * width, batch_first=True)
    layer, inputs = loaded(layer, problem).eval(), tensors(problem)
    call = torch.compile(layer, dynamic=True) if variant == "compile" else layer

    def run() -> list[torch.Tensor]:
        with torch.inference_mode():
            return [call(x) for x in inputs]

    return functions(run, array)


def while_loop(problem: Problem, variant: str) -> WorkloadProgram:
    (start,) = tensors(problem)
    body = ready(lambda x: x - STEP * torch.sin(x), variant)

    def run() -> torch.Tensor:
        x = start
        with torch.inference_mode():
            while x.abs().max() > SMALL:
                x = body(x)
        return x

    return function(run, lambda found: array(found) / SMALL)


class EncoderLayer(nn.Module):
    """A layer of the encoder, of linear layers alone: those are what PyTorch quantizes."""

    def __init__(self) -> None:
        super().__init__()
        width, inner = ENCODER.width, ENCODER.widen * ENCODER.width
        self.self_attn = nn.ModuleDict(
            {"in_proj": nn.Linear(width, 3 * width), "out_proj": nn.Linear(width, width)}
        )
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.self_attn["in_proj"](x).split(width, 2)
        apart = (p.view(batch, length, ENCODER.heads, -1).transpose(1, 2) for p in parts)
        seen = functional.scaled_dot_product_attention(*apart)
        seen = self.self_attn["out_proj"](seen.transpose(1, 2).reshape(batch, length, width))
        y = self.norm1(x + seen)
        return self.norm2(y + self.linear2(functional.relu(self.linear1(y))))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer() for _ in range(ENCODER.depth)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def linear(problem: Problem) -> nn.Module:
    leaving, entering = problem.parameters["weight"].shape
    return nn.Linear(entering, leaving, bias=False)


def quantized(make: Callable[[Problem], nn.Module]) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls a network after the dynamic quantization of PyTorch."""

    def program(problem: Problem, variant: str) -> WorkloadProgram:
        named = {k.replace("in_proj_", "in_proj."): v for k, v in problem.parameters.items()}
        network = loaded(make(problem), replace(problem, parameters=named)).eval()
        made = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(network), {nn.Linear}, torch.qint8
        )
        return inferring(ready(made, variant), tensors(problem))

    return program


PROGRAMS = {
    "dispatch": dispatch,
    "chain20": chain20,
    "d2l_mlp": inference(lambda p: perceptron(p.sizes)),
    "tiny_train": learning(
        lambda p: perceptron(p.sizes), nn.MSELoss(),
        lambda trained: torch.optim.SGD(trained, lr=1e-3, fused=True), stacked_rank=3,
    ),
    "mlp_train": learning(
        lambda p: perceptron(p.sizes), nn.CrossEntropyLoss(),
        lambda trained: torch.optim.Adam(trained, lr=1e-3, fused=True), stacked_rank=3,
    ),
    "lenet_train": learning(
        lambda _: LeNet(), nn.CrossEntropyLoss(),
        lambda trained: torch.optim.SGD(trained, lr=1e-2, fused=True),
    ),
    "resnet18_infer": inference(lambda _: ResNet(RESNET18, 1000, large=True), channels_last=True),
    "resnet20_train": learning(
        lambda _: ResNet(RESNET20, 10, large=False), nn.CrossEntropyLoss(),
        lambda trained: torch.optim.SGD(trained, lr=1e-2, momentum=0.9, fused=True),
    ),
    "lstm_train": lstm_train,
    "gpt_train": learning(
        lambda _: SmallGPT(), next_token,
        lambda trained: torch.optim.AdamW(trained, lr=1e-3, fused=True),
    ),
    "gpt_infer": inference(lambda _: SmallGPT()),
    "fused": fused,
    "softmax": softmax,
    "layernorm": inference(lambda p: nn.LayerNorm(p.inputs[0].shape[1])),
    "gemm": gemm,
    "int8_linear": quantized(linear),
    "int8_encoder": quantized(lambda _: Encoder()),
    "conv": inference(convolution),
    "attention": attention,
    "lengths": lengths,
    "while_loop": while_loop,
}  # fmt: skip
