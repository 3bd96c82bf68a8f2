"""Collectives: ops that all ranks of a channel call, in one order, with operands of one type.

``comm`` names the channel and ``ranks`` says how many processes it has, which shapes depend on.
Operands are cut and put together along their first axis.  What is differentiated is the sum of the
losses of all ranks: so the gradient of a sum over ranks is a sum over ranks, that of a gathering is
a sum that is scattered.

They do something to the world, so passes leave them in their order, and each is done once.

Plans move bytes alone between processes.  Sums are made by the kernel ``add``, by a binary tree
over the ranks; of large operands each rank adds one part, and the parts are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import STORED, TensorType, tensor_type
from hybrid.errors import DTypeError, GraphError, ShapeError
from hybrid.ir import Emit, View, op
from hybrid.memory.channels import SMALL_SUM, WORLD, reach, tree_sum, whole_sum
from hybrid.ops.shapes.shape import moveaxis
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import leading
from hybrid.ops.support.derivatives import linear


def require_channel(comm: Any, ranks: Any, root: Any = 0) -> None:
    """Raise GraphError unless a channel can be called so, and have so many ranks."""
    numbers = all(type(number) is int for number in (ranks, root))
    if not isinstance(comm, str) or not numbers or not 0 <= root < ranks:
        raise GraphError(f"rank {root!r} of {ranks!r} in a channel {comm!r}")


def require_sums(name: str, x: TensorType) -> None:
    """Raise unless numbers of the dtype of ``x`` are added as they are."""
    if x.dtype.kind == "bool":
        raise DTypeError(
            f"{name} adds {x}",
            why="The sum of truth values has another dtype.",
            fix='convert it with astype(hybrid.int64), or ask for "max" (any) or "min" (all)',
        )
    if x.dtype in STORED:
        raise DTypeError(f"{name} adds {x}", fix="convert it with astype(hybrid.float32)")


def first_axis(name: str, x: TensorType) -> Any:
    """The size of the first axis of ``x``; raises where it has none."""
    if not x.shape:
        raise ShapeError(
            f"{name} of a scalar",
            why="It goes along the first axis of what it is given.",
            fix="give it one: x.reshape(1)",
        )
    return x.shape[0]


def share_of(name: str, x: TensorType, ranks: int) -> Any:
    """The size of one of ``ranks`` equal parts of the first axis."""
    n = first_axis(name, x)
    if n % ranks != 0:
        raise ShapeError(
            f"{name} of {x} by {ranks} ranks",
            why="Each rank is to have an equal part of the first axis.",
            fix=f"pad it to a multiple of {ranks}",
        )
    return n // ranks


# Sums over the ranks ----------------------------------------------------------------------------


@op(pure=False, raises=Exception)
def all_reduce(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The sum of what all ranks give, on each of them."""
    require_channel(comm, ranks)
    require_sums("all_reduce", x)
    return x


@all_reduce.reference
def all_reduce_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return whole_sum(reach(comm, ranks), x)


@all_reduce.lowering
def all_reduce_lowering(emit: Emit, x: View, result: View, *, comm: str, ranks: int) -> None:
    _emit_sum(emit, x, result, comm, ranks)


@linear(all_reduce)
def all_reduce_vjp(ct: Any, _y: Any, _x: Any, *, comm: str, ranks: int) -> tuple[Any, ...]:
    return (all_reduce(ct, comm=comm, ranks=ranks),)


@all_reduce.batch
def all_reduce_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return all_reduce(x, **attrs)


@op(pure=False, raises=Exception)
def reduce_to(x: TensorType, *, root: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The sum of what all ranks give on ``root``, zeros on the others."""
    require_channel(comm, ranks, root)
    require_sums("reduce_to", x)
    return x


@reduce_to.reference
def reduce_to_reference(x: Any, *, root: int, comm: str, ranks: int) -> Any:
    channel = reach(comm, ranks)
    total = whole_sum(channel, x)
    return total if channel.rank == root else np.zeros_like(total)


@reduce_to.lowering
def reduce_to_lowering(
    emit: Emit, x: View, result: View, *, root: int, comm: str, ranks: int
) -> None:
    here = ranks == 1 or reach(comm, ranks).rank == root
    _emit_sum(emit, x, result if here else emit.temporary(x.dtype, x.shape), comm, ranks)
    if not here:
        emit.kernel("copy", [emit.constant(x.dtype, 0).broadcast(x.shape)], [result])


@linear(reduce_to)
def reduce_to_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (broadcast(ct, **attrs),)


@reduce_to.batch
def reduce_to_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return reduce_to(x, **attrs)


@op(pure=False, raises=Exception)
def reduce_scatter(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The part of the sum of what all ranks give that has this rank's number."""
    require_channel(comm, ranks)
    share = share_of("reduce_scatter", x, ranks)
    require_sums("reduce_scatter", x)
    return tensor_type(x.dtype, (share, *x.shape[1:]))


@reduce_scatter.reference
def reduce_scatter_reference(x: Any, *, comm: str, ranks: int) -> Any:
    parts = reach(comm, ranks).all_to_all(x)
    return tree_sum(list(parts.reshape(ranks, x.shape[0] // ranks, *x.shape[1:])))


@reduce_scatter.lowering
def reduce_scatter_lowering(emit: Emit, x: View, result: View, *, comm: str, ranks: int) -> None:
    if ranks == 1:
        emit.kernel("copy", [x], [result])
        return
    parts = emit.temporary(x.dtype, (ranks, *result.shape))
    emit.transfer("all_to_all", [emit.dense(x)], [parts], comm=comm, ranks=ranks)
    _emit_tree(emit, _rows(parts), result)


@linear(reduce_scatter)
def reduce_scatter_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (all_gather(ct, **attrs),)


@reduce_scatter.batch
def reduce_scatter_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return moveaxis(reduce_scatter(moveaxis(x, 0, 1), **attrs), 1, 0)


# What is moved ----------------------------------------------------------------------------------


@op(pure=False, raises=Exception)
def all_gather(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """What all ranks give, one behind the other along the first axis."""
    require_channel(comm, ranks)
    return tensor_type(x.dtype, (first_axis("all_gather", x) * ranks, *x.shape[1:]))


@all_gather.reference
def all_gather_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).all_gather(x)


def _lower_to(kind: str) -> Callable[..., None]:
    """The lowering of an op that moves its operand: one transfer."""

    def lower(emit: Emit, x: View, result: View, *, comm: str, ranks: int, root: int = 0) -> None:
        if ranks == 1:
            emit.kernel("copy", [x], [result])
        else:
            emit.transfer(kind, [emit.dense(x)], [result], comm=comm, ranks=ranks, root=root)

    return lower


all_gather.lowering(_lower_to("all_gather"))


@linear(all_gather)
def all_gather_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (reduce_scatter(ct, **attrs),)


@all_gather.batch
def all_gather_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return moveaxis(all_gather(moveaxis(x, 0, 1), **attrs), 1, 0)


@op(pure=False, raises=Exception, differentiable=False)
def gather_parameters(
    x: TensorType, *after: TensorType, comm: str = WORLD, ranks: int = 1
) -> TensorType:
    """``all_gather`` of what does not change meanwhile: plans do it again rather than keep it.

    It begins when ``after`` are there, at which it does not look.
    """
    require_channel(comm, ranks)
    return tensor_type(x.dtype, (first_axis("gather_parameters", x) * ranks, *x.shape[1:]))


@gather_parameters.reference
def gather_parameters_reference(x: Any, *_after: Any, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).all_gather(x)


@gather_parameters.lowering
def gather_parameters_lowering(emit: Emit, x: View, *views: View, comm: str, ranks: int) -> None:
    *after, result = views
    if ranks == 1:
        emit.kernel("copy", [x], [result])
    else:
        given = [emit.dense(x)]
        emit.transfer("all_gather", given, [result], comm=comm, ranks=ranks, after=after)


@op(pure=False, raises=Exception)
def all_to_all(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """Part i of the first axis goes to rank i, which has them in the order of the ranks."""
    require_channel(comm, ranks)
    share_of("all_to_all", x, ranks)
    return x


@all_to_all.reference
def all_to_all_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).all_to_all(x)


all_to_all.lowering(_lower_to("all_to_all"))


@linear(all_to_all)
def all_to_all_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (all_to_all(ct, **attrs),)


@all_to_all.batch
def all_to_all_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return moveaxis(all_to_all(moveaxis(x, 0, 1), **attrs), 1, 0)


@op(pure=False, raises=Exception)
def broadcast(x: TensorType, *, root: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """What ``root`` gives, on all ranks."""
    require_channel(comm, ranks, root)
    return x


@broadcast.reference
def broadcast_reference(x: Any, *, root: int, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).broadcast(x, root)


broadcast.lowering(_lower_to("broadcast"))


@linear(broadcast)
def broadcast_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (reduce_to(ct, **attrs),)


@broadcast.batch
def broadcast_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return broadcast(x, **attrs)


@op(pure=False, raises=Exception, differentiable=False)
def barrier(*, comm: str = WORLD, ranks: int = 1) -> tuple[TensorType, ...]:
    """Wait until all ranks have come here."""
    require_channel(comm, ranks)
    return ()


@barrier.reference
def barrier_reference(*, comm: str, ranks: int) -> tuple[()]:
    reach(comm, ranks).barrier()
    return ()


@barrier.lowering
def barrier_lowering(emit: Emit, *, comm: str, ranks: int) -> None:
    if ranks > 1:
        emit.transfer("barrier", [], [], comm=comm, ranks=ranks)


@op
def known_alike(x: TensorType) -> TensorType:
    """``x``, which is the same on all ranks of the job, as whoever says so knows."""
    return x


@known_alike.reference
def known_alike_reference(x: Any) -> Any:
    return x


@known_alike.view
def known_alike_view(x: View) -> View:
    return x


@linear(known_alike)
def known_alike_vjp(ct: Any, _y: Any, _x: Any) -> tuple[Any, ...]:
    return (ct,)


known_alike.batch(leading(known_alike))
known_alike.couples(axis_ties.everywhere)


@known_alike.samples
def known_alike_samples(draw: Any) -> Any:
    for dtype in draw.all:
        for shape in [(), (0,), (3, 5)]:
            yield (draw(dtype, *shape),), {}


# Along other axes of a mesh ----------------------------------------------------------------------

# Ranks that have parts of what these are given have parts of what they give: not of the first axis,
# where that is put together or cut.
for _op in (all_reduce, reduce_to, broadcast):
    _op.shares(shared_work.tied(axis_ties.everywhere, linear=[(0,)]))
_but_first = axis_ties.all_but(lambda rank, **_: (0,))
for _op in (all_gather, reduce_scatter, all_to_all):
    _op.shares(shared_work.tied(_but_first, linear=[(0,)]))

SHARED = (all_reduce, all_gather, broadcast)  # whose results are the same on all ranks


# How sums are made in a plan ---------------------------------------------------------------------


def _emit_sum(emit: Emit, x: View, result: View, comm: str, ranks: int) -> None:
    """The sum of all ranks; ``whole_sum`` of hybrid/memory/channels.py does the same."""
    if ranks == 1:
        emit.kernel("copy", [x], [result])
        return
    n, channel = math.prod(x.shape), {"comm": comm, "ranks": ranks}
    if isinstance(n, SizeValue):  # which way it goes is known when it runs
        emit.transfer("all_reduce", [emit.dense(x)], [result], **channel)
        return
    flat, total = emit.dense(x).reshape((n,)), result.reshape((n,))
    if n * x.dtype.itemsize <= SMALL_SUM:
        parts = emit.temporary(x.dtype, (ranks, n))
        emit.transfer("all_gather", [flat], [parts], **channel)
        _emit_tree(emit, _rows(parts), total)
        return
    share = -(-n // ranks)
    rest = share * ranks - n
    if rest:
        longer = emit.temporary(x.dtype, (n + rest,))
        emit.kernel("copy", [flat], [longer.slice(0, 0, n)])
        zeros = emit.constant(x.dtype, 0).broadcast((rest,))
        emit.kernel("copy", [zeros], [longer.slice(0, n, rest)])
        flat = longer
    parts = emit.temporary(x.dtype, (ranks, share))
    emit.transfer("all_to_all", [flat], [parts], **channel)
    mine = emit.temporary(x.dtype, (share,))
    _emit_tree(emit, _rows(parts), mine)
    whole = emit.temporary(x.dtype, (n + rest,)) if rest else total
    emit.transfer("all_gather", [mine], [whole], **channel)
    if rest:
        emit.kernel("copy", [whole.slice(0, 0, n)], [total])


def _rows(parts: View) -> list[View]:
    shape = parts.shape[1:]
    return [parts.slice(0, r, 1).reshape(shape) for r in range(parts.shape[0])]


def _emit_tree(emit: Emit, parts: Sequence[View], result: View) -> None:
    """Add ``parts`` as ``tree_sum`` does."""
    level = list(parts)
    while len(level) > 1:
        pairs = []
        for a, b in zip(level[::2], level[1::2], strict=False):
            out = result if len(level) == 2 else emit.temporary(a.dtype, a.shape)
            emit.kernel("add", [a, b], [out])
            pairs.append(out)
        level = [*pairs, *level[2 * len(pairs) :]]
