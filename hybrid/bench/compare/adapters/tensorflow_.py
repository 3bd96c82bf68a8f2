"""Workloads in TensorFlow: each a ``tf.function``, with XLA where that is faster on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from hybrid.bench.compare.adapter import WorkloadProgram, function, gradients, training
from hybrid.bench.compare.problems import (
    GPT,
    LSTM,
    RESNET18,
    RESNET20,
    SMALL,
    STEP,
    Problem,
    blocks,
    is_trained,
    projects,
)

VERSION = tf.__version__
Parameters = dict[str, Any]


def set_threads(count: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)


def variables(problem: Problem) -> Parameters:
    return {
        name: tf.Variable(values, trainable=is_trained(name))
        for name, values in problem.laid_out().items()
    }


def of(
    build: Callable[..., Any], *, xla: bool = False
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls ``build()`` with the problem's inputs."""

    def program(problem: Problem, _: str) -> WorkloadProgram:
        inputs = [tf.constant(array) for array in problem.inputs]
        call = tf.function(build, jit_compile=xla)
        return function(lambda: call(*inputs).numpy())

    return program


def inference(
    network: Callable[..., Any], *, xla: bool = False, images: bool = False
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls a function of parameters and an input."""

    def program(problem: Problem, _: str) -> WorkloadProgram:
        (x,) = problem.inputs
        given = tf.constant(x.transpose(0, 2, 3, 1) if images else x)
        parameters = variables(problem)
        call = tf.function(lambda x: network(parameters, x, *problem.sizes), jit_compile=xla)
        return function(lambda: call(given).numpy())

    return program


Update = Callable[[list[Any], list[Any]], None]


def sgd(rate: float, momentum: float = 0.0) -> Callable[[list[Any]], Update]:
    def start(trained: list[Any]) -> Update:
        speeds = [tf.Variable(tf.zeros_like(p)) for p in trained] if momentum else []

        def update(trained: list[Any], found: list[Any]) -> None:
            if momentum:
                found = [v.assign(momentum * v + g) for v, g in zip(speeds, found, strict=True)]
            for p, g in zip(trained, found, strict=True):
                p.assign_sub(rate * g)

        return update

    return start


def adam(rate: float, decay: float = 0.0) -> Callable[[list[Any]], Update]:
    def start(trained: list[Any]) -> Update:
        means, squares = ([tf.Variable(tf.zeros_like(p)) for p in trained] for _ in range(2))
        steps = tf.Variable(0.0)

        def update(trained: list[Any], found: list[Any]) -> None:
            steps.assign_add(1.0)
            size, root = rate / (1 - 0.9**steps), tf.sqrt(1 - 0.999**steps)
            for p, g, m, v in zip(trained, found, means, squares, strict=True):
                g = tf.convert_to_tensor(g)
                m.assign(0.9 * m + 0.1 * g)
                v.assign(0.999 * v + 0.001 * g * g)
                p.assign(p * (1 - rate * decay) - size * m / (tf.sqrt(v) / root + 1e-8))

        return update

    return start


def learning(
    loss: Callable[..., Any],
    rule: Callable[[list[Any]], Update],
    *,
    xla: bool = False,
    images: bool = False,
    stacked_rank: int = 0,
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that trains; inputs of ``stacked_rank`` are batches for many steps."""

    def program(problem: Problem, _: str) -> WorkloadProgram:
        x, y = problem.inputs
        batch = tf.constant(x.transpose(0, 2, 3, 1) if images else x), tf.constant(y)
        parameters = variables(problem)
        trained = [p for p in parameters.values() if p.trainable]
        update = rule(trained)

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(parameters, x, y)
            update(trained, tape.gradient(value, trained))
            return value

        def steps(xs: Any, ys: Any) -> Any:
            losses = tf.TensorArray(tf.float32, len(x))
            for i in tf.range(len(x)):
                losses = losses.write(i, step(xs[i], ys[i]))
            return losses.stack()

        stacked = x.ndim == stacked_rank
        call = tf.function(steps if stacked else step, jit_compile=xla)
        more = {"runs": 1} if stacked else {}
        return training(lambda: call(*batch).numpy(), lambda: trained, **more)

    return program


def mean_loss(logits: Any, targets: Any) -> Any:
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    )


def dispatch(problem: Problem, _: str) -> WorkloadProgram:
    a, b = map(tf.constant, problem.inputs)
    return function(lambda: a + b)


def chain20(x: Any, y: Any) -> Any:
    for _ in range(5):
        x = x + y
        x = x * y
        x = tf.tanh(x)
        x = x - y
    return x


def linear(p: Parameters, name: str, x: Any) -> Any:
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def perceptron(p: Parameters, x: Any, *_: int) -> Any:
    count = len(p) // 2
    for layer in range(count):
        x = linear(p, str(2 * layer), x)
        if layer < count - 1:
            x = tf.nn.relu(x)
    return x


def square_loss(p: Parameters, x: Any, y: Any) -> Any:
    return tf.reduce_mean((perceptron(p, x) - y) ** 2)


def class_loss(p: Parameters, x: Any, y: Any) -> Any:
    return mean_loss(perceptron(p, x), y)


def convolved(x: Any, weight: Any, stride: int = 1, pad: int = 0) -> Any:
    return tf.nn.conv2d(x, weight, stride, [[0, 0], [pad, pad], [pad, pad], [0, 0]])


def lenet_loss(p: Parameters, x: Any, y: Any) -> Any:
    x = tf.nn.relu(convolved(x, p["conv1.weight"], pad=2) + p["conv1.bias"])
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.nn.relu(convolved(x, p["conv2.weight"]) + p["conv2.bias"])
    x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    x = tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (x.shape[0], -1))
    for name in ("fc1", "fc2"):
        x = tf.nn.relu(linear(p, name, x))
    return mean_loss(linear(p, "fc3", x), y)


def resnet(p: Parameters, x: Any, groups: Any, *, large: bool, learning: bool) -> Any:
    def layer(x: Any, conv: str, norm: str, stride: int, pad: int) -> Any:
        x = convolved(x, p[f"{conv}.weight"], stride, pad)
        rest = p[f"{norm}.weight"], p[f"{norm}.bias"]
        mean, var = p[f"{norm}.running_mean"], p[f"{norm}.running_var"]
        if not learning:
            return tf.nn.batch_normalization(x, mean, var, rest[1], rest[0], 1e-5)
        x, new_mean, new_var = tf.compat.v1.nn.fused_batch_norm(
            x, *rest, mean, var, epsilon=1e-5, is_training=True, exponential_avg_factor=0.1
        )
        mean.assign(new_mean)
        var.assign(new_var)
        return x

    x = tf.nn.relu(layer(x, "conv1", "bn1", *((2, 3) if large else (1, 1))))
    if large:
        x = tf.nn.max_pool2d(x, 3, 2, [[0, 0], [1, 1], [1, 1], [0, 0]])
    for name, entering, leaving, stride in blocks(groups):
        shortcut = x
        if projects(entering, leaving, stride):
            shortcut = layer(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0)
        x = tf.nn.relu(layer(x, f"{name}.conv1", f"{name}.bn1", stride, 1))
        x = tf.nn.relu(layer(x, f"{name}.conv2", f"{name}.bn2", 1, 1) + shortcut)
    return linear(p, "fc", tf.reduce_mean(x, (1, 2)))


def photographs(p: Parameters, x: Any, *_: int) -> Any:
    return resnet(p, x, RESNET18, large=True, learning=False)


def thumbnail_loss(p: Parameters, x: Any, y: Any) -> Any:
    return mean_loss(resnet(p, x, RESNET20, large=False, learning=True), y)


def lstm_train(problem: Problem, _: str) -> WorkloadProgram:
    x, p = tf.constant(problem.inputs[0]), variables(problem)
    steps, batch, features, hidden = LSTM

    @tf.function
    def learn(x: Any) -> Any:
        with tf.GradientTape() as tape:
            flat = tf.reshape(x, (-1, features))
            bias = p["bias_ih_l0"] + p["bias_hh_l0"]
            entering = tf.matmul(flat, p["weight_ih_l0"], transpose_b=True) + bias
            entering = tf.reshape(entering, (steps, batch, 4 * hidden))
            h = c = tf.zeros((batch, hidden))
            for t in tf.range(steps):
                gates = entering[t] + tf.matmul(h, p["weight_hh_l0"], transpose_b=True)
                i, f, g, o = tf.split(gates, 4, 1)
                c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
                h = tf.sigmoid(o) * tf.tanh(c)
            value = tf.reduce_mean(h * h)
        return value, tape.gradient(value, list(p.values()))

    def run() -> tuple[Any, Any]:
        value, found = learn(x)
        return value.numpy(), [g.numpy() for g in found]

    return gradients(run)


def normed(p: Parameters, name: str, x: Any) -> Any:
    mean, var = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def attended(query: Any, key: Any, value: Any) -> Any:
    """Causal attention of [batch, heads, length, width]."""
    scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(query.shape[-1])
    unseen = np.triu(np.full(scores.shape[-2:], -np.inf, np.float32), 1)
    return tf.matmul(tf.nn.softmax(scores + unseen), value)


def gpt(p: Parameters, tokens: Any, *_: int) -> Any:
    batch, length = tokens.shape
    x = tf.gather(p["wte.weight"], tokens) + p["wpe.weight"][:length]
    for block in range(GPT.depth):
        name = f"h.{block}"
        parts = linear(p, f"{name}.attn.c_attn", normed(p, f"{name}.ln_1", x))
        parts = tf.reshape(parts, (batch, length, 3, GPT.heads, -1))
        heads = tf.unstack(tf.transpose(parts, (2, 0, 3, 1, 4)))
        seen = tf.transpose(attended(*heads), (0, 2, 1, 3))
        seen = tf.reshape(seen, (batch, length, GPT.width))
        x = x + linear(p, f"{name}.attn.c_proj", seen)
        wide = linear(p, f"{name}.mlp.c_fc", normed(p, f"{name}.ln_2", x))
        x = x + linear(p, f"{name}.mlp.c_proj", tf.nn.gelu(wide, approximate=True))
    x = normed(p, "ln_f", x)
    return tf.matmul(x, tf.transpose(p["wte.weight"]))


def text_loss(p: Parameters, tokens: Any, targets: Any) -> Any:
    return mean_loss(tf.reshape(gpt(p, tokens), (-1, GPT.tokens)), tf.reshape(targets, (-1,)))


def fused(x: Any) -> Any:
    return tf.tanh(x * 1.5 + 0.3) * tf.sigmoid(x) + x * x


def layernorm(p: Parameters, x: Any) -> Any:
    return normed({"all.weight": p["weight"], "all.bias": p["bias"]}, "all", x)


def conv(problem: Problem, variant: str) -> WorkloadProgram:
    program = inference(lambda p, x, *sizes: convolved(x, p["weight"], *sizes), images=True)
    made = program(problem, variant)
    return function(made.run, lambda found: found.transpose(0, 3, 1, 2))


def while_loop(problem: Problem, _: str) -> WorkloadProgram:
    start = tf.constant(problem.inputs[0])

    @tf.function(jit_compile=True)
    def settle(x: Any) -> Any:
        while tf.reduce_max(tf.abs(x)) > SMALL:
            x = x - STEP * tf.sin(x)
        return x

    return function(lambda: settle(start).numpy(), lambda found: found / SMALL)


PROGRAMS = {
    "dispatch": dispatch,
    "chain20": of(chain20, xla=True),
    "d2l_mlp": inference(perceptron, xla=True),
    "tiny_train": learning(square_loss, sgd(1e-3), xla=True, stacked_rank=3),
    "mlp_train": learning(class_loss, adam(1e-3), xla=True, stacked_rank=3),
    "lenet_train": learning(lenet_loss, sgd(1e-2), images=True),
    "resnet18_infer": inference(photographs, images=True),
    "resnet20_train": learning(thumbnail_loss, sgd(1e-2, 0.9), images=True),
    "lstm_train": lstm_train,
    "gpt_train": learning(text_loss, adam(1e-3, 1e-2)),
    "gpt_infer": inference(gpt),
    "fused": of(fused, xla=True),
    "softmax": of(lambda x: tf.nn.softmax(x)),
    "layernorm": inference(layernorm, xla=True),
    "gemm": of(lambda a, b: a @ b),
    "conv": conv,
    "attention": of(attended),
    "while_loop": while_loop,
}
