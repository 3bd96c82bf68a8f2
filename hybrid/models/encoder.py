"""A BERT-style sentence encoder, with the parameter names of published checkpoints.

Tokens become vectors (Devlin et al. 2019), the mean of which, over the tokens of a sentence, scaled
to length 1, stands for it (Reimers and Gurevych 2019): dot products tell how alike sentences are.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from typing import Any

import hybrid as hy
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.nn import Dropout, Embedding, LayerNorm, Linear, Module, ModuleList, functional


@dataclass(frozen=True)
class Config:
    """The sizes, by the names of ``config.json`` beside a checkpoint."""

    vocab_size: int = 30522
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 12
    intermediate_size: int = 1536
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    hidden_act: str = "gelu"
    position_embedding_type: str = "absolute"
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_attention_heads:
            raise ArgumentError(
                f"hidden_size {self.hidden_size} is not divided by num_attention_heads "
                f"{self.num_attention_heads}",
                fix="give every head as many features",
            )
        for name, known in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
            if getattr(self, name) != known:
                raise ArgumentError(
                    f"{name} is {getattr(self, name)!r}",
                    why=f"This encoder knows {known!r} alone.",
                    fix="take a checkpoint that was made so",
                )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Config:
        """The sizes in a ``config.json``; what else it says does not matter here."""
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        return cls(**{f.name: given[f.name] for f in fields(cls) if f.name in given})


class Embeddings(Module):
    """Ids [batch, length] -> vectors of words, positions and kinds, added up and normalised."""

    def __init__(self, config: Config) -> None:
        size = config.hidden_size
        self.word_embeddings = Embedding(config.vocab_size, size)
        self.position_embeddings = Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = Embedding(config.type_vocab_size, size)
        self.LayerNorm = LayerNorm(size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", hy.arange(config.max_position_embeddings)[None])

    def forward(self, ids: Tensor, kinds: Tensor | None) -> Tensor:
        length = ids.shape[1]
        if length > self.position_ids.shape[1]:
            raise ArgumentError(
                f"{length} tokens are more than the {self.position_ids.shape[1]} with positions",
                fix="let the tokenizer cut sentences, with enable_truncation",
            )
        positions = self.position_embeddings(self.position_ids[:, :length])
        kinds = (
            self.token_type_embeddings.weight[0]
            if kinds is None
            else (self.token_type_embeddings(kinds))
        )
        return self.dropout(self.LayerNorm(self.word_embeddings(ids) + kinds + positions))


class SelfAttention(Module):
    """Every token looks at all tokens of its sentence, in several heads."""

    def __init__(self, config: Config) -> None:
        size = config.hidden_size
        self.features = config.hidden_size // config.num_attention_heads
        self.dropout_p = config.attention_probs_dropout_prob
        self.query, self.key, self.value = (Linear(size, size) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape

        def heads(y: Tensor) -> Tensor:  # [batch, heads, length, features of one]
            split = y.reshape((batch, length, -1, self.features))
            return split.permute_dims((0, 2, 1, 3))

        seen = functional.scaled_dot_product_attention(
            heads(self.query(x)),
            heads(self.key(x)),
            heads(self.value(x)),
            mask,
            dropout_p=self.dropout_p if self.training else 0.0,
        )
        return seen.permute_dims((0, 2, 1, 3)).reshape((batch, length, -1))


class Added(Module):
    """``LayerNorm(dense(x) + before)``: what ends both halves of a layer."""

    def __init__(self, config: Config, inner: int) -> None:
        self.dense = Linear(inner, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + before)


class Attention(Module):
    """The first half of a layer: attention, added to what it has seen."""

    def __init__(self, config: Config) -> None:
        self.self = SelfAttention(config)
        self.output = Added(config, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(Module):
    """The wide part of the second half."""

    def __init__(self, config: Config) -> None:
        self.dense = Linear(config.hidden_size, config.intermediate_size)

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(self.dense(x))


class Layer(Module):
    """Attention, then a perceptron at every token."""

    def __init__(self, config: Config) -> None:
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Added(config, config.intermediate_size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Layers(Module):
    """All layers, one after another."""

    def __init__(self, config: Config) -> None:
        self.layer = ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(Module):
    """The first token through one more layer: part of checkpoints, and not of embeddings."""

    def __init__(self, config: Config) -> None:
        self.dense = Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return hy.tanh(self.dense(x[:, 0]))


class SentenceEncoder(Module):
    """Ids of tokens [batch, length] -> one vector of length 1 per sentence [batch, hidden_size].

    ``mask`` [batch, length] is 1 (or True) where a token is, 0 at padding, which changes nothing.
    """

    def __init__(self, config: Config) -> None:
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)
        self.pooler = Pooler(config)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> SentenceEncoder:
        """The encoder whose ``config.json`` and ``model.safetensors`` are in ``folder``.

        The weights are mapped (see ``hybrid.load``); it is ready to be used, not to be trained:
        ``train()`` turns dropout on.
        """
        model = cls(Config.read(os.path.join(folder, "config.json")))
        model.load_state_dict(os.path.join(folder, "model.safetensors"))
        return model.eval()

    def tokens(self, ids: Tensor, mask: Tensor, kinds: Tensor | None = None) -> Tensor:
        """The vectors of all tokens, [batch, length, hidden_size]."""
        seen = (mask != 0)[:, None, None, :]  # by all heads and all tokens
        return self.encoder(self.embeddings(ids, kinds), seen)

    def forward(self, ids: Tensor, mask: Tensor, kinds: Tensor | None = None) -> Tensor:
        tokens = self.tokens(ids, mask, kinds)
        counted = mask.astype(tokens.dtype)[:, :, None]
        total = (tokens * counted).sum(axis=1)
        mean = total / hy.maximum(counted.sum(axis=1), 1e-9)
        return functional.normalize(mean, axis=1)


def embed(encoder: SentenceEncoder, tokenizer: Any, sentences: list[str]) -> Tensor:
    """The vectors of ``sentences`` by a ``tokenizers.Tokenizer`` that pads them to one length."""
    found = tokenizer.encode_batch(sentences)
    ids = hy.asarray([encoding.ids for encoding in found])
    mask = hy.asarray([encoding.attention_mask for encoding in found])
    with hy.no_grad():
        return encoder(ids, mask)
