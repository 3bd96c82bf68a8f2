"""SequentialLR and ChainedScheduler: schedulers made of schedulers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.optim.lr_scheduler.base import LRScheduler, Numbers
from hybrid.optim.lr_scheduler.plateau import ReduceLROnPlateau
from hybrid.optim.optimizer import Optimizer


class _Composed(LRScheduler):
    """Its state is its own count and, one after the other, the states of the schedulers in it."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        self._schedulers = tuple(schedulers)
        label = type(self).__name__
        if not self._schedulers:
            raise ArgumentError(f"{label} got no schedulers")
        for number, scheduler in enumerate(self._schedulers):
            if not isinstance(scheduler, LRScheduler) or isinstance(scheduler, ReduceLROnPlateau):
                raise ArgumentTypeError(
                    f"scheduler {number} is a {type(scheduler).__name__}",
                    why=f"{label} steps schedulers that need nothing but their count.",
                )
            if type(scheduler).get_lr is not LRScheduler.get_lr:
                raise ArgumentTypeError(
                    f"scheduler {number}, a {type(scheduler).__name__}, has its own get_lr",
                    why=f"{label} computes rates from numbers alone.",
                    fix="define rates_at(epoch, rates) in its place",
                )
            if scheduler.optimizer is not optimizer:
                raise ArgumentError(f"scheduler {number} is of another optimizer")
        self.state_kinds = (  # type: ignore[misc]
            ("last_epoch", "int"),
            *[kind for scheduler in self._schedulers for kind in scheduler.state_kinds],
        )
        self.sets_momentum = any(s.sets_momentum for s in self._schedulers)  # type: ignore[misc]
        super().__init__(optimizer)

    def first_state(self, last_epoch: int) -> Numbers:
        return [-1, *[number for s in self._schedulers for number in s.first_state(-1)]]

    def _parts(self, state: Sequence[Any]) -> list[Numbers]:
        """The states of the schedulers."""
        parts, at = [], 1
        for scheduler in self._schedulers:
            parts.append(list(state[at : at + len(scheduler.state_kinds)]))
            at += len(scheduler.state_kinds)
        return parts

    def _write_state(self, state: Sequence[Any]) -> None:
        super()._write_state(state)
        for scheduler, part in zip(self._schedulers, self._parts(state), strict=True):
            scheduler._write_state(part)

    def state_dict(self) -> dict[str, Any]:
        """Its count, and the states of the schedulers under "_schedulers"."""
        own = {"last_epoch": self.last_epoch, "_last_lr": self.get_last_lr()}
        plain = super().state_dict()
        kept = {name: plain[name] for name in plain if name in vars(self)}
        return own | kept | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict()`` of a scheduler of like ones was."""
        parts = state.get("_schedulers", ())
        if "last_epoch" not in state or len(parts) != len(self._schedulers):
            raise ArgumentError(
                f"the state does not fit this {type(self).__name__}: it is of {len(parts)} "
                f"schedulers, not {len(self._schedulers)}",
                fix="load what state_dict() gave of a scheduler of the same kind",
            )
        before = [scheduler.state_dict() for scheduler in self._schedulers]
        try:
            for scheduler, part in zip(self._schedulers, parts, strict=True):
                scheduler.load_state_dict(part)
        except Exception:
            for scheduler, part in zip(self._schedulers, before, strict=True):
                scheduler.load_state_dict(part)
            raise
        numbers = [cell.item() for s in self._schedulers for cell in s._cells]
        self._write_state([int(state["last_epoch"]), *numbers])


class SequentialLR(_Composed):
    """The first of ``schedulers`` up to the first of ``milestones``, then the next, and so on.

    Each begins, at its milestone, at its step 0 and with the rates that the groups began with
    (``MultiplicativeLR`` with those of the step before).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if last_epoch != -1:
            raise ArgumentError(
                "SequentialLR cannot begin in the middle", fix="load the state of one instead"
            )
        if len(milestones) != len(schedulers) - 1 or sorted(milestones) != list(milestones):
            raise ArgumentError(
                f"{len(schedulers)} schedulers take {max(len(schedulers) - 1, 0)} milestones in "
                f"order, not {list(milestones)}"
            )
        self.milestones = list(milestones)
        super().__init__(optimizer, schedulers)

    def advance(
        self, state: Sequence[Any], rates: Sequence[float], *given: Any
    ) -> tuple[Numbers, Numbers, Numbers]:
        epoch, parts = state[0] + 1, self._parts(state)
        momenta = self._momenta() if self.sets_momentum else []
        ends = [*self.milestones, math.inf]
        for at, (scheduler, end) in enumerate(zip(self._schedulers, ends, strict=True)):
            begin = self.milestones[at - 1] if at else 0
            if epoch < end and (at == 0 or epoch >= begin):
                if epoch == begin:
                    parts[at] = scheduler.first_state(-1)
                    rates = scheduler.handed_over(rates) if at else scheduler.base_lrs
                parts[at], rates, moved = scheduler.advance(parts[at], rates)
                momenta = moved or momenta
        return [epoch, *[number for part in parts for number in part]], rates, momenta

    def _momenta(self) -> Numbers:
        groups = self.optimizer.param_groups
        return [g.momentum if "momentum" in g else g.betas[0] for g in groups]


class ChainedScheduler(_Composed):
    """All of ``schedulers``, one after the other, at each step."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        schedulers = list(schedulers)
        if optimizer is None and schedulers:
            optimizer = getattr(schedulers[0], "optimizer", None)
        begun = [cell.item() for s in schedulers for cell in getattr(s, "_cells", ())]
        super().__init__(optimizer, schedulers)  # type: ignore[arg-type]
        self._write_state([0, *begun])

    def _begin(self) -> None:
        pass  # the schedulers have begun

    def advance(
        self, state: Sequence[Any], rates: Sequence[float], *given: Any
    ) -> tuple[Numbers, Numbers, Numbers]:
        parts, momenta = [], []
        for scheduler, part in zip(self._schedulers, self._parts(state), strict=True):
            part, rates, moved = scheduler.advance(part, rates)
            parts += part
            momenta = moved or momenta
        return [state[0] + 1, *parts], list(rates), momenta
