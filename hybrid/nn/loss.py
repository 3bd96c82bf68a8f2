"""Loss functions as modules."""

from __future__ import annotations

from typing import Any

from hybrid.nn import functional
from hybrid.nn.module import Module
from hybrid.tensor import Tensor

REDUCTIONS = ("mean", "sum", "none")


class MSELoss(Module):
    """Squared differences, whose ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""

    def __init__(self, reduction: str = "mean") -> None:
        functional.require_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def forward(self, prediction: Tensor, target: Any) -> Tensor:
        return functional.mse_loss(prediction, target, reduction=self.reduction)

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(Module):
    """The negative log-likelihood of integer classes under softmax of logits [N, classes, ...].

    Targets equal to ``ignore_index`` do not count; ``label_smoothing`` spreads that much of the
    target over all classes.
    """

    def __init__(
        self,
        reduction: str = "mean",
        *,
        ignore_index: int | None = -100,
        label_smoothing: float = 0.0,
    ) -> None:
        functional.require_choice("reduction", reduction, REDUCTIONS)
        functional.require_probability(label_smoothing)
        self.reduction, self.ignore_index = reduction, ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        return functional.cross_entropy(
            logits,
            target,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"
