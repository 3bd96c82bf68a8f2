"""Forward mode through cond, for and while: nodes that carry tangents beside the values.

Before::                                     The tangent of %y, %tx being that of %x::

    %y = for %n, %x, %w {carried=1} {            %y1, %ty = for %n, %x, %tx, %w {carried=2} {
      body(%i, %h, %w) { ... return %h1 }          body(%i, %h, %th, %w) { ... return %h1, %th1 }
    }                                            }

The values are computed once more, so nothing has to be kept of the iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.flow import control_flows
from hybrid.autodiff.presence import Ct, OptionalCt, flag, neutral, nothing, optional_ct, plain
from hybrid.autodiff.tape import pushed_forward
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph, Op
from hybrid.ir.record import Leaf, keeping_operands, recording
from hybrid.ops.flow.control import applied, cond, for_, while_
from hybrid.trace.gradients.region_vjp import (
    CotangentKind,
    Tape,
    kinds_of,
    opened,
    tensors_of,
    values_of,
)
from hybrid.trace.regions.build import computing, remembered


class _RegionTangents:
    """A region with tangents of its parameters pushed through."""

    def __init__(self, region: Graph, kinds: Sequence[CotangentKind | None]) -> None:
        leaves = [None if kind is None else Leaf(kind.type) for kind in kinds]
        with keeping_operands():
            self.tape = tape = Tape(region, leaves)
        self.given = [tape.params_like(kind, "tangent") for kind in kinds]
        pairs = [(leaf, t) for leaf, t in zip(leaves, self.given, strict=True) if leaf is not None]
        with opened(tape), recording(False), keeping_operands():
            self.found = pushed_forward(
                tape.results, [leaf for leaf, _ in pairs], [t for _, t in pairs]
            )

    def closed(self, params: Sequence[Any], results: Sequence[Any]) -> Graph:
        tape = self.tape
        graph = Graph(tape.graph.name, tuple(params), tuple(tape.builder.nodes), ())
        return computing(graph, results)


# cond -------------------------------------------------------------------------------------------


def cond_jvp(
    incoming: tuple[Ct | None, ...],
    _results: Any,
    pred: Tensor,
    *operands: Tensor,
    regions: tuple[Graph, Graph],
) -> Any:
    """The tangents of the results of a cond."""
    kinds = kinds_of(incoming[1:])
    states, jvp_regions = remembered(regions, ("jvp", kinds), lambda: _cond_regions(regions, kinds))
    given = [t for tangent in incoming[1:] for t in tensors_of(tangent)]
    found = iter(applied(cond, (pred, *operands, *given), jvp_regions) if any(states) else ())
    out: list[Ct | None] = []
    for state in states:
        tangent = next(found) if state else None
        out.append(optional_ct(tangent, next(found), True) if state == "optional" else tangent)
    return out[0] if len(out) == 1 else out


def _cond_regions(
    regions: tuple[Graph, Graph], kinds: Sequence[CotangentKind | None]
) -> tuple[list[str], tuple[Graph, ...]]:
    """Of each result whether it has a tangent ("sure", "optional", or "" for none); regions."""
    halves = [_RegionTangents(region, kinds) for region in regions]
    pairs = list(zip(*[half.found for half in halves], strict=True))
    states = [
        "" if pair == (None, None)
        else "sure" if all(isinstance(t, Tensor) for t in pair) else "optional"
        for pair in pairs
    ]  # fmt: skip
    made = []
    for half in halves:
        results = []
        with opened(half.tape), recording(False):
            for state, t, value in zip(states, half.found, half.tape.results, strict=True):
                if state:
                    results.append(_tensor(t, value.type).content)
                if state == "optional":
                    results.append(_presence(t).content)
        tangents = [v for t in half.given for v in values_of(t)]
        made.append(half.closed([*half.tape.graph.params, *tangents], results))
    return states, tuple(made)


def _presence(tangent: Ct | None) -> Tensor:
    return tangent.present if isinstance(tangent, OptionalCt) else flag(tangent is not None)


def _tensor(tangent: Ct | None, type: TensorType) -> Tensor:
    """The tangent, or what adds nothing."""
    return nothing(type) if tangent is None else neutral(tangent)


# Loops ------------------------------------------------------------------------------------------


def for_jvp(
    incoming: tuple[Ct | None, ...],
    _results: Any,
    count: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    reverse: bool,
    sliced: int,
    overruns: bool,
    regions: tuple[Graph],
    **facts: Any,
) -> Any:
    """The tangents of the carried values and of the rows of a ``for``."""
    kinds = kinds_of(incoming[1:])
    key = ("jvp", for_, kinds, carried, sliced)
    loop = remembered(regions, key, lambda: _TangentLoop(for_, regions[0], kinds, carried, sliced))
    stacks = len(regions[0].results) > carried
    if stacks and not (sliced or loop.rows or overruns):
        count = ops.minimum(count, length)
    attrs = {"length": length, "reverse": reverse, "sliced": sliced + len(loop.slices)}
    more = len(loop.slices)  # slices, before the invariants that ``begins`` counts on
    facts["begins"] = tuple([(a, b + more * (b >= sliced)) for a, b in facts["begins"]])
    attrs |= {"overruns": overruns and bool(loop.rows), **facts}
    out = loop.run(count, operands, incoming, attrs)
    return out[0] if len(out) == 1 else out


def while_jvp(
    incoming: tuple[Ct | None, ...],
    _results: Any,
    go: Tensor,
    *operands: Tensor,
    carried: int,
    length: int,
    regions: tuple[Graph],
) -> list[Ct | None]:
    """The tangents of the carried values and rows of a ``while``; the trip count has none."""
    kinds = kinds_of(incoming[1:])
    key = ("jvp", while_, kinds, carried)
    loop = remembered(regions, key, lambda: _TangentLoop(while_, regions[0], kinds, carried, 0))
    return [None, *loop.run(go, operands, incoming, {"length": length})]


class _TangentLoop:
    """The body that carries tangents beside the values, for tangents of given kinds."""

    def __init__(
        self, op: Op, body: Graph, kinds: Sequence[CotangentKind | None], carried: int, sliced: int
    ) -> None:
        self.op, self.body, self.carried, self.sliced = op, body, carried, sliced
        self.before = int(op is for_)  # parameters before the operands: the index
        self.skip = int(op is while_)  # results before the carried values: the test
        flow = [False, *[kind is not None for kind in kinds]]
        reached = control_flows(op, flow, {"carried": carried}, (body,))[self.skip :]
        self.active = [at for at in range(carried) if reached[at]]
        given = [at for at, kind in enumerate(kinds) if kind is not None and at >= carried]
        self.slices = [at for at in given if at < carried + sliced]
        self.invariants = [at for at in given if at >= carried + sliced]
        self.flagged = [at for at in self.active if kinds[at] is None or not kinds[at].sure]
        while True:
            pushed = _RegionTangents(body, self.kinds_inside(kinds))
            found = pushed.found[self.skip :]
            absent = {at for at in self.active if not isinstance(found[at], Tensor)}
            if absent <= set(self.flagged):
                break
            self.flagged = sorted({*self.flagged, *absent})
        self.rows = [at for at in range(carried, len(found)) if found[at] is not None]
        self.jvp_body = self.graph(pushed, found)

    def kinds_inside(self, kinds: Sequence[CotangentKind | None]) -> list[CotangentKind | None]:
        """What is known of the tangents of the body's parameters."""
        inside: list[CotangentKind | None] = [None] * len(self.body.params)
        for at in self.active:
            type = self.body.params[self.before + at].type
            inside[self.before + at] = CotangentKind(type, at not in self.flagged)
        for at in (*self.slices, *self.invariants):
            type = self.body.params[self.before + at].type
            inside[self.before + at] = CotangentKind(type, kinds[at].sure)
        return inside

    def graph(self, pushed: _RegionTangents, found: Sequence[Ct | None]) -> Graph:
        tape, body = pushed.tape, self.body
        given = pushed.given[self.before :]
        flags = [t.present.content for t in given if isinstance(t, OptionalCt)]
        carried_flags = len(self.flagged)
        operands = body.params[self.before :]
        n, m = self.carried, self.carried + self.sliced
        params = [
            *body.params[: self.before],
            *operands[:n],
            *[values_of(given[at])[0] for at in self.active],
            *flags[:carried_flags],
            *operands[n:m],
            *[values_of(given[at])[0] for at in self.slices],
            *operands[m:],
            *[values_of(given[at])[0] for at in self.invariants],
            *flags[carried_flags:],
        ]
        results = list(body.results[: self.skip + n])
        with opened(tape), recording(False):
            for at in self.active:
                results.append(_tensor(found[at], operands[at].type).content)
            results += [_presence(found[at]).content for at in self.flagged]
            results += [plain(found[at]).content for at in self.rows]
        return pushed.closed(params, results)

    def run(
        self,
        decides: Tensor,
        operands: Sequence[Tensor],
        incoming: Sequence[Ct | None],
        attrs: dict[str, Any],
    ) -> list[Ct | None]:
        """The tangents of the carried values and of the rows."""
        given = incoming[1:]
        n, m = self.carried, self.carried + self.sliced
        rest = [given[at] for at in (*self.slices, *self.invariants)]
        carried = [
            *operands[:n],
            *[_tensor(given[at], operands[at].type) for at in self.active],
            *[_presence(given[at]) for at in self.flagged],
        ]
        every = [
            decides,
            *carried,
            *operands[n:m],
            *[neutral(given[at]) for at in self.slices],
            *operands[m:],
            *[neutral(given[at]) for at in self.invariants],
            *[t.present for t in rest if isinstance(t, OptionalCt)],
        ]
        found = applied(self.op, every, (self.jvp_body,), carried=len(carried), **attrs)
        found = found[self.skip :]
        out: list[Ct | None] = [None] * (len(self.body.results) - self.skip)
        flags = dict(zip(self.flagged, found[n + len(self.active) :], strict=False))
        for at, t in zip(self.active, found[n:], strict=False):
            out[at] = optional_ct(t, flags[at], True) if at in flags else t
        for at, stack in zip(self.rows, found[len(carried) :], strict=True):
            out[at] = stack
        return out
