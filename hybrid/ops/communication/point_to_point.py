"""Messages from one rank to another: ``send`` and ``recv``, each other's gradient.

A message is sent, not waited for, so two ranks may send to each other before either receives.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.types import TensorType
from hybrid.ir import op
from hybrid.memory.channels import WORLD, reach
from hybrid.ops.communication.collectives import require_channel
from hybrid.ops.flow.control import after
from hybrid.ops.shapes.creation import zeros_like


@op(pure=False, raises=Exception, hosted=True)
def send(x: TensorType, *, to: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """``x``, which rank ``to`` gets; its cotangent takes in that of what ``to`` made of it."""
    require_channel(comm, ranks, to)
    return x


@send.reference
def send_reference(x: Any, *, to: int, comm: str, ranks: int) -> Any:
    reach(comm, ranks).send(x, to)
    return x


@send.vjp
def send_vjp(ct: Any, _y: Any, _x: Any, *, to: int, **attrs: Any) -> tuple[Any, ...]:
    return (ct + recv(ct, source=to, **attrs),)


@send.jvp
def send_jvp(tangents: Any, _y: Any, _x: Any, **attrs: Any) -> Any:
    return send(tangents[0], **attrs)


@send.batch
def send_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return send(x, **attrs)


@op(pure=False, raises=Exception, hosted=True)
def recv(like: TensorType, *, source: int, comm: str = WORLD, ranks: int = 1) -> TensorType:
    """What rank ``source`` sends, which is of the type of ``like``."""
    require_channel(comm, ranks, source)
    return like


@recv.reference
def recv_reference(like: Any, *, source: int, comm: str, ranks: int) -> Any:
    return reach(comm, ranks).recv(like, source)


@recv.vjp
def recv_vjp(ct: Any, _y: Any, _like: Any, *, source: int, **attrs: Any) -> tuple[Any, ...]:
    return (after(zeros_like(ct), send(ct, to=source, **attrs)),)


@recv.jvp
def recv_jvp(tangents: Any, _y: Any, _like: Any, **attrs: Any) -> Any:
    return recv(tangents[0], **attrs)


@recv.batch
def recv_batch(_rows: int, _batched: Any, like: Any, **attrs: Any) -> Any:
    return recv(like, **attrs)
