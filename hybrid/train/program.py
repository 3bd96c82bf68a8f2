"""Program: the loops over batches as hybridized functions; what only the host does is elsewhere."""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.calls.control_functions import py_call
from hybrid.core.loop_io import ROWS, Looker, Supplying
from hybrid.core.types import bool_, float64, int64, tensor_type
from hybrid.data import DataLoader
from hybrid.data.loops.portion import Portion
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.optim.optimizer import Optimizer
from hybrid.train.batch_steps import Steps
from hybrid.train.callback import Callback

NEVER = -1  # the number of no step
_COUNT = tensor_type(int64, ())


class Program:
    """Training: what the steps are made of, and the cells that they write."""

    def __init__(
        self,
        steps: Steps,
        optimizer: Optimizer,
        clip_norm: float | None,
        loader: DataLoader,
        looker: Looker,
    ) -> None:
        self.steps, self.optimizer, self.clip_norm = steps, optimizer, clip_norm
        self.portion, self.looker = Portion(loader.repeat()), looker
        self.batches: Supplying = self.portion  # what the loop goes over
        self.done = ops.zeros((), dtype=int64)  # steps
        self.stopped = ops.zeros((), dtype=bool_)
        self.watchers: tuple[Callback, ...] = ()
        self.columns: tuple[str, ...] = ()
        self.ring = ops.zeros((0, 0), dtype=float64)
        self.tells = False

    def sunk(self, goal: Tensor, due: Tensor) -> None:
        """Steps up to number ``goal``, or all ``batches``; a look after number ``due``."""
        ranks = self.steps.ranks
        if ranks is not None:  # all of which call it alike
            goal, due = ranks.alike(goal), ranks.alike(due)
            for cell in (self.done, self.stopped):
                cell.assign(ranks.alike(cell))
        for batch in self.batches:
            self.one(batch)
            if self.tells and self.done == due:
                due = py_call(self.looker.look, self.ring, self.done, result=_COUNT)
            if self.done == goal:
                break
            if self.watchers and self.stopped:
                break

    def one(self, batch: Any) -> None:
        """One step."""
        loss = self.steps.train(batch, self.optimizer, self.clip_norm)
        if self.columns:
            values = {name: self._scalar(name, loss) for name in self.columns}
            self.ring[self.done % ROWS] = ops.stack(list(values.values()))
            for watcher in self.watchers:
                asked = watcher.in_step(values)
                if asked is not None:
                    if self.steps.ranks is not None:
                        asked = self.steps.ranks.any_asks(asked)
                    self.stopped.assign(ops.logical_or(self.stopped, asked))
        self.done.assign(self.done + 1)

    def _scalar(self, name: str, loss: Tensor) -> Tensor:
        if name == "loss":
            return loss
        if name == "lr":
            return asarray(self.optimizer.param_groups[0].lr, dtype=float64)
        return dict(self.steps.metrics)[name].compute().astype(float64)


class Evaluation:
    """Counting what the network gives."""

    def __init__(self, steps: Steps, loader: DataLoader) -> None:
        self.steps, self.portion = steps, Portion(loader.repeat())
        self.batches = ops.zeros((), dtype=int64)

    def sunk(self) -> None:
        """A pass."""
        for batch in self.portion:
            self.one(batch)

    def one(self, batch: Any) -> None:
        """A batch."""
        self.steps.evaluate(batch)
        self.batches.assign(self.batches + 1)
