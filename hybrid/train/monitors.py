"""Monitors: callbacks that show how training goes, on the terminal."""

from __future__ import annotations

import time
from typing import IO, TYPE_CHECKING

from hybrid.eager.progress import Bar
from hybrid.train.arguments import require_count
from hybrid.train.callback import Callback

if TYPE_CHECKING:
    from hybrid.train.run import Run


class LossMonitor(Callback):
    """A line with the loss of every ``every``-th step: "epoch 1/3, step 5: loss 0.9239".

    Where data is sunk it reports once a sink, as in MindSpore: the last step of each epoch (of
    ``sink_size`` steps if that is given), once ``every`` steps have gone by since the last line.
    ``scalars`` are shown, too: "lr", or names of metrics.  Lines go to ``file`` (stdout).
    """

    once_a_sink = True

    def __init__(
        self, every: int = 1, *, scalars: tuple[str, ...] = (), file: IO[str] | None = None
    ) -> None:
        self.every = require_count("every", every, 1)
        self.scalars, self.file = scalars, file

    def on_step_end(self, run: Run) -> None:
        values = [f"{name} {run.values[name]:.4g}" for name in ("loss", *self.scalars)]
        where = f"epoch {run.epoch}/{run.epochs}, step {run.step}"
        print(f"{where}: {', '.join(values)}", file=self.file)


class TimeMonitor(Callback):
    """A line with the time of every epoch: "epoch 1/3: 0.41 s, 1.05 ms a step".

    ``seconds`` has the times, of training without validation.
    """

    def __init__(self, *, file: IO[str] | None = None) -> None:
        self.file = file
        self.seconds: list[float] = []
        self._clock, self._step, self._training = 0.0, 0, 0.0

    def on_train_begin(self, run: Run) -> None:
        self.seconds = []

    def on_epoch_begin(self, run: Run) -> None:
        self._clock, self._step = time.perf_counter(), run.step

    def on_steps_over(self, run: Run) -> None:
        self._training = time.perf_counter() - self._clock

    def on_epoch_end(self, run: Run) -> None:
        self.seconds.append(self._training)
        steps = max(run.step - self._step, 1)
        each = _duration(self._training / steps)
        text = f"epoch {run.epoch}/{run.epochs}: {_duration(self._training)}, {each} a step"
        print(text, file=self.file)


class Progress(Callback):
    """A bar for each epoch on the terminal, with the last loss; nothing where there is no terminal.

    ``scalars`` are shown, too: "lr", or names of metrics.
    """

    def __init__(self, *, scalars: tuple[str, ...] = ()) -> None:
        self.scalars = scalars
        self._bar: Bar | None = None
        self._step = 0

    def on_epoch_begin(self, run: Run) -> None:
        self._step = run.step
        self._bar = Bar(f"epoch {run.epoch}/{run.epochs}", run.steps_left)

    def on_look(self, run: Run) -> None:
        if self._bar is not None:
            self._bar.set_postfix({name: run.values[name] for name in ("loss", *self.scalars)})
            self._bar.advance(run.step - self._step)
            self._step = run.step

    def on_steps_over(self, run: Run) -> None:
        self.close()

    def close(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.end()


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
