"""A call that a gradient makes once more, as a node behind those of the call.

::

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
from hybrid.ops.flow.custom import require_types


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
