"""Replicas: a model whose calls take rows of a batch, and whose gradients are those of all rows.

Around a call of the model, stand-ins take the places of its parameters' leaves, one for each shard
of the rows.  ``backward()`` hands over what has arrived at them: it is summed up over shards and
ranks, many parameters in one bucket, and becomes the gradients of the parameters.  All of it are
ops, so captured steps do the same as eager ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hybrid import ops
from hybrid.calls.hybridized import Hybridized
from hybrid.core.tree import flatten, unflatten
from hybrid.core.types import float64, int64
from hybrid.distributed.gradients import WayBack, buckets_of, is_common
from hybrid.distributed.job_files import on_rank_0
from hybrid.distributed.power_sgd import PowerSGD
from hybrid.distributed.row_parts import Counts, RowPart
from hybrid.distributed.row_shares import Sharing
from hybrid.distributed.state_slices import StateSlices
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import ArgumentError, ShapeError, author_location
from hybrid.ir.interpreter import current
from hybrid.ir.record import AnyRecord, ShardLeaf, is_recording
from hybrid.nn.layers.normalization import BatchNorm
from hybrid.nn.modules.module import Module
from hybrid.ops.communication.collectives import all_reduce, known_alike
from hybrid.ops.support.row_scope import entered, row_scope
from hybrid.random import default_generator


class Replicas:
    """What stands around the calls of a model that is the same on all ranks of a channel."""

    def __init__(
        self, sharing: Sharing, parameters: Sequence[Tensor], bucket_bytes: int, by_rank: bool
    ) -> None:
        self.sharing, self.parameters = sharing, tuple(parameters)
        self.by_rank = by_rank  # whether each rank's rows are one shard
        self.buckets = buckets_of(self.parameters, bucket_bytes)
        self.kinds = tuple([p.type for p in self.parameters])
        self.inner: tuple[Module, ...] = ()  # parts that are run shard by shard, if not all is
        self.slices: StateSlices | None = None  # where ranks share out states, too
        self.compress: PowerSGD | None = None  # which sums the gradients of matrices

    # Calls ------------------------------------------------------------------------------------

    def __call__(self, module: Module, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if row_scope() is not None:
            return call(*args, **kwargs)
        sliced = self.slices is not None and self.slices.zero == 3
        if self.by_rank and not (module.training or is_recording() or sliced):
            return call(*args, **kwargs)
        if isinstance(call, Hybridized) and not current().traces and _looks_at_rows(module):
            call = module._call_forward  # a plan of the model alone does not know of other ranks
        leaves, structure = flatten((args, kwargs))
        rows = rows_of(leaves)
        counts = Counts(self.sharing, rows)
        shared = module.training or is_recording()
        if shared:
            counts.ask()
        scope = RowPart(self.sharing, rows, 0, counts)
        replica = ReplicaCall(self, scope)
        if sliced:
            # Plans of ranks with other numbers of shards would gather in another order.
            alike = self.by_rank or self.sharing.shards % self.sharing.channel.ranks == 0
            replica.wholes = self.slices.gathered(late=alike)
        if self.by_rank or self.inner:
            with entered(scope):
                several = self.sharing.count > 1
                scope.call = replica if several else None
                with replica.with_stand_ins(None if several else 0):
                    return call(*args, **kwargs)
        return replica.by_shards(call, leaves, structure, scope, shared)

    def part(self, module: Module, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of one of ``inner``: by shards, where all rows of the rank come to it."""
        scope: Any = row_scope()
        if not isinstance(scope, RowPart) or not scope.whole or scope.call is None:
            return call(*args, **kwargs)
        leaves, structure = flatten((args, kwargs))
        return scope.call.by_shards(call, leaves, structure, scope, True)

    def loss(self, function: Callable[..., Tensor], output: Any, target: Any) -> Tensor:
        """``function(output, target)`` of the rows of this rank; with shards the mean over all."""
        function = current().converted(function)
        if self.by_rank or row_scope() is not None:
            return function(output, target)
        leaves, structure = flatten(((output, target), {}))
        rows = rows_of(leaves)
        scope = RowPart(self.sharing, rows, 0, Counts(self.sharing, rows))
        return ReplicaCall(self, scope).by_shards(function, leaves, structure, scope, True)

    # What training asks ----------------------------------------------------------------------

    def loss_of_all(self, loss: Tensor, rows: Any) -> tuple[Tensor, Tensor]:
        """The mean of the losses of all ranks, by rows, and how many rows that are; in float64."""
        count = current().lift(rows, float64)
        total = self._added_up(ops.stack([_none_counted(loss * count, rows), count]))
        return total[0] / total[1], ops.astype(total[1], int64)

    def _added_up(self, x: Tensor) -> Tensor:
        channel = self.sharing.channel
        return all_reduce(x, comm=channel.name, ranks=channel.ranks)

    @contextmanager
    def added_up(self, cells: Mapping[str, Tensor]) -> Iterator[None]:
        """A context in which ``cells``, which count what this rank has, have that of all ranks."""
        before = {name: cell.detach() for name, cell in cells.items()}
        for cell in cells.values():
            cell.assign(self._added_up(cell.detach()))
        try:
            yield
        finally:
            for name, cell in cells.items():
                cell.assign(before[name])

    def write(self, path: str, write: Callable[[], Any]) -> None:
        """Let rank 0 ``write`` a file; what goes wrong is raised on all ranks."""
        on_rank_0(self.sharing.channel, f"write {path}", write)

    @property
    def is_first(self) -> bool:
        """Whether this rank is the one that does what is to be done once."""
        return self.sharing.channel.rank == 0

    @staticmethod
    def alike(x: Tensor) -> Tensor:
        """``x``, which is the same on all ranks, for what it decides."""
        return known_alike(x.detach())

    def any_asks(self, flag: Tensor) -> Tensor:
        """Whether ``flag`` is true on some rank."""
        return self._added_up(ops.astype(flag, int64)) > 0


class ReplicaCall:
    """One call of the model: its stand-ins, and what becomes of what arrives at them."""

    def __init__(self, replicas: Replicas, scope: RowPart) -> None:
        self.replicas, self.scope = replicas, scope
        self.stand_ins: dict[tuple[int, int], ShardLeaf] = {}  # by parameter and shard
        self.wholes: Sequence[Tensor] | None = None  # of parameters, where ranks have slices
        self.places = {id(p.leaf): at for at, p in enumerate(replicas.parameters) if _varies(p)}

    def stand_in(self, parameter: int, shard: int) -> ShardLeaf:
        """That of a parameter, for one shard of this rank."""
        found = self.stand_ins.get((parameter, shard))
        if found is None:
            kind = self.replicas.kinds[parameter]
            found = self.stand_ins[parameter, shard] = ShardLeaf(kind, self, (parameter, shard))
        return found

    def twin(self, tensor: Tensor, shard: int) -> Tensor:
        """``tensor``; of a parameter one whose gradient is that of a shard."""
        at = self.places.get(id(tensor.record))
        if at is None or not is_recording():
            return tensor
        tracer: Any = current()
        content = tracer.traced(tensor).content if tracer.traces else tensor.content
        made = make_tensor(tensor.type, content)
        made.record = self.stand_in(at, shard)
        return made

    @contextmanager
    def with_stand_ins(self, shard: int | None) -> Iterator[None]:
        """A context in which gradients by the parameters are those by ``shard``'s, if it is one;
        and in which parameters are whole.
        """
        marks = shard is not None and is_recording()
        if self.wholes is None and not marks:
            yield
            return
        tracer: Any = current()
        before = []
        for at, p in enumerate(self.replicas.parameters):
            entry = tracer.cell(p) if tracer.traces else p
            before.append((p, entry, p.type, entry.record, _content(entry)))
            if self.wholes is not None:
                whole = self.wholes[at]
                p.type = whole.type
                _put_content(entry, whole.content)
            if marks and _varies(p):
                entry.record = self.stand_in(at, shard)
        try:
            yield
        finally:
            for p, entry, kind, record, content in before:
                p.type, entry.record = kind, record
                _put_content(entry, content)

    def by_shards(
        self,
        call: Callable[..., Any],
        leaves: list[Any],
        structure: Any,
        scope: RowPart,
        shared: bool,
    ) -> Any:
        """What ``call`` makes of each shard's rows, put together; numbers by those of all ranks, if
        they are ``shared``.
        """
        rows = scope.rows
        made, parts = [], []
        state = default_generator().state
        begun = state.detach()
        for at, (first, end) in enumerate(scope.sharing.cut(rows)):
            part = scope.shard(first, end)
            given = [leaf[first:end] if _has_rows(leaf, rows) else leaf for leaf in leaves]
            args, kwargs = unflatten(structure, given)
            if at:  # all shards draw what one call for all rows would draw
                state.assign(begun)
            with entered(part), self.with_stand_ins(at):
                made.append(flatten(call(*args, **kwargs)))
            parts.append(part)
        found = [
            _together(scope.sharing, [result[i] for result, _ in made], parts, shared)
            for i in range(len(made[0][0]))
        ]
        return unflatten(made[0][1], found)

    def way_back(self, root: AnyRecord, nodes: Sequence[Any]) -> WayBack:
        """From a loss with the history ``nodes``, which this call is in."""
        channel = self.scope.sharing.channel
        for node in nodes:
            if type(node) is ShardLeaf and node.call.replicas.sharing.channel is not channel:
                raise ArgumentError(
                    "a loss of two data-parallel models that are shared by different ranks",
                    at=author_location(),
                    why="One loss counts by the rows of one group of ranks: those of "
                    f"{channel.name}, or of {node.call.replicas.sharing.channel.name}.",
                    fix="give both calls of data_parallel the same mesh and axis",
                )
        return WayBack(self.scope, is_common(root, nodes, channel))


def _none_counted(loss: Tensor, rows: Any) -> Tensor:
    """``loss``; that of no rows, which is nan, is 0."""
    if isinstance(rows, int) and rows:
        return loss
    return ops.where(current().lift(rows, int64) > 0, loss, 0.0)


def _looks_at_rows(module: Module) -> bool:
    """Whether it may draw for its rows, or go by all of them, when it is trained."""
    return any(
        isinstance(part, BatchNorm) or getattr(part, "dropout", 0) or hasattr(part, "p")
        for part in module.modules()
    )


def _content(entry: Any) -> Any:
    """The value of a tensor, or of what a capture knows it as."""
    return entry.content if isinstance(entry, Tensor) else entry.value


def _put_content(entry: Any, content: Any) -> None:
    if isinstance(entry, Tensor):
        entry.content = content
    else:
        entry.value = content


def _varies(p: Tensor) -> bool:
    return getattr(p, "leaf", None) is not None


def rows_of(leaves: Sequence[Any]) -> Any:
    """How many rows the arguments have: those of the first tensor."""
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.ndim:
            return leaf.shape[0]
    raise ArgumentError(
        "a data-parallel model was called without a tensor that has rows",
        at=author_location(),
        why="Gradients are weighted by the rows of the batch that each rank has.",
        fix="pass it the rows of a batch along the first axis of a tensor",
    )


def _has_rows(leaf: Any, rows: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.ndim > 0 and leaf.shape[0] == rows


def _together(
    sharing: Sharing, results: Sequence[Any], parts: Sequence[RowPart], shared: bool
) -> Any:
    """One result of all shards of this rank."""
    if not isinstance(results[0], Tensor):
        return results[0]
    if results[0].ndim:
        for result, part in zip(results, parts, strict=True):
            if result.shape[0] != part.rows:
                raise ShapeError(
                    f"a model that is run shard by shard gave {result.type} for {part.rows} rows",
                    at=author_location(),
                    why="Results of shards are put together along their first axis.",
                    fix="let it give as many rows as it gets, or one number",
                )
        return ops.concat(list(results), axis=0)
    if any(part.means for part in parts):  # shares of a mean over all rows
        return sharing.total(list(results))
    pairs = []
    for result, part in zip(results, parts, strict=True):
        count = current().lift(part.rows, float64)
        wide = ops.astype(_none_counted(result, part.rows), float64)
        pairs.append(ops.stack([wide * count, count]))
    if shared:
        total = sharing.total(pairs)
    else:
        total = pairs[0]
        for pair in pairs[1:]:
            total = total + pair
    return ops.astype(total[0] / total[1], results[0].dtype)
