"""Workloads in NumPy, with derivatives by hand: what one would write without a framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.bench.compare.adapter import WorkloadProgram, function, training
from hybrid.bench.compare.problems import SMALL, STEP, Problem

VERSION = np.__version__
Arrays = list[np.ndarray]


def set_threads(count: int) -> None:
    """Its BLAS read the environment."""


def dispatch(problem: Problem, _: str) -> WorkloadProgram:
    a, b = problem.inputs
    return function(lambda: a + b)


def chain20(problem: Problem, _: str) -> WorkloadProgram:
    start, y = problem.inputs

    def run() -> np.ndarray:
        x = start
        for _ in range(5):
            x = x + y
            x = x * y
            x = np.tanh(x)
            x = x - y
        return x

    return function(run)


def layers(problem: Problem) -> Arrays:
    """Weights as [entering, leaving] and biases, in turn."""
    return [np.ascontiguousarray(p.T) for p in problem.parameters.values()]


def d2l_mlp(problem: Problem, _: str) -> WorkloadProgram:
    (row,) = problem.inputs
    w0, b0, w1, b1, w2, b2 = layers(problem)

    def run() -> np.ndarray:
        x = np.maximum(row @ w0 + b0, 0)
        x = np.maximum(x @ w1 + b1, 0)
        return x @ w2 + b2

    return function(run)


def backward(parameters: Arrays, seen: Arrays, ct: np.ndarray) -> Arrays:
    """The gradients of a perceptron that has ``seen`` so before each layer."""
    found: Arrays = []
    for layer in reversed(range(len(seen))):
        found[:0] = [seen[layer].T @ ct, ct.sum(0)]
        if layer:
            ct = (ct @ parameters[2 * layer].T) * (seen[layer] > 0)
    return found


def forward(parameters: Arrays, x: np.ndarray) -> tuple[Arrays, np.ndarray]:
    """What each layer of a perceptron sees, and what the last one gives."""
    seen = [x]
    for layer in range(0, len(parameters) - 2, 2):
        seen.append(np.maximum(seen[-1] @ parameters[layer] + parameters[layer + 1], 0))
    return seen, seen[-1] @ parameters[-2] + parameters[-1]


def mean_square(out: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    apart = out - y
    return np.mean(apart * apart), apart * np.float32(2 / apart.size)


def cross_entropy(out: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    apart = out - out.max(1, keepdims=True)
    likely = np.exp(apart)
    sums = likely.sum(1, keepdims=True)
    rows = np.arange(len(y))
    loss = np.mean(np.log(sums[:, 0]) - apart[rows, y])
    likely /= sums
    likely[rows, y] -= 1
    likely /= np.float32(len(y))
    return loss, likely


def sgd(parameters: Arrays) -> Callable[[Arrays], None]:
    def update(found: Arrays) -> None:
        for parameter, gradient in zip(parameters, found, strict=True):
            parameter -= np.float32(1e-3) * gradient

    return update


def adam(parameters: Arrays) -> Callable[[Arrays], None]:
    """D. Kingma, J. Ba, "Adam: a method for stochastic optimization", 2014."""
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    steps = 0

    def update(found: Arrays) -> None:
        nonlocal steps
        steps += 1
        rate, root = 1e-3 / (1 - 0.9**steps), np.float32((1 - 0.999**steps) ** 0.5)
        for p, g, m, v in zip(parameters, found, means, squares, strict=True):
            m += np.float32(0.1) * (g - m)
            v *= np.float32(0.999)
            v += np.float32(0.001) * g * g
            p -= np.float32(rate) * m / (np.sqrt(v) / root + np.float32(1e-8))

    return update


def learner(
    loss: Callable[..., Any], optimizer: Callable[..., Any]
) -> Callable[..., WorkloadProgram]:
    """The program that trains a perceptron: a step a call, or a stack of steps."""

    def build(problem: Problem, _: str) -> WorkloadProgram:
        parameters = layers(problem)
        update = optimizer(parameters)
        x, y = problem.inputs

        def step(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            seen, out = forward(parameters, x)
            value, ct = loss(out, y)
            update(backward(parameters, seen, ct))
            return value

        if x.ndim == 2:
            return training(lambda: step(x, y), lambda: parameters)
        return training(
            lambda: np.stack([step(*batch) for batch in zip(x, y, strict=True)]),
            lambda: parameters, runs=1,
        )  # fmt: skip

    return build


def fused(problem: Problem, _: str) -> WorkloadProgram:
    (x,) = problem.inputs
    return function(lambda: np.tanh(x * 1.5 + 0.3) / (1 + np.exp(-x)) + x * x)


def softmax(problem: Problem, _: str) -> WorkloadProgram:
    (x,) = problem.inputs

    def run() -> np.ndarray:
        found = np.exp(x - x.max(1, keepdims=True))
        found /= found.sum(1, keepdims=True)
        return found

    return function(run)


def layernorm(problem: Problem, _: str) -> WorkloadProgram:
    (x,) = problem.inputs
    weight, bias = problem.parameters.values()

    def run() -> np.ndarray:
        apart = x - x.mean(1, keepdims=True)
        apart /= np.sqrt((apart * apart).mean(1, keepdims=True) + np.float32(1e-5))
        apart *= weight
        apart += bias
        return apart

    return function(run)


def gemm(problem: Problem, _: str) -> WorkloadProgram:
    a, b = problem.inputs
    return function(lambda: a @ b)


def while_loop(problem: Problem, _: str) -> WorkloadProgram:
    (start,) = problem.inputs

    def run() -> np.ndarray:
        x = start
        while np.max(np.abs(x)) > SMALL:
            x = x - STEP * np.sin(x)
        return x

    return function(run, lambda x: x / SMALL)


PROGRAMS = {
    "dispatch": dispatch,
    "chain20": chain20,
    "d2l_mlp": d2l_mlp,
    "tiny_train": learner(mean_square, sgd),
    "mlp_train": learner(cross_entropy, adam),
    "fused": fused,
    "softmax": softmax,
    "layernorm": layernorm,
    "gemm": gemm,
    "while_loop": while_loop,
}
