"""Collectives: ops that all ranks of a channel call, in one order, with operands of one type.

``comm`` names the channel and ``ranks`` says how many processes it has, which shapes depend on.
Operands are cut and put together along their first axis.  What is differentiated is the sum of the
losses of all ranks: so the gradient of a sum over ranks is a sum over ranks, that of a gathering is
a sum that is scattered.

They do something to the world, so passes leave them in their order, and each is done once.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.types import STORED, TensorType, tensor_type
from hybrid.errors import DTypeError, ShapeError
from hybrid.ir import op
from hybrid.memory.channels import WORLD, reach
from hybrid.ops.shapes.shape import moveaxis
from hybrid.ops.support.derivatives import linear


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


@op(pure=False, raises=Exception, hosted=True)
def all_reduce(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The sum of what all ranks give, on each of them."""
    require_sums("all_reduce", x)
    return x


@all_reduce.reference
def all_reduce_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).all_reduce(x)


@linear(all_reduce)
def all_reduce_vjp(ct: Any, _y: Any, _x: Any, *, comm: str, ranks: int) -> tuple[Any, ...]:
    return (all_reduce(ct, comm=comm, ranks=ranks),)


@all_reduce.batch
def all_reduce_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return all_reduce(x, **attrs)


@op(pure=False, raises=Exception, hosted=True)
def reduce_to(x: TensorType, *, root: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The sum of what all ranks give on ``root``, zeros on the others."""
    require_sums("reduce_to", x)
    return x


@reduce_to.reference
def reduce_to_reference(x: Any, *, root: int, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).reduce_to(x, root)


@linear(reduce_to)
def reduce_to_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (broadcast(ct, **attrs),)


@reduce_to.batch
def reduce_to_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return reduce_to(x, **attrs)


@op(pure=False, raises=Exception, hosted=True)
def reduce_scatter(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """The part of the sum of what all ranks give that has this rank's number."""
    share = share_of("reduce_scatter", x, ranks)
    require_sums("reduce_scatter", x)
    return tensor_type(x.dtype, (share, *x.shape[1:]))


@reduce_scatter.reference
def reduce_scatter_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).reduce_scatter(x)


@linear(reduce_scatter)
def reduce_scatter_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (all_gather(ct, **attrs),)


@reduce_scatter.batch
def reduce_scatter_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return moveaxis(reduce_scatter(moveaxis(x, 0, 1), **attrs), 1, 0)


# What is moved ----------------------------------------------------------------------------------


@op(pure=False, raises=Exception, hosted=True)
def all_gather(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """What all ranks give, one behind the other along the first axis."""
    return tensor_type(x.dtype, (first_axis("all_gather", x) * ranks, *x.shape[1:]))


@all_gather.reference
def all_gather_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).all_gather(x)


@linear(all_gather)
def all_gather_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (reduce_scatter(ct, **attrs),)


@all_gather.batch
def all_gather_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return moveaxis(all_gather(moveaxis(x, 0, 1), **attrs), 1, 0)


@op(pure=False, raises=Exception, hosted=True)
def all_to_all(x: TensorType, *, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """Part i of the first axis goes to rank i, which has them in the order of the ranks."""
    share_of("all_to_all", x, ranks)
    return x


@all_to_all.reference
def all_to_all_reference(x: Any, *, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).all_to_all(x)


@linear(all_to_all)
def all_to_all_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (all_to_all(ct, **attrs),)


@all_to_all.batch
def all_to_all_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return moveaxis(all_to_all(moveaxis(x, 0, 1), **attrs), 1, 0)


@op(pure=False, raises=Exception, hosted=True)
def broadcast(x: TensorType, *, root: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """What ``root`` gives, on all ranks."""
    return x


@broadcast.reference
def broadcast_reference(x: Any, *, root: int, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).broadcast(x, root)


@linear(broadcast)
def broadcast_vjp(ct: Any, _y: Any, _x: Any, **attrs: Any) -> tuple[Any, ...]:
    return (reduce_to(ct, **attrs),)


@broadcast.batch
def broadcast_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return broadcast(x, **attrs)


@op(pure=False, raises=Exception, hosted=True, differentiable=False)
def barrier(*, comm: str = WORLD, ranks: int = 1) -> tuple[TensorType, ...]:
    """Wait until all ranks have come here."""
    return ()


@barrier.reference
def barrier_reference(*, comm: str, ranks: int) -> tuple[()]:
    reach(comm, ranks).barrier()
    return ()


SHARED = (all_reduce, all_gather, broadcast)  # whose results are the same on all ranks
