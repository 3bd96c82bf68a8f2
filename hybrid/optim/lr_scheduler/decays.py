"""Schedulers of one formula: constant, linear, polynomial, exponential, in steps, cosine.

All follow PyTorch's of the same names: a rate is made from the last one, so that one may be set by
hand, and several schedulers chained.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ops.support.operand_checks import require_number
from hybrid.optim.lr_scheduler.base import LRScheduler, Numbers, per_group, require_positive
from hybrid.optim.optimizer import Optimizer


class _Factor(LRScheduler):
    """Multiplies the rates of all groups by one number, step by step."""

    def ratio(self, epoch: int) -> float:
        """What the rate of the step before is multiplied by for step ``epoch``."""
        raise NotImplementedError

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        ratio = self.ratio(epoch)
        return [rate * ratio for rate in rates]


class StepLR(_Factor):
    """``base_lr * gamma ** (epoch // step_size)``."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        require_positive("step_size", step_size)
        require_number("gamma", gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self, epoch: int) -> float:
        return self.gamma if epoch and epoch % self.step_size == 0 else 1.0


class MultiStepLR(_Factor):
    """``base_lr`` times ``gamma`` for each of ``milestones`` that the epoch has reached."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        require_number("gamma", gamma)
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self, epoch: int) -> float:
        for milestone, times in Counter(self.milestones).items():
            if epoch == milestone:
                return self.gamma**times
        return 1.0


class ConstantLR(_Factor):
    """``base_lr * factor`` for the first ``total_iters`` steps, then ``base_lr``."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        _require_share("factor", factor, low_is_open=True)
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def ratio(self, epoch: int) -> float:
        if epoch == 0:
            return self.factor
        return 1.0 / self.factor if epoch == self.total_iters else 1.0


class LinearLR(_Factor):
    """From ``base_lr * start_factor`` to ``base_lr * end_factor`` in ``total_iters`` equal steps.

    With the defaults a warm-up, to go before another schedule in ``SequentialLR``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        _require_share("start_factor", start_factor, low_is_open=True)
        _require_share("end_factor", end_factor)
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def ratio(self, epoch: int) -> float:
        if epoch == 0:
            return self.start_factor
        if epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (epoch - 1) * rise)


class ExponentialLR(_Factor):
    """``base_lr * gamma ** epoch``."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        require_number("gamma", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self, epoch: int) -> float:
        return self.gamma if epoch else 1.0


class PolynomialLR(_Factor):
    """``base_lr * (1 - min(epoch, total_iters) / total_iters) ** power``."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        require_positive("total_iters", total_iters)
        require_number("power", power)
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def ratio(self, epoch: int) -> float:
        if epoch == 0 or epoch > self.total_iters:
            return 1.0
        total = self.total_iters
        return ((1.0 - epoch / total) / (1.0 - (epoch - 1) / total)) ** self.power


class CosineAnnealingLR(LRScheduler):
    """``eta_min + (base_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Loshchilov and Hutter 2017, without restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        require_positive("T_max", T_max)
        require_number("eta_min", eta_min)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        most, least = self.T_max, self.eta_min
        if epoch == 0:
            return list(rates)
        if (epoch - 1 - most) % (2 * most) == 0:  # the last one was the least: nothing to scale
            rise = (1 - math.cos(math.pi / most)) / 2
            return [
                rate + (base - least) * rise
                for base, rate in zip(self.base_lrs, rates, strict=True)
            ]
        now, before = (1 + math.cos(math.pi * e / most) for e in (epoch, epoch - 1))
        return [now / before * (rate - least) + least for rate in rates]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that begins anew after ``T_0`` steps, then after ``T_mult`` times as many.

    ``eta_min + (base_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2`` for ``T_cur`` steps since
    the last restart (Loshchilov and Hutter 2017).  ``step(epoch)`` takes fractions of epochs, too.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        require_positive("T_0", T_0)
        require_positive("T_mult", T_mult)
        require_number("eta_min", eta_min)
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rates_at(self, epoch: float, rates: Sequence[float]) -> Numbers:
        since, length = epoch, self.T_0
        if self.T_mult == 1:
            since = epoch % self.T_0
        else:
            while since >= length:
                since, length = since - length, length * self.T_mult
        share = (1 + math.cos(math.pi * since / length)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def _jump(self, epoch: float) -> None:
        require_number("epoch", epoch)
        self._write_state([math.floor(epoch)])
        self._write(self.rates_at(epoch, ()))


class _Lambda(LRScheduler):
    """A function of the epoch, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = per_group("lr_lambda", lr_lambda, optimizer)
        for function in self.lr_lambdas:
            if not callable(function):
                raise ArgumentTypeError(
                    f"lr_lambda is a {type(function).__name__}", fix="give a function of the epoch"
                )
        super().__init__(optimizer, last_epoch)


class LambdaLR(_Lambda):
    """``base_lr * lr_lambda(epoch)``; a list of functions has one for each group."""

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        return [
            base * float(function(epoch))
            for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_Lambda):
    """The rate of the step before times ``lr_lambda(epoch)``, from epoch 1 on.

    After another scheduler of a ``SequentialLR`` it goes on from that one's rates, from epoch 0 on.
    """

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        return list(rates) if epoch == 0 else self._scaled(epoch, rates)

    def handed_over(self, rates: Sequence[float]) -> Numbers:
        return self._scaled(0, rates)

    def _scaled(self, epoch: int, rates: Sequence[float]) -> Numbers:
        return [
            rate * float(function(epoch))
            for rate, function in zip(rates, self.lr_lambdas, strict=True)
        ]


def _require_share(name: str, value: Any, low_is_open: bool = False) -> None:
    require_number(name, value)
    if value > 1.0 or (low_is_open and value == 0):
        fix = f"give a number that is {'above 0' if low_is_open else 'at least 0'} and at most 1"
        raise ArgumentError(f"{name} is {value}", fix=fix)
