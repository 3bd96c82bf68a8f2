"""ReduceLROnPlateau: a rate that falls when a measure no longer gets better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.number import Number, to_float
from hybrid.ops.support.operand_checks import require_number
from hybrid.optim.lr_scheduler.base import LRScheduler, Numbers, per_group
from hybrid.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rates by ``factor`` after more than ``patience`` steps without an improvement.

    ``step(metrics)`` gets the measure, which is to fall (``mode="min"``) or to rise ("max").  It
    has improved when it is beyond the best so far by ``threshold``, taken relative to that
    (``threshold_mode="rel"``) or as it is ("abs").  After each fall, ``cooldown`` steps do not
    count.  Rates do not fall below ``min_lr`` (one or a list), nor by less than ``eps``.
    """

    state_kinds = (
        ("last_epoch", "int"),
        ("best", "float"),
        ("num_bad_epochs", "int"),
        ("cooldown_counter", "int"),
    )

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        require_number("factor", factor, 0.0, 1.0)
        for name, value, known in (
            ("mode", mode, ("min", "max")),
            ("threshold_mode", threshold_mode, ("rel", "abs")),
        ):
            if value not in known:
                raise ArgumentError(
                    f"{name} is {value!r}", fix=f'give "{known[0]}" or "{known[1]}"'
                )
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        if isinstance(optimizer, Optimizer):
            self.min_lrs = per_group("min_lr", min_lr, optimizer)
        super().__init__(optimizer)

    @property
    def best(self) -> float:
        """The best measure so far."""
        return self._cells[1].item()

    @property
    def num_bad_epochs(self) -> int:
        """How many steps have not improved it."""
        return self._cells[2].item()

    def first_state(self, last_epoch: int) -> Numbers:
        return [last_epoch + 1, math.inf if self.mode == "min" else -math.inf, 0, 0]

    def _begin(self) -> None:
        pass  # there is no measure yet

    def is_better(self, a: float, best: float) -> bool:
        """Whether the measure ``a`` is an improvement."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            far = best * (1.0 + sign * self.threshold)
        else:
            far = best + sign * self.threshold
        return a > far if self.mode == "max" else a < far

    def advance(
        self, state: Sequence[Any], rates: Sequence[float], *given: Any
    ) -> tuple[Numbers, Numbers, Numbers]:
        epoch, best, bad, cooling = state
        (metric,) = given
        if self.is_better(metric, best):
            best, bad = metric, 0
        else:
            bad += 1
        if cooling > 0:
            cooling, bad = cooling - 1, 0
        rates = list(rates)
        if bad > self.patience:
            fallen = [
                max(rate * self.factor, least)
                for rate, least in zip(rates, self.min_lrs, strict=True)
            ]
            rates = [
                new if rate - new > self.eps else rate
                for rate, new in zip(rates, fallen, strict=True)
            ]
            cooling, bad = self.cooldown, 0
        return [epoch + 1, float(best), bad, cooling], rates, []

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take in the measure of one more epoch: a number or a tensor of one element."""
        if epoch is not None:
            raise ArgumentError(
                "ReduceLROnPlateau does not jump to an epoch", fix="leave epoch out"
            )
        if isinstance(metrics, Tensor):
            metrics = metrics.detach().item()
        if type(metrics) is Number:
            metrics = to_float(metrics)
        else:
            try:
                metrics = float(metrics)
            except (TypeError, ValueError):
                raise ArgumentTypeError(
                    f"the measure is a {type(metrics).__name__}", fix="give a number"
                ) from None
        self._step(metrics)
