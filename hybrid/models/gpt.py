"""A GPT: a transformer that tells, at every place of a text, how likely each next token is.

A. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (GPT-2): layers are
normalised before what they do, and the vectors of the tokens are also the weights of the output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import hybrid as hy
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, functional, init


@dataclass(frozen=True)
class Config:
    """The sizes; ``block`` is how many tokens can be looked back at, the present one included."""

    tokens: int
    block: int = 64
    width: int = 64
    heads: int = 4
    depth: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ArgumentError(
                f"width {self.width} is not divided by heads {self.heads}",
                fix="give every head as many features",
            )


class CausalSelfAttention(Module):
    """Every token looks at those before it and at itself, in several heads."""

    def __init__(self, config: Config) -> None:
        self.features, self.dropout = config.width // config.heads, config.dropout
        self.c_attn = Linear(config.width, 3 * config.width)
        self.c_proj = Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = self.c_attn(x).reshape((batch, length, 3, -1, self.features))  # -1: heads
        query, key, value = (parts[:, :, i].permute_dims((0, 2, 1, 3)) for i in range(3))
        seen = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        return self.c_proj(seen.permute_dims((0, 2, 1, 3)).reshape((batch, length, -1)))


class Perceptron(Module):
    """Two layers at every token."""

    def __init__(self, config: Config) -> None:
        self.c_fc = Linear(config.width, 4 * config.width)
        self.c_proj = Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(Module):
    """Attention, then a perceptron, each added to what it has seen."""

    def __init__(self, config: Config) -> None:
        self.ln_1 = LayerNorm(config.width)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = LayerNorm(config.width)
        self.mlp = Perceptron(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


class GPT(Module):
    """Tokens [batch, length] -> logits of the token after each, [batch, length, tokens]."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.wte = Embedding(config.tokens, config.width)
        self.wpe = Embedding(config.block, config.width)
        self.dropout = Dropout(config.dropout)
        self.h = ModuleList([Block(config) for _ in range(config.depth)])
        self.ln_f = LayerNorm(config.width)
        self.lm_head = Linear(config.width, config.tokens, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(self._start)
        for block in self.h:  # what is added up starts small: the sum has the depth's variance
            for layer in (block.attn.c_proj, block.mlp.c_proj):
                init.normal_(layer.weight, std=0.02 / math.sqrt(2 * config.depth))

    @staticmethod
    def _start(module: Module) -> None:
        if isinstance(module, (Linear, Embedding)):
            init.normal_(module.weight, std=0.02)
        if isinstance(module, Linear) and module.bias is not None:
            init.zeros_(module.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        length, block = tokens.shape[1], self.config.block
        if length > block:
            raise ShapeError(
                f"GPT cannot take {tokens.type}",
                why=f"It has positions for {block} tokens.",
                fix=f"give the last {block} of them",
            )
        x = self.dropout(self.wte(tokens) + self.wpe.weight[:length])
        for layer in self.h:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


def generate(model: GPT, prompt: Tensor, count: int, temperature: float = 1.0) -> Tensor:
    """``count`` tokens after those of ``prompt`` [batch, length], drawn one by one: [batch, count].

    ``hy.hybridize(generate)`` draws the same ones, in one call into C.
    Where the text outgrows the model's block, what came first is forgotten.
    """
    if prompt.ndim != 2 or prompt.shape[1] < 1:
        raise ShapeError(f"a prompt of type {prompt.type}", fix="give one token at least, in rows")
    if count < 1 or temperature <= 0:
        raise ArgumentError(
            f"count is {count} and temperature is {temperature}", fix="give numbers above 0"
        )
    block = model.config.block
    prompt = prompt[:, -block:]
    batch, length = prompt.shape
    window = hy.concat([prompt, hy.zeros((batch, block - length), dtype=prompt.dtype)], axis=1)
    drawn = []
    for i in range(count):
        known = min(length + i, block)
        logits = model(window)[:, known - 1]
        token = hy.random.categorical(logits / temperature)
        if known < block:
            window[:, known] = token
        else:
            window = hy.concat([window[:, 1:], token[:, None]], axis=1)
        drawn.append(token)
    return hy.stack(drawn, axis=1)
