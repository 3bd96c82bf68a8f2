"""Calls as nodes: with a gradient of the author's own, or made once more when a gradient asks.

::

    %y, %r = custom_vjp %x {cotangents=(0,), outs=1} {
      forward(%x: f32[3]) { ... return %y, %r }
      backward(%r: f32[3], %ct: f32[3]) { ... return %gx }
    }

The results are what the call returns (``outs`` of them) and the residuals that the way back reads.
Its parameters are these residuals, a cotangent for each of the ``outs``, and the last ``shared``
operands; its results are cotangents of the operands that ``cotangents`` numbers.

A call that a gradient makes once more is a node behind those of the call::

    %1: f32[3] = exp %x
    %2: f32[3] = sin %1
    %3: f32[3] = stop_gradient %2
    %y: f32[3] = checkpoint %3, %x {late=(0,), outs=1} {
      made(%2: f32[3], %x: f32[3]) { return %2 }
      again(%x: f32[3]) { %1: f32[3] = exp %x ... return %2 }
    }

The first ``outs`` operands are what the call has made, constants to gradients; those behind them
are what it read from outside.  The way back computes the second region on these and goes through
it; it waits with those that ``late`` numbers for the cotangent, so that nothing is kept for it.
"""

from __future__ import annotations

from typing import Any

from hybrid.core.types import TensorType
from hybrid.errors import GraphError
from hybrid.ir import Graph, op
from hybrid.ops.flow.control import run_region
from hybrid.ops.support.operand_checks import listed


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


@op(name="checkpoint", inline=True)
def checkpoint_call(
    *operands: TensorType,
    outs: int,
    late: tuple[int, ...] = (),
    regions: tuple[Graph, ...],
) -> tuple[TensorType, ...]:
    """The first ``outs`` operands; their gradient is that of the results of the second region."""
    if len(regions) != 2:
        raise GraphError(f"checkpoint needs 2 regions, not {len(regions)}")
    made, again = regions
    own, read = operands[:outs], operands[outs:]
    require_types("first region takes", made.params, operands)
    require_types("first region returns", made.results, own)
    require_types("second region takes", again.params, read)
    require_types("second region returns", again.results, own)
    return own


@checkpoint_call.reference
def checkpoint_call_reference(
    *arrays: Any, outs: int, late: tuple[int, ...], regions: tuple[Graph, ...]
) -> tuple[Any, ...]:
    return run_region(regions[0], arrays)
