"""Training of an example: each step whole, from gradients to learning rate, as one function.

training = Training(find("lenet"))
for _ in range(training.epochs):
    losses = [loss.item() for loss in training.epoch()]
training.score()
"""

from __future__ import annotations

from collections.abc import Iterator

import hybrid as hy
from hybrid.data import DataLoader
from hybrid.eager.tensor import Tensor
from hybrid.models.examples import Example
from hybrid.optim.lr_scheduler import OneCycleLR

SCORED = 120  # samples at once


class Training:
    """``example`` from the start that ``seed`` draws, which seeds the default generator, too.

    ``model`` and ``optimizer`` are what is trained, ``step(*batch)`` is one step, with the loss as
    its result; it is captured unless ``hybridized`` is false.  The learning rate rises to that of
    the example and falls to nothing over ``epochs`` (those of the example by default), of
    ``samples`` samples each.
    """

    def __init__(
        self, example: Example, *, epochs: int | None = None, seed: int = 0, hybridized: bool = True
    ) -> None:
        hy.random.seed(seed)
        self.task = task = example.task
        self.model = model = example.make()
        self.optimizer = optimizer = example.optimizer(model.parameters())
        data = task.load()
        self.batches = DataLoader(
            data.train, example.batch_size, shuffle=True, drop_last=True, generator=seed
        )
        self.tests = DataLoader(data.test, SCORED)
        self.epochs = example.epochs if epochs is None else epochs
        self.samples = len(self.batches) * example.batch_size
        schedule = OneCycleLR(
            optimizer, optimizer.lr, epochs=self.epochs, steps_per_epoch=len(self.batches)
        )

        def step(*batch: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = task.loss(model, *batch)
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        def scores(*batch: Tensor) -> Tensor:
            return task.score(model, *batch)

        self.step = hy.hybridize(step) if hybridized else step
        self._scores = hy.hybridize(scores) if hybridized else scores

    def epoch(self) -> Iterator[Tensor]:
        """Learn every full batch once, in a new order; gives the loss of each step."""
        self.model.train()
        for batch in self.batches:
            yield self.step(*batch).detach()

    def score(self) -> float:
        """The mean score of what was held out, without learning from it."""
        self.model.eval()
        with hy.no_grad():
            found = hy.concat([self._scores(*batch) for batch in self.tests])
        return found.mean().item()
