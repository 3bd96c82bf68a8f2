"""Callback: what training tells, and what may act on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybrid.eager.tensor import Tensor
    from hybrid.train.run import Run


class Callback:
    """Methods that training calls; a subclass defines those that it wants.

    ``on_step_end`` is called for each step whose number is a multiple of ``every``, in order, also
    where many steps run in one call: then it is told of them about ten times a second, while steps
    go on.  ``run.step``, ``run.epoch`` and ``run.values`` are those of the step that it is told of;
    weights are already further, so ``run.model`` and ``run.stop()`` are refused.  A callback that
    needs these says ``between_steps = True``: the loop returns to Python just there.  One that says
    ``once_a_sink = True`` is told of the last step of a sink alone (that is an epoch, of
    ``sink_size`` steps if that is given) where data is sunk, and if ``every`` steps have gone by.

    ``in_step`` is traced into the step, behind the optimizer.  ``every = 0`` is for callbacks that
    want neither of the two.

    ``scalars`` are what ``run.values`` holds of a step besides the loss: "lr", and names of metrics
    (their values over the epoch so far).
    """

    every = 1
    between_steps = False
    once_a_sink = False
    scalars: tuple[str, ...] = ()
    comes_last = False  # whether others are called before it

    def on_train_begin(self, run: Run) -> None:
        """Before the first epoch; ``run.step`` is not 0 where training is resumed."""

    def on_epoch_begin(self, run: Run) -> None:
        """Before the first step of epoch ``run.epoch``, counted from 1."""

    def on_step_end(self, run: Run) -> None:
        """After step ``run.step``, counted from 1 over all epochs; ``run.values`` has its loss."""

    def on_look(self, run: Run) -> None:
        """Now and then while steps go on; ``run.step`` is the last one that is over."""

    def in_step(self, values: Mapping[str, Tensor]) -> Tensor | None:
        """A part of each step, in tensor ops; a bool tensor ends the training where it is true.

        ``values`` are "loss" and the ``scalars``, as float64 tensors.  State goes into tensors that
        are attributes (``self.best.assign(...)``).
        """

    def on_steps_over(self, run: Run) -> None:
        """After the last step of an epoch, before validation."""

    def on_epoch_end(self, run: Run) -> None:
        """After an epoch: ``run.values`` holds its mean loss, metrics, and those of validation."""

    def on_train_end(self, run: Run) -> None:
        """After the last epoch, or where training was stopped; not after an error."""

    def close(self) -> None:
        """Training is over, however it ended: files are closed, the terminal is given back."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it: tensors, numbers, texts; what has none is not kept."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave."""


def wants(callback: Callback, method: str) -> bool:
    """Whether the class of ``callback`` defines ``method``, and of steps any is wanted."""
    if method in ("on_step_end", "in_step") and not callback.every:
        return False
    return getattr(type(callback), method) is not getattr(Callback, method)
