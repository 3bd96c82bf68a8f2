"""How batches are shared out among ranks: shards, their rows, and sums and means over all of them.

A batch is cut into shards as ``numpy.array_split`` cuts, and each rank has a contiguous range of
them.  With ``shards="ranks"`` there are as many as ranks.  With a number, sums are added by a tree
over the shards that this number alone decides, so they have the same bits on any number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.core.dataclass import dataclass
from hybrid.core.types import float64
from hybrid.distributed.meshes import Mesh, channel_for
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, author_location
from hybrid.ir.interpreter import current
from hybrid.ir.record import Boundary, ShardLeaf, node_of
from hybrid.memory.channels import Channel
from hybrid.ops.communication.shard_sums import parts_total, shard_sums, shards_of, stacked_parts
from hybrid.ops.communication.shard_tree import cut_evenly, most_parts
from hybrid.ops.support.row_scope import row_scope


@dataclass(frozen=True, slots=True)
class Sharing:
    """The shards of batches, and the channel whose ranks have them."""

    channel: Channel
    shards: int

    @property
    def ranges(self) -> tuple[int, int]:
        """The first shard of this rank, and the one behind its last."""
        return shards_of(self.channel, self.shards)

    @property
    def count(self) -> int:
        """How many shards code of this rank goes by: one without rows where it has none."""
        first, end = self.ranges
        return max(end - first, 1)

    def cut(self, rows: Any) -> list[tuple[Any, Any]]:
        """The first and the end of each shard among ``rows`` of this rank."""
        return [cut_evenly(rows, self.count, at) for at in range(self.count)]

    def rows_of(self, n: int) -> tuple[int, int]:
        """Which rows of a batch of ``n`` are those of this rank: the first and the end."""
        first, end = self.ranges
        if first == end:
            at = cut_evenly(n, self.shards, first)[0] if first < self.shards else n
            return at, at
        return cut_evenly(n, self.shards, first)[0], cut_evenly(n, self.shards, end - 1)[1]

    def total(self, rows: Sequence[Tensor]) -> Tensor:
        """The sum over all shards of what there is of each of this rank; one loss of all ranks."""
        first, end = self.ranges
        channel = self.channel
        parts = stacked_parts(rows[: end - first], self.shards, channel.ranks, channel.rank)
        if first == end:  # no shard: zeros, but with a history, for gradients
            parts = [rows[0]]
        missing = most_parts(self.shards, channel.ranks) - len(parts)
        parts += [ops.zeros_like(rows[0])] * missing
        return parts_total(
            ops.stack(parts), shards=self.shards, comm=channel.name, ranks=channel.ranks
        )

    def sums(self, rows: Sequence[Tensor]) -> Tensor:
        """``rows``, one of each shard of this rank, summed over all shards: once for each."""
        channel = self.channel
        missing = -(-self.shards // channel.ranks) - len(rows)
        given = ops.stack([*rows, *[ops.zeros_like(rows[0])] * missing])
        return shard_sums(given, shards=self.shards, comm=channel.name, ranks=channel.ranks)


def sharing_of(shards: Any, axis: str | None, mesh: Mesh | None) -> Sharing:
    """What ``shards="ranks"`` or a number of them means; checked."""
    channel = channel_for(axis, mesh)
    if isinstance(shards, str) and shards == "ranks":
        return Sharing(channel, channel.ranks)
    if isinstance(shards, bool) or not isinstance(shards, (int, str)):
        raise ArgumentTypeError(f"shards is {shards!r}", fix='give "ranks" or a number of shards')
    if isinstance(shards, str) or shards < 1:
        raise ArgumentError(
            f"shards is {shards!r}", fix='give "ranks", or a number of shards from 1 on'
        )
    return Sharing(channel, shards)


_last: list[Sharing | None] = []
_models: dict[Sharing, None] = {}  # the sharings of all data-parallel models so far


def goes_by(sharing: Sharing | None) -> None:
    """From now on ``mean`` goes by the shards of ``sharing``; None: each rank has its own loss."""
    _last[:] = [sharing]
    if sharing is not None:
        _models[sharing] = None


def sharing_of_history(values: Tensor) -> Sharing | None:
    """The sharing of the data-parallel model that ``values`` come from; None: of no model."""
    if values.record is None or not ShardLeaf.used:
        return None
    stack = [node_of(values.record)[0]]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if type(node) is ShardLeaf:
            return node.call.replicas.sharing
        before = (node.outside,) if type(node) is Boundary else node.parents
        parents = {node_of(p)[0] for p in before if p is not None} - seen
        seen |= parents
        stack.extend(parents)
    return None


def rows(
    n: int, shards: Any = "ranks", *, mesh: Mesh | None = None, axis: str | None = None
) -> slice:
    """The slice of a batch of ``n`` rows that is this rank's."""
    sharing = sharing_of(shards, axis, mesh)
    if isinstance(n, bool) or not isinstance(n, int):
        raise ArgumentTypeError(f"rows of a batch of {n!r}", fix="give the number of its rows")
    if n < 0:
        raise ArgumentError(f"rows of a batch of {n}", fix="give the number of its rows, 0 or more")
    return slice(*sharing.rows_of(n))


def mean(values: Any, *, mesh: Mesh | None = None, axis: str | None = None) -> Tensor:
    """The mean over the elements of ``values`` [rows, ...] of all ranks, the same on each.

    It is one loss of all of them: gradients by what a rank has are those of the mean, and what
    ``data_parallel`` sums up over ranks is the gradient of it.  Without ``axis`` the ranks are
    those of the data-parallel model that ``values`` come from, and all ranks for other values.
    The rows are summed up by shards (those of that model, else of the last ``data_parallel``,
    else one for each rank), so the mean has the same bits on any number of ranks that the shards
    are shared out to.
    """
    values = current().lift(values)
    if not values.dtype.is_floating:
        raise DTypeError(f"mean of {values.type}", fix="convert it with astype(hybrid.float32)")
    if not values.ndim:
        raise ShapeError(
            "mean of a scalar",
            why="It goes over the rows that each rank has.",
            fix='give the values of the rows, such as a loss with reduction="none"',
        )
    scope: Any = row_scope()
    if scope is not None and axis is None and mesh is None:
        return scope.mean(values)
    sharing = sharing_of("ranks", axis, mesh)
    if axis is None and (
        len(_models) > 1 or any(m.channel is not sharing.channel for m in _models)
    ):
        of_model = sharing_of_history(values)
        if of_model is not None:
            return mean_by(of_model, values)
    if _last == [None] and values.record is not None:
        raise ArgumentError(
            "mean of what gradients are taken of, with a parameter server",
            at=author_location(),
            why="Its ranks do not wait for each other, and the loss of each counts by its rows.",
            fix="take the mean over the rows of this rank: values.mean()",
        )
    if _last and _last[0] is not None and _last[0].channel.name == sharing.channel.name:
        sharing = _last[0]
    return mean_by(sharing, values)


def mean_by(sharing: Sharing, values: Tensor) -> Tensor:
    """The mean of ``values``, the rows of all shards of this rank."""
    pairs = []
    for first, end in sharing.cut(values.shape[0]):
        part = values if sharing.count == 1 else values[first:end]
        found = ops.astype(ops.sum(part), float64)
        count = current().lift(part.size, float64)
        pairs.append(ops.stack([found, count]))
    total = sharing.total(pairs)
    return ops.astype(total[0] / total[1], values.dtype)
