"""LRScheduler: what schedulers share, from the count of their steps to their state.

A scheduler is a function of plain numbers: ``advance(state, rates)`` gives its state and the
learning rates after one more step.  Both are kept in cells.  A captured step calls the function
when the plan runs, so its results are those of eager code to the last bit; what is exported traces
it, for there is no Python in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.types import float64, int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ir.interpreter import current
from hybrid.ir.record import recording
from hybrid.number import Number, host, to_float
from hybrid.optim.optimizer import Optimizer

Numbers = list[Any]
_DTYPES = {"int": int64, "float": float64}


class LRScheduler:
    """Sets the learning rates of ``optimizer``, group by group, at each ``step()``.

    A built-in one says in ``rates_at`` (or ``advance``) what they are; one of your own may instead
    define ``get_lr`` as in PyTorch, from ``self.last_epoch`` (an int, which counts steps from 0),
    ``self.base_lrs`` (those that the groups began with) and ``self.optimizer.param_groups``.

    ``last_epoch`` is the step to go on from; -1 begins, which sets the rates of step 0.
    """

    state_kinds: tuple[tuple[str, str], ...] = (("last_epoch", "int"),)  # name and kind of number
    sets_momentum = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(
                f"{type(self).__name__} got a {type(optimizer).__name__}, not an optimizer"
            )
        self.optimizer = optimizer
        groups = optimizer.param_groups
        for number, group in enumerate(groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group.lr)
            elif "initial_lr" not in group:
                raise ArgumentError(
                    f"group {number} has no initial_lr to go on from",
                    why=f"last_epoch is {last_epoch}, which resumes a schedule.",
                    fix="load the state of the optimizer first, or set group['initial_lr']",
                )
        self.base_lrs = [group["initial_lr"] for group in groups]
        self._cells = tuple([ops.zeros((), dtype=_DTYPES[k]) for _, k in self.state_kinds])
        self._write_state(self.first_state(last_epoch))
        self._begin()

    # What a subclass says ---------------------------------------------------------------------

    def first_state(self, last_epoch: int) -> Numbers:
        """The numbers of ``state_kinds`` before the first step."""
        return [last_epoch]

    def rates_at(self, epoch: int, rates: Sequence[float]) -> Numbers:
        """The rates of step ``epoch`` when those of the step before are ``rates``."""
        name = type(self).__name__
        raise NotImplementedError(f"{name} defines neither rates_at() nor get_lr()")

    def advance(
        self, state: Sequence[Any], rates: Sequence[float], *given: Any
    ) -> tuple[Numbers, Numbers, Numbers]:
        """State, rates and (if ``sets_momentum``) momenta after a step; ``given`` as to ``step``.

        Of plain numbers, and without effects: a plan calls it as often as it likes.
        """
        epoch, staged = state[0] + 1, current().converted
        rates = staged(self.rates_at)(epoch, rates)
        return [epoch], rates, staged(self.momenta_at)(epoch)

    def handed_over(self, rates: Sequence[float]) -> Numbers:
        """The rates to begin with where another scheduler has led to ``rates``."""
        return list(self.base_lrs)

    def momenta_at(self, epoch: int) -> Numbers:
        """The momenta of step ``epoch``; none unless ``sets_momentum``."""
        return []

    # What a user calls ------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The number of the last step, from 0; inside a captured function a traced number."""
        return self._cells[0].item()

    def get_last_lr(self) -> list[float]:
        """The learning rates of the groups."""
        return [group.lr for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The learning rates that the next ``step()`` is to set, group by group."""
        state = [cell.item() for cell in self._cells]
        return self._called(self.advance, state, self.get_last_lr())[1]

    def step(self, epoch: int | None = None) -> None:
        """Set the learning rates of the next step, or of step ``epoch``."""
        if epoch is not None:
            self._jump(epoch)
            return
        self._step()

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule is, and its plain settings."""
        kept = {name: value for name, value in vars(self).items() if _is_plain(name, value)}
        kept |= {name: cell.item() for (name, _), cell in self._named_cells()}
        return kept | {"_last_lr": self.get_last_lr()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state_dict()`` of a like scheduler was; the optimizer keeps its rates.

        Everything is checked before anything is written.
        """
        cells = self._named_cells()
        missing = [name for (name, _), _ in cells if name not in state]
        lrs = state.get("base_lrs", self.base_lrs)
        if missing or len(lrs) != len(self.base_lrs):
            problem = (
                f"{', '.join(missing)} missing"
                if missing
                else f"it is of {len(lrs)} groups, not {len(self.base_lrs)}"
            )
            raise ArgumentError(
                f"the state does not fit this {type(self).__name__}: {problem}",
                fix="load what state_dict() gave of a scheduler of the same kind",
            )
        plain = {name for name, value in vars(self).items() if _is_plain(name, value)}
        numbers = [int(state[n]) if k == "int" else float(state[n]) for (n, k), _ in cells]
        for name in plain & set(state):
            setattr(self, name, state[name])
        for (_, cell), value in zip(cells, numbers, strict=True):
            cell.assign(value)

    # How it is done ---------------------------------------------------------------------------

    def _begin(self) -> None:
        self._step()

    def _named_cells(self) -> list[tuple[tuple[str, str], Tensor]]:
        return list(zip(self.state_kinds, self._cells, strict=True))

    def _write_state(self, state: Sequence[Any]) -> None:
        for cell, value in zip(self._cells, state, strict=True):
            cell.assign(value.lifted(cell.dtype) if type(value) is Number else value)

    def _write(self, rates: Sequence[Any], momenta: Sequence[Any] = ()) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group.lr = rate
        if momenta:
            for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
                if "momentum" in group:
                    group.momentum = momentum
                else:
                    group.betas = (momentum, group.beta2)

    def _step(self, *given: Any) -> None:
        with recording(False):
            state = [cell.item() for cell in self._cells]
            if type(self).get_lr is not LRScheduler.get_lr:  # the author's own
                self._write_state([state[0] + 1, *state[1:]])
                self._write(current().converted(self.get_lr)())
                return
            new, rates, momenta = self._called(self.advance, state, self.get_last_lr(), *given)
            self._write_state(new)
            self._write(rates, momenta)

    def _jump(self, epoch: int) -> None:
        """Set the rates of step ``epoch`` from those that the groups began with."""
        with recording(False):
            rates = list(self.base_lrs)
            if type(self).get_lr is not LRScheduler.get_lr:
                self._write_state([epoch])
                rates = self.get_lr()
            else:
                state = self.first_state(-1)
                for _ in range(epoch + 1):
                    state, rates, momenta = self.advance(state, rates)
                    self._write(rates, momenta)
                self._write_state(state)
            self._write(rates)

    def _called(
        self, function: Callable[..., Any], state: Numbers, rates: Numbers, *given: Any
    ) -> tuple[Numbers, Numbers, Numbers]:
        """``function`` of plain numbers, now or, of traced ones, when the plan runs."""
        if not any(type(x) is Number for x in (*state, *rates, *given)):
            return function(state, rates, *given)
        if current().exports:
            new, moved, momenta = current().converted(function)(state, rates, *given)
            return new, [_float(x) for x in moved], [_float(x) for x in momenta]
        n_state, n_rates = len(state), len(rates)

        def flat(*numbers: Any) -> Any:
            state, rates = list(numbers[:n_state]), list(numbers[n_state : n_state + n_rates])
            new, moved, momenta = function(state, rates, *numbers[n_state + n_rates :])
            found = (*new, *map(float, moved), *map(float, momenta))
            return found if len(found) > 1 else found[0]

        kinds = [kind for _, kind in self.state_kinds] + ["float"] * n_rates
        kinds += ["float"] * (n_rates if self.sets_momentum else 0)
        found = [
            Number(kind, tensor)
            for kind, tensor in zip(kinds, hosted(flat, kinds, *state, *rates, *given), strict=True)
        ]
        return found[:n_state], found[n_state : n_state + n_rates], found[n_state + n_rates :]


def hosted(function: Callable[..., Any], kinds: Sequence[str], *numbers: Any) -> Sequence[Tensor]:
    """``function`` of the numbers, some of them traced, called when the plan runs."""
    from hybrid.number.staging import HERE

    arguments = [HERE if type(x) is Number else x for x in numbers]
    traced = [x.tensor for x in numbers if type(x) is Number]
    return host(function, traced, tuple(kinds), arguments, raises=(Exception,))


def _float(number: Any) -> Any:
    return to_float(number) if type(number) is Number else float(number)


def _is_plain(name: str, value: Any) -> bool:
    """Whether an attribute is a setting that a state holds."""
    items = value if isinstance(value, (list, tuple)) else (value,)
    kinds = (bool, int, float, str, np.number, type(None))
    return not name.startswith("_") and all(isinstance(item, kinds) for item in items)


def per_group(name: str, value: Any, optimizer: Optimizer) -> list[Any]:
    """``value``, or one of a list of as many as there are groups, for each group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ArgumentError(f"{name} has {len(value)} values for {count} groups")
    return list(value)


def require_positive(name: str, value: Any, kind: type = int) -> None:
    """Raise unless ``value`` is a number (an int, if ``kind`` is that) above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer, kind)) or value <= 0:
        wanted = "an int" if kind is int else "a number"
        raise ArgumentError(f"{name} is {value!r}", fix=f"give {wanted} above 0")
