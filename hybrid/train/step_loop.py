"""Loops of training: steps over a loader, many in one call of a plan, and what is told of each.

The batches of one call look alike.  Others are steps by themselves, whose plan has open axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid import ops
from hybrid.calls.hybridization import hybridize
from hybrid.core.loop_io import ROWS, Looker, Supplying, Told
from hybrid.core.types import float64
from hybrid.data import DataLoader
from hybrid.data.loops.loader_supply import UnlikeBatch
from hybrid.data.loops.portion import ENDLESS
from hybrid.eager.frameworks.interop import asarray
from hybrid.errors import DatasetError
from hybrid.optim.optimizer import Optimizer
from hybrid.train.batch_steps import Steps
from hybrid.train.callback import Callback
from hybrid.train.program import NEVER, Evaluation, Program


class StepLoop:
    """Steps of training over the batches of ``loader``, pass after pass."""

    def __init__(
        self, steps: Steps, optimizer: Optimizer, clip_norm: float | None, loader: DataLoader
    ) -> None:
        self.looker = Looker()
        self.program = Program(steps, optimizer, clip_norm, loader, self.looker)
        self.steps, self.loader = steps, loader
        self.portion = self.program.portion
        self._endless = self.portion.walk.take(ENDLESS)
        self._sunk, self._one = (
            hybridize(part, ledger=False) for part in (self.program.sunk, self.program.one)
        )
        self._unlike = False  # whether the batches that come now are not those the loop is made for

    def begin(
        self, done: int, columns: Sequence[str], watchers: Sequence[Callback], told: Told | None
    ) -> None:
        """Begin after ``done`` steps.

        ``columns`` are the scalars kept of a step, if any; ``watchers`` have a part in each;
        ``told`` is called with the rows.
        """
        program, looker = self.program, self.looker
        if program.columns != tuple(columns):
            program.columns = tuple(columns)
            program.ring = ops.zeros((ROWS, len(program.columns)), dtype=float64)
        program.watchers, program.tells = tuple(watchers), told is not None
        program.done.assign(asarray(done))
        program.stopped.assign(asarray(False))
        looker.begin(done, told)

    @property
    def count(self) -> int:
        """The steps so far."""
        return self.program.done.item()

    @property
    def stopped(self) -> bool:
        """Whether a step has asked for the end."""
        return self.program.stopped.item()

    def scalars(self) -> dict[str, float]:
        """Those of the last step."""
        row = self.program.ring[(self.count - 1) % ROWS].tolist()
        return dict(zip(self.program.columns, row, strict=True))

    def close(self) -> None:
        """No more steps are wanted: the pass of the data ends."""
        self.portion.walk.close()

    def run(self, wanted: int | None, sinks: bool, repeats: bool = False) -> bool:
        """Up to ``wanted`` steps, those that are left of the pass at most; one without ``sinks``.

        Whether the pass is over, which it may turn out to be only when no step is left.  Where data
        are to repeat and all batches are alike, the steps go on in the next pass.  A batch that is
        unlike the others ends the loop, and is a step by itself.
        """
        try:
            if self._unlike:
                self._take()
            elif sinks and repeats and wanted is not None and self.portion.is_even:
                self._sink_over(self._endless, self.count + wanted)
            elif sinks:
                self._sink(wanted)
            else:
                self._take()
        except UnlikeBatch:
            self._unlike = True
        finally:
            if self.program.tells and self.count > self.looker.seen:
                self.looker.look(self.program.ring.numpy(), self.count)
        over = self.portion.is_over
        self._unlike = self._unlike and not over
        return over

    def _sink(self, wanted: int | None) -> None:
        even, last = self.portion.left()
        if not even:
            self._take(over=not last)
            return
        whole = self.portion.given == 0 and (wanted is None or wanted >= even + last)
        goal = NEVER if whole else self.count + (even if wanted is None else min(wanted, even))
        self._sink_over(self.portion, goal)

    def _sink_over(self, batches: Supplying, goal: int) -> None:
        self.program.batches = batches
        due = self.looker.seen + 1 if self.program.tells else NEVER
        self._sunk(asarray(goal), asarray(due))

    def _take(self, over: bool = False) -> None:
        """One step, unless the pass is over (as it should be, if ``over``)."""
        for batch in self.portion:
            if over:
                raise self.portion.supply().refuse_end(self.portion.given)
            self._unlike = self._unlike and not self.portion.supply().is_like(batch)
            self._one(batch)
            break


class EvaluationLoop:
    """Counting over the batches of a loader."""

    def __init__(self, steps: Steps, loader: DataLoader) -> None:
        self.program, self.loader = Evaluation(steps, loader), loader
        self._sunk, self._one = (
            hybridize(part, ledger=False) for part in (self.program.sunk, self.program.one)
        )

    def run(self, sinks: bool) -> dict[str, float]:
        """A pass: what was counted."""
        program = self.program
        program.steps.reset()
        program.batches.assign(asarray(0))
        try:
            if not (sinks and self._sink()):
                for batch in program.portion:
                    self._one(batch)
        finally:
            program.portion.walk.close()
        if not program.batches.item():
            raise no_batches(self.loader)
        return program.steps.values()

    def _sink(self) -> bool:
        """Count a whole pass in one call; False where some of its batches are left."""
        if self.program.portion.given:  # it is resumed
            return False
        try:
            self._sunk()
        except UnlikeBatch:
            return False
        return True


def no_batches(loader: DataLoader) -> DatasetError:
    """What is wrong with a loader that gives nothing."""
    return DatasetError(
        f"a loader of a {type(loader.dataset).__name__} gave no batches",
        fix="look at the length of the dataset, and at batch_size and drop_last",
    )
