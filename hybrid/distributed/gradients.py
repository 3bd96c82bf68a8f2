"""Gradients on their way back through a data-parallel model: weighted, summed up, handed on.

A loss of this rank alone counts by the share that its rows are of all.  One that ``mean`` has made
is of all ranks, and counts once.  Both kinds in one loss are refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from hybrid import ops
from hybrid.autodiff.cotangent_sums import Told
from hybrid.autodiff.presence import Ct, plain, presence_of
from hybrid.autodiff.tape import add_gradient
from hybrid.calls.control_functions import cond
from hybrid.core.types import DType, TensorType, float32, float64
from hybrid.distributed.early_sums import (
    EarlySums,
    Place,
    Sums,
    Users,
    add_to,
    line_type,
    may_be_early,
    sources_of,
)
from hybrid.distributed.mpi_channel import MpiChannel
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, author_location
from hybrid.ir import Graph
from hybrid.ir.interpreter import current
from hybrid.ir.record import AnyRecord, Leaf, Record, ShardLeaf, node_of
from hybrid.memory.channels import Channel, reach
from hybrid.nn.modules.parameter import in_dtype, working_dtype
from hybrid.ops.communication.collectives import all_to_all, known_alike
from hybrid.ops.communication.shard_sums import parts_total, stacked_parts
from hybrid.ops.communication.shard_tree import most_parts, sum_of_parts
from hybrid.ops.shapes.creation import literal

if TYPE_CHECKING:
    from hybrid.distributed.power_sgd import PowerSGD
    from hybrid.distributed.replicas import Replicas
    from hybrid.distributed.row_parts import RowPart

Gradients = list[Ct | None]
Arrived = dict[Place, Ct]
Bucket = tuple[int, ...]  # parameters, by number


class WayBack:
    """``backward()`` from a loss that a data-parallel model has a part in."""

    def __init__(self, scope: RowPart, common: bool) -> None:
        self.scope, self.common = scope, common  # whether the loss is that of all ranks
        self.early: EarlySums | None = None

    def weighed(self, seed: Tensor) -> Tensor:
        """``seed`` times the share that the rows of this rank are of all."""
        scope = self.scope
        if self.common or scope.sharing.channel.ranks == 1:
            return seed
        rows = current().lift(scope.rows, float64)
        share = rows / ops.astype(ops.squeeze(scope.all_rows, axis=0), float64)
        return seed * ops.astype(share, seed.dtype)

    def under_way(self, leaves: Sequence[Leaf]) -> AbstractContextManager[Told | None]:
        """A context in which this rank goes back, to be told of final leaves among ``leaves``."""
        self.early = self._early(leaves)
        return nullcontext() if self.early is None else self.early

    def _early(self, leaves: Sequence[Leaf]) -> EarlySums | None:
        """The sums that need not wait for the end; None: all of them do."""
        models = {leaf.call.replicas for leaf in leaves if type(leaf) is ShardLeaf}
        if len(models) != 1 or not may_be_early():
            return None
        (replicas,) = models
        channel = replicas.sharing.channel
        if not isinstance(channel, MpiChannel) or channel.gradients is None or replicas.compress:
            return None
        own = own_leaves(replicas)
        kept = [tuple([at for at in bucket if at in own]) for bucket in replicas.buckets]
        buckets = [bucket for bucket in kept if bucket]
        parts = most_parts(replicas.sharing.shards, channel.ranks)
        types = []
        for bucket in buckets:
            kinds = [replicas.kinds[at] for at in bucket]
            told = len(own) if bucket is buckets[-1] else 0
            types.append(line_type(kinds, parts, working_dtype(kinds[0].dtype), told))
        apart = {} if self.common else {leaf: at for at, leaf in own.items()}
        zero = 0 if replicas.slices is None else replicas.slices.zero
        return EarlySums(
            channel.gradients,
            buckets,
            replicas.kinds,
            types,
            f"shards={replicas.sharing.shards} zero={zero}",
            sources_of(leaves, apart),
            partial(_of_bucket, replicas),
            with_uses,
        )

    def gathered(self, leaves: Sequence[Leaf], grads: Gradients) -> tuple[list[Leaf], Gradients]:
        """Leaves, parameters' own in place of stand-ins, and their gradients by all rows."""
        arrived: dict[Replicas, Arrived] = {}
        found: dict[Leaf, Ct | None] = {}
        for leaf, grad in zip(leaves, grads, strict=True):
            if type(leaf) is not ShardLeaf:
                found[leaf] = grad
                continue
            known = arrived.setdefault(leaf.call.replicas, {})
            if grad is not None and self.early is None:
                add_to(known, leaf.place, grad)
        for replicas, known in arrived.items():
            own = own_leaves(replicas)
            if not self.common:  # neither is what has not come through a call of the model
                for at, leaf in own.items():
                    apart = found.pop(leaf, None)
                    if apart is not None and self.early is None:
                        add_to(known, (at, 0), apart)
            if self.early is None:
                totals = summed(replicas, known, list(own))
            else:
                totals = self.early.finished(dict(zip(leaves, map(plain, grads), strict=True)))
            for at, (total, used) in totals.items():
                if used is None:
                    add_to(found, own[at], total)
                else:  # by a rank or by none, in which case it goes on to have no gradient
                    cond(known_alike(used), partial(add_gradient, own[at], total), _nothing)
        return list(found), list(found.values())


def _nothing() -> None:
    """What becomes of a parameter that no rank has used."""


def own_leaves(replicas: Replicas) -> dict[int, Leaf]:
    """Those of the parameters that gradients are asked for, by their numbers."""
    leaves = {at: getattr(p, "leaf", None) for at, p in enumerate(replicas.parameters)}
    return {at: leaf for at, leaf in leaves.items() if leaf is not None}


def is_common(root: AnyRecord, nodes: Sequence[Any], channel: Channel) -> bool:
    """Whether the loss ``root`` is one of all ranks, which ``mean`` has made, over ``channel``."""
    totals = {node: comm for node in nodes if (comm := _comm_of_total(node)) is not None}
    if not totals:
        return False
    seen: set[Any] = set()
    stack = [node_of(root)[0]]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in totals:
            _require_ranks(channel, *totals[node])
            continue
        if type(node) is ShardLeaf:
            raise ArgumentError(
                "a loss is made of hybrid.distributed.mean and of what is this rank's own",
                at=author_location(),
                why="The first is one loss of all ranks, the second one of several that are "
                "weighted by rows; together they would count by different measures.",
                fix="give mean all that comes from the model: mean(values) + 0.1 * mean(others)",
            )
        stack.extend(node_of(p)[0] for p in node.parents if p is not None)
    return True


def _require_ranks(channel: Channel, comm: str, ranks: int) -> None:
    """Raise unless the mean over ``comm`` has gone over the ranks of ``channel``."""
    members = tuple(reach(comm, ranks).members)
    if members != tuple(channel.members):
        raise ArgumentError(
            "a loss of a data-parallel model is a hybrid.distributed.mean over other ranks",
            at=author_location(),
            why=f"The mean goes over {_named(members)} ({comm}), and the gradients of the model "
            f"are summed over {_named(channel.members)} ({channel.name}): they would be too small "
            "or too large.",
            fix="leave axis and mesh out of mean, or give it those of data_parallel",
        )


def _named(members: Sequence[int]) -> str:
    return f"rank{'s' if len(members) > 1 else ''} {', '.join(map(str, members))}"


def _comm_of_total(node: Any) -> tuple[str, int] | None:
    """The channel, by name and ranks, of the ``mean`` that ``node`` makes or contains."""
    if type(node) is not Record:
        return None
    if node.op is parts_total:
        return node.attrs["comm"], node.attrs["ranks"]
    graphs = [g for g in node.attrs.get("regions", ()) if isinstance(g, Graph)]
    planned = getattr(node.op, "planned", None)  # a call of a hybridized function
    if planned is not None:
        graphs.append(planned.capture.graph)
    for graph in graphs:
        for inner in graph.walk():
            if inner.op is parts_total:
                attrs = dict(inner.attrs)
                return attrs["comm"], attrs["ranks"]
    return None


# Buckets ----------------------------------------------------------------------------------------


def buckets_of(parameters: Sequence[Tensor], bucket_bytes: int) -> tuple[Bucket, ...]:
    """The parameters in groups that are summed up together: the last ones come first.

    So, more or less, gradients are made.  Those of a bucket are of one dtype and have up to
    ``bucket_bytes``, or it is one alone.  The smallest that has several, or of all, is moved to the
    end: with it goes which parameters are used, and what goes with one alone would cost a copy.
    """
    buckets: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    for at in reversed(range(len(parameters))):
        dtype = working_dtype(parameters[at].dtype)
        nbytes = parameters[at].size * dtype.itemsize
        bucket, size = open_.get(dtype, ([], 0))
        if not bucket or size + nbytes > bucket_bytes:
            bucket, size = [], 0
            buckets.append(bucket)
        bucket.append(at)
        open_[dtype] = bucket, size + nbytes

    def cost(bucket: Sequence[int]) -> tuple[bool, int]:
        return len(bucket) == 1, sum([parameters[at].nbytes for at in bucket])

    if buckets:
        buckets.append(buckets.pop(buckets.index(min(buckets[::-1], key=cost))))
    return tuple(map(tuple, buckets))


def summed(replicas: Replicas, arrived: Arrived, varying: Sequence[int]) -> Sums:
    """The gradient of each of the parameters ``varying`` by the rows of all ranks."""
    found: Sums = {}
    channel, here = replicas.sharing.channel, users_of(arrived)
    arrived = {place: plain(grad) for place, grad in arrived.items()}
    if channel.ranks == 1:  # what has not arrived here has arrived nowhere
        varying = [at for at in varying if at in here]
    if replicas.compress is not None:
        found = _compressed(replicas, replicas.compress, arrived, here, varying)
        varying = [at for at in varying if at not in found]
    kept = [[at for at in bucket if at in varying] for bucket in replicas.buckets]
    buckets = [members for members in kept if members]
    every = list(chain(*buckets))
    flags = tuple([here.get(at, False) for at in every])
    made: list[Tensor] = []
    for members in buckets:
        told = flags if members is buckets[-1] and channel.ranks > 1 else ()
        made += _of_bucket(replicas, members, arrived, channel.name, told)
    return found | with_uses(every, made, here)


def users_of(arrived: Arrived) -> Users:
    """The parameters that this rank has used: True, or where only its values decide, the flag."""
    terms: dict[int, list[Ct]] = {}
    for (at, _), grad in arrived.items():
        terms.setdefault(at, []).append(grad)
    flags = {at: presence_of(grads) for at, grads in terms.items()}
    return {at: True if flag is None else flag for at, flag in flags.items()}


def with_uses(members: Sequence[int], made: Sequence[Tensor], here: Users) -> Sums:
    """The sums of the parameters ``members``, those ``here`` being used by this rank.

    Of others the flag says whether a rank has used it: the last that is ``made``, after the sums,
    has how many have.  Without it there is but this rank.
    """
    flags: list[Tensor | None] = []
    for number, at in enumerate(members):
        used = here.get(at, False)
        if used is True:
            flags.append(None)
        elif len(made) > len(members):
            flags.append(made[-1][number] > 0)
        else:
            flags.append(used)
    return dict(zip(members, zip(made[: len(members)], flags, strict=True), strict=True))


def _compressed(
    replicas: Replicas,
    compress: PowerSGD,
    arrived: Mapping[Place, Tensor],
    here: Users,
    varying: Sequence[int],
) -> Sums:
    """Those of the parameters that ``compress`` takes."""
    given = {}
    for at in varying:
        if at in compress.thin:
            kind, row = replicas.kinds[at], arrived.get((at, 0))
            dtype = working_dtype(kind.dtype)
            given[at] = ops.zeros(kind.shape, dtype=dtype) if row is None else in_dtype(row, dtype)
    told = [here.get(at, False) for at in given]
    made, uses = compress.summed(given, _uses(told, float32))
    totals = [in_dtype(total, replicas.kinds[at].dtype) for at, total in made.items()]
    return with_uses(list(made), [*totals, uses], here)


def _uses(told: Sequence[bool | Tensor], dtype: DType) -> Tensor:
    """1 for each parameter that this rank has used, else 0."""
    known = [flag for flag in told if isinstance(flag, bool)]
    if len(known) == len(told):
        flags = np.array(known, dtype.numpy)
        return literal(shape=flags.shape, dtype=dtype, data=flags.tobytes())
    return ops.stack(
        [
            ops.full((), flag, dtype=dtype) if isinstance(flag, bool) else ops.astype(flag, dtype)
            for flag in told
        ]
    )


def _of_bucket(
    replicas: Replicas,
    members: Sequence[int],
    arrived: Mapping[Place, Tensor],
    comm: str,
    told: Sequence[bool | Tensor] = (),
) -> list[Tensor]:
    """The sums of the parameters ``members``, through the channel ``comm``.

    Where ``told`` says which parameters this rank has used, of all buckets, that goes with this
    one, and the last result is how many ranks have used each.
    """
    sharing = replicas.sharing
    channel, shards = sharing.channel, sharing.shards
    first, end = sharing.ranges
    kinds = [replicas.kinds[at] for at in members]
    dtype = working_dtype(kinds[0].dtype)
    parts: list[list[Tensor]] = []  # of each parameter
    for at, kind in zip(members, kinds, strict=True):
        rows = [arrived.get((at, shard)) for shard in range(end - first)]
        full = [
            ops.zeros(kind.shape, dtype=dtype) if row is None else in_dtype(row, dtype)
            for row in rows
        ]
        parts.append(stacked_parts(full, shards, channel.ranks, channel.rank))
    if channel.ranks == 1:
        return [in_dtype(part[0], kind.dtype) for part, kind in zip(parts, kinds, strict=True)]
    uses = [_uses(told, dtype)] if told else []
    if replicas.slices is not None and replicas.slices.zero >= 2:
        return _sliced(replicas, kinds, parts, uses, comm)
    most = most_parts(shards, channel.ranks)
    (width,) = line_type(kinds, most, dtype, len(told)).shape[1:]
    lines = []
    for number in range(most):
        if number < len(parts[0]):
            ends = [ops.zeros_like(x) if number else x for x in uses]
            lines.append(in_line([*[part[number] for part in parts], *ends]))
        else:
            lines.append(ops.zeros((width,), dtype=dtype))
    given = ops.reshape(lines[0], (1, -1)) if len(lines) == 1 else ops.stack(lines)
    total = parts_total(given, shards=shards, comm=comm, ranks=channel.ranks)
    pieces = out_of_line(total, [x.shape for x in (*kinds, *uses)])
    sums = zip(pieces, kinds, strict=False)  # the uses, behind them, stay as they are
    return [in_dtype(piece, kind.dtype) for piece, kind in sums] + pieces[len(kinds) :]


def in_line(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of ``tensors``, one behind the other: a tensor that is moved at once.

    In a plan they are computed there: nothing is copied, here or in ``out_of_line``.
    """
    pieces = [ops.reshape(x, (-1,)) for x in tensors]
    return pieces[0] if len(pieces) == 1 else ops.concat(pieces, axis=0)


def out_of_line(line: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """What ``in_line`` has put one behind the other, by the ``shapes`` that it had."""
    found, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        found.append(ops.reshape(line[start : start + size], shape))
        start += size
    return found


def _sliced(
    replicas: Replicas,
    kinds: Sequence[TensorType],
    parts: Sequence[Sequence[Tensor]],
    uses: Sequence[Tensor],
    comm: str,
) -> list[Tensor]:
    """The slices that this rank has of the sums: the others get theirs, and it adds those.

    All of ``uses`` goes to each of them.
    """
    sharing, slices = replicas.sharing, replicas.slices
    channel, shards = sharing.channel, sharing.shards
    ranks, most = channel.ranks, most_parts(sharing.shards, channel.ranks)
    width = sum(slices.share(kind) for kind in kinds) + sum(x.size for x in uses)
    told = [ops.broadcast_to(ops.reshape(x, (1, -1)), (ranks, x.size)) for x in uses]
    lines = []
    for number in range(most):
        if number < len(parts[0]):
            rows = [slices.rows(part[number]) for part in parts]
            rows += [ops.zeros_like(x) if number else x for x in told]
            lines.append(rows[0] if len(rows) == 1 else ops.concat(rows, axis=1))
        else:
            lines.append(ops.zeros((ranks, width), dtype=working_dtype(kinds[0].dtype)))
    given = ops.reshape(lines[0], (ranks, 1, width)) if most == 1 else ops.stack(lines, axis=1)
    found = all_to_all(given, comm=comm, ranks=ranks)
    total = sum_of_parts(lambda r, p: found[r, p], shards, ranks, lambda a, b: a + b)
    pieces, start = [], 0
    for kind in kinds:
        share = slices.share(kind)
        pieces.append(in_dtype(total[start : start + share], kind.dtype))
        start += share
    return pieces + [total[start:]] * len(uses)
