"""OneCycleLR and CyclicLR: rates that rise and fall, with momenta that fall and rise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hybrid.errors import ArgumentError
from hybrid.ops.support.operand_checks import require_number
from hybrid.optim.lr_scheduler.base import LRScheduler, Numbers, per_group, require_positive
from hybrid.optim.optimizer import Optimizer


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _linear(start: float, end: float, share: float) -> float:
    return (end - start) * share + start


_ANNEAL = {"cos": _cosine, "linear": _linear}


class _Cycle(LRScheduler):
    """Sets momenta too, if ``cycle_momentum``: the momentum, or the first of the betas."""

    def _require_momentum(self, optimizer: Optimizer) -> None:
        for number, group in enumerate(optimizer.param_groups):
            if not group.rule.paced:
                raise ArgumentError(
                    f"group {number} of {type(optimizer).__name__} keeps no momentum to cycle",
                    fix="give the optimizer a momentum, or pass cycle_momentum=False",
                )

    @property
    def sets_momentum(self) -> bool:  # type: ignore[override]
        return self.cycle_momentum


class OneCycleLR(_Cycle):
    """One rise to ``max_lr`` and one fall far below where it began (Smith and Topin 2018).

    ``total_steps``, or ``epochs * steps_per_epoch``, are the steps of the cycle, ``pct_start`` the
    share of them that rises.  It begins at ``max_lr / div_factor`` and ends at that divided by
    ``final_div_factor``; ``anneal_strategy`` is "cos" or "linear".  ``three_phase`` falls as it
    rose, then further.  With ``cycle_momentum`` the momentum (or first beta) goes the other way
    between ``max_momentum`` and ``base_momentum``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError(
                    "the length of the cycle is missing",
                    fix="give total_steps, or epochs and steps_per_epoch",
                )
            require_positive("epochs", epochs)
            require_positive("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        require_positive("total_steps", total_steps)
        require_number("pct_start", pct_start)
        if pct_start > 1:
            raise ArgumentError(
                f"pct_start is {pct_start}", fix="give a number that is at least 0 and at most 1"
            )
        if anneal_strategy not in _ANNEAL:
            raise ArgumentError(
                f"anneal_strategy is {anneal_strategy!r}", fix='give "cos" or "linear"'
            )
        if cycle_momentum:
            self._require_momentum(optimizer)
        self.total_steps, self.cycle_momentum = int(total_steps), cycle_momentum
        self.anneal_strategy = anneal_strategy
        self.max_lrs = per_group("max_lr", max_lr, optimizer)
        self.first_lrs = [rate / div_factor for rate in self.max_lrs]
        self.last_lrs = [rate / final_div_factor for rate in self.first_lrs]
        self.base_momenta = per_group("base_momentum", base_momentum, optimizer)
        self.max_momenta = per_group("max_momentum", max_momentum, optimizer)
        rise = pct_start * self.total_steps - 1
        if three_phase:
            self.ends = [rise, 2 * rise, self.total_steps - 1.0]
        else:
            self.ends = [rise, self.total_steps - 1.0]
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, self.first_lrs, strict=True):
                group["initial_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _between(self, epoch: int, *levels: Sequence[float]) -> Numbers:
        """What lies between the levels of the phase that step ``epoch`` is in.

        Loops step once more than there are rates, after the last batch.
        """
        if epoch > self.total_steps:
            raise ArgumentError(
                f"step {epoch} of a cycle of {self.total_steps}",
                fix="make a scheduler of more steps, or stop stepping at the end",
            )
        anneal, start = _ANNEAL[self.anneal_strategy], 0.0
        for phase, end in enumerate(self.ends):
            if phase == len(self.ends) - 1 or epoch <= end:  # the last phase has all the rest
                share = (epoch - start) / (end - start) if end != start else 1.0
                pairs = zip(levels[phase], levels[phase + 1], strict=True)
                found = [anneal(first, last, share) for first, last in pairs]
                return [max(value, 0.0) for value in found]  # lines go on below 0 after the end
            start = end
        raise AssertionError("there is a last phase")  # pragma: no cover

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        middle = [self.first_lrs] if len(self.ends) == 3 else []
        return self._between(epoch, self.first_lrs, self.max_lrs, *middle, self.last_lrs)

    def momenta_at(self, epoch: int) -> Numbers:
        if not self.cycle_momentum:
            return []
        levels = [self.max_momenta, self.base_momenta, self.max_momenta, self.max_momenta]
        return self._between(epoch, *levels)


class CyclicLR(_Cycle):
    """From ``base_lr`` to ``max_lr`` and back, over and over (Smith 2017).

    A cycle has ``step_size_up`` steps up and ``step_size_down`` (as many) down.  ``mode`` is
    "triangular", "triangular2" (each cycle half as high) or "exp_range" (``gamma ** step``);
    ``scale_fn``, of the cycle (from 1) or of the step as ``scale_mode`` says ("cycle",
    "iterations"), takes its place.  The momentum goes the other way if ``cycle_momentum``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_positive("step_size_up", step_size_up, float)
        down = step_size_up if step_size_down is None else step_size_down
        require_positive("step_size_down", down, float)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ArgumentError(
                f"mode is {mode!r}", fix='give "triangular", "triangular2" or "exp_range"'
            )
        if cycle_momentum:
            self._require_momentum(optimizer)
        self.low_lrs = per_group("base_lr", base_lr, optimizer)
        self.max_lrs = per_group("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, self.low_lrs, strict=True):
                group["initial_lr"] = rate
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self.scale_fn = scale_fn
        by_step = scale_mode == "iterations" if scale_fn is not None else mode == "exp_range"
        self.scale_mode = "iterations" if by_step else "cycle"
        self.cycle_momentum = cycle_momentum
        self.base_momenta = per_group("base_momentum", base_momentum, optimizer)
        self.max_momenta = per_group("max_momentum", max_momentum, optimizer)
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        """How far up step ``epoch`` is, scaled as the mode says."""
        cycle = math.floor(1 + epoch / self.total_size)
        x = 1.0 + epoch / self.total_size - cycle
        up = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        at = epoch if self.scale_mode == "iterations" else cycle
        if self.scale_fn is not None:
            return up * self.scale_fn(at)
        scales: dict[str, Callable[[Any], float]] = {
            "triangular": lambda _: 1.0,
            "triangular2": lambda cycle: 1 / (2.0 ** (cycle - 1)),
            "exp_range": lambda step: self.gamma**step,
        }
        return up * scales[self.mode](at)

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        height = self._height(epoch)
        return [
            low + (high - low) * height
            for low, high in zip(self.low_lrs, self.max_lrs, strict=True)
        ]

    def momenta_at(self, epoch: int) -> Numbers:
        if not self.cycle_momentum:
            return []
        height = self._height(epoch)
        return [
            high - (high - low) * height
            for low, high in zip(self.base_momenta, self.max_momenta, strict=True)
        ]
