"""A call with a gradient of the author's own, as a node.

::

    %y, %r = custom_vjp %x {cotangents=(0,), outs=1} {
      forward(%x: f32[3]) { ... return %y, %r }
      backward(%r: f32[3], %ct: f32[3]) { ... return %gx }
    }

The results are what the call returns (``outs`` of them) and the residuals that the way back reads.
Its parameters are these residuals, a cotangent for each of the ``outs``, and the last ``shared``
operands; its results are cotangents of the operands that ``cotangents`` numbers.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.types import TensorType
from hybrid.errors import GraphError
from hybrid.ir import Graph, op
from hybrid.ops.flow.control import run_region
from hybrid.ops.support.checks import listed


@op(name="custom_vjp", inline=True)
def custom_call(
    *operands: TensorType,
    outs: int,
    cotangents: tuple[int, ...] = (),
    shared: int = 0,
    regions: tuple[Graph, ...],
) -> tuple[TensorType, ...]:
    """The results of the first region; their gradient is what the second says."""
    if len(regions) != 2:
        raise GraphError(f"custom_vjp needs 2 regions, not {len(regions)}")
    forward, backward = regions
    results = tuple([v.type for v in forward.results])
    behind = operands[len(operands) - shared :]
    require_types("forward region takes", forward.params, operands)
    require_types(
        "backward region takes", backward.params, (*results[outs:], *results[:outs], *behind)
    )
    require_types(
        "backward region returns", backward.results, tuple([operands[i] for i in cotangents])
    )
    return results


def require_types(what: str, values: Any, wanted: tuple[TensorType, ...]) -> None:
    """Raise unless the parameters or results of a region are of the types ``wanted``."""
    types = tuple([v.type for v in values])
    if types != wanted:
        have, want = (listed(t) if t else "nothing" for t in (types, wanted))
        raise GraphError(f"the {what} {have}", fix=f"let it be {want}")


@custom_call.reference
def custom_call_reference(
    *arrays: Any, outs: int, cotangents: Any, shared: int, regions: tuple[Graph, ...]
) -> tuple[Any, ...]:
    return run_region(regions[0], arrays)
