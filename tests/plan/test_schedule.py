"""The scheduler: what runs side by side, with the same bits, in little more memory."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import HybridError
from hybrid.ir import Graph
from hybrid.memory import native
from hybrid.passes import run_pipeline
from hybrid.plan import all_plans, interpret, make_plan, schedule
from hybrid.plan.lower import lower
from hybrid.plan.memory import place
from hybrid.plan.plan import Plan
from hybrid.plan.steps import Step, walk
from tests.helpers import graph_of
from tests.plan.random_control import control_graphs, run_by_hand
from tests.random_graphs import all_ops, exact_ops, graphs, unhurried

UNHURRIED = settings(
    unhurried,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = native.num_threads()
    native.set_num_threads(2)
    yield
    native.set_num_threads(before)


@pytest.fixture
def eager_to_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may run side by side does, whether that wins or not."""
    monkeypatch.setattr(schedule, "WAKE", 0.0)
    monkeypatch.setattr(schedule, "SLEEP", 0.0)
    monkeypatch.setattr(schedule, "WORTH", -1.0)
    monkeypatch.setattr(schedule, "WORTH_SHARE", 0.0)
    monkeypatch.setattr(schedule, "GROWTH_BYTES", 1 << 60)


def groups(plan: Plan) -> list[Step]:
    return [step for step in walk(plan.lowered.steps) if step.is_group]


def members(plan: Plan) -> list[list[int]]:
    """How many steps each member of each group has."""
    return [[len(block) for block in group.blocks] for group in groups(plan)]


def in_place(plan: Plan) -> set[int]:
    """The results that may be written over inputs; nothing is not."""
    return {output for output in plan.donations if plan.output_types[output].size}


def inputs_for(graph: Graph, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    made = []
    for value in graph.params:
        kind = value.type.dtype.numpy
        array = random.standard_normal(value.type.shape)
        made.append(np.array(array if kind.kind == "f" else np.abs(array) * 3, kind))
    return made


def results(plan: Plan, arrays: list[np.ndarray]) -> list[bytes]:
    return [t.numpy().tobytes() for t in call_plan(plan, [as_tensor(a) for a in arrays])]


def check_bits(graph: Graph, seed: int = 0) -> Plan:
    """Grouped as serial, by 1, 2 and 4 threads; the oracle agrees, last member first."""
    arrays = inputs_for(graph, seed)
    plan, serial = make_plan(graph), make_plan(graph, parallel=False)
    assert not groups(serial)
    native.set_num_threads(1)
    wanted = results(serial, arrays)
    for count in (1, 2, 4):
        native.set_num_threads(count)
        for _ in range(3):
            assert results(plan, arrays) == wanted
    assert in_place(serial) <= in_place(plan)
    return plan


# What is found ----------------------------------------------------------------------------------

TOWERS = """
graph @towers(%a: f32[56,128], %b: f32[56,128], %w: f32[128,128]) {
  %a1: f32[56,128] = matmul %a, %w
  %a2: f32[56,128] = softmax %a1 {axis=1}
  %a3: f32[56,128] = matmul %a2, %w
  %b1: f32[56,128] = matmul %b, %w
  %b2: f32[56,128] = softmax %b1 {axis=1}
  %b3: f32[56,128] = matmul %b2, %w
  %s: f32[56,128] = add %a3, %b3
  return %s
}
"""


def towers() -> Graph:
    return graph_of(TOWERS)


def test_towers_run_side_by_side() -> None:
    plan = check_bits(towers())
    assert members(plan) == [[3, 3]]
    assert [step.control is not None for step in plan.lowered.steps] == [True, False]


CROSSED = """
graph @crossed(%a: f32[64,64], %b: f32[64,64]) {
  %p: f32[64,64] = matmul %a, %b
  %q: f32[64,64] = matmul %b, %a
  %r: f32[64,64] = matmul %p, %q
  %s: f32[64,64] = matmul %q, %p
  %t: f32[64,64] = matmul %r, %s
  %u: f32[64,64] = matmul %s, %r
  return %t, %u
}
"""


def test_pairs_that_need_both_of_the_pair_before_are_groups(eager_to_group: None) -> None:
    """No step comes before or after all others."""
    assert members(check_bits(graph_of(CROSSED))) == [[1, 1], [1, 1], [1, 1]]


def updates(sizes: list[int], steps: int) -> tuple[list[hy.Tensor], object]:
    """Parameters so large after as many captured steps, and what captured them."""
    parameters = [hy.nn.Parameter(hy.ones(n) * 0.5) for n in sizes]
    optimizer = hy.optim.Adam(parameters, lr=1e-2)

    def step(x):
        optimizer.zero_grad()
        sum([(p * p * x).sum() for p in parameters]).backward()
        optimizer.step()

    captured = hy.hybridize(step)
    for _ in range(steps):
        captured(hy.asarray(np.float32(0.1)))
    return parameters, captured


def test_updates_of_many_parameters_are_one_region() -> None:
    sizes = [n + i for i in range(4) for n in (10, 5000, 3000, 64, 8000, 1, 300, 9000)]
    known = set(all_plans())
    parameters, _captured = updates(sizes, 3)
    [plan] = [p for n, p in all_plans().items() if n not in known and "adam" in str(p.graph)]
    largest = max(groups(plan), key=lambda group: len(group.blocks))
    assert len(largest.blocks) == len(sizes)
    assert all(block[-1].ops[-1].kernel == "adam" for block in largest.blocks)
    assert len(plan.donations) >= 3 * len(sizes)  # in place, as without groups
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "WORTH", 1.0)
        others, _captured = updates(sizes, 3)
    for one, other in zip(parameters, others, strict=True):
        assert one.numpy().tobytes() == other.numpy().tobytes()


def test_a_chain_and_small_steps_are_left_alone() -> None:
    chain = graph_of(
        """
        graph @chain(%x: f32[64,128], %w: f32[128,128]) {
          %a: f32[64,128] = matmul %x, %w
          %b: f32[64,128] = matmul %a, %w
          %c: f32[64,128] = matmul %b, %w
          return %c
        }
        """
    )
    small = graph_of(
        """
        graph @small(%x: f32[8,4], %y: f32[8,4]) {
          %a: f32[8] = sum %x {axis=(1,), keepdims=false}
          %b: f32[8] = sum %y {axis=(1,), keepdims=false}
          return %a, %b
        }
        """
    )
    for graph in (chain, small):
        assert not groups(make_plan(graph))


def test_what_may_be_refused_keeps_its_place(eager_to_group: None) -> None:
    """The first mistake in the order of the program is the one that is raised."""
    graph = graph_of(
        """
        graph @takes(%x: f32[4], %y: f32[4], %i: i64[3], %j: i64[3]) {
          %a: f32[3] = take %x, %i {axis=0}
          %b: f32[3] = take %x, %j {axis=0}
          %c: f32[4] = exp %x
          %d: f32[4] = sin %y
          return %a, %b, %c, %d
        }
        """
    )
    plan = make_plan(graph)
    assert members(plan) == [[1, 1]]
    x, good, bad = np.ones(4, np.float32), np.zeros(3, np.int64), np.full(3, 9)
    for first, second in ((bad, good), (good, bad), (bad, bad)):
        with pytest.raises(IndexError):
            results(plan, [x, x, first, second])
        assert native.failed_step() == (0 if first is bad else 1)


def test_an_update_comes_after_other_readers_of_its_parameter(eager_to_group: None) -> None:
    """Side by side with one it could not be written in place."""
    graph = graph_of(
        """
        graph @step(%p: f32[4000], %g: f32[4000], %q: f32[4000]) {
          %n: f32[4000] = subtract %p, %g
          %m: f32[4000] = subtract %q, %g
          %s: f32[1] = sum %p {axis=(0,), keepdims=true}
          return %n, %m, %s
        }
        """
    )
    reordered = graph_of(
        """
        graph @step(%p: f32[4000], %g: f32[4000], %q: f32[4000]) {
          %s: f32[1] = sum %p {axis=(0,), keepdims=true}
          %n: f32[4000] = subtract %p, %g
          %m: f32[4000] = subtract %q, %g
          return %n, %m, %s
        }
        """
    )
    assert check_bits(graph).donations.keys() == {1}
    plan = check_bits(reordered)
    assert plan.donations == {0: 0, 1: 2}
    assert sorted(members(plan)[0]) == [1, 2]


def test_members_are_in_loops_too(eager_to_group: None) -> None:
    def cells(x, h, w):
        for _ in range(5):
            h = hy.tanh(h @ w + x @ w)
        return h

    random = np.random.default_rng(0)
    given = [hy.asarray(random.standard_normal((8, 8)).astype("f4")) for _ in range(3)]
    captured = hy.hybridize(cells)
    assert captured(*given).numpy().tobytes() == cells(*given).numpy().tobytes()


# Memory -----------------------------------------------------------------------------------------


def test_what_towers_hold_is_alive_together() -> None:
    """A tower's own values take turns in a place, but with nothing of the other tower."""
    lowered = lower(towers())
    schedule.schedule(lowered)
    placement = place(lowered)
    size = 56 * 128 * 4
    serial = lower(towers())
    assert place(serial).arena_nbytes == 3 * size
    assert placement.arena_nbytes == 4 * size  # two of each
    [group] = [step for step in lowered.steps if step.control is not None]
    reached = [
        {
            (view.buffer.offset, view.buffer.offset + view.buffer.nbytes)
            for step in block
            for view in step.operands
            if view.buffer.kind == "arena"
        }
        for block in group.blocks
    ]
    for (low, high), (start, end) in itertools.product(*reached):
        assert high <= start or end <= low


def test_groups_that_need_much_more_memory_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "GROWTH_BYTES", 0)
    monkeypatch.setattr(schedule, "GROWTH_SHARE", 0.0)
    assert members(make_plan(towers())) == []


@pytest.mark.parametrize(("share", "found"), [(0.6, []), (0.7, [[3, 3]])])
def test_what_a_group_may_need_is_a_share_of_what_is_needed_anyway(
    share: float, found: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other they hold three products at once, side by side two more at most."""
    monkeypatch.setattr(schedule, "GROWTH_BYTES", 0)
    monkeypatch.setattr(schedule, "GROWTH_SHARE", share)
    assert members(make_plan(towers())) == found


def test_a_result_is_written_over_the_operand_that_dies_though_the_first_does_not(
    eager_to_group: None,
) -> None:
    reads = "\n".join(f"%u{i}: f32[4096] = exp %x" for i in range(6))
    graph = graph_of(
        f"""
        graph @f(%x: f32[4096], %y: f32[4096]) {{
          %a: f32[4096] = exp %y
          %m: f32[4096] = maximum %x, %y
          {reads}
          return %m, %a, {", ".join(f"%u{i}" for i in range(6))}
        }}"""
    )
    serial, plan = make_plan(graph, parallel=False), make_plan(graph)
    assert groups(plan) and 0 in in_place(serial) and in_place(serial) <= in_place(plan)


# The same bits ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("eager_to_group")
class TestForced:
    @pytest.mark.parametrize("poison", ["0", "1"])
    def test_random_graphs(self, poison: str) -> None:
        seen = [0]

        @settings(UNHURRIED, max_examples=80)
        @given(graphs(all_ops, nodes=30), st.integers(0, 2**31))
        def run(graph: Graph, seed: int) -> None:
            for version in (graph, run_pipeline(graph)):
                arrays = inputs_for(version, seed)
                try:
                    serial = make_plan(version, parallel=False)
                except HybridError:  # no kernel for such operands
                    continue
                plan = make_plan(version)
                seen[0] += len(groups(plan))
                assert outcome(plan, arrays) == outcome(serial, arrays), str(version)
                assert in_place(serial) <= in_place(plan), str(version)

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HYBRID_POISON", poison)
            run()
        assert seen[0] > 20

    @settings(UNHURRIED, max_examples=80)
    @given(graphs(exact_ops, nodes=30), st.integers(0, 2**31))
    def test_the_oracle_agrees(self, graph: Graph, seed: int) -> None:
        """It runs members in the other order, poisoning what is dead."""
        arrays = inputs_for(graph, seed)
        plan = make_plan(run_pipeline(graph))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = interpret(plan, arrays)
        found = call_plan(plan, [as_tensor(a) for a in arrays])
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6, equal_nan=True)

    @settings(UNHURRIED, max_examples=60)
    @given(control_graphs(), st.integers(0, 2**31))
    def test_random_control_flow(self, graph: Graph, seed: int) -> None:
        random = np.random.default_rng(seed)
        arrays = [
            np.array(random.integers(-2, 5, v.type.shape), v.type.dtype.numpy) for v in graph.params
        ]
        tensors = [as_tensor(a) for a in arrays]
        wanted = [t.numpy().tobytes() for t in run_by_hand(graph, tensors)]
        plan = make_plan(graph)
        for count in (1, 2, 4, 2):
            native.set_num_threads(count)
            assert [t.numpy().tobytes() for t in call_plan(plan, tensors)] == wanted

    def test_a_training_step(self) -> None:
        def trained(parallel: bool) -> list[bytes]:
            hy.random.seed(0)
            network = hy.nn.Sequential(
                hy.nn.Linear(16, 32), hy.nn.ReLU(), hy.nn.LayerNorm(32), hy.nn.Linear(32, 4)
            )
            optimizer = hy.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)

            def step(x, y):
                optimizer.zero_grad()
                loss = hy.nn.functional.cross_entropy(network(x), y)
                loss.backward()
                optimizer.step()
                return loss

            captured = hy.hybridize(step) if parallel else step
            x = hy.asarray(np.random.default_rng(1).standard_normal((8, 16)).astype("f4"))
            y = hy.asarray(np.arange(8) % 4)
            losses = [captured(x, y).numpy().tobytes() for _ in range(5)]
            return losses + [p.numpy().tobytes() for p in network.parameters()]

        assert trained(True) == trained(False)


def outcome(plan: Plan, arrays: list[np.ndarray]) -> object:
    try:
        return results(plan, arrays)
    except (HybridError, IndexError) as error:
        return type(error), str(error)
