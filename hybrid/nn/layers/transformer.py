"""Transformers: encoder and decoder layers, stacks of them, and the two together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.nn import functional, init
from hybrid.nn.layers.attention import MultiheadAttention
from hybrid.nn.layers.dropout import Dropout
from hybrid.nn.layers.layer import require_sizes
from hybrid.nn.layers.linear import Linear
from hybrid.nn.layers.normalization import LayerNorm
from hybrid.nn.modules.container import ModuleList
from hybrid.nn.modules.expected_input import takes
from hybrid.nn.modules.module import Module

Activation = str | Callable[[Tensor], Tensor]
_ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if callable(given):
        return given
    functional.require_choice("activation", given, tuple(_ACTIVATIONS))
    return _ACTIVATIONS[given]


def _copies(layer: Module, count: int) -> ModuleList:
    require_sizes(num_layers=count)
    if not isinstance(layer, Module):
        raise ArgumentTypeError(
            f"a {type(layer).__name__} is not a layer", fix="pass a hybrid.nn.Module"
        )
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _found(
    attention: Module, queries: Tensor, keys: Tensor, mask: Any, padding: Any, causal: bool
) -> Tensor:
    """What the queries find among the keys, which are the values, too."""
    found, _ = attention(
        queries,
        keys,
        keys,
        attn_mask=mask,
        key_padding_mask=padding,
        need_weights=False,
        is_causal=causal,
    )
    return found


@takes("T, N, d_model | T, d_model")
class _Layer(Module):
    """Attentions and a feed-forward network, each with a norm and a dropout of its own."""

    _attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        made = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, **made
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for number in parts:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **made))
        for number in parts:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _fed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each added to its input and normalised.

    ``src`` is [S, N, d_model] ([N, S, d_model] if ``batch_first``, or without N).  With
    ``norm_first`` the norms come before attention and network (Vaswani et al. 2017; Xiong et al.
    2020).
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The masks are those of MultiheadAttention."""
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            normal = self.norm1(src)
            x = src + self.dropout1(_found(self.self_attn, normal, normal, *masks))
            return x + self.dropout2(self._fed_forward(self.norm2(x)))
        x = self.norm1(src + self.dropout1(_found(self.self_attn, src, src, *masks)))
        return self.norm2(x + self.dropout2(self._fed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the ``memory`` of an encoder, and a feed-forward network.

    ``tgt`` is [T, N, d_model] and ``memory`` [S, N, d_model]; arguments are those of the encoder's
    layer.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The masks are those of MultiheadAttention."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            normal = self.norm1(x)
            x = x + self.dropout1(_found(self.self_attn, normal, normal, *own))
            x = x + self.dropout2(_found(self.multihead_attn, self.norm2(x), memory, *other))
            return x + self.dropout3(self._fed_forward(self.norm3(x)))
        x = self.norm1(x + self.dropout1(_found(self.self_attn, x, x, *own)))
        x = self.norm2(x + self.dropout2(_found(self.multihead_attn, x, memory, *other)))
        return self.norm3(x + self.dropout3(self._fed_forward(x)))


class TransformerEncoder(Module):
    """``num_layers`` copies of a layer, one after another, and a ``norm`` if given."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        src: Tensor,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The masks are those of MultiheadAttention, for every layer."""
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """``num_layers`` copies of a layer, one after another, and a ``norm`` if given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The masks are those of MultiheadAttention, for every layer."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of ``src`` and a decoder of ``tgt`` that attends to it (Vaswani et al. 2017).

    ``src`` is [S, N, d_model], ``tgt`` [T, N, d_model] ([N, ...] if ``batch_first``, or without N);
    so is the result.  Matrices start by ``xavier_uniform_``.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        made = {"bias": bias, "device": device, "dtype": dtype}
        given = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        order = {"batch_first": batch_first, "norm_first": norm_first}
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*given, **order, **made)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **made)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*given, **order, **made)
            norm = LayerNorm(d_model, eps=layer_norm_eps, **made)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The masks are those of MultiheadAttention."""
        batch = 0 if self.batch_first else 1
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            raise ShapeError(
                f"Transformer cannot take {src.type} and {tgt.type}",
                why="Both have the same batch.",
                fix="change a shape",
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask [sz, sz]: 0 up to the diagonal, -inf above."""
        if isinstance(sz, bool) or not isinstance(sz, int) or sz < 0:
            raise ArgumentError(f"a mask of size {sz!r}", fix="give an int >= 0")
        places = ops.arange(sz)
        later = places > ops.reshape(places, (sz, 1))
        numbers = ops.full((), -math.inf, dtype=dtype, device=device)
        return ops.where(later, numbers, 0.0)
