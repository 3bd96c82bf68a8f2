"""MultiheadAttention as a module."""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError
from hybrid.nn import functional, init
from hybrid.nn.functions.multihead import attend, project_heads
from hybrid.nn.layers.layer import new_parameter, require_sizes
from hybrid.nn.layers.linear import Linear
from hybrid.nn.modules.expected_input import takes
from hybrid.nn.modules.module import Module


@takes("T, N, embed_dim | T, embed_dim")
class MultiheadAttention(Module):
    """Attention of ``num_heads`` heads over projections of queries, keys and values.

    ``in_proj_weight`` [3 E, E] projects all three (with ``kdim`` or ``vdim`` other than E they have
    ``q_proj_weight``, ``k_proj_weight`` [E, kdim] and ``v_proj_weight`` [E, vdim]), ``out_proj``
    what is found.  The projections start by ``xavier_uniform_``, biases as zeros; ``add_bias_kv``
    makes ``bias_k`` and ``bias_v`` [1, 1, E], one more key and value (Vaswani et al. 2017).
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kdim, vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        require_sizes(1, embed_dim=embed_dim, num_heads=num_heads, kdim=kdim, vdim=vdim)
        functional.require_probability(dropout)
        if embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention cannot split embed_dim {embed_dim} among {num_heads} heads",
                fix="give a number of heads that divides it",
            )
        self.embed_dim, self.kdim, self.vdim = embed_dim, kdim, vdim
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        made = {"dtype": dtype, "device": device}
        separate = (kdim, vdim) != (embed_dim, embed_dim)
        self.q_proj_weight = new_parameter(embed_dim, embed_dim, **made) if separate else None
        self.k_proj_weight = new_parameter(embed_dim, kdim, **made) if separate else None
        self.v_proj_weight = new_parameter(embed_dim, vdim, **made) if separate else None
        whole = None if separate else new_parameter(3 * embed_dim, embed_dim, **made)
        self.in_proj_weight = whole
        self.in_proj_bias = new_parameter(3 * embed_dim, **made) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, **made)
        self.bias_k = new_parameter(1, 1, embed_dim, **made) if add_bias_kv else None
        self.bias_v = new_parameter(1, 1, embed_dim, **made) if add_bias_kv else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters but ``out_proj.weight`` anew."""
        projections = (self.in_proj_weight, *self._separate())
        for weight in projections:
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _separate(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        return self.q_proj_weight, self.k_proj_weight, self.v_proj_weight

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What the queries find, and the weights; see ``multi_head_attention_forward``."""
        return attend(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.projected,
            self.merged,
            inner=self.out_proj.in_features,
            bias_k=self.bias_k,
            bias_v=self.bias_v,
            add_zero_attn=self.add_zero_attn,
            dropout_p=self.dropout if self.training else 0.0,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            batch_first=self.batch_first,
        )

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads."""
        whole = self.in_proj_weight
        weights = self._separate() if whole is None else None
        return project_heads(query, key, value, whole, weights, self.in_proj_bias)

    def merged(self, found: Tensor) -> Tensor:
        """What all heads have found, projected."""
        return ops.linear(found, self.out_proj.weight, self.out_proj.bias)
