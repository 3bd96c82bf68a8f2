"""The op at the edges of a pipelined model: what goes in and comes out, to all else that itself.

``pipe`` is (channel, ranks, rank, stages, microbatches, schedule, whether activations are computed
again).  What lies between what ``begins`` and what does not is cut into stages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hybrid.core.types import TensorType
from hybrid.errors import GraphError
from hybrid.ir import op
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.derivatives import linear


class Pipe(NamedTuple):
    """How a model is pipelined: through which ranks, and in which order."""

    comm: str
    ranks: int
    rank: int
    stages: int
    microbatches: int
    schedule: str
    recompute: bool


KINDS = [str, int, int, int, int, str, bool]


@op(name="pipeline_edge", moves=True)
def pipeline_edge(
    x: TensorType, *, pipe: tuple[Any, ...], begins: bool, back: bool = False
) -> TensorType:
    """``x``, which goes into a pipeline (``begins``), or comes out of one.

    ``back``: the gradient by such a value, on its way back.
    """
    kinds = [type(item) for item in pipe] if isinstance(pipe, tuple) else []
    if kinds != KINDS or not isinstance(begins, bool) or not isinstance(back, bool):
        raise GraphError(f"no pipeline: {pipe!r}")
    return x


@pipeline_edge.reference
def pipeline_edge_reference(x: Any, *, pipe: Any, begins: bool, back: bool) -> Any:
    return x


@pipeline_edge.view
def pipeline_edge_view(x: Any, *, pipe: Any, begins: bool, back: bool) -> Any:
    return x


@linear(pipeline_edge)
def pipeline_edge_vjp(
    ct: Any, _y: Any, _x: Any, *, pipe: Any, begins: bool, back: bool
) -> tuple[Any, ...]:
    return (ct if back else pipeline_edge(ct, pipe=pipe, begins=begins, back=True),)


pipeline_edge.couples(axis_ties.everywhere)
pipeline_edge.shares(shared_work.tied(axis_ties.everywhere, linear=[(0,)]))


@pipeline_edge.batch
def pipeline_edge_batch(_rows: int, _batched: Any, x: Any, **attrs: Any) -> Any:
    return pipeline_edge(x, **attrs)


@pipeline_edge.samples
def pipeline_edge_samples(draw: Any) -> Any:
    for dtype in draw.all:
        for begins, back in ((True, False), (False, True)):
            pipe = ("pp", 1, 0, 2, 2, "1f1b", False)
            yield (draw(dtype, 4, 2),), {"pipe": pipe, "begins": begins, "back": back}
