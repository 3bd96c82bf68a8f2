"""Loop invariants: carried tensors that are the same tensor before and after every iteration.

::

    y = x                                y is x before every iteration, and so after each: it need
    for _ in range(n):                   not be carried, and its uses are uses of x
        y = x if flag else y
"""

from __future__ import annotations

from collections.abc import Sequence

from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.ir import Graph
from hybrid.staging.loops.carry import Carry, Leaf
from hybrid.trace.alias.relation import aliases_in
from hybrid.trace.regions.region import Region


def let_stay(carries: Sequence[Carry], region: Region) -> None:
    """Mark the invariants among ``carries`` as unchanged, found by induction over iterations."""
    leaves = [leaf for carry in carries for leaf in carry.leaves]
    staying = [leaf for leaf in leaves if _may_stay(leaf)]
    chosen = {v for node in region.builder.nodes if node.op.name == "cond" for v in node.results}
    if not any(leaf.final.content in chosen for leaf in staying):
        return
    cells = [cell for cell in region.cells.values() if not cell.written]
    params = (*[leaf.param.content for leaf in leaves], *[cell.initial for cell in cells])
    aliases = aliases_in(Graph("body", params, tuple(region.builder.nodes), ()))
    before: list[Leaf] = []
    while len(before) != len(staying):
        before = staying
        staying = [
            leaf
            for leaf in before
            if aliases(leaf.final.content)
            <= {other.param.content for other in before if other.initial is leaf.initial}
            | {cell.initial for cell in cells if cell.tensor is leaf.initial}
        ]
    for leaf in staying:
        leaf.final, leaf.left = make_tensor(leaf.param.type, leaf.param.content), leaf.given


def _may_stay(leaf: Leaf) -> bool:
    is_tensor = leaf.given is not None and isinstance(leaf.initial, Tensor)
    return is_tensor and not leaf.is_written
