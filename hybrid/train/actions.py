"""Callbacks that act on training: stop it, keep what was best, and step the learning rate."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hybrid import ops
from hybrid.core.types import bool_, float64, int64
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CallbackError
from hybrid.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from hybrid.train.arguments import copied, require_count, require_per
from hybrid.train.callback import Callback

if TYPE_CHECKING:
    from hybrid.train.run import Run


def direction(run: Run, monitor: str, mode: str | None) -> float:
    """1 where more of ``monitor`` is better, -1 where less is."""
    if mode is not None:
        return 1.0 if mode == "max" else -1.0
    metric = run.metrics.get(monitor.removeprefix("val_"))
    return 1.0 if metric is not None and metric.higher_is_better else -1.0


def require_mode(name: str, mode: Any) -> str | None:
    """``mode``: "min", "max" or None."""
    if mode not in (None, "min", "max"):
        raise ArgumentError(
            f"{name} got mode={mode!r}",
            fix='give "min" or "max", or None: "max" for metrics such as accuracy, else "min"',
        )
    return mode


def value_of(run: Run, monitor: str, who: str) -> float:
    """The number called ``monitor`` of an epoch or a step."""
    if monitor not in run.values:
        raise CallbackError(
            f"{who} watches {monitor!r}, which is not there",
            why=f"There are {', '.join(run.values)}.",
            fix="watch one of these; those of validation (val_...) need train(valid_dataset=...) "
            "and are there only after epochs that it follows",
        )
    return run.values[monitor]


class EarlyStopping(Callback):
    """Ends training when ``monitor`` has not got better for more than ``patience`` epochs.

    Better is less, or for metrics such as accuracy more, by more than ``min_delta`` (``mode`` "min"
    or "max" says it).  With ``target`` training also ends when that is reached.  A value that is
    nan or infinite ends it at once, unless ``check_finite`` is False.

    ``per="step"`` looks at each step, in the plan, with ``patience`` in steps: ``monitor`` is then
    "loss", "lr" or a metric.  ``restore_best`` (of epochs) puts back the best epoch's weights.

    ``stopped_at`` is the epoch or the step that ended it, or None.
    """

    def __init__(
        self,
        monitor: str = "loss",
        patience: int = 0,
        *,
        min_delta: float = 0.0,
        mode: str | None = None,
        target: float | None = None,
        per: str = "epoch",
        check_finite: bool = True,
        restore_best: bool = False,
    ) -> None:
        self.monitor, self.patience = monitor, require_count("patience", patience, 0)
        self.mode, self.per = require_mode("EarlyStopping", mode), require_per(per)
        if not min_delta >= 0:
            raise ArgumentError(f"min_delta is {min_delta!r}", fix="give a number >= 0")
        if restore_best and per == "step":
            raise ArgumentError(
                'restore_best with per="step"',
                why="Weights are kept between epochs; there are too many steps.",
                fix='leave it out, or give per="epoch"',
            )
        self.min_delta, self.target = float(min_delta), target
        self.check_finite, self.restore_best = check_finite, restore_best
        self.every = int(per == "step")
        self.scalars = (monitor,) if per == "step" and monitor != "loss" else ()
        self.sign = -1.0
        # In cells, as steps of a plan write them; best is better when it is more.
        self.best = asarray(-math.inf, dtype=float64)
        self.waited = ops.zeros((), dtype=int64)
        self.fired = ops.zeros((), dtype=bool_)
        self.stopped_at: int | None = None
        self._weights: dict[str, Tensor] | None = None

    def on_train_begin(self, run: Run) -> None:
        self.sign = direction(run, self.monitor, self.mode)
        self.stopped_at = None
        if not run.step:
            self.best.assign(asarray(-math.inf, dtype=float64))
            self.waited.assign(asarray(0))
            self._weights = None
        self.fired.assign(asarray(False))

    def judged(self, value: Tensor) -> Tensor:
        """Whether training ends with this value, which is taken note of."""
        good = value * self.sign
        better = good > self.best + self.min_delta
        self.best.assign(ops.where(better, good, self.best))
        self.waited.assign(ops.where(better, asarray(0), self.waited + 1))
        ends = self.waited > self.patience
        if self.target is not None:
            ends = ops.logical_or(ends, good >= self.target * self.sign)
        if self.check_finite:
            ends = ops.logical_or(ends, ops.logical_not(ops.isfinite(value)))
        return ends

    def in_step(self, values: Mapping[str, Tensor]) -> Tensor:
        ends = self.judged(values[self.monitor])
        self.fired.assign(ops.logical_or(self.fired, ends))
        return ends

    def on_epoch_end(self, run: Run) -> None:
        if self.per == "epoch":
            best = self.best.item()
            value = value_of(run, self.monitor, "EarlyStopping")
            ends = bool(self.judged(asarray(value, dtype=float64)))
            if self.restore_best and self.best.item() > best:
                self._weights = copied(run.network.state_dict())
            if ends:
                self.fired.assign(asarray(True))
                run.stop()
        if bool(self.fired) and self.stopped_at is None:
            self.stopped_at = run.epoch if self.per == "epoch" else run.step

    def on_train_end(self, run: Run) -> None:
        if self.restore_best and self._weights is not None:
            run.network.load_state_dict(self._weights)

    def state_dict(self) -> dict[str, Any]:
        weights = {} if self._weights is None else {"weights": self._weights}
        return {"best": self.best, "waited": self.waited, **weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best.assign(state["best"])
        self.waited.assign(state["waited"])
        self._weights = state.get("weights")


class Checkpoint(Callback):
    """Writes all that training needs to go on into ``folder``, after every ``every``-th epoch.

    ``train(resume=path)`` goes on from such a file to the same bits, ``model.load(path)`` takes
    weights and moments alone.  ``per="step"`` counts steps, and the loop returns to Python just
    there.  ``keep`` is how many files stay: the last ones, or with ``monitor`` the best ones
    (``mode`` as for ``EarlyStopping``).  A file appears when it is whole and on the disk, and only
    then others go, so that whatever happens meanwhile the last good one stays.

    ``paths`` are the files, from the first to the last, ``best`` the best of them (with
    ``monitor``), ``last`` the last.
    """

    between_steps = True
    comes_last = True  # so that what others have noted of the epoch is in the file

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every: int = 1,
        per: str = "epoch",
        keep: int | None = None,
        monitor: str | None = None,
        mode: str | None = None,
        prefix: str = "checkpoint",
    ) -> None:
        self.folder, self.prefix = os.fsdecode(folder), prefix
        self.period, self.per = require_count("every", every, 1), require_per(per)
        self.every = self.period if per == "step" else 0
        self.keep = None if keep is None else require_count("keep", keep, 1)
        self.monitor, self.mode = monitor, require_mode("Checkpoint", mode)
        if per == "step" and monitor not in (None, "loss"):
            self.scalars = (monitor,)
        self._kept: list[tuple[str, float]] = []  # file names, and how good they are

    @property
    def paths(self) -> list[str]:
        """The files that stay, in the order of writing."""
        return [os.path.join(self.folder, name) for name, _ in self._kept]

    @property
    def last(self) -> str | None:
        """The file that was written last."""
        return self.paths[-1] if self._kept else None

    @property
    def best(self) -> str | None:
        """The file with the best number, of equal ones the first."""
        if not self._kept or self.monitor is None:
            return None
        return os.path.join(self.folder, max(self._kept, key=lambda kept: kept[1])[0])

    def on_train_begin(self, run: Run) -> None:
        os.makedirs(self.folder, exist_ok=True)
        if not run.step:
            self._kept = []

    def on_step_end(self, run: Run) -> None:
        self._write(run)

    def on_epoch_end(self, run: Run) -> None:
        if self.per == "epoch" and run.epoch % self.period == 0:
            self._write(run)

    def _write(self, run: Run) -> None:
        kept = [*self._kept, (f"{self.prefix}-{run.step:08d}.safetensors", self._score(run))]
        dropped: list[tuple[str, float]] = []
        if self.keep is not None and len(kept) > self.keep:
            # Of equally good ones the later goes; without a monitor, the first.
            worst = 0 if self.monitor is None else _worst([score for _, score in kept])
            dropped = [kept.pop(worst)]
        before, self._kept = self._kept, kept
        try:
            if not dropped or dropped[0][0] != f"{self.prefix}-{run.step:08d}.safetensors":
                run.batch_steps.save(os.path.join(self.folder, kept[-1][0]), run.state_dict())
        except BaseException:
            self._kept = before
            raise
        for name, _ in dropped if run.batch_steps.is_first else []:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, name))

    def _score(self, run: Run) -> float:
        if self.monitor is None:
            return 0.0
        value = value_of(run, self.monitor, "Checkpoint")
        good = value * direction(run, self.monitor, self.mode)
        return -math.inf if math.isnan(good) else good

    def state_dict(self) -> dict[str, Any]:
        return {"kept": [list(kept) for kept in self._kept]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._kept = [(name, score) for name, score in state["kept"]]


def _worst(scores: list[float]) -> int:
    """The place of the last of the lowest."""
    return max(range(len(scores)), key=lambda at: (-scores[at], at))


class Schedule(Callback):
    """Steps ``scheduler``, one of ``hy.optim.lr_scheduler``, after each epoch.

    With ``per="step"`` it does so after each step, as a part of the plan.  ``monitor`` is the
    number that a ``ReduceLROnPlateau`` is given (by default "loss").
    """

    def __init__(
        self, scheduler: LRScheduler, *, per: str = "epoch", monitor: str = "loss"
    ) -> None:
        if not isinstance(scheduler, LRScheduler):
            raise ArgumentTypeError(
                f"Schedule got a {type(scheduler).__name__}",
                fix="give a scheduler such as hy.optim.lr_scheduler.StepLR(optimizer, 10)",
            )
        self.scheduler, self.per, self.monitor = scheduler, require_per(per), monitor
        self.takes_value = isinstance(scheduler, ReduceLROnPlateau)
        self.every = int(per == "step")
        if per == "step" and monitor != "loss":
            self.scalars = (monitor,)

    def in_step(self, values: Mapping[str, Tensor]) -> None:
        if self.takes_value:
            self.scheduler.step(values[self.monitor])
        else:
            self.scheduler.step()

    def on_epoch_end(self, run: Run) -> None:
        if self.per == "step":
            return
        if self.takes_value:
            self.scheduler.step(value_of(run, self.monitor, "Schedule"))
        else:
            self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        return self.scheduler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.scheduler.load_state_dict(state)
