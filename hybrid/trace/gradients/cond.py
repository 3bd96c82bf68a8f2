"""Reverse mode through ``cond``: a cond on the same predicate, over the vjp of each region.

Before::                                   The gradient by %x::

    %y = cond %p, %x {                         %y, %r = cond %p, %x {
      then(%x) { %r = exp %x ... }               then(%x) { %r = exp %x ... return %y, %r }
      else(%x) { ... }                           else(%x) { %r = full 0 ... return %y, %r }
    }                                          }
                                               %g = cond %p, %r, %ct {
                                                 then(%r, %ct) { ... }
                                                 else(%r, %ct) { ... }
                                               }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hybrid.autodiff.presence import Ct, OptionalCt, flag, neutral, nothing, optional_ct
from hybrid.autodiff.tape import Pull
from hybrid.core.dataclass import dataclass
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Node, Value
from hybrid.ir.record import Leaf, recording
from hybrid.ops.flow.control import FLAG, applied, cond
from hybrid.ops.shapes.creation import fill
from hybrid.trace.gradients.budget import further_gradients
from hybrid.trace.gradients.region_vjp import (
    CotangentKind,
    Cut,
    Tape,
    cut,
    firsts,
    kinds_of,
    leaves_at,
    opened,
    places_of,
    tensors_of,
    values_of,
)
from hybrid.trace.regions.build import here, remembered

NAMES = ("then", "else")


@dataclass(frozen=True, slots=True)
class Total:
    """The static facts of the cotangent of one operand: place, type, and whether it has a flag."""

    place: int  # of the operand, or of a further value
    type: TensorType
    flagged: bool  # whether a further result says if it is present


@dataclass(frozen=True, slots=True)
class Derived:
    """The derivative of a cond: forward and backward regions, and what the latter take and give."""

    forward: tuple[Graph, Graph]
    backward: tuple[Graph, Graph]
    operands: tuple[int, ...]  # those that the backward regions read
    residuals: tuple[int, ...]  # results of the forward node that they read
    cts: tuple[int, ...]  # which of the tensors of the cotangents and sums given they read
    totals: tuple[Total, ...]


def cond_vjp(
    pull: Pull,
    results: tuple[Tensor, ...],
    pred: Tensor,
    *operands: Tensor,
    regions: tuple[Graph, Graph],
) -> list[Ct | None]:
    """The total cotangent of each operand of a cond."""
    node = here(cond, pull.record, results, (pred, *operands), {}, regions)
    places = places_of(operands, pull.flow[1:])
    further = (None,) * (len(node.results) - len(pull.cts))
    arrived = [*firsts(places, pull.arrived[1:]), *pull.further]
    edges = tuple([(alias - 1, source - 1) for alias, source, _ in pull.edges])
    kinds = (places, kinds_of((*pull.cts, *further)), kinds_of(arrived), edges)
    key = kinds, further_gradients() > 0
    derived = remembered(node.regions, key, lambda: _derive(node.regions, *kinds))
    if not derived.totals:
        return [None] * (1 + len(arrived))
    fresh = len(derived.forward[0].results) - len(node.results)
    outcome = node.extended(fresh, derived.forward)
    flat = [t for ct in (*pull.cts, *arrived) for t in tensors_of(ct)]
    flat += [where for _, _, where in pull.edges]
    cts = [flat[i] for i in derived.cts]
    read = [*[operands[i] for i in derived.operands], *[outcome[i] for i in derived.residuals]]
    found = iter(applied(cond, (pred, *read, *cts), derived.backward))
    totals: list[Ct | None] = [None] * (1 + len(arrived))
    for total in derived.totals:
        ct = next(found)
        totals[1 + total.place] = optional_ct(ct, next(found), True) if total.flagged else ct
    return totals


def _derive(
    regions: tuple[Graph, Graph],
    places: tuple[int, ...],
    cts: tuple[CotangentKind | None, ...],
    arrived: tuple[CotangentKind | None, ...],
    edges: tuple[tuple[int, int], ...],
) -> Derived:
    halves = [_Half(region, places, cts, arrived, edges) for region in regions]
    totals = _totals(halves)
    cuts = [half.cut(totals) for half in halves]
    forward, residuals = _with_residuals(regions, halves, cuts)
    used = {v for c in cuts for v in c.given}
    operands = tuple([i for i in range(len(places)) if any(r.params[i] in used for r in regions)])
    flat = [half.flat for half in halves]
    cts = tuple([i for i in range(len(flat[0])) if any(f[i] in used for f in flat)])
    types = [forward[0].results[i].type for i in residuals]
    backward = tuple(
        half.finish(name, c, operands, residuals, types, cts, graph)
        for name, half, c, graph in zip(NAMES, halves, cuts, forward, strict=True)
    )
    return Derived(
        forward=forward,
        backward=backward,
        operands=operands,
        residuals=tuple(residuals),
        cts=cts,
        totals=tuple(totals),
    )


class _Half:
    """One region being led back through."""

    def __init__(
        self,
        region: Graph,
        places: tuple[int, ...],
        cts: tuple[CotangentKind | None, ...],
        arrived: tuple[CotangentKind | None, ...],
        edges: tuple[tuple[int, int], ...],
    ) -> None:
        leaves = leaves_at(region, places)
        order = _sources_first(range(len(arrived)), edges)
        types = {i: v.type for i, v in enumerate(region.params)}
        for i in reversed(order):
            types.update({source: types[i] for alias, source in edges if alias == i})
        leaves += [Leaf(types[i]) for i in range(len(places), len(arrived))]
        self.tape = Tape(region, leaves[: len(places)])
        self.cts = [self.tape.params_like(ct, "ct") for ct in cts]
        self.arrived = [self.tape.params_like(ct, "sum") for ct in arrived]
        where = [self.tape.param(FLAG, "same") for _ in edges]
        self.flat = [v for ct in (*self.cts, *self.arrived) for v in values_of(ct)]
        self.flat += [t.content for t in where]
        self.firsts = [i for i, at in enumerate(places) if at == i]
        self.firsts += range(len(places), len(arrived))
        targets = [leaves[i] for i in self.firsts]
        with opened(self.tape), recording(False):
            seeds = [(leaves[i], self.arrived[i]) for i in self.firsts]
            seeds += [(t.record, ct) for t, ct in zip(self.tape.results, self.cts, strict=True)]
            known = [(leaves[i], leaves[j], t) for (i, j), t in zip(edges, where, strict=True)]
            found = self.tape.pull(seeds, targets, known)
        self.found: dict[int, Ct | None] = dict(zip(self.firsts, found, strict=True))
        self.results: list[Value] = []

    def cut(self, totals: Sequence[Total]) -> Cut:
        """Give the ``totals``, and separate the nodes that this takes."""
        tape = self.tape
        with opened(tape), recording(False):
            for total in totals:
                ct = self.found[total.place]
                self.results.append((nothing(total.type) if ct is None else neutral(ct)).content)
                if total.flagged:
                    known = ct.present if isinstance(ct, OptionalCt) else flag(ct is not None)
                    self.results.append(known.content)
        given = [*tape.graph.params, *self.flat]
        nodes, forward = tape.builder.nodes, tape.forward
        return cut(nodes, forward, self.results, given, differentiable=further_gradients() > 0)

    def finish(
        self,
        name: str,
        c: Cut,
        operands: Sequence[int],
        residuals: Sequence[int],
        types: Sequence[TensorType],
        cts: Sequence[int],
        forward: Graph,
    ) -> Graph:
        """The backward region, of parameters that both regions have."""
        own = {forward.results[i]: i for i in residuals if forward.results[i] in c.residuals}
        params = [self.tape.graph.params[i] for i in operands]
        for i, type in zip(residuals, types, strict=True):
            value = forward.results[i]
            params.append(value if own.get(value) == i else Value(type))
        params += [self.flat[i] for i in cts]
        return Graph(name, tuple(params), c.nodes, tuple(self.results))


def _sources_first(values: Iterable[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """The ``values``, each after those that it may be."""
    found: dict[int, None] = {}

    def visit(value: int) -> None:
        if value not in found:
            for alias, source in edges:
                if alias == value:
                    visit(source)
            found[value] = None

    for value in values:
        visit(value)
    return list(found)


def _totals(halves: Sequence[_Half]) -> list[Total]:
    totals = []
    for i in halves[0].firsts:
        found = [half.found[i] for half in halves]
        news = [ct is not half.arrived[i] for ct, half in zip(found, halves, strict=True)]
        if any(news):
            sure = all(ct is not None and not isinstance(ct, OptionalCt) for ct in found)
            type = next(ct.type for ct in found if ct is not None)
            totals.append(Total(i, type, not sure))
    return totals


def _with_residuals(
    regions: tuple[Graph, Graph], halves: Sequence[_Half], cuts: Sequence[Cut]
) -> tuple[tuple[Graph, Graph], list[int]]:
    """The forward regions that give their residuals too, and which results hold any.

    A residual of one region shares its result with one of the other, or with zeros.
    """
    results = [list(region.results) for region in regions]
    nodes = [list(half.tape.builder.nodes[: half.tape.forward]) for half in halves]
    residuals: list[int] = []
    rest: list[list[Value]] = []
    for side, c in enumerate(cuts):
        missing = []
        for value in c.residuals:
            if value in results[side]:
                residuals.append(results[side].index(value))
            else:
                missing.append(value)
        rest.append(missing)
    while any(rest):
        side = 0 if rest[0] else 1
        value = rest[side].pop(0)
        other = next((v for v in rest[1 - side] if v.type is value.type), None)
        if other is None:
            other = Value(value.type)
            zeros = {"shape": value.type.shape, "dtype": value.type.dtype, "value": 0}
            nodes[1 - side].append(Node(fill, (), fill.attributes(zeros), (other,)))
        else:
            rest[1 - side].remove(other)
        residuals.append(len(results[0]))
        results[side].append(value)
        results[1 - side].append(other)
    made = tuple(
        Graph(region.name, region.params, tuple(n), tuple(r))
        for region, n, r in zip(regions, nodes, results, strict=True)
    )
    return made, sorted(set(residuals))
