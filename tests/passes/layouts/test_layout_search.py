"""The search finds what trying all strategies finds; what it has found computes what it should."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pytest

from hybrid.core.layouts import MeshAxis, Placement
from hybrid.ir import Graph
from hybrid.passes.layouts.layout_search import HeldCell, LayoutSearch
from hybrid.passes.layouts.local_prices import LocalPrices, guessed
from tests.helpers import graph_of
from tests.passes.layouts.simulated_ranks import axis_of

SIX = """
graph @step(
    %x: f32[{rows},{wide}], %a: f32[{wide},{inner}],
    %b: f32[{inner},{wide}], %y: f32[{rows},{wide}]) {{
  %0: f32[{rows},{inner}] = matmul %x, %a
  %1: f32[{rows},{inner}] = tanh %0
  %2: f32[{rows},{wide}] = matmul %1, %b
  %3: f32[{rows},{wide}] = subtract %2, %y
  %4: f32[{rows},{wide}] = multiply %3, %3
  %5: f32[] = sum %4 {{axis=(0, 1), keepdims=false}}
  return %5, %a, %b
}}
"""
CELLS = [HeldCell(1, (1,)), HeldCell(2, (2,))]


def prices_of(alpha: float, beta: float) -> LocalPrices:
    """With links of a latency of ``alpha`` seconds and ``beta`` bytes a second."""

    def link(name: str, nbytes: int, _comm: str, ranks: int) -> float:
        rounds = 2 if name == "all_reduce" else ranks if name == "all_gather" else 1
        return alpha + rounds * (ranks - 1) / ranks * nbytes / beta

    return LocalPrices(guessed, link)


def every_strategy(
    search: LayoutSearch, graph: Graph, prices: LocalPrices, axis: MeshAxis
) -> Iterator[float]:
    """The cost of each of all ways of all nodes, and all places of the cells."""
    moves: dict[tuple[object, Placement, Placement], float] = {}
    work = [
        [prices.work(node, way, axis) for way in ways]
        for node, ways in zip(graph.nodes, search.ways, strict=True)
    ]
    places = [search.choices[len(graph.nodes) + at] for at in range(len(CELLS))]
    ends: Mapping[object, int] = {graph.params[c.param]: at for at, c in enumerate(CELLS)}
    for numbers in itertools.product(*[range(len(ways)) for ways in search.ways]):
        chosen = [ways[n] for ways, n in zip(search.ways, numbers, strict=True)]
        own = sum([costs[n] for costs, n in zip(work, numbers, strict=True)])
        for held in itertools.product(*places):
            now = {value: held[at] for value, at in ends.items()}
            needed = {(value, held[at]) for value, at in ends.items()}
            for node, way in zip(graph.nodes, chosen, strict=True):
                now.update(zip(node.results, way.results, strict=True))
                needed.update(zip(node.operands, way.operands, strict=True))
            needed.add((graph.results[0], None))
            cost = own
            for value, then in needed:
                key = value, now.get(value), then
                if key not in moves:
                    moves[key] = prices.moving(value.type, now.get(value), then, axis)
                cost += moves[key]
            yield cost


@pytest.mark.parametrize(
    ("sizes", "ranks", "alpha", "beta"),
    [
        ({"rows": 63, "wide": 8, "inner": 256}, 2, 1e-6, 1e10),
        pytest.param({"rows": 64, "wide": 8, "inner": 256}, 2, 1e-6, 1e10,
                     marks=pytest.mark.nightly),
        pytest.param({"rows": 512, "wide": 64, "inner": 64}, 4, 1e-6, 1e9,
                     marks=pytest.mark.nightly),
        pytest.param({"rows": 4, "wide": 64, "inner": 4096}, 2, 1e-7, 1e10,
                     marks=pytest.mark.nightly),
        pytest.param({"rows": 64, "wide": 64, "inner": 64}, 2, 1e-3, 1e8,
                     marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_no_strategy_of_six_nodes_costs_less(
    sizes: dict[str, int], ranks: int, alpha: float, beta: float
) -> None:
    graph, axis, prices = graph_of(SIX.format(**sizes)), axis_of(ranks, 0), prices_of(alpha, beta)
    search = LayoutSearch(graph, axis, prices, CELLS)
    found = search.find()
    costs = list(every_strategy(search, graph, prices, axis))
    assert len(costs) > 1000 and found.exact
    assert found.seconds == pytest.approx(min(costs), rel=1e-9)
    assert max(costs) > 1.5 * min(costs)
    beam = search.find(most=1, beam=512)
    assert not beam.exact and beam.seconds <= 1.2 * found.seconds


def test_what_is_found_depends_on_what_links_take() -> None:
    """Slow links: all compute all.  A large batch is split by rows, large weights by columns."""
    axis = axis_of(2, 0)

    def found(prices: LocalPrices, **sizes: int) -> tuple[list[str], list[str]]:
        graph = graph_of(SIX.format(**sizes))
        layouts = LayoutSearch(graph, axis, prices, CELLS).find().layouts
        made = [str(layouts.place[node.results[0]]) for node in graph.nodes[:3]]
        return made, [str(layouts.place[graph.params[cell.param]]) for cell in CELLS]

    rows, columns = "Split(axis=0, outer=1)", "Split(axis=1, outer=1)"
    slow, fast = prices_of(1.0, 1e3), prices_of(1e-7, 1e10)
    assert found(slow, rows=64, wide=64, inner=64) == (["None"] * 3, ["None"] * 2)
    made, cells = found(fast, rows=4096, wide=16, inner=16)
    assert made == [rows] * 3 and cells == ["None"] * 2
    made, cells = found(fast, rows=2, wide=64, inner=4096)
    assert made == [columns, columns, "partial"] and cells == [columns, rows]


def test_bytes_have_a_price_where_memory_is_short() -> None:
    graph = graph_of(SIX.format(rows=4096, wide=16, inner=16))
    search = LayoutSearch(graph, axis_of(2, 0), prices_of(1e-4, 1e10), CELLS)
    free, dear = search.find(), search.find(byte_price=1.0)

    def held(found: object) -> int:
        places = [found.layouts.place[graph.params[cell.param]] for cell in CELLS]
        return sum([16 * 16 * 4 // (1 if place is None else 2) for place in places])

    assert held(free) == 2 * held(dear) and free.seconds < dear.seconds
