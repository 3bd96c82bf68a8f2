"""Transfers begin early and are waited for late: the order of steps, and what a run gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.launch import call_plan
from hybrid.memory.channels import Channel, open_channel
from hybrid.plan import Plan, interpret, make_plan
from hybrid.plan.describe import step_name
from tests.csrc.test_channel import LIBRARY, RANKS
from tests.helpers import graph_of

NAME = "three alike"


class Alike(Channel):
    """Ranks of one process, which have the same values."""

    def __init__(self) -> None:
        super().__init__(NAME, 1, RANKS)
        self.number = LIBRARY.channel

    def agree(self, *_: object, **__: object) -> None:
        """They do."""

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        return np.concatenate([array] * RANKS)


@pytest.fixture(autouse=True)
def channel() -> Iterator[None]:
    open_channel(Alike())
    LIBRARY.tests = 0
    yield
    LIBRARY.tests = LIBRARY.code = 0


def two_layers(size: int, more: str = "", results: str = "%c, %d") -> str:
    kind, three = f"f32[{size},{size}]", f"f32[{RANKS * size},{size}]"
    comm = f'{{comm="{NAME}", ranks={RANKS}}}'
    return f"""
    graph @f(%x: {kind}, %y: {kind}, %w: {kind}) {{
      %a: {kind} = matmul %x, %w
      %b: {kind} = matmul %y, %w
      %p: {three} = all_gather %a {comm}
      %c: {three} = exp %p
      {more}
      %q: {three} = all_gather %b {comm}
      %d: {three} = exp %q
      return {results}
    }}"""


def names(plan: Plan) -> list[str]:
    return [step_name(step) for step in plan.steps]


def test_the_first_layer_is_on_its_way_while_the_second_is_computed() -> None:
    plan = make_plan(graph_of(two_layers(128)))
    assert names(plan) == [
        "host agree", "matmul", "host all_gather", "matmul", "host all_gather",
        "host wait for all_gather", "exp", "host wait for all_gather", "exp",
    ]  # fmt: skip


def test_what_is_small_is_waited_for_at_once() -> None:
    found = names(make_plan(graph_of(two_layers(16))))
    assert "host wait for all_gather" not in found and found.count("host all_gather") == 2


@pytest.mark.parametrize("tests", [0, 1, 7, 3000])
def test_the_results_have_the_same_bits(tests: int) -> None:
    graph, draw = graph_of(two_layers(64)), np.random.RandomState(0)
    given = [hy.asarray(draw.randn(64, 64).astype(np.float32) / 16) for _ in range(3)]
    plan, plain = make_plan(graph), make_plan(graph, parallel=False)
    assert "host wait for all_gather" in names(plan) and len(names(plain)) == 7
    wanted = [t.numpy().tobytes() for t in call_plan(plain, given)]
    for _ in range(3):
        LIBRARY.tests = tests
        assert [t.numpy().tobytes() for t in call_plan(plan, given)] == wanted
    interpreted = interpret(plan, [t.numpy() for t in given])
    for found, right in zip(interpreted, call_plan(plain, given), strict=True):
        np.testing.assert_allclose(found, right.numpy(), rtol=1e-5)


def test_results_are_not_written_before_what_may_fail() -> None:
    more = """%t: f32[128] = pick %c, %i {axis=0}
      %e: f32[128,128] = exp %y"""
    index = "%w: f32[128,128], %i: i64[])"
    text = two_layers(128, more, "%c, %d, %t, %e").replace("%w: f32[128,128])", index)
    found = names(make_plan(graph_of(text)))
    assert found[:6] == [
        "host agree", "matmul", "host all_gather", "matmul", "host wait for all_gather", "exp",
    ]  # fmt: skip
    assert found[6] == "take" and found.count("exp") == 3


def line(size: int) -> str:
    kind, whole, rows = f"f32[{size},{size}]", f"f32[{2 * size * size}]", f"f32[{size * size}]"
    gathered = f"f32[{RANKS * 2 * size * size}]"
    return f"""
    graph @f(%x: {kind}, %y: {kind}, %w: {kind}) {{
      %a: {kind} = matmul %x, %w
      %b: {kind} = matmul %y, %w
      %s: {rows} = reshape %a {{shape=({size * size},)}}
      %t: {rows} = reshape %b {{shape=({size * size},)}}
      %l: {whole} = concat %s, %t {{axis=0}}
      %p: {gathered} = all_gather %l {{comm="{NAME}", ranks={RANKS}}}
      %c: {kind} = softmax %y {{axis=1}}
      %u: {rows} = slice %p {{start=({size * size},), size=({size * size},), step=(1,)}}
      %v: {kind} = reshape %u {{shape=({size}, {size})}}
      %d: {kind} = exp %v
      return %c, %d
    }}"""


@pytest.mark.parametrize("tests", [0, 7, 3000])
def test_what_is_moved_at_once_is_computed_where_it_is_moved_from(tests: int) -> None:
    """As gradients are, and read where they arrive; nothing moves before both are there."""
    graph, draw = graph_of(line(128)), np.random.RandomState(0)
    plan = make_plan(graph)
    assert names(plan) == [
        "host agree", "matmul", "matmul", "host all_gather", "softmax", "host wait for all_gather",
        "exp",
    ]  # fmt: skip
    _, first, second, gather, *_ = plan.steps
    [moved] = gather.inputs
    assert [view.outputs[0].buffer for view in (first, second)] == [moved.buffer] * 2
    assert [view.outputs[0].offset for view in (first, second)] == [0, 128 * 128]
    given = [hy.asarray(draw.randn(128, 128).astype(np.float32) / 16) for _ in range(3)]
    LIBRARY.tests = tests
    c, d = call_plan(plan, given)
    _, y, w = given
    assert c.numpy().tobytes() == hy.softmax(y, axis=1).numpy().tobytes()
    assert d.numpy().tobytes() == hy.exp(y @ w).numpy().tobytes()


def test_what_comes_before_a_message_is_done_before_it_is_waited_for() -> None:
    """As the schedule of a pipeline has it: another rank computes meanwhile."""
    comm = f'{{comm="{NAME}", ranks={RANKS}}}'
    graph = f"""
    graph @f(%x: f32[128,128], %w: f32[128,128]) {{
      %a: f32[128,128] = matmul %x, %w
      %m: f32[128,128] = recv %x {{source=0, comm="{NAME}", ranks={RANKS}}}
      %b: f32[128,128] = matmul %m, %a
      %n: f32[128,128] = recv %x {{source=0, comm="{NAME}", ranks={RANKS}}}
      %c: f32[128,128] = matmul %n, %b
      %p: f32[{RANKS * 128},128] = all_gather %c {comm}
      return %p
    }}"""
    assert names(make_plan(graph_of(graph))) == [
        "host agree", "matmul", "host recv", "matmul", "host recv", "matmul", "host all_gather",
        "host wait for all_gather",
    ]  # fmt: skip
