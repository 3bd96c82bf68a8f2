"""SGD: stochastic gradient descent, with momentum if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentError
from hybrid.optim.group import Group, in_dtype, require_flag, require_number
from hybrid.optim.optimizer import Optimizer, gradients
from hybrid.tensor import Tensor


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
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @staticmethod
    def layout(settings: Mapping[str, Any]) -> tuple[str, ...]:
        if not isinstance(settings["lr"], Tensor):
            require_number("lr", settings["lr"])
        for name in ("momentum", "weight_decay"):
            require_number(name, settings[name])
        require_number("dampening", settings["dampening"], low=float("-inf"))
        for name in ("nesterov", "maximize"):
            require_flag(name, settings[name])
        if settings["nesterov"] and (settings["momentum"] == 0 or settings["dampening"] != 0):
            raise ArgumentError(
                "nesterov needs a momentum and no dampening",
                fix="give momentum > 0 and dampening=0",
            )
        if settings["momentum"] == 0:
            return ()
        # Undampened, a first step from zeros is the first step: only dampening has to know of it.
        return ("momentum_buffer", "is_moving") if settings["dampening"] else ("momentum_buffer",)

    def update(self, group: Group) -> None:
        decay, maximize = float(group.weight_decay), group.maximize
        for p, g, moments in gradients(group):
            lr = in_dtype(group.cells.lr, p.dtype)
            if not moments:
                p.assign(ops.sgd(p, g, lr, weight_decay=decay, maximize=maximize))
                continue
            buffer = moments[0]
            moved, velocity = self._moved(group, p, g, buffer, lr, float(group.dampening))
            if group.dampening:
                is_moving = moments[1]
                first, start = self._moved(group, p, g, buffer, lr, 0.0)
                moved = ops.where(is_moving, moved, first)
                velocity = ops.where(is_moving, velocity, start)
                is_moving.assign(True)
            p.assign(moved)
            buffer.assign(velocity)
        group.cells.step.assign(group.cells.step + 1)

    @staticmethod
    def _moved(
        group: Group, p: Tensor, g: Tensor, buffer: Tensor, lr: Tensor, dampening: float
    ) -> tuple[Tensor, Tensor]:
        return ops.sgd_momentum(
            p,
            g,
            buffer,
            lr,
            momentum=float(group.momentum),
            dampening=dampening,
            weight_decay=float(group.weight_decay),
            nesterov=group.nesterov,
            maximize=group.maximize,
        )
