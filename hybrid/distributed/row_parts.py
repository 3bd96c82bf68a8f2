"""What code of a model finds out about its rows of a batch: those of a rank, or one shard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.core.types import float64, int64
from hybrid.distributed.row_shares import Sharing, mean_by
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, CaptureError, author_location
from hybrid.ir.interpreter import current, stack
from hybrid.ir.record import recording
from hybrid.ops.communication.collectives import all_gather
from hybrid.ops.layers.normalization import along_channels, with_channels
from hybrid.ops.support.row_scope import stretch_of


class Counts:
    """How many rows the ranks have, which they tell each other once, when it is first asked for."""

    def __init__(self, sharing: Sharing, rows: Any) -> None:
        self.sharing, self.rows = sharing, rows
        self._found: tuple[Tensor, Tensor] | None = None

    def ask(self) -> tuple[Tensor, Tensor]:
        """The rows of the ranks before this one, and those of all: i64 [1] each."""
        if self._found is None:
            channel = self.sharing.channel
            with recording(False):
                mine = ops.reshape(current().lift(self.rows, int64), (1,))
                counts = all_gather(mine, comm=channel.name, ranks=channel.ranks)
                before = ops.sum(counts[: channel.rank], axis=0, keepdims=True)
                self._found = before, ops.sum(counts, axis=0, keepdims=True)
        return self._found


class RowPart:
    """Rows that follow each other in the batch of all ranks: those of a rank, or one shard of them.

    ``first`` is where they begin among the rows of their rank.
    """

    def __init__(self, sharing: Sharing, rows: Any, first: Any, counts: Counts) -> None:
        self.sharing, self.rows, self.first, self.counts = sharing, rows, first, counts
        self.around = stack()[:1]  # the capture that the call is in, if it is in one
        self.whole = True  # whether it has all rows of its rank
        self.means = 0  # how many have been asked for of a part
        self.call: Any = None  # of the model: it has a stand-in of each parameter for each shard

    @property
    def all_rows(self) -> Tensor:
        """How many rows all ranks have: an i64 [1]."""
        return self.counts.ask()[1]

    def shard(self, first: Any, end: Any) -> RowPart:
        """The rows from ``first`` up to ``end``, one shard of several."""
        made = RowPart(self.sharing, end - first, first, self.counts)
        made.whole = False
        return made

    def _require_same_capture(self) -> None:
        """Raise where a part of a model has a plan of its own: that knows nothing of the rows."""
        if stack()[:1] != self.around:
            raise CaptureError(
                "a batch norm, a draw or a mean over rows in a hybridized part of a data-parallel "
                "model",
                at=author_location(),
                why="It goes by the rows of all ranks, which the call of the model has, and its "
                "part has a plan of its own.",
                fix="hybridize the function of a whole step, in place of the part",
            )

    def first_element(self, shape: tuple[Any, ...]) -> Tensor | None:
        """Where a draw of ``shape`` begins in that for the whole batch; None: it has other rows."""
        self._require_same_capture()
        return stretch_of(shape, self.rows, lambda: self.counts.ask()[0] + self.first)

    def mean(self, values: Tensor) -> Tensor:
        """``hybrid.distributed.mean``; of one shard its share of it, which is summed up later."""
        self._require_same_capture()
        if self.whole:
            return mean_by(self.sharing, values)
        self.means += 1
        each = values.size // values.shape[0] if values.shape[0] else math.prod(values.shape[1:])
        count = ops.astype(self.all_rows[0] * each, float64)
        return ops.astype(ops.astype(ops.sum(values), float64) / count, values.dtype)

    def batch_norm(
        self, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``x`` normalised by the rows of all ranks; their mean, variance, and how many.

        First the mean, then the squares about it, each summed up by shards.
        """
        self._require_same_capture()
        if not self.whole:
            raise ArgumentError(
                "a batch norm in a part of a model that is run shard by shard",
                why="Its statistics are those of all shards, and parts with parameters of their "
                "own run with one at a time.",
                fix="let the parameters beside it be in a module of their own",
            )
        sharing, axes = self.sharing, (0, *range(2, x.ndim))
        cuts = sharing.cut(x.shape[0])
        parts = [x] if len(cuts) == 1 else [x[first:end] for first, end in cuts]
        each = math.prod(x.shape[2:])
        count = ops.astype(ops.squeeze(self.all_rows, axis=0) * each, float64)
        total = ops.astype(count, x.dtype)

        def over_all(summed: Sequence[Tensor]) -> Tensor:
            return sharing.sums(summed) / total

        means = over_all([ops.sum(part, axis=axes) for part in parts])
        away = [part - along_channels(means[at], x.ndim) for at, part in enumerate(parts)]
        squares = over_all([ops.sum(part * part, axis=axes) for part in away])
        found = []
        for at, part in enumerate(away):
            scale, shift = self._of_shard(weight, at), self._of_shard(bias, at)
            factor = 1.0 / ops.sqrt(squares[at] + eps)
            factor = factor if scale is None else factor * scale
            found.append(with_channels(part, factor, shift))
        y = found[0] if len(found) == 1 else ops.concat(found, axis=0)
        return y, ops.stop_gradient(means[0]), ops.stop_gradient(squares[0]), count

    def _of_shard(self, parameter: Tensor | None, at: int) -> Tensor | None:
        if parameter is None or self.call is None:
            return parameter
        return self.call.twin(parameter, at)
