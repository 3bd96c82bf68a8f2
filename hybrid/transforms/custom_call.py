"""Derivatives and rows of ``custom_vjp`` nodes, and rows of ``checkpoint`` nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybrid import ops
from hybrid.autodiff.presence import Ct, OptionalCt, added, marked, plain, presence_of
from hybrid.autodiff.tape import Pull, node_of, pulled_back
from hybrid.eager.tensor import Tensor
from hybrid.ir import Graph
from hybrid.ir.record import Leaf, is_recording, recording
from hybrid.ops.flow.call_nodes import checkpoint_call, custom_call
from hybrid.ops.support.batching import with_rows
from hybrid.trace.gradients.checkpoint import call_again
from hybrid.trace.regions.build import remembered, replay
from hybrid.trace.regions.tracer import region_of
from hybrid.transforms.batch import Flags, all_rows, applied, batched_region, replay_batched


@custom_call.vjp
def custom_call_vjp(
    pull: Pull,
    results: Sequence[Tensor],
    *operands: Tensor,
    outs: int,
    cotangents: tuple[int, ...],
    shared: int,
    regions: tuple[Graph, Graph],
) -> list[Ct | None]:
    """What the second region says; residuals are differentiated as the ops that make them."""
    forward, backward = regions
    nodes = [None if parent is None else node_of(parent) for parent in pull.record.parents]
    totals = list(pull.arrived[: len(operands)])

    def arrive(at: int, ct: Ct | None) -> None:
        if ct is not None and pull.flow[at]:
            first = nodes.index(nodes[at])
            totals[first] = ct if totals[first] is None else added(totals[first], ct)

    given, kept = pull.cts[:outs], pull.cts[outs:]
    if any(ct is not None for ct in kept):
        for at, ct in enumerate(_through(forward, operands, pull.flow, outs, kept)):
            arrive(at, ct)
    if any(ct is not None for ct in given):
        full = [
            ops.zeros(t.type.shape, dtype=t.type.dtype) if ct is None else ct
            for ct, t in zip(given, results, strict=False)
        ]
        lone = outs == 1
        cts = [ct.ct if lone and isinstance(ct, OptionalCt) else plain(ct) for ct in full]
        behind = operands[len(operands) - shared :]
        found = replay(backward, [*results[outs:], *cts, *behind])
        present = presence_of(given) if lone else None
        for at, ct in zip(cotangents, found, strict=True):
            arrive(at, marked(ct, present))
    return totals


def _through(
    forward: Graph,
    operands: Sequence[Tensor],
    flow: Sequence[bool],
    outs: int,
    cts: Sequence[Ct | None],
) -> list[Ct | None]:
    """What the operands get from cotangents of residuals."""
    differentiable = is_recording()
    with recording(True):
        variables = []
        for t, flows in zip(operands, flow, strict=True):
            if flows:
                t = ops.identity(t)
                if t.record is None:
                    t.record = Leaf(t.type)
            variables.append(t)
        made = replay(forward, variables)[outs:]
    seeds = [(t.record, ct) for t, ct in zip(made, cts, strict=True) if t.record and ct is not None]
    targets = [t.record for t, flows in zip(variables, flow, strict=True) if flows]
    with recording(differentiable):
        found = iter(pulled_back(seeds, targets, stop=True))
    return [next(found) if flows else None for flows in flow]


@custom_call.batch
def custom_call_batch(
    rows: int,
    batched: Flags,
    *operands: Tensor,
    outs: int,
    cotangents: tuple[int, ...],
    shared: int,
    regions: tuple[Graph, Graph],
) -> Any:
    """The call on all rows, with the gradient of each row; operands they share get the sum."""
    forward, backward = regions
    every = (True,) * len(forward.results)
    called, _ = batched_region(forward, batched, rows, every)
    flags = (*every, *batched[len(batched) - shared :])

    def back(*params: Tensor) -> list[Tensor]:
        found, made = replay_batched(backward, params, flags, rows)
        wide = [with_rows(t, rows, b) for t, b in zip(found, made, strict=True)]
        return [
            t if batched[at] else ops.sum(t, axis=0, dtype=t.dtype)
            for at, t in zip(cotangents, wide, strict=True)
        ]

    types = [
        all_rows(v.type, rows) if b else v.type for v, b in zip(backward.params, flags, strict=True)
    ]
    key = ("rows of custom_vjp", batched, rows, cotangents)
    pulled = remembered((backward,), key, lambda: region_of("backward", types, back))
    attrs = {"outs": outs, "cotangents": cotangents, "shared": shared}
    return applied(custom_call, operands, attrs, (called, pulled)), every


@checkpoint_call.batch
def checkpoint_batch(
    rows: int,
    batched: Flags,
    *operands: Tensor,
    outs: int,
    late: tuple[int, ...],
    regions: tuple[Graph, Graph],
) -> Any:
    """The call on all rows, which is made again on all rows."""
    every = (True,) * outs
    again, _ = batched_region(regions[1], batched[outs:], rows, every)
    made = [with_rows(t, rows, b) for t, b in zip(operands[:outs], batched, strict=False)]
    return call_again(made, operands[outs:], again, late), every
