"""Passes: functions from a graph to a graph that computes the same bits, sooner.

A pass is a file in this folder and a line in ``PIPELINE``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from hybrid.core.timing import phase
from hybrid.ir import Graph, inlined, verify
from hybrid.passes.control.conds import simplify_cond
from hybrid.passes.control.constant_control import known
from hybrid.passes.control.hoist import hoist
from hybrid.passes.control.join import join
from hybrid.passes.control.loops import simplify_loop
from hybrid.passes.control.parts import holds_control_flow
from hybrid.passes.control.share import share
from hybrid.passes.control.sink import sink
from hybrid.passes.fusion.assemble import assemble
from hybrid.passes.fusion.fuse import fuse
from hybrid.passes.fusion.postops import fuse_products
from hybrid.passes.fusion.preops import fuse_reductions
from hybrid.passes.fusion.product_sums import sums
from hybrid.passes.scalar.broadcast import implicit_broadcast
from hybrid.passes.scalar.canonical_form import canonical
from hybrid.passes.scalar.cse import cse
from hybrid.passes.scalar.dce import dce
from hybrid.passes.scalar.fold import Evaluate, fold
from hybrid.passes.scalar.node_order import order
from hybrid.passes.scalar.simplify import simplify
from hybrid.passes.weights.channel_blocks import layout
from hybrid.passes.weights.fold_norms import fold_norms
from hybrid.passes.weights.late_gathers import late_gathers
from hybrid.passes.weights.precomputation import Precomputation, ahead

Pass = Callable[..., Graph]

__all__ = [
    "FAST",
    "PIPELINE",
    "Evaluate",
    "Pass",
    "Precomputation",
    "ahead",
    "assemble",
    "canonical",
    "cse",
    "dce",
    "fold",
    "fold_norms",
    "fuse",
    "fuse_products",
    "fuse_reductions",
    "hoist",
    "implicit_broadcast",
    "join",
    "known",
    "late_gathers",
    "layout",
    "order",
    "run_parts",
    "run_pipeline",
    "share",
    "simplify",
    "simplify_cond",
    "simplify_loop",
    "sink",
    "sums",
]

# Passes of an inner tuple run until they change nothing: once something is known, more may be.
PIPELINE: tuple[Pass | tuple[Pass, ...], ...] = (
    inlined,  # first: derivatives are done with, and the others look into no calls
    canonical,  # before others, which know one form of each thing
    late_gathers,  # before those that go by sizes: it is to do the same on all ranks
    (
        fold,  # before simplify: what it computes lets simplify see ones and zeros
        simplify,
        assemble,
        implicit_broadcast,  # makes equal scalars of different constants, which cse merges
        cse,
        sink,  # before known: it tells branches and bodies what they need to know
        known,
        simplify_cond,
        join,
        simplify_loop,
        sums,  # before hoist: it takes products apart
        hoist,
        share,
        dce,  # before fuse: a value that nobody uses would become the result of a map
    ),
    layout,  # before fuse, so that maps and post-ops are of its images
    fuse,
    fuse_reductions,  # after fuse: it takes maps, and parts of them
    fuse_products,  # after both: it takes the maps that are left
    order,  # last: what is one node by now has one place
)
# What changes bits: for ``optimize="fast"``, before fusion.
FAST: tuple[Pass, ...] = (fold_norms, dce)
MAX_ROUNDS = 10


def run_pipeline(
    graph: Graph,
    *,
    check: bool | None = None,
    evaluate: Evaluate | None = None,
    fast: bool = False,
) -> Graph:
    """``graph`` after all passes.

    ``check`` verifies it before the first and after each one; None asks HYBRID_VERIFY.
    ``evaluate`` computes constant nodes for ``fold``, with the kernels that a run would use.
    ``fast`` runs the passes that may change bits, too.
    """
    first, last = _stages(fast)
    return _run(graph, (*first, *last), _asked(check), evaluate)


def run_parts(
    graph: Graph,
    fixed: Collection[int],
    *,
    check: bool | None = None,
    evaluate: Evaluate | None = None,
    fast: bool = False,
) -> tuple[Graph, Precomputation | None]:
    """``graph`` after all passes; of two parts, if that is worth it, the rest, and both.

    ``fixed`` are the parameters that stay the same from run to run: see ``ahead``.
    """
    check = _asked(check)
    first, last = _stages(fast)
    graph = _run(graph, first, check, evaluate, fixed)
    with phase("ahead"):
        parts = ahead(graph, fixed)
    if parts is None:
        return _run(graph, last, check, evaluate), None
    early, rest = (_run(part, last, check, evaluate) for part in (parts.graph, parts.rest))
    return rest, Precomputation(early, parts.params, rest)


def _asked(check: bool | None) -> bool:
    return os.environ.get("HYBRID_VERIFY", "0") not in ("", "0") if check is None else check


def _stages(fast: bool) -> tuple[tuple[Pass | tuple[Pass, ...], ...], ...]:
    """What runs on whole graphs, and what comes last, from ``fuse`` on."""
    at, end = (PIPELINE.index(run) if run in PIPELINE else len(PIPELINE) for run in (layout, fuse))
    return (*PIPELINE[:at], *(FAST if fast else ()), *PIPELINE[at:end]), PIPELINE[end:]


def _run(
    graph: Graph,
    entries: Sequence[Pass | tuple[Pass, ...]],
    check: bool,
    evaluate: Evaluate | None,
    fixed: Collection[int] = (),
) -> Graph:
    if check:
        verify(graph)
    given = {fold: evaluate, layout: fixed}

    def apply(run: Pass) -> None:
        nonlocal graph
        before = graph
        with phase(run.__name__):
            graph = run(graph, given[run]) if run in given else run(graph)
        if check and graph is not before:
            with phase("verify"):
                verify(graph, after=run.__name__)

    for entry in entries:
        if not isinstance(entry, tuple):
            apply(entry)
            continue
        for _ in range(MAX_ROUNDS):
            before = graph
            for run in entry:
                apply(run)
            if graph is before or not holds_control_flow(before):
                break  # straight code is done in one round
    return graph
