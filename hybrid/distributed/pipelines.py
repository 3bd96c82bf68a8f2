"""Pipelines: a model cut into stages, each of which is computed by one rank."""

from __future__ import annotations

from typing import Any

from hybrid.core.tree import tree_map
from hybrid.distributed.meshes import Mesh, channel_for
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError, author_location
from hybrid.ir.interpreter import current
from hybrid.nn.modules.module import Module
from hybrid.ops.communication.pipeline_op import Pipe, pipeline_edge
from hybrid.ops.support.operand_checks import require_choice

SCHEDULES = ("1f1b", "gpipe")


def pipeline(
    model: Module,
    *,
    stages: int,
    microbatches: int,
    schedule: str = "1f1b",
    mesh: Mesh | None = None,
    axis: str | None = None,
    recompute: bool = False,
) -> Module:
    """``model``, of which each rank along ``axis`` computes one stage where it is hybridized.

    All ranks call it with the whole batch, and get the whole result and all gradients.  A
    hybridized function that calls the model, a step of training say, is cut when it is captured:
    the batch (the first axis of the model's arguments) into ``microbatches``, what the model
    computes into ``stages`` that take about equally long, where few bytes cross; what goes back
    goes back through the same stages.  "gpipe" runs all microbatches forward, then all back;
    "1f1b" goes back as soon as it can, and has fewer activations to keep; both have the same bits.
    ``recompute``: a stage keeps what it was given, and computes its activations again.

    An eager call computes all of the model on each rank.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(
            f"model is a {type(model).__name__}", fix="give a module of hybrid.nn"
        )
    for name, value in (("stages", stages), ("microbatches", microbatches)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentTypeError(f"{name} is {value!r}", fix="give a number")
        if value < 1:
            raise ArgumentError(f"{name} is {value}", fix="give a number of at least 1")
    if not isinstance(recompute, bool):
        raise ArgumentTypeError(f"recompute is {recompute!r}", fix="give it True or False")
    require_choice("schedule", schedule, SCHEDULES)
    channel = channel_for(axis, mesh)
    if channel.ranks not in (1, stages):
        along = f"axis {axis!r} of the mesh" if axis is not None else "the job"
        raise ArgumentError(
            f"a pipeline of {stages} stages, and {along} has {channel.ranks} ranks",
            why="Each rank computes one stage.",
            fix=f"give stages={channel.ranks}, or a mesh with an axis of {stages} ranks",
        )
    pipe = Pipe(
        comm=channel.name,
        ranks=channel.ranks,
        rank=channel.rank,
        stages=stages,
        microbatches=microbatches,
        schedule=schedule,
        recompute=recompute,
    )
    model.register_forward_pre_hook(_Entrance(pipe), with_kwargs=True)
    model.register_forward_hook(_Exit(pipe))
    return model


class _Entrance:
    """Marks the arguments of the model, where a graph is made."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def __call__(self, model: Module, args: Any, kwargs: Any) -> Any:
        if not current().traces:
            return None
        microbatches = self.pipe.microbatches

        def mark(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.type.rank:
                return x
            if x.shape[0] % microbatches:
                raise ShapeError(
                    f"a batch of {x.shape[0]} rows and {microbatches} microbatches",
                    at=author_location(),
                    why="Each microbatch has equally many rows: of the first axis of arguments.",
                    fix=f"give a multiple of {microbatches} rows, or pad the batch",
                )
            return pipeline_edge(x, pipe=tuple(self.pipe), begins=True)

        return tree_map(mark, args), tree_map(mark, kwargs)


class _Exit:
    """Marks what the model returns."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def __call__(self, model: Module, args: Any, result: Any) -> Any:
        if not current().traces:
            return None
        return tree_map(
            lambda x: (
                pipeline_edge(x, pipe=tuple(self.pipe), begins=False)
                if isinstance(x, Tensor)
                else x
            ),
            result,
        )
