"""Find which results of a capture have a history in every run, and flags for those that may not.

::

    if s > 5:
        v = x * 2  # has a history where x requires a gradient
    return v  # has none where it is what was there before the branch

Eagerly a value has a history if an operand of the op that made it has one.  Most values are known
to have one, whatever paths a run takes (``Certainty``); of the others a run has to tell.  It tells
by the way back: a value has a history where a cotangent of it would arrive at a leaf.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hybrid.autodiff.flow import control_flows
from hybrid.autodiff.presence import OptionalCt, disjoined, flag, nothing
from hybrid.autodiff.record_values import type_of
from hybrid.autodiff.tape import history, pulled_back
from hybrid.eager.tensor import Tensor
from hybrid.ir.record import AnyRecord, Leaf, Record, node_of, recording
from hybrid.ops.flow.control import CONTROL
from hybrid.trace.regions.build import live
from hybrid.trace.regions.tracer import Tracer


class Certainty:
    """Computes whether a value has a history in every run, from the histories of its operands."""

    def __init__(self) -> None:
        self.known: dict[Leaf | Record, tuple[bool, ...]] = {}

    def of(self, record: AnyRecord) -> bool:
        """Return whether the value of ``record`` has a history in every run."""
        for node in history([record]):  # operands first
            if type(node) is Record and node not in self.known:
                self.known[node] = self._of_node(node)
        node, index = node_of(record)
        return type(node) is not Record or self._at(node, index)

    def _at(self, node: Record, index: int) -> bool:
        found = self.known.get(node, ())
        return found[index] if index < len(found) else False

    def _of_node(self, node: Record) -> tuple[bool, ...]:
        operands = []
        for parent in node.parents:
            made, index = (None, 0) if parent is None else node_of(parent)
            operands.append(
                made is not None and (type(made) is not Record or self._at(made, index))
            )
        count = len(node.results or ())
        if not node.attrs.get("regions"):
            return (any(operands),) * count
        if node.op not in CONTROL:
            return (False,) * count
        attrs, regions = node.attrs, node.attrs["regions"]
        return tuple(control_flows(node.op, operands, attrs, regions, surely=True))


def presence(tracer: Tracer, records: Sequence[AnyRecord]) -> list[Tensor | None]:
    """Return for each record the flag that its value has a history; None stands for always."""
    certain = Certainty()
    return [None if certain.of(record) else _flag_of(tracer, record) for record in records]


def _flag_of(tracer: Tracer, record: AnyRecord) -> Tensor | None:
    """Return the flag that a cotangent of the value of ``record`` would arrive at a leaf."""
    builder = tracer.builder
    nodes = len(builder.nodes)
    leaves = [leaf for leaf in history([record]) if isinstance(leaf, Leaf)]
    with recording(False):
        ct = nothing(type_of(record))  # passes drop what is computed of it
        found: Tensor | None = None
        arrivals = [ct for ct in pulled_back([(record, ct)], leaves) if ct is not None]
        if all(isinstance(arrived, OptionalCt) for arrived in arrivals):
            flags = [arrived.present for arrived in arrivals]
            found = functools.reduce(disjoined, flags) if flags else tracer.traced(flag(False))
    behind = builder.nodes[nodes:]
    builder.nodes[nodes:] = [] if found is None else live(behind, [found.content])
    return found
