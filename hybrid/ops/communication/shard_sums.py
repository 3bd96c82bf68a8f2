"""Sums over the shards of a batch, which ranks have some of each: the same bits on any number.

``shards`` is how many there are in all, of which each rank has a contiguous range.  They are added
by the tree of ``shard_tree.py``: a rank adds what it can by itself; its parts, as many as the rank
with most has (zeros fill up), go to the others, and each adds the rest in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.size_functions import SizeValue
from hybrid.core.types import TensorType, tensor_type
from hybrid.errors import GraphError
from hybrid.ir import Emit, View, op
from hybrid.memory.channels import SMALL_SUM, WORLD, Channel, reach
from hybrid.ops.communication.collectives import first_axis, require_channel, require_sums
from hybrid.ops.communication.shard_tree import (
    cut_evenly,
    local_parts,
    most_parts,
    sum_of_parts,
)
from hybrid.ops.shapes.shape import broadcast, expand_dims
from hybrid.ops.support.derivatives import linear


def _require_shards(name: str, x: TensorType, shards: Any, comm: str, ranks: int) -> None:
    require_channel(comm, ranks)
    require_sums(name, x)
    first_axis(name, x)
    if type(shards) is not int or shards < 1:
        raise GraphError(f"{name} over {shards!r} shards")


@op(pure=False, raises=Exception)
def parts_total(x: TensorType, *, shards: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The sum of all shards, on each rank, of the parts ``x`` [parts, ...] that each has added.

    All ranks make one loss of it: its gradient is that of the sum, once, for each part.
    """
    _require_shards("parts_total", x, shards, comm, ranks)
    if x.shape[0] != most_parts(shards, ranks):
        raise GraphError(f"parts_total of {x} for {shards} shards on {ranks} ranks")
    return tensor_type(x.dtype, x.shape[1:])


@parts_total.reference
def parts_total_reference(x: Any, *, shards: int, comm: str, ranks: int) -> Any:
    return total_of_parts(reach(comm, ranks), x, shards)


@parts_total.lowering
def parts_total_lowering(
    emit: Emit, x: View, result: View, *, shards: int, comm: str, ranks: int
) -> None:
    _emit_total(emit, x, result, shards, comm, ranks)


@parts_total.vjp
def parts_total_vjp(ct: Any, _y: Any, _x: Any, **_attrs: Any) -> tuple[Any, ...]:
    return (broadcast(expand_dims(ct, 0), shape=_x.shape),)


@op(pure=False, raises=Exception)
def shard_sums(x: TensorType, *, shards: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The sum of the rows ``x`` [shards of this rank, ...] of all shards, once for each row.

    Its gradient is the same sum of the cotangents.  All ranks give as many rows; those behind the
    shards of a rank do not count.
    """
    _require_shards("shard_sums", x, shards, comm, ranks)
    if x.shape[0] != -(-shards // ranks):
        raise GraphError(f"shard_sums of {x} for {shards} shards on {ranks} ranks")
    return x


@shard_sums.reference
def shard_sums_reference(x: Any, *, shards: int, comm: str, ranks: int) -> Any:
    channel = reach(comm, ranks)
    parts = np.zeros((most_parts(shards, ranks), *x.shape[1:]), x.dtype)
    found = local_parts(list(x), shards, ranks, channel.rank, np.add)
    if found:
        parts[: len(found)] = np.stack(found)
    return np.broadcast_to(total_of_parts(channel, parts, shards), x.shape).copy()


@shard_sums.lowering
def shard_sums_lowering(
    emit: Emit, x: View, result: View, *, shards: int, comm: str, ranks: int
) -> None:
    rank = reach(comm, ranks).rank
    most, shape = most_parts(shards, ranks), x.shape[1:]
    parts = emit.temporary(x.dtype, (most, *shape))

    def add(a: View, b: View) -> View:
        out = emit.temporary(a.dtype, a.shape)
        emit.kernel("add", [a, b], [out])
        return out

    rows = [x.slice(0, i, 1).reshape(shape) for i in range(x.shape[0])]
    found = local_parts(rows, shards, ranks, rank, add)
    zero = emit.constant(x.dtype, 0).broadcast(shape)
    for at in range(most):
        part = found[at] if at < len(found) else zero
        emit.kernel("copy", [part], [parts.slice(0, at, 1).reshape(shape)])
    total = emit.temporary(x.dtype, shape)
    _emit_total(emit, parts, total, shards, comm, ranks)
    emit.kernel("copy", [total.reshape((1, *shape)).broadcast(x.shape)], [result])


@linear(shard_sums)
def shard_sums_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (shard_sums(ct, **attrs),)


# How it is done ---------------------------------------------------------------------------------


def total_of_parts(channel: Channel, parts: np.ndarray, shards: int) -> np.ndarray:
    """The sum of all shards, of the ``parts`` [parts, ...] of each rank; plans do the same."""
    ranks, most, shape = channel.ranks, parts.shape[0], parts.shape[1:]
    flat = np.ascontiguousarray(parts).reshape(most, -1)
    n = flat.shape[1]
    if ranks == 1:
        return flat[0].reshape(shape).copy()
    if flat.nbytes <= SMALL_SUM:
        found = channel.all_gather(flat).reshape(ranks, most, n)
        return sum_of_parts(lambda r, p: found[r, p], shards, ranks, np.add).reshape(shape)
    share = -(-n // ranks)
    longer = np.zeros((most, share * ranks), parts.dtype)
    longer[:, :n] = flat
    given = longer.reshape(most, ranks, share).transpose(1, 0, 2)
    found = channel.all_to_all(np.ascontiguousarray(given)).reshape(ranks, most, share)
    mine = sum_of_parts(lambda r, p: found[r, p], shards, ranks, np.add)
    whole = channel.all_gather(np.ascontiguousarray(mine))
    return whole[:n].reshape(shape)


def _emit_total(emit: Emit, x: View, result: View, shards: int, comm: str, ranks: int) -> None:
    n, most = math.prod(result.shape), x.shape[0]
    if ranks == 1:
        emit.kernel("copy", [x.slice(0, 0, 1).reshape(result.shape)], [result])
        return
    if isinstance(n, SizeValue):
        raise GraphError("a sum over shards of a size that only a run knows")
    channel = {"comm": comm, "ranks": ranks}
    flat, total = emit.dense(x).reshape((most, n)), result.reshape((n,))
    if most * n * x.dtype.itemsize <= SMALL_SUM:
        found = emit.temporary(x.dtype, (ranks, most, n))
        emit.transfer("all_gather", [flat], [found], **channel)
        _emit_added(emit, found, total, shards)
        return
    share = -(-n // ranks)
    rest = share * ranks - n
    if rest or most > 1:
        given = emit.temporary(x.dtype, (ranks, most, share))
        for r, p in ((r, p) for r in range(ranks) for p in range(most)):
            place = given.slice(0, r, 1).slice(1, p, 1).reshape((share,))
            here = max(min(n - r * share, share), 0)
            if here:
                part = flat.slice(0, p, 1).reshape((n,)).slice(0, r * share, here)
                emit.kernel("copy", [part], [place.slice(0, 0, here)])
            if here < share:
                zeros = emit.constant(x.dtype, 0).broadcast((share - here,))
                emit.kernel("copy", [zeros], [place.slice(0, here, share - here)])
    else:
        given = flat
    found = emit.temporary(x.dtype, (ranks, most, share))
    emit.transfer("all_to_all", [given], [found], **channel)
    mine = emit.temporary(x.dtype, (share,))
    _emit_added(emit, found, mine, shards)
    whole = emit.temporary(x.dtype, (n + rest,)) if rest else total
    emit.transfer("all_gather", [mine], [whole], **channel)
    if rest:
        emit.kernel("copy", [whole.slice(0, 0, n)], [total])


def _emit_added(emit: Emit, found: View, result: View, shards: int) -> None:
    """Add the parts ``found`` [ranks, parts, n] of all ranks."""
    ranks, _, n = found.shape
    left = shards_above(shards, ranks)

    def part(rank: int, at: int) -> View:
        return found.slice(0, rank, 1).slice(1, at, 1).reshape((n,))

    def add(a: View, b: View) -> View:
        nonlocal left
        left -= 1
        out = emit.temporary(a.dtype, a.shape) if left else result
        emit.kernel("add", [a, b], [out])
        return out

    total = sum_of_parts(part, shards, ranks, add)
    if total is not result:  # one rank has all shards
        emit.kernel("copy", [total], [result])


def shards_above(shards: int, ranks: int) -> int:
    """How many additions are left once each rank has added its parts."""
    count = 0

    def add(_a: Any, _b: Any) -> Any:
        nonlocal count
        count += 1
        return count

    sum_of_parts(lambda _rank, _at: 0, shards, ranks, add)
    return count


def shards_of(channel: Channel, shards: int) -> tuple[int, int]:
    """The first of the shards of this rank, and the one behind the last."""
    return cut_evenly(shards, channel.ranks, channel.rank)


def stacked_parts(rows: Sequence[Any], shards: int, ranks: int, rank: int) -> list[Any]:
    """The parts of this rank, tensors that are added here, one for each of its shards."""
    return local_parts(rows, shards, ranks, rank, lambda a, b: a + b)
