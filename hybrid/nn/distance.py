"""Similarities and distances of vectors, as modules."""

from __future__ import annotations

from hybrid import ops
from hybrid.eager.tensor import Tensor
from hybrid.nn.layer import Layer


class CosineSimilarity(Layer):
    """The cosine of the angle between vectors along ``dim``; a norm counts as ``eps`` at least."""

    _shown = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ops.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Layer):
    """The ``p``-norm of ``x1 - x2 + eps`` along the last axis."""

    _shown = ("p", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return ops.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
