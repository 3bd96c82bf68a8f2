"""Held stages: what one rank of a pipeline has alone, as layouts and nodes of a graph say.

Of two ranks, of which the first holds ``w``::         the second one has::

    @step(%w: f32[8,4], ...)                            @step(%w: f32[0], ...)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hybrid.core.layouts import Held, MeshAxis, laid_type, nothing_of
from hybrid.core.types import TensorType
from hybrid.errors import ArgumentError
from hybrid.ir import Graph, Node, Value
from hybrid.ops.communication.layout_op import laid_out, layout_of
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.passes.layouts.layout_choice import EachComputesAll, LayoutChoice
from hybrid.passes.layouts.local_graph import Choose


def holder(type: TensorType, pipe: Pipe) -> int | None:
    """The rank of the pipeline that holds a tensor of ``type`` alone, if one does."""
    places = [p for axis, p in type.layout or () if axis.comm == pipe.comm]
    return next((p.rank for p in places if isinstance(p, Held)), None)


def held_cells(graph: Graph, pipe: Pipe) -> dict[Value, int]:
    """The parameters of ``graph`` that one rank of the pipeline holds, and which."""
    found = {v: holder(v.type, pipe) for v in graph.params}
    return {v: stage for v, stage in found.items() if stage is not None}


def part_here(type: TensorType, pipe: Pipe) -> TensorType:
    """``type`` as this rank of the pipeline has it: its layout along other axes, or nothing."""
    rank = holder(type, pipe)
    if rank is None:
        return type
    if rank != pipe.rank:
        return nothing_of(type)
    return laid_type(type, [(axis, p) for axis, p in type.layout or () if axis.comm != pipe.comm])


def is_holding(node: Node, pipe: Pipe) -> bool:
    """Whether ``node`` says that one rank of the pipeline is to hold its result."""
    rows = layout_of(node.attributes["layout"]) if node.op is laid_out else []
    return any([axis.comm == pipe.comm and isinstance(p, Held) for axis, p in rows])


def require_held(graph: Graph, comms: Collection[str]) -> None:
    """Raise for parts of tensors along an axis whose ranks compute stages."""
    for value in graph.params:
        for axis, place in value.type.layout or ():
            if axis.comm in comms and not isinstance(place, Held):
                raise ArgumentError(
                    f"{value.type} is cut along {axis.name!r}, whose ranks compute the stages of a "
                    "pipeline",
                    why="Each stage needs whole weights, and other stages need others.",
                    fix="let hybrid.distributed.hold_stages(step, ...) place them, or shard them "
                    "along another axis of the mesh",
                )


def choice_beside(comms: Collection[str]) -> Choose:
    """How layouts are chosen where the ranks along axes of ``comms`` compute stages.

    Along these each rank computes what its own graph has.
    """

    def choose(graph: Graph, axis: MeshAxis, *given: Any) -> LayoutChoice:
        return (EachComputesAll if axis.comm in comms else LayoutChoice)(graph, axis, *given)

    return choose
