"""What users call to communicate: arguments checked, ops of the channel that they name applied."""

from __future__ import annotations

from typing import Any

from hybrid import ops
from hybrid.core.types import STORED, float32
from hybrid.distributed.meshes import Mesh, channel_for
from hybrid.errors import ArgumentError, ArgumentTypeError, DTypeError
from hybrid.ir.interpreter import current
from hybrid.memory.channels import Channel
from hybrid.ops.communication import collectives, point_to_point

_WAYS = ("sum", "mean", "max", "min", "prod")


def _tensor(x: Any) -> Any:
    return current().lift(x)


def _named(channel: Channel) -> dict[str, Any]:
    return {"comm": channel.name, "ranks": channel.ranks}


def _summed(apply: Any, x: Any, channel: Channel) -> Any:
    """``apply``, which adds, of ``x``; narrow floats are added in float32."""
    if x.dtype not in STORED:
        return apply(x, **_named(channel))
    return ops.astype(apply(ops.astype(x, float32), **_named(channel)), x.dtype)


def all_reduce(
    x: Any, op: str = "sum", axis: str | None = None, *, mesh: Mesh | None = None
) -> Any:
    """What the ranks have, put together element by element: by "sum", "mean", "max", "min", "prod".

    All ranks give tensors of one shape and dtype, and get the same bits.  Sums are made by a binary
    tree over the ranks, so they are the same in each run.  ``axis`` is one of ``mesh``, or of the
    mesh that was made last; without it all ranks of the job take part.
    """
    if op not in _WAYS:
        kind = ArgumentError if isinstance(op, str) else ArgumentTypeError
        raise kind(f"all_reduce by {op!r}", fix=f"use one of {', '.join(_WAYS)}")
    channel, x = channel_for(axis, mesh), _tensor(x)
    if op == "mean" and not x.dtype.is_floating:
        raise DTypeError(
            f"all_reduce of {x.type} by its mean", fix="convert it with astype(hybrid.float32)"
        )
    if op in ("sum", "mean"):
        total = _summed(collectives.all_reduce, x, channel)
        return total if op == "sum" else total / channel.ranks
    rows = collectives.all_gather(ops.reshape(x, (1, *x.shape)), **_named(channel))
    if x.dtype.kind == "bool":
        if op == "prod":
            raise DTypeError(f"all_reduce of {x.type} by its product", fix='use "min" (all)')
        return (ops.any if op == "max" else ops.all)(rows, axis=0)
    if op == "prod":
        return ops.astype(ops.prod(rows, axis=0), x.dtype)
    return (ops.max if op == "max" else ops.min)(rows, axis=0)


def all_gather(x: Any, axis: str | None = None, *, mesh: Mesh | None = None) -> Any:
    """The tensors of all ranks, one behind the other along their first axis, on each rank."""
    return collectives.all_gather(_tensor(x), **_named(channel_for(axis, mesh)))


def reduce_scatter(x: Any, axis: str | None = None, *, mesh: Mesh | None = None) -> Any:
    """The part of the sum of all tensors that is this rank's.

    The first axis is cut into as many equal parts as there are ranks.
    """
    channel = channel_for(axis, mesh)
    return _summed(collectives.reduce_scatter, _tensor(x), channel)


def all_to_all(x: Any, axis: str | None = None, *, mesh: Mesh | None = None) -> Any:
    """Part i of the first axis goes to rank i; this rank gets its part of all, in their order."""
    return collectives.all_to_all(_tensor(x), **_named(channel_for(axis, mesh)))


def broadcast(x: Any, root: int = 0, axis: str | None = None, *, mesh: Mesh | None = None) -> Any:
    """The tensor of rank ``root``; that of the others says its shape and dtype."""
    channel = channel_for(axis, mesh)
    return collectives.broadcast(_tensor(x), root=_rank("root", root, channel), **_named(channel))


def barrier(axis: str | None = None, *, mesh: Mesh | None = None) -> None:
    """Wait until all ranks have come here."""
    collectives.barrier(**_named(channel_for(axis, mesh)))


def send(x: Any, to: int, axis: str | None = None, *, mesh: Mesh | None = None) -> Any:
    """Give ``x`` to rank ``to``, and return it; does not wait until it is fetched.

    The gradient of what is returned takes in what rank ``to`` sends back: use it in the loss.
    """
    channel = channel_for(axis, mesh)
    to = _rank("to", to, channel, but_me=True)
    return point_to_point.send(_tensor(x), to=to, **_named(channel))


def recv(like: Any, source: int, axis: str | None = None, *, mesh: Mesh | None = None) -> Any:
    """What rank ``source`` sends, a tensor of the shape and dtype of ``like``.

    Its gradient goes back to ``source``, that of ``like`` is zero: gradients have to be asked for
    of something that ``like`` was made of.
    """
    channel = channel_for(axis, mesh)
    source = _rank("source", source, channel, but_me=True)
    return point_to_point.recv(_tensor(like), source=source, **_named(channel))


def _rank(what: str, number: Any, channel: Channel, *, but_me: bool = False) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ArgumentTypeError(f"{what} is {number!r}", fix="give the number of a rank")
    if not 0 <= number < channel.ranks:
        raise ArgumentError(
            f"{what} is rank {number} of {channel.name!r}, which has {channel.ranks}",
            fix=f"use a number from 0 to {channel.ranks - 1}",
        )
    if but_me and number == channel.rank:
        raise ArgumentError(f"{what} is this rank itself", fix="name another rank")
    return number
