"""Open graphs at given sizes."""

from __future__ import annotations

import pytest

import hybrid.ops  # noqa: F401
from hybrid.errors import GraphError
from hybrid.ir import parse, verify
from hybrid.ir.bound_graphs import bind, sizes_of

TEXT = """
graph @f<n = 37, m = 12 to 64>(%x: f32[n,4], %i: f32[m], %k: i64[]) {
  %y: f32[4*n] = reshape %x {shape=(4*n,)}
  %c: f32[n] = slice %y {start=(1,), size=(n,), step=(1,)}
  %z: f32[m] = cond %k, %i, %c {
    then(%a: f32[m], %b: f32[n]) {
      %e: f32[m] = exp %a
      return %e
    }
    else(%a: f32[m], %b: f32[n]) {
      return %a
    }
  }
  return %c, %z
}
"""


def text(n: int, m: int) -> str:
    head = "graph @f<n = 37, m = 12 to 64>"
    found = TEXT.replace(head, "graph @f").replace("4*n", str(4 * n))
    for name, size in (("n", n), ("m", m)):
        found = found.replace(f"[{name}", f"[{size}").replace(f"({name},)", f"({size},)")
    return found


def test_types_attributes_and_regions_are_bound() -> None:
    graph = parse(TEXT.replace("i64[]", "bool[]"))
    for values in ((37, 12), (5, 3), (2, 64)):
        found = bind(graph, values)
        verify(found)
        assert found == parse(text(*values).replace("i64[]", "bool[]"))


def test_a_region_that_two_share_is_bound_once() -> None:
    graph = parse(TEXT.replace("i64[]", "bool[]"))
    node = graph.nodes[-1]
    object.__setattr__(node, "regions", (node.regions[0], node.regions[0]))
    first, second = bind(graph, (5, 3)).nodes[-1].regions
    assert first is second


def test_a_closed_graph_is_bound_already() -> None:
    graph = parse("graph @f(%x: f32[4]) { return %x }")
    assert sizes_of(graph) is None
    assert bind(graph, ()) is graph


@pytest.mark.parametrize("values", [(37, 65), (1, 12), (37,), ()])
def test_sizes_that_it_is_not_made_for(values: tuple[int, ...]) -> None:
    graph = parse(TEXT.replace("i64[]", "bool[]"))
    sizes = sizes_of(graph)
    assert sizes is not None
    with pytest.raises(GraphError, match="@f is not made for"):
        bind(graph, values)
    assert sizes.symbols[0].value > 30
    with pytest.raises(GraphError, match=r"n = 37, m = 65(?s:.*)It holds where: n >= 30"):
        assert not graph.params[0].type.shape[0] < 30
        bind(graph, (37, 65))
