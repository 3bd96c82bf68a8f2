"""Schedule: a scheduler of the learning rate, stepped by the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError
from hybrid.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from hybrid.train.arguments import require_per
from hybrid.train.callback import Callback
from hybrid.train.watching import value_of

if TYPE_CHECKING:
    from hybrid.train.run import Run


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
