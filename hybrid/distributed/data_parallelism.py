"""data_parallel: a model that is the same on all ranks, each of which has some rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid.distributed.meshes import Mesh, world_channel
from hybrid.distributed.mpi_channel import MpiChannel, open_gradients
from hybrid.distributed.power_sgd import PowerSGD
from hybrid.distributed.replicas import Replicas
from hybrid.distributed.row_shares import Sharing, goes_by, sharing_of
from hybrid.distributed.state_slices import StateSlices
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, author_location
from hybrid.ir.record import recording
from hybrid.memory.channels import Channel, CollectiveCall
from hybrid.nn.layers.normalization import BatchNorm
from hybrid.nn.modules import hooks
from hybrid.nn.modules.hooks import Hook
from hybrid.nn.modules.module import Module
from hybrid.ops.communication.collectives import broadcast
from hybrid.optim.lbfgs import LBFGS
from hybrid.optim.optimizer import Optimizer
from hybrid.random import default_generator

PARTS = 16  # of a model whose parameters are slices, at least: about four at a time are whole


def data_parallel(
    model: Module,
    optimizer: Optimizer,
    shards: Any = "ranks",
    zero: int = 0,
    bucket_bytes: int = 1 << 20,
    *,
    compress: PowerSGD | None = None,
    mesh: Mesh | None = None,
    axis: str | None = None,
) -> tuple[Module, Optimizer]:
    """``model`` and ``optimizer`` themselves, for training with the rows of a batch shared out.

    All ranks call it alike, and take over what rank 0 has: parameters, buffers, state of random
    numbers.  Each then calls the model with its ``rows`` of a batch (those that a
    ``DistributedSampler`` gives), and ``backward()`` gives parameters the gradients by all rows,
    so clipping and schedules need no change.

    A loss of one rank's rows, such as the mean over them, counts by their share of all rows.  One
    made with ``hybrid.distributed.mean`` is of all ranks and counts once.

    Batch norms go by the rows of all ranks in training.  Gradients are summed up in buckets of up
    to ``bucket_bytes``.  With a number of ``shards`` the batch is cut into that many in place of
    one for each rank, and results have the same bits on any number of ranks, one included.

    With ``zero=1`` each rank keeps a slice of the moments, with 2 of gradients, too, and with 3 of
    the parameters, which are whole only while the model is called, in buckets of at most a
    sixteenth of it.  The bits are the same.  Then ``state_dict()`` of what is sliced gathers it, so
    all ranks call it.

    With ``compress=PowerSGD(rank=4)`` gradients of matrices are summed up as products of thin ones,
    for slow networks; with shards="ranks" and zero=0 alone.  One rank has nothing to compress.
    """
    _require(model, optimizer, zero, bucket_bytes)
    _require_compress(compress, shards, zero)
    sharing = sharing_of(shards, axis, mesh)
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    by_rank = isinstance(shards, str)
    require_parameters(optimizer, [p for _, p in named])
    how = f"shards={shards} zero={zero} bucket_bytes={bucket_bytes}"
    how += f" compress={compress}" if compress is not None else ""
    agree(sharing, "data_parallel", how, named)
    goes_by(sharing)
    if sharing.channel.ranks == 1 and by_rank and world_channel().ranks == 1:
        return model, optimizer
    if zero == 3:
        bucket_bytes = min(bucket_bytes, max(sum([p.nbytes for _, p in named]) // PARTS, 1))
    replicas = Replicas(sharing, [p for _, p in named], bucket_bytes, by_rank)
    if sharing.shards > 1 and not by_rank:
        replicas.inner = _run_by_shards(model)
    for part in replicas.inner:
        hooks.add(part, Hook("around", replicas.part))
    if compress is not None and sharing.channel.ranks > 1:
        compress.bind(sharing.channel, named)
        replicas.compress = optimizer.compress = compress
    hooks.add(model, Hook("around", replicas))
    take_over(sharing.channel, model, optimizer)
    open_gradients(sharing.channel)
    if zero and sharing.channel.ranks > 1:
        replicas.slices = StateSlices(sharing.channel, replicas.parameters, replicas.buckets, zero)
        replicas.slices.take_over(optimizer)
        if zero == 3:
            model.register_state_dict_post_hook(replicas.slices.whole_parameters)
            model.register_load_state_dict_pre_hook(replicas.slices.cut_parameters)
    return model, optimizer


def _require(model: Any, optimizer: Any, zero: Any, bucket_bytes: Any) -> None:
    require_parts("data_parallel", model, optimizer)
    if isinstance(zero, bool) or not isinstance(zero, int) or zero not in range(4):
        raise ArgumentError(f"zero is {zero!r}", fix="give 0, 1, 2 or 3")
    if zero and isinstance(optimizer, LBFGS):
        raise ArgumentError(
            f"zero is {zero} with an LBFGS",
            why="Its steps go by products of whole gradients, and ranks would have slices.",
            fix="leave zero out, or use another optimizer",
        )
    if isinstance(bucket_bytes, bool) or not isinstance(bucket_bytes, int) or bucket_bytes < 1:
        raise ArgumentError(f"bucket_bytes is {bucket_bytes!r}", fix="give an int from 1 on")


def _require_compress(compress: Any, shards: Any, zero: Any) -> None:
    if compress is None:
        return
    if not isinstance(compress, PowerSGD):
        raise ArgumentTypeError(
            f"compress is a {type(compress).__name__}",
            fix="give hybrid.distributed.PowerSGD(rank=4), or None",
        )
    if shards != "ranks" or zero:
        raise ArgumentError(
            f"compress={compress} with shards={shards!r} and zero={zero}",
            why="Thin matrices are made of gradients of ranks, so bits depend on how many there "
            "are; and of whole ones.",
            fix='leave compress out, or use shards="ranks" and zero=0',
        )


def require_parts(what: str, model: Any, optimizer: Any) -> None:
    """Raise unless ``what`` has got a model and an optimizer, both without ranks so far."""
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"{what} got a {type(model).__name__} as its model", fix="give an nn.Module"
        )
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(
            f"{what} got a {type(optimizer).__name__} as its optimizer",
            fix="give one of hy.optim, such as hy.optim.Adam(model.parameters())",
        )
    if optimizer.server is not None:
        raise ArgumentError(
            f"{what} of an optimizer that has a parameter server",
            fix="make an optimizer of its own for it",
        )
    for name, module in model.named_modules():
        if any(hooks.of_kind(module, "around")):
            raise ArgumentError(
                f"{name or 'the model'} is data-parallel already", fix=f"call {what} once"
            )


def require_parameters(optimizer: Optimizer, known: Sequence[Tensor]) -> None:
    ids = {id(p) for p in known}
    for number, group in enumerate(optimizer.param_groups):
        for at, p in enumerate(group.params):
            if id(p) not in ids:
                raise ArgumentError(
                    f"parameter {at} of group {number} of the optimizer, {p.type}, is none of the "
                    "model",
                    why="Its gradient would be another one on each rank.",
                    fix="make the optimizer of model.parameters()",
                )


def agree(sharing: Sharing, what: str, how: str, named: Sequence[tuple[str, Tensor]] = ()) -> None:
    """Raise CollectiveMismatchError unless all ranks call it alike, with like models."""
    channel = sharing.channel
    if not isinstance(channel, MpiChannel):
        return
    channel.job.require_whole()
    at = author_location()
    entries = [CollectiveCall(what, attributes=how, location=at)]
    entries += [
        CollectiveCall("parameter", attributes=f"{name} {p.type}", location=at) for name, p in named
    ]
    channel.compare(entries)


def take_over(channel: Channel, model: Module, optimizer: Optimizer) -> None:
    """Let all ranks have what rank 0 has."""
    if channel.ranks == 1:
        return
    cells = [*model.parameters(), *model.buffers()]
    for group in optimizer.param_groups:
        cells += [cell for state in group.states for cell in (*state.moments, *state.counts)]
    cells.append(default_generator().state)
    with recording(False):
        for cell in cells:
            value = cell.detach()
            cell.assign(broadcast(value, root=0, comm=channel.name, ranks=channel.ranks))


def _run_by_shards(model: Module) -> tuple[Module, ...]:
    """The parts that are run shard by shard where batch norms look at all of them in between.

    None where the whole model can be run so.
    """
    if not _normalises(model):
        return ()
    found: dict[Module, None] = {}

    def look(name: str, module: Module) -> None:
        if isinstance(module, BatchNorm):
            return
        if not _normalises(module):
            found[module] = None
            return
        for own, _ in module._parameters:
            raise ArgumentError(
                f"{name + '.' if name else ''}{own} is a parameter beside batch norms, "
                "and the batch is to be cut into shards",
                why="Parts of a model are run shard by shard, and stop where a batch norm looks at "
                "all rows; so a part with parameters may not have one within it.",
                fix='put the parameter into a module of its own, or leave shards="ranks"',
            )
        for child, part in module.named_children():
            look(f"{name}.{child}" if name else child, part)

    look("", model)
    return tuple(found)


def _normalises(module: Module) -> bool:
    return any(isinstance(part, BatchNorm) for part in module.modules())
