"""Plans of open graphs: bound to a size they are those of the graph that is bound to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import HybridError, OutOfMemoryError, ShapeError
from hybrid.ir import Graph
from hybrid.ir.bound_graphs import bind
from hybrid.ir.graph import sizes_of
from hybrid.memory import native
from hybrid.passes import run_pipeline
from hybrid.plan import make_plan
from hybrid.plan.open_plan import OpenPlan
from tests.helpers import graph_of
from tests.random_graphs import all_ops, graphs, opened, operands_of, outcome, unhurried

BINDINGS = [(4, 2), (5, 2), (16, 7), (3, 8), (100, 64)]


def test_open_plans_of_random_graphs() -> None:
    seen = [0, 0]

    @settings(unhurried, max_examples=60)
    @given(graphs(all_ops, nodes=20))
    def run(graph: Graph) -> None:
        made, sizes = opened(graph)
        try:
            plan = OpenPlan(run_pipeline(made), sizes)
        except HybridError:  # no kernel for such operands
            return
        for values in BINDINGS:
            seen[0] += 1
            if sizes.holds(values):
                seen[1] += 1
                found, whole = plan.bound(values), make_plan(run_pipeline(bind(made, values)))
                assert outcome(found) == outcome(whole)
                assert found.input_types == whole.input_types
                assert found.output_types == whole.output_types

    run()
    assert seen[1] > seen[0] / 3


ATTENTION = """
graph @attention<n = 37>(%q: f32[n,64], %k: f32[n,64], %v: f32[n,64]) {
  %s: f32[n,n] = matmul_nt %q, %k
  %p: f32[n,n] = softmax %s {axis=1}
  %o: f32[n,64] = matmul %p, %v
  %r: f32[n*64] = reshape %o {shape=(n*64,)}
  return %r
}
"""


def open_plan(text: str) -> OpenPlan:
    graph = graph_of(text)
    sizes = sizes_of(graph)
    assert sizes is not None
    return OpenPlan(graph, sizes)


@pytest.mark.parametrize("n", [2, 3, 37, 200, 1000])
def test_a_plan_of_many_sizes(n: int) -> None:
    plan = open_plan(ATTENTION)
    found, whole = plan.bound((n,)), make_plan(bind(plan.graph, (n,)))
    assert str(found.input_types) == f"(f32[{n},64], f32[{n},64], f32[{n},64])"
    assert outcome(found) == outcome(whole)
    assert found.sizes == whole.sizes
    assert found.donations == whole.donations


def test_sizes_that_no_plan_can_have() -> None:
    plan = open_plan(ATTENTION)
    with pytest.raises(ShapeError):
        plan.bound((2**31 - 1,))


def test_binding_without_memory() -> None:
    plan = open_plan(ATTENTION)
    failures = 0
    for nth in range(1, 50):
        native.lib.hyb_fail_allocation(nth)
        try:
            plan.bound((50,))
            break
        except OutOfMemoryError:
            failures += 1
        finally:
            native.lib.hyb_fail_allocation(0)
    assert failures >= 2  # the order of places, and the parts of a plan
    assert outcome(plan.bound((50,))) == outcome(make_plan(bind(plan.graph, (50,))))


HOSTED = """
graph @hosted<n = 6>(%m: bool[n], %x: i64[n]) {
  %y: i64[n] = true_indices %m {size=n}
  %z: i64[n] = add %y, %x
  return %z
}
"""


def test_ops_that_python_computes_are_bound() -> None:
    plan = open_plan(HOSTED)
    for n in (2, 5, 9):
        found = plan.bound((n,))
        assert found.calls_python
        assert found.arrays() is None
        x = np.random.default_rng(0).integers(-9, 9, n)
        [z] = call_plan(found, [as_tensor(np.ones(n, bool)), as_tensor(x)])
        np.testing.assert_array_equal(z.numpy(), np.arange(n) + x)
        assert outcome(found) == outcome(make_plan(bind(plan.graph, (n,))))


LOOP = """
graph @rows<n = 6>(%count: i64[], %x: f32[n,4], %s: f32[4]) {
  %t: f32[4], %ys: f32[n,4] = for %count, %s, %x {carried=1, length=n, sliced=1, reverse=false} {
    body(%i: i64[], %c: f32[4], %row: f32[4]) {
      %d: f32[4] = add %c, %row
      return %d, %d
    }
  }
  return %t, %ys
}
"""


@pytest.mark.parametrize("n", [2, 7, 64])
def test_loops_over_open_axes(n: int) -> None:
    plan = open_plan(LOOP)
    x = np.random.default_rng(0).standard_normal((n, 4)).astype(np.float32)
    given = [as_tensor(np.int64(n)), as_tensor(x), as_tensor(np.zeros(4, np.float32))]
    total, sums = call_plan(plan.bound((n,)), given)
    np.testing.assert_array_equal(sums.numpy(), np.cumsum(x, 0, dtype=np.float32))
    np.testing.assert_array_equal(total.numpy(), sums.numpy()[-1])


def test_runs_without_memory() -> None:
    """What a run takes for its arena is what others have left, or an error."""
    plan = open_plan(ATTENTION).bound((50,))
    expected = outcome(plan)
    native.trim_memory()
    for nth in (1, 2):
        operands = operands_of(plan.input_types)
        native.lib.hyb_fail_allocation(nth)
        try:
            with pytest.raises(OutOfMemoryError):
                call_plan(plan, operands)
        finally:
            native.lib.hyb_fail_allocation(0)
    assert outcome(plan) == expected
