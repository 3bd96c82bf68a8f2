"""The passes on open graphs: bound afterwards they compute the bits of graphs bound before."""

from __future__ import annotations

from hypothesis import given, settings

from hybrid.errors import HybridError
from hybrid.ir import Graph, verify
from hybrid.ir.bound_graphs import bind
from hybrid.passes import run_pipeline
from hybrid.plan import make_plan
from tests.random_graphs import all_ops, graphs, opened, outcome, unhurried

BINDINGS = [(4, 2), (5, 2), (16, 7), (3, 8)]


def outcome_of(graph: Graph) -> list[bytes] | str:
    try:
        return outcome(make_plan(graph))
    except HybridError as error:  # no kernel for such operands
        return type(error).__name__


def test_bound_before_or_after_passes() -> None:
    seen = [0, 0]

    @settings(unhurried, max_examples=60)
    @given(graphs(all_ops, nodes=20))
    def run(graph: Graph) -> None:
        made, sizes = opened(graph)
        verify(made)
        fixed = len(sizes.fixed)
        optimized = run_pipeline(made, check=True)
        assert len(sizes.fixed) == fixed  # no pass takes a size for a plain number
        for values in BINDINGS:
            seen[0] += 1
            if sizes.holds(values):
                seen[1] += 1
                bound = bind(optimized, values)
                verify(bound)
                assert outcome_of(bound) == outcome_of(run_pipeline(bind(made, values)))

    run()
    assert seen[1] > seen[0] / 2
