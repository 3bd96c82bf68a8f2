"""RMSprop, Adagrad and Adadelta, which divide by the size of past gradients; and Lion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hybrid.optim.optimizer import Optimizer
from hybrid.optim.rule import Rule, attrs_of


class RMSprop(Optimizer):
    """``p - lr * d / (sqrt(s) + eps)`` with ``s = alpha * s + (1 - alpha) * d * d``.

    ``d`` is the gradient plus ``weight_decay * p`` (Tieleman and Hinton 2012).  With ``momentum``,
    the quotient is added to ``momentum`` times the last step.  ``centered`` takes the root of
    ``s - a * a``, where ``a`` is the mean of ``d`` (Graves 2013).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, defaults, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        name, moments, moves = "rmsprop", ["square_avg"], settings["momentum"] != 0
        if moves:
            moments.append("momentum_buffer")
        if settings["centered"]:
            name += "_centered"
            moments.append("grad_avg")
        name += "_momentum" if moves else ""
        return Rule(name=name, attrs=attrs_of(name, settings), moments=tuple(moments), paced=moves)


class Adagrad(Optimizer):
    """``p - lr / (1 + (t - 1) * lr_decay) * d / (sqrt(s) + eps)``, ``s`` the sum of all ``d * d``.

    ``d`` is the gradient plus ``weight_decay * p``; ``s`` begins at ``initial_accumulator_value``
    (Duchi et al. 2011).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "maximize": maximize,
        }
        super().__init__(params, defaults, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        starts = (("sum", float(settings["initial_accumulator_value"])),)
        return Rule(
            name="adagrad",
            attrs=attrs_of("adagrad", settings),
            moments=("sum",),
            counts=("step",),
            starts=starts,
        )


class Adadelta(Optimizer):
    """``p - lr * e`` with ``e = sqrt(a + eps) / sqrt(s + eps) * d`` (Zeiler 2012).

    ``s`` and ``a`` are the mean squares of ``d``, the gradient plus ``weight_decay * p``, and of
    the steps ``e`` before: ``rho`` times the last one plus ``1 - rho`` times the square.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"maximize": maximize}, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        return Rule(
            name="adadelta",
            attrs=attrs_of("adadelta", settings),
            moments=("square_avg", "acc_delta"),
        )


class Lion(Optimizer):
    """``p * (1 - lr * weight_decay) - lr * sign(beta1 * m + (1 - beta1) * g)`` (Chen et al. 2023).

    Then ``m = beta2 * m + (1 - beta2) * g``.  Every element moves by ``lr``, so take a learning
    rate some 3 to 10 times smaller than Adam's, and a weight decay as many times greater.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        return Rule(name="lion", attrs=attrs_of("lion", settings), moments=("exp_avg",), paced=True)
