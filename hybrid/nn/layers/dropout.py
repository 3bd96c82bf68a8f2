"""Dropout as modules: they do something in training only."""

from __future__ import annotations

from collections.abc import Callable

from hybrid.eager.tensor import Tensor
from hybrid.nn import functional
from hybrid.nn.layers.layer import Layer


class Dropout(Layer):
    """In training, zeroes elements with probability ``p``, scales the others by ``1 / (1 - p)``.

    With ``inplace`` the result is written to the input, too.
    """

    _shown = ("p", "inplace")
    _function: Callable[..., Tensor] = staticmethod(functional.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        functional.require_probability(p)
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.p, self.training, self.inplace)


class Dropout1d(Dropout):
    """Dropout of whole channels of [N, C, L] or [C, L]."""

    _function = staticmethod(functional.dropout1d)


class Dropout2d(Dropout):
    """Dropout of whole channels of [N, C, H, W]; three dimensions are [N, C, L]."""

    _function = staticmethod(functional.dropout2d)


class Dropout3d(Dropout):
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W]."""

    _function = staticmethod(functional.dropout3d)


class AlphaDropout(Dropout):
    """Dropout that keeps mean 0 and variance 1 of what SELU activations are."""

    _function = staticmethod(functional.alpha_dropout)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels of [N, C, ...]."""

    _function = staticmethod(functional.feature_alpha_dropout)
