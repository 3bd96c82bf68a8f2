"""Adam and AdamW: steps scaled by running moments of the gradient."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hybrid import ops
from hybrid.errors import ArgumentTypeError
from hybrid.optim.group import Group, in_dtype, require_number
from hybrid.optim.optimizer import Optimizer, gradients
from hybrid.tensor import Tensor


class Adam(Optimizer):
    """``p - lr * m' / (sqrt(v') + eps)`` for the bias-corrected moments (Kingma and Ba 2015).

    ``m = beta1 * m + (1 - beta1) * g`` and ``v = beta2 * v + (1 - beta2) * g * g``, corrected by
    ``1 - beta ** t``; ``weight_decay * p`` is added to the gradient ``g``.  ``t`` counts the steps
    in which some parameter of the group had a gradient.
    """

    decoupled = False  # whether weights decay apart from the gradient

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @staticmethod
    def layout(settings: Mapping[str, Any]) -> tuple[str, ...]:
        if not isinstance(settings["lr"], Tensor):
            require_number("lr", settings["lr"])
        for name in ("eps", "weight_decay"):
            require_number(name, settings[name])
        betas = settings["betas"]
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise ArgumentTypeError(f"betas is {betas!r}", fix="give two numbers")
        for position, beta in enumerate(betas):
            require_number(f"betas[{position}]", beta, below=1.0)
        return ("exp_avg", "exp_avg_sq")

    def update(self, group: Group) -> None:
        work = gradients(group)
        if not work:
            return
        step = group.cells.step
        step.assign(step + 1)
        beta1, beta2 = group.betas
        for p, g, (first, second) in work:
            moved, first_moved, second_moved = ops.adam(
                p,
                g,
                first,
                second,
                in_dtype(group.cells.lr, p.dtype),
                in_dtype(step, p.dtype),
                beta1=float(beta1),
                beta2=float(beta2),
                eps=float(group.eps),
                weight_decay=float(group.weight_decay),
                decoupled=self.decoupled,
            )
            p.assign(moved)
            first.assign(first_moved)
            second.assign(second_moved)


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
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
