"""Workloads in JAX: compiled, with what is trained donated, loops as scans, images with channels
last."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hybrid.bench.compare.adapter import WorkloadProgram, function, functions, gradients, training
from hybrid.bench.compare.problems import (
    GPT,
    HEADS,
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

VERSION = jax.__version__
Parameters = dict[str, jax.Array]


def set_threads(count: int) -> None:
    """It takes the cores that it sees, and reads XLA_FLAGS."""


def parameters_of(problem: Problem, keep: Callable[[str], bool] = lambda _: True) -> Parameters:
    """Those that ``keep`` names."""
    return {n: jnp.asarray(values) for n, values in problem.laid_out().items() if keep(n)}


def done(result: Any) -> Any:
    return jax.block_until_ready(result)


def of(build: Callable[..., jax.Array]) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls ``build()``, compiled, with the problem's inputs."""

    def program(problem: Problem, _: str) -> WorkloadProgram:
        inputs, call = [jnp.asarray(array) for array in problem.inputs], jax.jit(build)
        return function(lambda: done(call(*inputs)))

    return program


def inference(
    network: Callable[..., jax.Array], *, images: bool = False
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that calls a function of parameters and an input."""

    def program(problem: Problem, _: str) -> WorkloadProgram:
        (x,) = problem.inputs
        parameters = parameters_of(problem)
        x = jnp.asarray(x.transpose(0, 2, 3, 1) if images else x)
        call = jax.jit(lambda parameters, x: network(parameters, x, *problem.sizes))
        return function(lambda: done(call(parameters, x)))

    return program


Rule = tuple[Callable[[Parameters], Any], Callable[..., tuple[Parameters, Any]]]


def sgd(rate: float, momentum: float = 0.0) -> Rule:
    def update(parameters: Parameters, found: Parameters, speed: Any) -> Any:
        if momentum:
            speed = found = jax.tree.map(lambda v, g: momentum * v + g, speed, found)
        return jax.tree.map(lambda p, g: p - rate * g, parameters, found), speed

    return lambda p: jax.tree.map(jnp.zeros_like, p) if momentum else (), update


def adam(rate: float, decay: float = 0.0) -> Rule:
    def start(parameters: Parameters) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros((), jnp.float32)

    def update(parameters: Parameters, found: Parameters, state: Any) -> Any:
        means, squares, steps = state
        steps = steps + 1
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, found)
        squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, found)
        size, root = rate / (1 - 0.9**steps), jnp.sqrt(1 - 0.999**steps)
        parameters = jax.tree.map(
            lambda p, m, v: p * (1 - rate * decay) - size * m / (jnp.sqrt(v) / root + 1e-8),
            parameters, means, squares,
        )  # fmt: skip
        return parameters, (means, squares, steps)

    return start, update


def learning(
    loss: Callable[..., tuple[jax.Array, Parameters]],
    rule: Rule,
    *,
    images: bool = False,
    stacked_rank: int = 0,
    donate: bool = True,
) -> Callable[[Problem, str], WorkloadProgram]:
    """The program that trains; ``loss(parameters, state, x, y)`` gives the loss and new state.

    Inputs of ``stacked_rank`` are batches for many steps.  To ``donate`` many small arrays costs
    more than to copy them.
    """
    start, update = rule

    def step(kept: Any, batch: Any) -> Any:
        parameters, state, memory = kept
        (value, state), found = jax.value_and_grad(loss, has_aux=True)(parameters, state, *batch)
        parameters, memory = update(parameters, found, memory)
        return (parameters, state, memory), value

    def program(problem: Problem, _: str) -> WorkloadProgram:
        x, y = problem.inputs
        batch = jnp.asarray(x.transpose(0, 2, 3, 1) if images else x), jnp.asarray(y)
        parameters = parameters_of(problem, is_trained)
        state = parameters_of(problem, lambda name: not is_trained(name))
        kept = parameters, state, start(parameters)
        stacked = x.ndim == stacked_rank
        steps = (lambda kept, batches: lax.scan(step, kept, batches)) if stacked else step
        call = jax.jit(steps, donate_argnums=0 if donate else ())

        def run() -> jax.Array:
            nonlocal kept
            kept, value = call(kept, batch)
            return done(value)  # what one executable makes is there all at once

        names = list(filter(is_trained, problem.parameters))
        more = {"runs": 1} if stacked else {}
        return training(run, lambda: [kept[0][name] for name in names], **more)

    return program


def mean_loss(logits: jax.Array, targets: jax.Array) -> jax.Array:
    likely = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(likely, targets[:, None], 1).mean()


def dispatch(problem: Problem, _: str) -> WorkloadProgram:
    a, b = map(jnp.asarray, problem.inputs)
    return function(lambda: done(a + b))


@of
def chain20(x: jax.Array, y: jax.Array) -> jax.Array:
    for _ in range(5):
        x = x + y
        x = x * y
        x = jnp.tanh(x)
        x = x - y
    return x


def linear(p: Parameters, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def perceptron(p: Parameters, x: jax.Array, *_: int) -> jax.Array:
    count = len(p) // 2
    for layer in range(count):
        x = linear(p, str(2 * layer), x)
        if layer < count - 1:
            x = jax.nn.relu(x)
    return x


def square_loss(p: Parameters, state: Parameters, x: Any, y: Any) -> Any:
    return jnp.mean((perceptron(p, x) - y) ** 2), state


def class_loss(p: Parameters, state: Parameters, x: Any, y: Any) -> Any:
    return mean_loss(perceptron(p, x), y), state


def convolved(x: jax.Array, weight: jax.Array, stride: int = 1, pad: int = 0) -> jax.Array:
    edges, order = ((pad, pad), (pad, pad)), ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weight, (stride, stride), edges, dimension_numbers=order)


def pooled(x: jax.Array, size: int, stride: int, pad: int = 0) -> jax.Array:
    edges = ((0, 0), (pad, pad), (pad, pad), (0, 0))
    return lax.reduce_window(
        x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), edges
    )


def lenet_loss(p: Parameters, state: Parameters, x: Any, y: Any) -> Any:
    x = convolved(x, p["conv1.weight"], pad=2) + p["conv1.bias"]
    x = pooled(jax.nn.relu(x), 2, 2)
    x = convolved(x, p["conv2.weight"]) + p["conv2.bias"]
    x = pooled(jax.nn.relu(x), 2, 2)
    x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)
    for name in ("fc1", "fc2"):
        x = jax.nn.relu(linear(p, name, x))
    return mean_loss(linear(p, "fc3", x), y), state


def resnet(
    p: Parameters, state: Parameters, x: jax.Array, groups: Any, *, large: bool, learning: bool
) -> tuple[jax.Array, Parameters]:
    """The logits, and the statistics as they are afterwards."""
    new = dict(state)

    def layer(x: jax.Array, conv: str, norm: str, stride: int, pad: int) -> jax.Array:
        x = convolved(x, p[f"{conv}.weight"], stride, pad)
        mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        if learning:
            count = x.size // x.shape[-1]
            seen, spread = x.mean((0, 1, 2)), x.var((0, 1, 2))
            new[f"{norm}.running_mean"] = 0.9 * mean + 0.1 * seen
            new[f"{norm}.running_var"] = 0.9 * var + 0.1 * spread * count / (count - 1)
            mean, var = seen, spread
        scale = p[f"{norm}.weight"] * lax.rsqrt(var + 1e-5)
        return (x - mean) * scale + p[f"{norm}.bias"]

    x = jax.nn.relu(layer(x, "conv1", "bn1", *((2, 3) if large else (1, 1))))
    if large:
        x = pooled(x, 3, 2, 1)
    for name, entering, leaving, stride in blocks(groups):
        shortcut = x
        if projects(entering, leaving, stride):
            shortcut = layer(x, f"{name}.downsample.0", f"{name}.downsample.1", stride, 0)
        x = jax.nn.relu(layer(x, f"{name}.conv1", f"{name}.bn1", stride, 1))
        x = jax.nn.relu(layer(x, f"{name}.conv2", f"{name}.bn2", 1, 1) + shortcut)
    return linear(p, "fc", x.mean((1, 2))), new


def photographs(p: Parameters, x: jax.Array, *_: int) -> jax.Array:
    return resnet(p, p, x, RESNET18, large=True, learning=False)[0]


def thumbnail_loss(p: Parameters, state: Parameters, x: Any, y: Any) -> Any:
    logits, state = resnet(p, state, x, RESNET20, large=False, learning=True)
    return mean_loss(logits, y), state


def lstm_train(problem: Problem, _: str) -> WorkloadProgram:
    x = jnp.asarray(problem.inputs[0])
    zeros = jnp.zeros((LSTM[1], LSTM[3]), jnp.float32)

    def loss(p: Parameters, x: jax.Array) -> jax.Array:
        entering, bias = x @ p["weight_ih_l0"].T, p["bias_ih_l0"] + p["bias_hh_l0"]

        def cell(state: Any, x: jax.Array) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x + bias + h @ p["weight_hh_l0"].T, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        (h, _), _ = lax.scan(cell, (zeros, zeros), entering)
        return (h * h).mean()

    call, parameters = jax.jit(jax.value_and_grad(loss)), parameters_of(problem)

    def run() -> tuple[jax.Array, list[jax.Array]]:
        value, found = call(parameters, x)
        return done(value), [found[name] for name in problem.parameters]

    return gradients(run)


def normed(p: Parameters, name: str, x: jax.Array) -> jax.Array:
    apart = x - x.mean(-1, keepdims=True)
    scale = lax.rsqrt((apart * apart).mean(-1, keepdims=True) + 1e-5)
    return apart * scale * p[f"{name}.weight"] + p[f"{name}.bias"]


def attended(query: jax.Array, key: jax.Array, value: jax.Array, causal: bool = True) -> jax.Array:
    """Attention of [batch, heads, length, width]."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(query.shape[-1])
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), value)


def gpt(p: Parameters, tokens: jax.Array, *_: int) -> jax.Array:
    batch, length = tokens.shape
    x = p["wte.weight"][tokens] + p["wpe.weight"][:length]
    for block in range(GPT.depth):
        name = f"h.{block}"
        parts = linear(p, f"{name}.attn.c_attn", normed(p, f"{name}.ln_1", x))
        parts = parts.reshape(batch, length, 3, GPT.heads, -1)
        seen = attended(*(parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3)))
        seen = seen.transpose(0, 2, 1, 3).reshape(batch, length, GPT.width)
        x = x + linear(p, f"{name}.attn.c_proj", seen)
        wide = linear(p, f"{name}.mlp.c_fc", normed(p, f"{name}.ln_2", x))
        x = x + linear(p, f"{name}.mlp.c_proj", jax.nn.gelu(wide, approximate=True))
    return normed(p, "ln_f", x) @ p["wte.weight"].T


def text_loss(p: Parameters, state: Parameters, tokens: Any, targets: Any) -> Any:
    return mean_loss(gpt(p, tokens).reshape(-1, GPT.tokens), targets.reshape(-1)), state


@of
def fused(x: jax.Array) -> jax.Array:
    return jnp.tanh(x * 1.5 + 0.3) * jax.nn.sigmoid(x) + x * x


@of
def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, -1)


@of
def gemm(a: jax.Array, b: jax.Array) -> jax.Array:
    return a @ b


def layernorm(p: Parameters, x: jax.Array) -> jax.Array:
    return normed({"all.weight": p["weight"], "all.bias": p["bias"]}, "all", x)


def convolution(problem: Problem, variant: str) -> WorkloadProgram:
    program = inference(lambda p, x, *sizes: convolved(x, p["weight"], *sizes), images=True)
    made = program(problem, variant)
    return function(made.run, lambda found: np.asarray(found).transpose(0, 3, 1, 2))


def encoder_layer(p: Parameters, x: jax.Array) -> jax.Array:
    batch, length, width = x.shape
    parts = x @ p["self_attn.in_proj_weight"] + p["self_attn.in_proj_bias"]
    parts = parts.reshape(batch, length, 3, HEADS, -1)
    heads = [parts[:, :, i].transpose(0, 2, 1, 3) for i in range(3)]
    seen = attended(*heads, causal=False).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = normed(p, "norm1", x + linear(p, "self_attn.out_proj", seen))
    wide = jax.nn.relu(linear(p, "linear1", x))
    return normed(p, "norm2", x + linear(p, "linear2", wide))


def lengths(problem: Problem, _: str) -> WorkloadProgram:
    """Each length is compiled, in the first run, which takes a minute; later ones have met all."""
    parameters, inputs = parameters_of(problem), [jnp.asarray(x) for x in problem.inputs]
    call = jax.jit(encoder_layer)
    return functions(lambda: [done(call(parameters, x)) for x in inputs])


def while_loop(problem: Problem, _: str) -> WorkloadProgram:
    start = jnp.asarray(problem.inputs[0])

    @jax.jit
    def settle(x: jax.Array) -> jax.Array:
        return lax.while_loop(
            lambda x: jnp.max(jnp.abs(x)) > SMALL, lambda x: x - STEP * jnp.sin(x), x
        )

    return function(lambda: done(settle(start)), lambda found: np.asarray(found) / SMALL)


PROGRAMS = {
    "dispatch": dispatch,
    "chain20": chain20,
    "d2l_mlp": inference(perceptron),
    "tiny_train": learning(square_loss, sgd(1e-3), stacked_rank=3, donate=False),
    "mlp_train": learning(class_loss, adam(1e-3), stacked_rank=3),
    "lenet_train": learning(lenet_loss, sgd(1e-2), images=True),
    "resnet18_infer": inference(photographs, images=True),
    "resnet20_train": learning(thumbnail_loss, sgd(1e-2, 0.9), images=True),
    "lstm_train": lstm_train,
    "gpt_train": learning(text_loss, adam(1e-3, 1e-2)),
    "gpt_infer": inference(gpt),
    "fused": fused,
    "softmax": softmax,
    "layernorm": inference(layernorm),
    "gemm": gemm,
    "conv": convolution,
    "attention": of(attended),
    "lengths": lengths,
    "while_loop": while_loop,
}
