"""Passes: functions from a graph to a graph that computes the same bits, sooner.

A pass is a file in this folder and a place in ``PIPELINE``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from hybrid.ir import Graph, verify
from hybrid.passes.broadcast import implicit_broadcast
from hybrid.passes.canonical import canonical
from hybrid.passes.cse import cse
from hybrid.passes.dce import dce
from hybrid.passes.fold import Evaluate, fold
from hybrid.passes.fuse import fuse
from hybrid.passes.postops import fuse_matmul
from hybrid.passes.simplify import simplify

__all__ = [
    "PIPELINE",
    "Evaluate",
    "canonical",
    "cse",
    "dce",
    "fold",
    "fuse",
    "fuse_matmul",
    "implicit_broadcast",
    "run_pipeline",
    "simplify",
]

PIPELINE: tuple[Callable[..., Graph], ...] = (
    canonical,  # first: the others know one form of each thing
    fold,  # before simplify: what it computes lets simplify see ones and zeros
    simplify,
    implicit_broadcast,  # makes equal scalars of different constants, which cse merges
    cse,
    dce,  # before fuse: a value that nobody uses would become the result of a map
    fuse,
    fuse_matmul,  # after fuse: it takes whole maps
)


def run_pipeline(
    graph: Graph, *, check: bool | None = None, evaluate: Evaluate | None = None
) -> Graph:
    """``graph`` after all passes.

    ``check`` verifies it before the first and after each one; None asks HYBRID_VERIFY.
    ``evaluate`` computes constant nodes for ``fold``, with the kernels that a run would use.
    """
    if check is None:
        check = os.environ.get("HYBRID_VERIFY", "0") not in ("", "0")
    if check:
        verify(graph)
    for run in PIPELINE:
        name = run.__name__
        if run is fold:
            run = partial(fold, evaluate=evaluate)
        graph = run(graph)
        if check:
            verify(graph, after=name)
    return graph
