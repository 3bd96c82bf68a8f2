"""late_gathers gathers parameters where they are read, and again on the way back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.launch import call_plan
from hybrid.ir import Graph
from hybrid.memory.channels import Channel, open_channel
from hybrid.ops.communication.collectives import gather_parameters
from hybrid.passes import late_gathers
from hybrid.plan import make_plan
from tests.helpers import assert_rewrites, graph_of

NAME, RANKS, WIDTH = "two alike", 2, 64
COMM = f'{{comm="{NAME}", ranks={RANKS}}}'
PART, WHOLE, ROWS = f"f32[{WIDTH // RANKS},{WIDTH}]", f"f32[{WIDTH},{WIDTH}]", f"f32[4,{WIDTH}]"


class Pair(Channel):
    """Two ranks of one process, which have the same values."""

    def __init__(self) -> None:
        super().__init__(NAME, 1, RANKS)
        self.gathered = 0

    def agree(self, *_: object, **__: object) -> None:
        """They do."""

    def all_gather(self, array: np.ndarray) -> np.ndarray:
        self.gathered += 1
        return np.concatenate([array] * RANKS)


@pytest.fixture(autouse=True)
def channel() -> Iterator[Pair]:
    made = Pair()
    open_channel(made)
    yield made


def gathers(graph: Graph) -> int:
    return sum(node.op is gather_parameters for node in graph.walk())


def layers(count: int, results: str = "") -> str:
    """A way there through ``count`` layers, and one back by their transposed weights."""
    params = ", ".join(["%x: " + ROWS, *(f"%p{i}: {PART}" for i in range(count))])
    lines = [f"%w{i}: {WHOLE} = gather_parameters %p{i} {COMM}" for i in reversed(range(count))]
    last = "%x"
    for i in range(count):
        lines.append(f"%y{i}: {ROWS} = matmul {last}, %w{i}")
        last = f"%y{i}"
    lines.append(f"%g{count}: {ROWS} = exp {last}")
    for i in reversed(range(count)):
        lines.append(f"%t{i}: {WHOLE} = permute_dims %w{i} {{axes=(1, 0)}}")
        lines.append(f"%g{i}: {ROWS} = matmul %g{i + 1}, %t{i}")
    body = "\n  ".join(lines)
    return f"graph @f({params}) {{\n  {body}\n  return %g0{results}\n}}"


AFTER = f"""
graph @f(%x: {ROWS}, %p0: {PART}, %p1: {PART}, %p2: {PART}) {{
  %w0: {WHOLE} = gather_parameters %p0 {COMM}
  %w1: {WHOLE} = gather_parameters %p1 {COMM}
  %y0: {ROWS} = matmul %x, %w0
  %w2: {WHOLE} = gather_parameters %p2, %y0 {COMM}
  %y1: {ROWS} = matmul %y0, %w1
  %b1: {WHOLE} = gather_parameters %p1, %y1 {COMM}
  %y2: {ROWS} = matmul %y1, %w2
  %g3: {ROWS} = exp %y2
  %t2: {WHOLE} = permute_dims %w2 {{axes=(1, 0)}}
  %g2: {ROWS} = matmul %g3, %t2
  %b0: {WHOLE} = gather_parameters %p0, %g2 {COMM}
  %t1: {WHOLE} = permute_dims %b1 {{axes=(1, 0)}}
  %g1: {ROWS} = matmul %g2, %t1
  %t0: {WHOLE} = permute_dims %b0 {{axes=(1, 0)}}
  %g0: {ROWS} = matmul %g1, %t0
  return %g0
}}
"""


def test_each_is_gathered_for_both_ways_but_the_last() -> None:
    assert_rewrites(late_gathers, layers(3), AFTER)


def test_the_bits_are_the_same_and_two_layers_are_whole_at_a_time(channel: Pair) -> None:
    count = 8
    graph, draw = graph_of(layers(count)), np.random.RandomState(0)
    late = late_gathers(graph)
    given = [hy.asarray(draw.randn(4, WIDTH).astype(np.float32) / 16)]
    given += [
        hy.asarray(draw.randn(WIDTH // RANKS, WIDTH).astype(np.float32) / 16) for _ in range(count)
    ]
    plain, plan = make_plan(graph), make_plan(late)
    (wanted,), (found,) = call_plan(plain, given), call_plan(plan, given)
    assert found.numpy().tobytes() == wanted.numpy().tobytes()
    assert channel.gathered == count + (2 * count - 1)
    nbytes = 4 * WIDTH * WIDTH
    assert plain.arena_nbytes >= count * nbytes
    assert plan.arena_nbytes < 4 * nbytes  # those of two layers, and their transposes


def test_sums_do_not_wait_for_what_is_gathered_later() -> None:
    text = layers(4).replace("%t0:", f"%s: {ROWS} = all_reduce %g3 {COMM}\n  %t0:")
    nodes = [node for node in late_gathers(graph_of(text)).nodes if node.observable]
    at = next(i for i, node in enumerate(nodes) if node.op.name == "all_reduce")
    assert at == 5 and len(nodes) == 8


def test_what_is_read_by_turns_is_gathered_twice() -> None:
    """As by the steps of a recurrent network: not at each of them."""
    steps = "\n  ".join(
        f"%y{i}: {ROWS} = matmul %{'x' if not i else f'y{i - 1}'}, %{'ab'[i % 2]}" for i in range(8)
    )
    text = f"""
    graph @f(%x: {ROWS}, %p: {PART}, %q: {PART}) {{
      %a: {WHOLE} = gather_parameters %p {COMM}
      %b: {WHOLE} = gather_parameters %q {COMM}
      {steps}
      return %y7
    }}"""
    assert gathers(late_gathers(graph_of(text))) == 4


def test_a_model_that_is_called_for_each_shard_gathers_for_each() -> None:
    count = 6
    there = layers(count)
    again = there.replace("%y", "%u").replace("%g", "%v").replace("%t", "%s")
    text = there.replace("\n  return %g0\n}", "") + "\n"
    text += again[again.index("%u0") :].replace("return %v0", "return %g0, %v0")
    assert gathers(late_gathers(graph_of(text))) > 2 * (count + 1)


def test_results_and_what_nobody_reads() -> None:
    graph = graph_of(layers(3, ", %w1, %y2"))
    late = late_gathers(graph)
    assert late.results[1].type == graph.results[1].type
    unread = (
        f"%w0: {WHOLE} = gather_parameters %p0 {COMM}\n  %z: {WHOLE} = gather_parameters %p1 {COMM}"
    )
    text = layers(3).replace(f"%w0: {WHOLE} = gather_parameters %p0 {COMM}", unread)
    assert gathers(graph_of(text)) == 4 and gathers(late_gathers(graph_of(text))) == 5


def test_bodies_of_loops(channel: Pair) -> None:
    draw = np.random.RandomState(0)
    xs = hy.asarray(draw.randn(12, 4, WIDTH).astype(np.float32) / 16)
    parts = [hy.asarray(draw.randn(WIDTH // RANKS, WIDTH).astype(np.float32) / 16) for _ in "pqr"]

    def looped(xs: hy.Tensor, p: hy.Tensor, q: hy.Tensor, r: hy.Tensor) -> hy.Tensor:
        total = hy.zeros((4, WIDTH))
        for x in xs:
            a, b, c = (gather_parameters(part, comm=NAME, ranks=RANKS) for part in (p, q, r))
            total = total + hy.exp(x @ a @ b @ c) @ c.T @ b.T @ a.T
        return total

    hybridized = hy.hybridize(looped)
    found, wanted = hybridized(xs, *parts), looped(xs, *parts)
    assert found.numpy().tobytes() == wanted.numpy().tobytes()
    graph = hybridized.plans[0].plan.graph
    assert gathers(graph) == 5 and not any(n.op is gather_parameters for n in graph.nodes)


def test_other_graphs_stay_as_they_are() -> None:
    plain = graph_of("graph @f(%x: f32[3]) {\n  %y: f32[3] = exp %x\n  return %y\n}")
    assert late_gathers(plain) is plain
