"""Loss functions as modules: what ``functional`` computes, with the arguments kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn import functional
from hybrid.nn.functions.spelling import in_order
from hybrid.nn.layers.layer import Layer
from hybrid.ops.layers.losses import require_parameter

REDUCTIONS = ("mean", "sum", "none")


class _Loss(Layer):
    """A loss with a ``reduction``: ``"mean"``, ``"sum"`` or ``"none"``."""

    _shown = ("reduction",)
    _reductions = REDUCTIONS

    @in_order("self size_average reduce reduction")
    def __init__(self, reduction: str = "mean") -> None:
        self._reduce_by(reduction)

    def _reduce_by(self, reduction: str) -> None:
        functional.require_choice("reduction", reduction, self._reductions)
        self.reduction = reduction

    def _weigh_by(self, label: str, weight: Tensor | None) -> None:
        """Keep ``weight`` as a buffer: it is part of the state."""
        if weight is not None and not isinstance(weight, Tensor):
            raise ArgumentTypeError(
                f"{type(self).__name__} got {label} {weight!r}", fix="give a Tensor, or None"
            )
        self.register_buffer(label, weight)


# Numbers -----------------------------------------------------------------------------------------


class MSELoss(_Loss):
    """Squared differences."""

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute differences."""

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """The Huber loss over ``beta``."""

    _shown = ("reduction", "beta")

    @in_order("self size_average reduce reduction beta")
    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        require_parameter("SmoothL1Loss", "beta", beta, 0)
        self._reduce_by(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Half the squared difference up to ``delta``, linear beyond (Huber 1964)."""

    _shown = ("reduction", "delta")

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        require_parameter("HuberLoss", "delta", delta, 0)
        self._reduce_by(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts; see ``functional.poisson_nll_loss``."""

    _shown = ("log_input", "full", "eps", "reduction")

    @in_order("self log_input full size_average eps reduce reduction")
    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        *,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        self._reduce_by(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Any) -> Tensor:
        return functional.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood under normal distributions; see
    ``functional.gaussian_nll_loss``.
    """

    _shown = ("full", "eps", "reduction")

    @in_order("self full eps reduction")
    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        self._reduce_by(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Any, var: Any) -> Tensor:
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """``target * (log(target) - input)`` for log-probabilities; see ``functional.kl_div``.

    The reduction ``"batchmean"`` is the sum over the size of the first axis.
    """

    _shown = ("reduction", "log_target")
    _reductions = (*REDUCTIONS, "batchmean")

    @in_order("self size_average reduce reduction log_target")
    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        self._reduce_by(reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.kl_div(
            input, target, reduction=self.reduction, log_target=self.log_target
        )


# Classes -----------------------------------------------------------------------------------------


class CrossEntropyLoss(_Loss):
    """The negative log-likelihood of classes under softmax of logits [N, classes, ...].

    ``weight`` [classes] scales the terms.  Targets equal to ``ignore_index`` do not count;
    ``label_smoothing`` spreads that much of the target over all classes.  See
    ``functional.cross_entropy``.
    """

    _shown = ("ignore_index", "reduction", "label_smoothing")

    @in_order("self weight size_average ignore_index reduce reduction label_smoothing")
    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int | None = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        self._reduce_by(reduction)
        functional.require_probability(label_smoothing)
        self._weigh_by("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Loss):
    """``-input`` at the target classes, for log-probabilities [N, classes, ...]."""

    _shown = ("ignore_index", "reduction")

    @in_order("self weight size_average ignore_index reduce reduction")
    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int | None = -100,
        reduction: str = "mean",
    ) -> None:
        self._reduce_by(reduction)
        self._weigh_by("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.nll_loss(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class BCELoss(_Loss):
    """The negative log-likelihood of ``target`` under the probabilities ``input``."""

    @in_order("self weight size_average reduce reduction")
    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        self._reduce_by(reduction)
        self._weigh_by("weight", weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The negative log-likelihood of ``target`` under sigmoid of ``input``, without overflow.

    ``pos_weight`` scales the terms of targets 1.
    """

    @in_order("self weight size_average reduce reduction pos_weight")
    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        self._reduce_by(reduction)
        self._weigh_by("weight", weight)
        self._weigh_by("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
        )


class MultiMarginLoss(_Loss):
    """``max(0, margin - input[target] + input[j]) ** p``, the mean over the other classes j."""

    _shown = ("p", "margin", "reduction")

    @in_order("self p margin weight size_average reduce reduction")
    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        *,
        reduction: str = "mean",
    ) -> None:
        if p not in (1, 2):
            raise ArgumentError(f"MultiMarginLoss got p {p!r}", fix="give 1 or 2")
        require_parameter("MultiMarginLoss", "margin", margin)
        self._reduce_by(reduction)
        self._weigh_by("weight", weight)
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """The margin loss of several target classes; see ``functional.multilabel_margin_loss``."""

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """The mean over classes of BCEWithLogitsLoss."""

    @in_order("self weight size_average reduce reduction")
    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        self._reduce_by(reduction)
        self._weigh_by("weight", weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.multilabel_soft_margin_loss(
            input, target, self.weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """The loss of label sequences without alignment; see ``functional.ctc_loss``."""

    _shown = ("blank", "reduction", "zero_infinity")

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        self._reduce_by(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


# Vectors and margins -----------------------------------------------------------------------------


class _Margin(_Loss):
    _shown = ("margin", "reduction")

    def _set_margin(self, margin: float, reduction: str) -> None:
        require_parameter(type(self).__name__, "margin", margin)
        self._reduce_by(reduction)
        self.margin = margin


class HingeEmbeddingLoss(_Margin):
    """``input`` where ``target`` is 1, ``max(0, margin - input)`` where it is -1."""

    @in_order("self margin size_average reduce reduction")
    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        self._set_margin(margin, reduction)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.hinge_embedding_loss(
            input, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Margin):
    """``max(0, margin - target * (input1 - input2))``."""

    @in_order("self margin size_average reduce reduction")
    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        self._set_margin(margin, reduction)

    def forward(self, input1: Tensor, input2: Any, target: Any) -> Tensor:
        return functional.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Margin):
    """By the cosine ``c``: ``1 - c`` where ``target`` is 1, else ``max(0, c - margin)``."""

    @in_order("self margin size_average reduce reduction")
    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        self._set_margin(margin, reduction)

    def forward(self, input1: Tensor, input2: Any, target: Any) -> Tensor:
        return functional.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets 1 and -1."""

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class TripletMarginLoss(_Margin):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``, ``d`` the ``p``-distance."""

    _shown = ("margin", "p", "eps", "swap", "reduction")

    @in_order("self margin p eps swap size_average reduce reduction")
    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ) -> None:
        self._set_margin(margin, reduction)
        self.p, self.eps, self.swap = p, eps, swap

    def forward(self, anchor: Tensor, positive: Any, negative: Any) -> Tensor:
        return functional.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Margin):
    """TripletMarginLoss with a distance of one's own: ``distance_function(x1, x2)``."""

    _shown = ("margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        self._set_margin(margin, reduction)
        self.distance_function, self.swap = distance_function, swap

    def forward(self, anchor: Tensor, positive: Any, negative: Any) -> Tensor:
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
