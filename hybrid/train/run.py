"""Run: one training, from its first epoch to its last: what callbacks see, and what they may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid.data.loops.loader_supply import known_length
from hybrid.errors import CallbackError, CheckpointError
from hybrid.optim.optimizer import Optimizer
from hybrid.train.arguments import Loading, copied
from hybrid.train.batch_steps import Steps
from hybrid.train.callback import Callback, wants
from hybrid.train.history import History
from hybrid.train.metrics import Metric
from hybrid.train.step_loop import StepLoop, no_batches

if TYPE_CHECKING:
    from hybrid.nn.modules.module import Module
    from hybrid.train.model import Model


class Run:
    """What callbacks are given.

    ``epochs`` there are to be, ``epoch`` is the one under way (from 1 on), ``step`` the last step
    (from 1 on, over all epochs), ``steps`` how many an epoch has (None: nobody knows), ``values``
    the last numbers: of a step, or of an epoch at its end.  ``history`` has the epochs that are
    over, ``sinks`` tells whether many steps run in one call.
    """

    def __init__(
        self,
        model: Model,
        loop: StepLoop,
        callbacks: Sequence[Callback],
        *,
        epochs: int,
        sinks: bool,
        sink_size: int,
        validate: Callable[[int], Mapping[str, float]] | None,
    ) -> None:
        self._model, self._loop, self._validate = model, loop, validate
        self.callbacks = tuple(sorted(callbacks, key=lambda callback: callback.comes_last))
        self.epochs, self.sinks = epochs, sinks
        self.epoch, self.step = 0, 0
        self.values: dict[str, float] = {}
        self.history = History()
        self._per_epoch = sink_size if sinks and sink_size > 0 else None
        self.steps = self._per_epoch or known_length(loop.loader)
        self._done_of_epoch = 0  # steps
        self._over_at = -1  # behind which step a pass was over
        self._behind = False  # whether a callback is told of a step that others have followed
        self._stopped = False
        listening = [c for c in self.callbacks if wants(c, "on_step_end")]
        self._sunk = [c for c in listening if sinks and c.once_a_sink]
        self._told_at: dict[Callback, int] = {}  # those, by the step that they were told of
        listening = [c for c in listening if c not in self._sunk]
        self._told = [c for c in listening if not c.between_steps]
        self._between = [c for c in listening if c.between_steps]
        self._watchers = [c for c in self.callbacks if wants(c, "in_step")]
        self._looking = [c for c in self.callbacks if wants(c, "on_look")]

    # What callbacks may ask and do --------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """What ``values`` holds at the end of an epoch, though not of each if validated rarely."""
        counted = list(self._loop.steps.counted)
        return counted + [f"val_{n}" for n in counted] if self._validate else counted

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics of the model."""
        return dict(self._loop.steps.metrics)

    @property
    def steps_left(self) -> int | None:
        """How many steps of the epoch are to come; None: nobody knows."""
        return None if self.steps is None else self.steps - self._done_of_epoch

    @property
    def model(self) -> Model:
        """The model that is trained."""
        self._require_between("model")
        return self._model

    @property
    def batch_steps(self) -> Steps:
        """What is done with a batch, and counted of it."""
        return self._loop.steps

    @property
    def network(self) -> Module:
        """Its network."""
        self._require_between("network")
        return self._model.network

    @property
    def optimizer(self) -> Optimizer:
        """Its optimizer."""
        self._require_between("optimizer")
        return self._model.require_optimizer()

    def stop(self) -> None:
        """Let this be the last step, or at its end the last epoch."""
        self._require_between("stop()")
        self._stopped = True

    @property
    def stopped(self) -> bool:
        """Whether training ends here."""
        return self._stopped

    def _require_between(self, asked: str) -> None:
        if self._behind:
            raise CallbackError(
                f"on_step_end asked for {asked} of the run while steps go on",
                why=f"It is told of step {self.step}; weights are already those of a later one.",
                fix="say between_steps = True in the class of the callback (and every=n), and the "
                "loop returns to Python just there",
            )

    # The training -------------------------------------------------------------------------------

    def go(self) -> History:
        """Train; callbacks are closed, and workers of the data ended, however it ends."""
        try:
            self._loop.begin(
                self.step,
                self._columns(),
                self._watchers,
                self._tell if self._told or self._looking else None,
            )
            self._told_at = dict.fromkeys(self._sunk, self.step)
            self._call("on_train_begin")
            while self.epoch < self.epochs and not self._stopped:
                self._go_through_epoch()
            self._call("on_train_end")
        finally:
            self._loop.close()
            _close(self.callbacks)
        return self.history

    def _columns(self) -> list[str]:
        """The scalars that are kept of each step."""
        using = [*self._told, *self._between, *self._sunk, *self._watchers, *self._looking]
        asked = [name for callback in using for name in callback.scalars]
        known = {"loss", "lr", *dict(self._loop.steps.metrics)}
        for name in asked:
            if name not in known:
                raise CallbackError(
                    f"a callback asks for the scalar {name!r} of each step",
                    fix=f"there are {', '.join(sorted(known))}; name others as metrics of the "
                    "Model",
                )
        return list(dict.fromkeys(["loss", *asked])) if using else []

    def _go_through_epoch(self) -> None:
        self.epoch += 1
        if not self._done_of_epoch:  # else it was begun before, in a run that is resumed
            self._loop.steps.reset()
        self._call("on_epoch_begin")
        while not self._stopped and self._go_on():
            pass
        self._call_sunk()
        self._call("on_steps_over")
        self.values = self._loop.steps.values()
        if self._validate is not None:
            self.values |= self._validate(self.epoch)
        self.history.add(self.epoch, self.values)
        self._done_of_epoch = 0
        self._call("on_epoch_end")

    def _go_on(self) -> bool:
        """Some steps of the epoch; whether there may be more."""
        left = None if self._per_epoch is None else self._per_epoch - self._done_of_epoch
        if left == 0:
            return False
        stretches = [] if left is None else [left]
        stretches += [c.every - self.step % c.every for c in self._between]
        begun = self.step
        repeats = self._per_epoch is not None
        over = self._loop.run(min(stretches, default=None), self.sinks, repeats)
        self.step = self._loop.count
        self._done_of_epoch += self.step - begun
        if over and self._is_empty(self.step - begun):
            raise no_batches(self._loop.loader)
        if self.step > begun:
            self._call_between()
        self._stopped |= self._loop.stopped
        return not over or self._per_epoch is not None or not self._done_of_epoch

    def _is_empty(self, steps: int) -> bool:
        """Whether the pass that is over had none, of which ``steps`` were just done."""
        empty = steps == 0 and self._over_at == self.step
        self._over_at = self.step
        return empty

    # What callbacks are told --------------------------------------------------------------------

    def _tell(self, first: int, rows: np.ndarray) -> None:
        """Of the steps from number ``first`` on, of which these are the scalars."""
        self._behind = True
        try:
            wanted = [-(-first // c.every) * c.every for c in self._told]
            end, columns = first + len(rows), self._loop.program.columns
            while (step := min(wanted, default=end)) < end:
                self.step = step
                self.values = dict(zip(columns, rows[step - first].tolist(), strict=True))
                for at, callback in enumerate(self._told):
                    if wanted[at] == step:
                        wanted[at] += callback.every
                        callback.on_step_end(self)
            self.step = end - 1
            self.values = dict(zip(columns, rows[-1].tolist(), strict=True))
            for callback in self._looking:
                callback.on_look(self)
        finally:
            self._behind = False

    def _call_between(self) -> None:
        due = [c for c in self._between if self.step % c.every == 0]
        if due:
            self.values = self._loop.scalars()
        for callback in due:
            callback.on_step_end(self)

    def _call_sunk(self) -> None:
        """Tell of the last step of a sink those that want to know of no other."""
        due = [c for c in self._sunk if self.step - self._told_at[c] >= c.every]
        if due:
            self.values = self._loop.scalars()
        for callback in due:
            self._told_at[callback] = self.step
            callback.on_step_end(self)

    def _call(self, method: str) -> None:
        for callback in self.callbacks:
            getattr(callback, method)(self)

    # To go on later -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that decides what later steps compute, and the history: for ``train(resume=...)``."""
        return {
            **self.model.state_dict(),
            "loader": self._loop.loader.state_dict(),
            "progress": {
                "epoch": self.epoch,
                "step": self.step,
                "done_of_epoch": self._done_of_epoch,
            },
            "counted": self._loop.steps.counted_state(),
            "callbacks": _named_states(self.callbacks),
            "history": self.history.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` gave, before ``go()``."""
        if "progress" not in state:
            raise CheckpointError(
                "this is the state of a Model, not of a training",
                why="It does not say how far the training was.",
                fix="pass a file of Checkpoint; model.load() takes this one",
            )
        counted, progress = self._loop.steps.counted, state["progress"]
        if set(counted) != set(state["counted"]):
            raise CheckpointError(
                f"the training counted {', '.join(state['counted'])}; the model counts "
                f"{', '.join(counted)}",
                fix="make the Model with the metrics that it had",
            )
        states = state["callbacks"]
        with Loading() as loading:
            loading.load(self._model, state)
            loading.load(self._loop.loader, state["loader"])
            self._loop.steps.load_counted(state["counted"], loading)
            for name, callback in _names(self.callbacks):
                if name in states:
                    loading.load(callback, states[name])
        self.history.load_state_dict(state["history"])
        self.step, self._done_of_epoch = progress["step"], progress["done_of_epoch"]
        self.epoch = progress["epoch"] - (self._done_of_epoch > 0)


def _names(callbacks: Sequence[Callback]) -> list[tuple[str, Callback]]:
    """Callbacks by class and number within the class."""
    seen: dict[str, int] = {}
    found = []
    for callback in callbacks:
        kind = type(callback).__name__
        seen[kind] = seen.get(kind, 0) + 1
        found.append((f"{kind} {seen[kind]}", callback))
    return found


def _named_states(callbacks: Sequence[Callback]) -> dict[str, Any]:
    states = {name: copied(callback.state_dict()) for name, callback in _names(callbacks)}
    return {name: state for name, state in states.items() if state}


def _close(callbacks: Sequence[Callback]) -> None:
    """Close all, whatever one of them raises."""
    if callbacks:
        try:
            callbacks[0].close()
        finally:
            _close(callbacks[1:])
