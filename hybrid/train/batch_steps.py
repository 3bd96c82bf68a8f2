"""Steps: what is done with one batch, in training and in evaluation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from hybrid.autodiff import no_grad
from hybrid.core.types import float64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, ShapeError
from hybrid.nn.clip import clip_grad_norm_
from hybrid.nn.modules.hooks import of_kind
from hybrid.nn.modules.module import Module
from hybrid.optim.optimizer import Optimizer
from hybrid.train.arguments import Loading, copied
from hybrid.train.metrics import Average, Metric, rows
from hybrid.weights import save


class Steps:
    """A network, how wrong it is, and what is counted of that.

    With a loss function or metrics, the last item of a batch is the target, and those before it are
    the inputs of the network; without, all are inputs, and the network gives the loss.
    """

    def __init__(
        self,
        network: Module,
        loss_fn: Callable[..., Tensor] | None,
        metrics: Mapping[str, Metric],
    ) -> None:
        self.network, self.loss_fn = network, loss_fn
        self.metrics = tuple(metrics.items())
        self.has_targets = loss_fn is not None or bool(metrics)
        self.has_loss = loss_fn is not None or not metrics
        self.loss = Average()
        self.ranks = ranks_of(network)  # that have rows of a batch, too; None: nobody

    def copied(self, shared: bool) -> Steps:
        """Steps with counts of their own, which begin at zero; ``shared`` with other ranks."""
        copied = Steps(self.network, self.loss_fn, copy.deepcopy(dict(self.metrics)))
        copied.ranks = copied.ranks if shared else None
        copied.reset()
        return copied

    @property
    def counted(self) -> dict[str, Metric]:
        """The mean loss and the metrics by name."""
        return {**({"loss": self.loss} if self.has_loss else {}), **dict(self.metrics)}

    def reset(self) -> None:
        """Forget what was counted."""
        for metric in self.counted.values():
            metric.reset()

    def values(self) -> dict[str, float]:
        """What was counted, as numbers."""
        found = {}
        for name, metric in self.counted.items():
            alone = self.ranks is None or metric is self.loss  # which has been that of all
            with nullcontext() if alone else self.ranks.added_up(metric.state_dict()):
                found[name] = metric.compute().item()
        return found

    def counted_state(self) -> dict[str, Any]:
        """What was counted so far, by all ranks, as ``load_counted`` takes it."""
        if self.ranks is None:
            return {name: copied(metric.state_dict()) for name, metric in self.counted.items()}
        found = {}
        for name, metric in self.counted.items():
            cells = {} if metric is self.loss else metric.state_dict()
            with self.ranks.added_up(cells):
                found[name] = copied(metric.state_dict())
        return found

    def load_counted(self, state: Mapping[str, Any], loading: Loading) -> None:
        """Count on from ``state``; of several ranks the first does, so that it counts once."""
        for name, metric in self.counted.items():
            loading.load(metric, state[name])
            if self.ranks is not None and not self.ranks.is_first and metric is not self.loss:
                metric.reset()

    def save(self, path: str, state: Any) -> None:
        """Write ``state`` to a file, once for all ranks."""
        if self.ranks is None:
            save(path, state)
        else:
            self.ranks.write(path, lambda: save(path, state))

    @property
    def is_first(self) -> bool:
        """Whether this process does what is to be done once for all ranks."""
        return self.ranks is None or self.ranks.is_first

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        """What the network gets of a batch; one without a target is inputs."""
        if not isinstance(batch, (tuple, list)):
            return (batch,)
        return tuple(batch[:-1] if self.has_targets and len(batch) > 1 else batch)

    def train(self, batch: Any, optimizer: Optimizer, clip_norm: float | None) -> Tensor:
        """One step: forward, backward, optimizer.  The loss."""
        output = self.network(*self.inputs(batch))
        target = self._target(batch)
        loss = self._loss(output, target)
        optimizer.zero_grad()
        loss.backward()
        if clip_norm is not None:
            clip_grad_norm_(self.network.parameters(), clip_norm)
        optimizer.step()
        return self._count(loss.detach(), output, target, batch)

    def evaluate(self, batch: Any) -> None:
        """Count a batch without learning from it."""
        with no_grad():
            output = self.network(*self.inputs(batch))
            target = self._target(batch)
            loss = self._loss(output, target) if self.has_loss else None
            self._count(loss, output, target, batch)

    def _target(self, batch: Any) -> Any:
        if not self.has_targets:
            return None
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise ArgumentTypeError(
                f"a batch has no target: it is {_told(batch)}",
                why="Its last item is the target, those before it are the network's inputs.",
                fix="let the dataset give (input, target); or, where the network itself computes "
                "the loss, leave loss_fn and metrics out",
            )
        return batch[-1]

    def _loss(self, output: Any, target: Any) -> Tensor:
        if self.loss_fn is None:
            loss = output
        elif self.ranks is None:
            loss = self.loss_fn(output, target)
        else:
            loss = self.ranks.loss(self.loss_fn, output, target)
        if not isinstance(loss, Tensor):
            raise ArgumentTypeError(
                f"the loss is a {type(loss).__name__}",
                fix="let loss_fn (or, without one, the network) return a tensor of one number",
            )
        if loss.size != 1 or not loss.dtype.is_floating:
            raise ShapeError(
                f"the loss is {loss.type}",
                why="A step goes down the slope of one number.",
                fix='return one, such as the mean over the batch: reduction="mean"',
            )
        return loss.reshape(())

    def _count(self, loss: Any, output: Any, target: Any, batch: Any) -> Any:
        """Count a batch: its loss, which is None if there is none, is given back in float64."""
        with no_grad():
            if loss is not None:
                loss, count = loss.astype(float64), rows(batch if target is None else target)
                if self.ranks is not None:
                    loss, count = self.ranks.loss_of_all(loss, count)
                self.loss.add(loss, count)
            for _, metric in self.metrics:
                metric.update(output, target)
        return loss


def ranks_of(network: Module) -> Any:
    """What ``hybrid.distributed.data_parallel`` has put around ``network``; None: it has not."""
    return next((hook.function for hook in of_kind(network, "around")), None)


def _told(batch: Any) -> str:
    if isinstance(batch, (tuple, list)):
        return f"a {type(batch).__name__} of {len(batch)}"
    return f"a {type(batch).__name__}"
