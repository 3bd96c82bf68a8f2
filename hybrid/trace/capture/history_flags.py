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
from collections.abc import Collection, Sequence

from hybrid.autodiff.flow import control_flows
from hybrid.autodiff.presence import OptionalCt, disjoined, flag, nothing
from hybrid.autodiff.record_values import Node, type_of
from hybrid.autodiff.tape import history, pulled_back
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import current
from hybrid.ir.record import AnyRecord, Boundary, Leaf, Record, node_of, recording
from hybrid.ops.flow.control import CONTROL
from hybrid.trace.regions.build import live
from hybrid.trace.regions.tracer import Tracer


class Certainty:
    """Computes whether a value has a history in every run, from the histories of its operands.

    One that leads to the variables ``own`` alone does not count.
    """

    def __init__(self, own: Collection[Node] = ()) -> None:
        self.own = own
        self.known: dict[Leaf | Record, tuple[bool, ...]] = {}

    def of(self, record: AnyRecord) -> bool:
        """Return whether the value of ``record`` has a history in every run."""
        for node in history([record]):  # operands first
            if type(node) is Record and node not in self.known:
                self.known[node] = self._of_node(node)
        node, index = node_of(record)
        return self._at(node, index)

    def _at(self, node: Leaf | Record, index: int) -> bool:
        if type(node) is not Record:
            return node not in self.own
        found = self.known.get(node, ())
        return found[index] if index < len(found) else False

    def _of_node(self, node: Record) -> tuple[bool, ...]:
        operands = []
        for parent in node.parents:
            made, index = (None, 0) if parent is None else node_of(parent)
            operands.append(made is not None and self._at(made, index))
        count = len(node.results or ())
        if not node.attrs.get("regions"):
            return (any(operands),) * count
        if node.op not in CONTROL:
            return (False,) * count
        attrs, regions = node.attrs, node.attrs["regions"]
        return tuple(control_flows(node.op, operands, attrs, regions, surely=True))


def presence(
    tracer: Tracer, records: Sequence[AnyRecord], own: Collection[Node] = ()
) -> list[Tensor | None]:
    """Return for each record the flag that its value has a history; None stands for always.

    Histories that lead to the variables ``own`` alone are none.
    """
    certain = Certainty(own)
    return [None if certain.of(record) else _flag_of(tracer, record, own) for record in records]


def surely_outside(record: AnyRecord) -> bool:
    """Return whether all histories outside of a branch or loop that ``record`` leads to are sure.

    Then what a run has to tell of it, it tells inside.
    """
    outside = [node.outside for node in history([record]) if isinstance(node, Boundary)]
    return all(Certainty().of(each) and surely_outside(each) for each in outside)


class Presence:
    """What is known of the histories of values while they are traced."""

    @staticmethod
    def always(record: AnyRecord) -> bool:
        """Return whether the value of ``record`` has a history in every run."""
        return Certainty().of(record)

    @staticmethod
    def flag(tracer: Tracer, record: AnyRecord) -> Tensor | None:
        """Return the flag that the value of ``record`` has a history; None for always."""
        return presence(tracer, [record])[0]


def presence_beyond(records: Sequence[AnyRecord], own: Collection[Node]) -> Tensor | None:
    """Return the flag that one of ``records`` leads beyond ``own`` variables; None for always.

    ::

        def loss(x):  # of which hy.grad takes the gradient
            v = x
            if s > 0:
                v = x * w  # then, and only then, w is part of the gradient by x
            return (v * v).sum()
    """
    found = presence(current(), records, own)
    return functools.reduce(disjoined, found) if all(f is not None for f in found) else None


def _flag_of(tracer: Tracer, record: AnyRecord, own: Collection[Node]) -> Tensor | None:
    """Return the flag that a cotangent of the value of ``record`` would arrive at a leaf."""
    builder = tracer.builder
    nodes = len(builder.nodes)
    leaves = [leaf for leaf in history([record]) if isinstance(leaf, Leaf) and leaf not in own]
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
