"""SGD: stochastic gradient descent, with momentum if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hybrid.errors import ArgumentError
from hybrid.optim.optimizer import Optimizer
from hybrid.optim.rule import Rule, attrs_of


class SGD(Optimizer):
    """``p - lr * d`` for the gradient ``d`` plus ``weight_decay * p``.

    With ``momentum``, ``d`` is replaced by ``m``, which is ``d`` at a parameter's first step and
    ``momentum * m + (1 - dampening) * d`` from then on (Sutskever et al. 2013); with ``nesterov``
    by ``d + momentum * m``.  ``maximize`` climbs instead of descending.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **how: Any,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults, how)

    @classmethod
    def rule_of(cls, settings: Mapping[str, Any]) -> Rule:
        momentum, dampening = settings["momentum"], settings["dampening"]
        if settings["nesterov"] and (momentum == 0 or dampening != 0):
            raise ArgumentError(
                "nesterov needs a momentum and no dampening",
                fix="give momentum > 0 and dampening=0",
            )
        if momentum == 0:
            return Rule(name="sgd", attrs=attrs_of("sgd", settings))
        # Undampened, a first step from zeros is the first step: only dampening has to know of it.
        name, counts = ("sgd_dampened", ("step",)) if dampening else ("sgd_momentum", ())
        return Rule(
            name=name,
            attrs=attrs_of(name, settings),
            moments=("momentum_buffer",),
            counts=counts,
            paced=True,
        )
