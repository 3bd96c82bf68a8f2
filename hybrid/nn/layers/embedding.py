"""Embedding tables as modules."""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn import functional, init
from hybrid.nn.functions.embedding_rows import MODES, refuse_sparse
from hybrid.nn.layers.layer import Layer, new_parameter, require_sizes
from hybrid.nn.modules.parameter import Parameter
from hybrid.ops.support.operand_checks import as_int, require_choice


class _EmbeddingTable(Layer):
    """``weight`` [num_embeddings, embedding_dim], normally distributed at first."""

    scale_grad_by_freq = False  # of tables that were pickled before there was a choice

    def _set_up(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        weight: Tensor | None,
        device: Any,
        dtype: Any,
    ) -> None:
        require_sizes(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            name = type(self).__name__
            number = as_int(name, "padding_idx", padding_idx)
            if not -num_embeddings <= number < num_embeddings:
                raise ArgumentError(
                    f"{name} got padding_idx {padding_idx}",
                    why=f"The table has {num_embeddings} rows.",
                    fix="give the index of one of them",
                )
            padding_idx = number % num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        if weight is None:
            self.weight = new_parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
            self.reset_parameters()
            return
        if weight.shape != (num_embeddings, embedding_dim):
            raise ShapeError(
                f"{type(self).__name__} cannot use {weight.type} as its weight",
                why=f"It must be [{num_embeddings}, {embedding_dim}].",
                fix="change its shape, or the numbers",
            )
        self.weight = Parameter(weight)

    def reset_parameters(self) -> None:
        """Draw the rows anew; that of ``padding_idx`` is zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            rows = ops.reshape(ops.arange(self.num_embeddings), (self.num_embeddings, 1))
            self.weight.assign(ops.where(rows == self.padding_idx, 0.0, self.weight.detach()))

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **options: Any) -> Any:
        """A table of given rows [count, features], which are not learnt if ``freeze``."""
        table = Parameter(embeddings)
        if table.ndim != 2:
            raise ShapeError(
                f"{cls.__name__} cannot be made of {table.type}",
                why="A table is [count, features].",
                fix="change its shape",
            )
        made = cls(*table.shape, _weight=table, **options)
        made.weight.requires_grad = not freeze
        return made

    def extra_repr(self) -> str:
        words = [str(self.num_embeddings), str(self.embedding_dim)]
        if self.padding_idx is not None:
            words.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            words.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            words.append(f"norm_type={self.norm_type}")
        return ", ".join(words)


class Embedding(_EmbeddingTable):
    """The rows of ``weight`` [num_embeddings, embedding_dim] at integers of any shape.

    The row ``padding_idx`` starts as zeros and gets no gradient.  With ``max_norm``, rows that are
    looked up and whose ``norm_type``-norm is larger are scaled down to it.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        refuse_sparse("Embedding", sparse)
        table = (num_embeddings, embedding_dim, padding_idx, max_norm, norm_type)
        self._set_up(*table, _weight, device, dtype)
        self.scale_grad_by_freq = bool(scale_grad_by_freq)
        if _freeze:
            self.weight.requires_grad = False

    def forward(self, input: Any) -> Tensor:
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
        )


class EmbeddingBag(_EmbeddingTable):
    """The ``"sum"``, ``"mean"`` or ``"max"`` of bags of rows; see ``functional.embedding_bag``."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        refuse_sparse("EmbeddingBag", sparse)
        require_choice("mode", mode, MODES)
        table = (num_embeddings, embedding_dim, padding_idx, max_norm, norm_type)
        self._set_up(*table, _weight, device, dtype)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.scale_grad_by_freq = bool(scale_grad_by_freq)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
