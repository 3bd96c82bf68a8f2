"""Adam and its kin: steps scaled by running moments of the gradient."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.ir import get_op
from hybrid.optim.optimizer import Optimizer
from hybrid.optim.rule import Rule, attrs_of


class Adam(Optimizer):
    """``p - lr * m' / (sqrt(v') + eps)`` for the bias-corrected moments (Kingma and Ba 2015).

    ``m = beta1 * m + (1 - beta1) * d`` and ``v = beta2 * v + (1 - beta2) * d * d``, corrected by
    ``1 - beta ** t``; ``d`` is the gradient plus ``weight_decay * p``, and ``t`` counts the steps
    in which the parameter had a gradient.  ``amsgrad`` divides by the greatest ``v`` so far (Reddi
    et al. 2018).  ``maximize`` climbs instead of descending.
    """

    decoupled = False  # whether weights decay apart from the gradient

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"amsgrad": amsgrad, "maximize": maximize}, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        name, moments = "adam", ("exp_avg", "exp_avg_sq")
        if settings["amsgrad"]:
            name, moments = "amsgrad", (*moments, "max_exp_avg_sq")
        attrs = attrs_of(name, settings, decoupled=cls.decoupled)
        return Rule(name=name, attrs=attrs, moments=moments, counts=("step",), paced=True)


class AdamW(Adam):
    """Adam that decays by ``lr * weight_decay * p``, past the moments (Loshchilov, Hutter 2019)."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, **how)


class Adamax(Optimizer):
    """``p - lr / (1 - beta1 ** t) * m / u`` with ``u = max(beta2 * u, |d| + eps)``.

    Adam with the greatest gradient in place of the root of the mean square (Kingma and Ba 2015).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"maximize": maximize}, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        attrs = attrs_of("adamax", settings)
        return Rule(
            name="adamax", attrs=attrs, moments=("exp_avg", "exp_inf"), counts=("step",), paced=True
        )


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, which grows with the steps (Dozat 2016; PyTorch's ``NAdam``).

    The momentum of step ``t`` is ``beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))``.
    ``decoupled_weight_decay`` decays as AdamW does.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        attrs = attrs_of("nadam", settings, decoupled=settings["decoupled_weight_decay"])
        moments, counts = ("exp_avg", "exp_avg_sq"), ("step", "mu_product")
        return Rule(
            name="nadam",
            attrs=attrs,
            moments=moments,
            counts=counts,
            paced=True,
            starts=(("mu_product", 1.0),),
        )

    def advanced(self, rule: Rule, counts: tuple[Tensor, ...], pace: Tensor) -> tuple[Tensor, ...]:
        step, product = counts
        step = step + 1.0
        decay = dict(rule.attrs)["momentum_decay"]
        return step, get_op("nadam_product")(product, pace, step, momentum_decay=decay)


class RAdam(Optimizer):
    """Adam with a rectified step (Liu et al. 2020).

    While too few steps were taken for the variance of the adaptive step to be bounded, a step is
    ``lr * m`` alone.  ``decoupled_weight_decay`` decays as AdamW does.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}
        super().__init__(params, defaults, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        attrs = attrs_of("radam", settings, decoupled=settings["decoupled_weight_decay"])
        return Rule(
            name="radam",
            attrs=attrs,
            moments=("exp_avg", "exp_avg_sq"),
            counts=("step",),
            paced=True,
        )
