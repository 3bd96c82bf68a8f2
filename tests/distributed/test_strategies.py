"""Strategies: what ranks compute by them is what one process computes, and takes what is said."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from hybrid.core.layouts import MeshAxis
from hybrid.distributed.strategies import link_speeds
from hybrid.distributed.strategies.captured_step import CapturedStep
from hybrid.distributed.strategies.link_speeds import LinkSpeeds, volume
from hybrid.distributed.strategies.mesh_search import MeshSearch
from hybrid.distributed.strategies.pipelined_steps import seconds_of_stages
from hybrid.errors import ArgumentError
from hybrid.ir import Graph, Node
from hybrid.memory.channels import Channel, open_channel
from hybrid.passes.layouts.layout_search import HeldCell, LayoutSearch
from hybrid.passes.layouts.local_graph import along
from hybrid.passes.layouts.local_prices import LocalPrices, guessed
from tests.distributed.ranks import launched, require_well
from tests.helpers import graph_of

nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    ("ranks", "parts"),
    [
        (2, ("perceptrons", "branches", "links", "models_go", "memory", "mistakes")),
        pytest.param(2, ("predictions",), marks=nightly),  # times, which others may take
        pytest.param(2, ("language_models",), marks=nightly),
        pytest.param(4, ("language_models",), marks=nightly),
        pytest.param(4, ("perceptrons", "branches", "links", "memory", "mistakes"), marks=nightly),
    ],
)
def test_steps_run_by_strategies(ranks: int, parts: tuple[str, ...]) -> None:
    done = launched(ranks, "strategies.py", *parts)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all is well") == ranks


@pytest.mark.nightly
def test_one_process_has_one_strategy() -> None:
    require_well(1, "strategies.py")


def test_links_tell_times_that_were_not_measured() -> None:
    """Between sizes and beyond them, and of more ranks: alpha log2 N + volume / beta."""
    points = {"all_reduce": ((0.0, 1e-6), (1e6, 1e-6 + 1e-3), (2e6, 1e-6 + 2e-3))}
    links = LinkSpeeds(2, points)
    assert links.alpha == 1e-6 and links.beta == pytest.approx(1e9, rel=1e-3)
    assert links.seconds("all_reduce", 500_000) == pytest.approx(1e-6 + 5e-4)
    assert links.seconds("all_reduce", 4_000_000) == pytest.approx(1e-6 + 4e-3)
    for ranks in (2, 4, 64):
        want = ranks.bit_length() - 1, 2 * (ranks - 1) / ranks * 1e5 / 1e9
        assert links.seconds("all_reduce", 1e5, ranks) == pytest.approx(want[0] * 1e-6 + want[1])
    assert links.seconds("all_reduce", 1e9, 1) == 0.0
    assert volume("all_gather", 10, 4) == 30 and volume("broadcast", 10, 4) == 10
    with pytest.raises(ArgumentError) as caught:
        links.seconds("all_to_all", 8)
    assert str(caught.value) == (
        "no time is known of 'all_to_all' between ranks\n"
        "Measured with 2 ranks were all_reduce.\nFix: ask for one of those."
    )


class Guessed:
    """In place of OpTimes: what nobody has measured."""

    waiting: Any = None

    def seconds(self, node: Node) -> float:
        return guessed(node)

    def measure(self, nodes: Iterable[Node]) -> None:
        pass

    def calibrate(self, graph: Graph) -> float:
        return sum(map(guessed, graph.nodes))


THREE = """
graph @step(%x: f32[{rows},{wide}], %a: f32[{wide},{inner}]) {{
  %0: f32[{rows},{inner}] = matmul %x, %a
  %1: f32[{rows},{inner}] = tanh %0
  %2: f32[] = sum %1 {{axis=(0, 1), keepdims=false}}
  return %2, %a
}}
"""


@pytest.mark.parametrize(
    "sizes",
    [{"rows": 256, "wide": 32, "inner": 32}, {"rows": 2, "wide": 64, "inner": 512}],
    ids=["rows", "columns"],
)
def test_no_strategy_along_two_axes_takes_less(sizes: dict[str, int]) -> None:
    """All ways along the first axis; of what each leaves the best along the second one."""
    graph = graph_of(THREE.format(**sizes))
    cells = (HeldCell(1, (1,)),)
    step = CapturedStep(graph, cells, {}, frozenset([1]), (), (0,), 0)
    axes = [MeshAxis(f"{name} of a=2,b=2", 2, 1) for name in "ab"]

    def link(name: str, nbytes: int, comm: str, ranks: int) -> float:
        return (1e-6 if comm[0] == "a" else 3e-6) + volume(name, nbytes, ranks) / 1e10

    options = MeshSearch(step, axes, Guessed(), link).options()
    found = min(option.seconds for option in options)
    prices = LocalPrices(guessed, link)
    search = LayoutSearch(graph, axes[0], prices, cells)
    least, tried = float("inf"), 0
    for chosen in itertools.product(*search.choices[:4]):
        first = search.found(chosen, exact=True)
        given = {v: first.layouts.place[v] for v in graph.params}
        local, _, _ = along(
            graph, axes[0], given, first.ends, (1,), lambda *_, own=first.layouts: own
        )
        tried += 1
        least = min(least, LayoutSearch(local, axes[1], prices, cells).find().seconds)
    assert tried > 100 and found == pytest.approx(least, rel=1e-9)
    assert {"replicated", "data", "zero", "tensor", "data x tensor"} <= {o.name for o in options}


def test_stages_wait_for_what_is_sent() -> None:
    texts = [
        """
        graph @f(%x: f32[4]) {
          %0: f32[4] = tanh %x
          %1: f32[4] = send %0 {comm="pp", ranks=2, to=1}
          %2: f32[4] = tanh %1
          %3: f32[4] = broadcast %2 {comm="pp", ranks=2, root=0}
          return %3
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %1: f32[4] = recv %x {comm="pp", ranks=2, source=0}
          %2: f32[4] = tanh %1
          %3: f32[4] = tanh %2
          %4: f32[4] = broadcast %3 {comm="pp", ranks=2, root=0}
          return %4
        }
        """,
    ]
    prices = {"tanh": 10.0, "send": 0.0, "recv": 3.0, "broadcast": 5.0}
    found = seconds_of_stages(list(map(graph_of, texts)), lambda n: prices[n.op.name], "pp")
    assert found == 10 + 3 + 10 + 10 + 5


def test_all_ranks_go_by_the_speeds_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other ranks have another channel of the same name, which is quicker or slower."""
    asked = []

    def agreed(channel: Channel, numbers: list[float]) -> list[float]:
        asked.append(channel)
        return numbers

    monkeypatch.setattr(link_speeds, "agreed", agreed)
    monkeypatch.setattr(link_speeds, "_measured", {})
    monkeypatch.setattr(link_speeds, "_runner_of", lambda *_: None)
    monkeypatch.setattr(link_speeds, "seconds_of", lambda *_: 1e-6)
    along, everyone = Channel("dp", 0, 2), Channel("all", 0, 4)
    assert link_speeds.link_speeds(along, everyone).ranks == 2
    assert asked == [everyone]


def test_ranks_compare_what_they_agree_about() -> None:
    class Compared(Channel):
        def agree(self, entries: Any, *, eager: bool) -> None:
            said.append((eager, [entry.what for entry in entries]))

    said: list[Any] = []
    channel = open_channel(Compared("compared", 0, 2))
    assert link_speeds.agreed(channel, [1.0, 2.0]) == [1.0, 2.0]
    assert said == [(True, ["agreeing about times f64[2]"])]
