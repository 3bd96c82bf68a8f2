"""Averages of weights over training: exponential moving ones, and plain ones (SWA).

The names are those of ``torch.optim.swa_utils``; ``ExponentialMovingAverage`` is the usual case.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hybrid import ops
from hybrid.calls.auto_plan import Often
from hybrid.calls.control_functions import cond
from hybrid.core.types import int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ir.record import recording
from hybrid.nn.layers.normalization import BatchNorm
from hybrid.nn.modules.module import Mode, Module
from hybrid.ops.support.operand_checks import require_number
from hybrid.optim.lr_scheduler.base import LRScheduler, Numbers, per_group
from hybrid.optim.optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Tensor], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """``decay * average + (1 - decay) * value``, for ``AveragedModel``."""
    _require_decay(decay)

    def average(averaged: Tensor, value: Tensor, count: Tensor) -> Tensor:
        return averaged * decay + value * (1.0 - decay)

    return average


def get_swa_avg_fn() -> Average:
    """The mean of all values so far (Izmailov et al. 2018), for ``AveragedModel``."""

    def average(averaged: Tensor, value: Tensor, count: Tensor) -> Tensor:
        return averaged + (value - averaged) / ops.astype(count + 1, averaged.dtype)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """``get_ema_avg_fn`` of lists, which writes to the averages."""
    return _multi(_of_all(get_ema_avg_fn(decay)))


def get_swa_multi_avg_fn() -> MultiAverage:
    """``get_swa_avg_fn`` of lists, which writes to the averages."""
    return _multi(_of_all(get_swa_avg_fn()))


def _of_all(average: Average) -> Callable[..., tuple[Tensor, ...]]:
    """``average`` of tuples; called often, it is one plan."""
    return Often(
        lambda averaged, values, count: tuple(
            [average(old, value, count) for old, value in zip(averaged, values, strict=True)]
        )
    )


def _one_by_one(average: Average) -> Callable[..., tuple[Tensor, ...]]:
    """The author's ``average`` of tuples, called for each pair."""
    return lambda averaged, values, count: (
        average(old, value, count) for old, value in zip(averaged, values, strict=True)
    )


def _multi(averages: Callable[..., Any]) -> MultiAverage:
    def all_of(averaged: Sequence[Tensor], values: Sequence[Tensor], count: Tensor) -> None:
        old = tuple([cell.detach() for cell in averaged])
        for cell, value in zip(averaged, averages(old, tuple(values), count), strict=True):
            cell.assign(value)

    return all_of


class AveragedModel(Module):
    """A copy of ``model``, called like it, whose weights are averages of those of the model.

    ``update_parameters(model)`` takes in the weights as they are: the first time they are copied,
    then averaged by ``avg_fn(average, value, n_averaged)`` (by default the mean of all so far), or
    by ``multi_avg_fn`` of lists, which writes to the averages.  Buffers are copied, or with
    ``use_buffers`` averaged, too, where they are floats.  It can be part of a captured step.
    """

    n_averaged: Tensor  # int64: how many times weights were taken in

    def __init__(
        self,
        model: Module,
        device: str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(model, Module):
            raise ArgumentTypeError(f"a {type(model).__name__} is not a Module")
        _require_cpu(device)
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("avg_fn and multi_avg_fn are both given", fix="give one of them")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", ops.zeros((), dtype=int64))
        if multi_avg_fn is None:
            multi_avg_fn = get_swa_multi_avg_fn() if avg_fn is None else _multi(_one_by_one(avg_fn))
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take in the weights of ``model``, which is like the one that this is a copy of."""
        pairs = _pairs(self.module.named_parameters(), model.named_parameters())
        buffers = _pairs(self.module.named_buffers(), model.named_buffers())
        copied = [pair for pair in buffers if not (self.use_buffers and _is_float(pair))]
        pairs += [pair for pair in buffers if self.use_buffers and _is_float(pair)]
        count = self.n_averaged
        averages, values = [own for own, _ in pairs], [other.detach() for _, other in pairs]

        def begin() -> None:
            for own, value in zip(averages, values, strict=True):
                own.assign(value)

        def go_on() -> None:
            self.multi_avg_fn(averages, values, count)

        with recording(False):
            cond(count == 0, begin, go_on)
            for own, other in copied:
                own.assign(other.detach())
            count.assign(count + 1)


class ExponentialMovingAverage(AveragedModel):
    """A copy of ``model`` whose weights follow ``decay * average + (1 - decay) * weight``.

    That is once for each ``update_parameters(model)``, after the step of the optimizer.
    """

    def __init__(self, model: Module, decay: float = 0.999, use_buffers: bool = False) -> None:
        average = get_ema_multi_avg_fn(decay)
        super().__init__(model, multi_avg_fn=average, use_buffers=use_buffers)
        self.decay = decay


def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Compute the running statistics of batch norms anew, as means over the batches of ``loader``.

    For averaged weights, of which no batch has been seen yet.  ``loader`` gives inputs of
    ``model``, or tuples and lists of which the first is that.  The model is called in training
    mode, without gradients; its mode and the momenta are as they were afterwards.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(f"a {type(model).__name__} is not a Module")
    _require_cpu(device)
    momenta = [(m, m.momentum) for m in model.modules() if isinstance(m, BatchNorm)]
    if not momenta:
        return
    for module, _ in momenta:
        module.reset_running_stats()
        module.momentum = None  # which means the mean of all
    try:
        with Mode(model, True), recording(False):
            for batch in loader:
                model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for module, momentum in momenta:
            module.momentum = momentum


class SWALR(LRScheduler):
    """From the rates as they are to ``swa_lr`` in ``anneal_epochs`` steps, and then that.

    ``anneal_strategy`` is "cos" or "linear"; ``swa_lr`` is one number, or one for each group.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"anneal_strategy is {anneal_strategy!r}", fix='give "cos" or "linear"'
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"anneal_epochs is {anneal_epochs!r}", fix="give an int from 0 on")
        self.swa_lrs = per_group("swa_lr", swa_lr, optimizer)
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        """The share of ``swa_lr`` in the rate of step ``epoch``."""
        at = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * at)) / 2 if self.anneal_strategy == "cos" else at

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        epoch = max(1, epoch) if self.anneal_epochs == 0 else epoch
        before, now = self._share(epoch - 1), self._share(epoch)
        firsts = [
            end if before == 1 else (rate - end * before) / (1 - before)
            for rate, end in zip(rates, self.swa_lrs, strict=True)
        ]
        return [
            end * now + first * (1 - now) for first, end in zip(firsts, self.swa_lrs, strict=True)
        ]


def _require_cpu(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise ArgumentError(f"no device {device!r}", fix='leave device out, or pass "cpu"')


def _require_decay(decay: Any) -> None:
    require_number("decay", decay)
    if decay > 1:
        raise ArgumentError(
            f"decay is {decay}", fix="give a number that is at least 0 and at most 1"
        )


def _is_float(pair: tuple[Tensor, Tensor]) -> bool:
    return pair[0].dtype.is_floating


def _pairs(own: Any, other: Any) -> list[tuple[Tensor, Tensor]]:
    """The tensors of two modules, which must have the same names and types."""
    ours, theirs = dict(own), dict(other)
    if list(ours) == list(theirs) and all(
        a.type is b.type for a, b in zip(ours.values(), theirs.values(), strict=True)
    ):
        return list(zip(ours.values(), theirs.values(), strict=True))
    for name in [*ours, *theirs]:
        types = [str(named[name].type) if name in named else "nothing" for named in (ours, theirs)]
        if types[0] != types[1]:
            raise ArgumentError(
                f"{name} is {types[1]} in the model and {types[0]} in its average",
                fix="pass the model that was averaged",
            )
    return [(ours[name], theirs[name]) for name in ours]
