"""rewrite: one rule, asked about each node in order."""

import pytest

import hybrid.ops  # noqa: F401
from hybrid.core.types import float32, tensor_type
from hybrid.errors import GraphError, Location
from hybrid.ir import (
    Builder,
    Graph,
    Node,
    Value,
    get_op,
    parse,
    rewrite,
    steady,
    verify,
    with_regions,
)
from tests.helpers import graph_of

CHAIN = """
    graph @f(%x: f32[4]) {
      %a: f32[4] = exp %x
      %b: f32[4] = sin %a
      %c: f32[4] = add %a, %b
      return %c, %a
    }
    """


def test_a_graph_in_which_nothing_changes_comes_back_itself() -> None:
    graph = graph_of(CHAIN)
    assert rewrite(graph, lambda node, builder: None) is graph


def test_replacements_reach_operands_and_results() -> None:
    def drop_exp(node: Node, _: Builder) -> tuple[Value, ...] | None:
        return node.operands if node.op.name == "exp" else None

    expected = graph_of(
        """
        graph @f(%x: f32[4]) {
          %b: f32[4] = sin %x
          %c: f32[4] = add %x, %b
          return %c, %x
        }
        """
    )
    assert rewrite(graph_of(CHAIN), drop_exp) == expected


def test_new_nodes_take_location_and_hints() -> None:
    builder = Builder("f")
    x = builder.param(tensor_type(float32, (4,)))
    place = Location("model.py", 3)
    results = builder.apply(get_op("exp"), [x], location=place, hints=["gain"])

    def slower(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        (inner,) = builder.apply(get_op("negative"), node.operands, hints=["inner"])
        (inner,) = builder.apply(get_op("negative"), [inner], location=Location("other.py", 1))
        return builder.apply(get_op("exp"), [inner])

    graph = rewrite(builder.finish(results), slower)
    verify(graph)
    assert [node.results[0].hint for node in graph.nodes] == ["inner", "gain", "gain"]
    assert [str(node.location) for node in graph.nodes] == [
        "model.py:3",
        "other.py:1",
        "model.py:3",
    ]


def test_a_rule_sees_operands_already_replaced() -> None:
    seen = []

    def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        seen.append(node.operands)
        return node.operands if node.op.name in ("exp", "sin") else None

    graph = graph_of(CHAIN)
    rewrite(graph, rule)
    assert seen == [graph.params, graph.params, graph.params * 2]


def test_regions_are_changed_by_the_pass_that_is_given() -> None:
    graph = graph_of(
        """
        graph @f(%x: f32[4]) {
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %n: f32[4] = exp %a
              %m: f32[4] = exp %n
              return %m
            }
          }
          return %y
        }
        """
    )

    def to_sin(node: Node, builder: Builder) -> tuple[Value, ...] | None:
        return builder.apply(get_op("sin"), node.operands) if node.op.name == "exp" else None

    assert rewrite(graph, to_sin) is graph
    changed = rewrite(graph, to_sin, regions=lambda region: rewrite(region, to_sin))
    assert changed == parse(str(graph).replace("exp", "sin"))
    assert with_regions(graph.nodes[0], lambda region: region) is graph.nodes[0]


def test_a_replacement_has_the_type_of_the_result() -> None:
    graph: Graph = graph_of("graph @f(%x: f32[4]) { %s: f32[] = sum %x {axis=(0,)} return %s }")
    with pytest.raises(GraphError) as caught:
        rewrite(graph, lambda node, builder: node.operands)
    assert str(caught.value) == (
        "a rule replaced the results of sum by values of other types: f32[] by f32[4]"
    )


def test_a_steady_pass_does_not_look_again_at_what_it_left_as_it_was() -> None:
    graph = graph_of(
        """
        graph @f(%p: bool[], %x: f32[4]) {
          %y: f32[4] = cond %p, %x {
            then(%a: f32[4]) {
              %b: f32[4] = exp %a
              return %b
            }
            else(%a: f32[4]) {
              %b: f32[4] = sin %a
              return %b
            }
          }
          return %y
        }
        """
    )
    seen: list[str] = []

    @steady
    def renamed(graph: Graph, old: str = "exp") -> Graph:
        def rule(node: Node, builder: Builder) -> tuple[Value, ...] | None:
            seen.append(node.op.name)
            return builder.apply(get_op("cos"), node.operands) if node.op.name == old else None

        return rewrite(graph, rule, regions=lambda region: renamed(region, old))

    first = renamed(graph, "exp")
    assert seen == ["exp", "sin", "cond"]  # of the branch that changes nothing a note is kept
    seen.clear()
    assert renamed(first, "exp") is first and seen == ["cos", "cond"]
    seen.clear()
    assert renamed(first, "exp") is first and seen == []
    assert renamed(first, "tanh") is first and seen == ["cos", "sin", "cond"]
