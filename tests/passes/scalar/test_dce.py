"""dce removes what nothing depends on, and keeps what acts on the world."""

import pytest

from hybrid.ir import Op
from hybrid.passes import dce
from tests.helpers import assert_rewrites, graph_of

CASES = {
    "a node that nobody uses goes, and what only it used": (
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = exp %x
          %b: f32[4] = sin %a
          %c: f32[4] = cos %x
          return %c
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %c: f32[4] = cos %x
          return %c
        }
        """,
    ),
    "a node stays for one of its results": (
        """
        graph @f(%p: f32[4], %g: f32[4], %m: f32[4], %lr: f32[]) {
          %q: f32[4], %n: f32[4] = sgd_momentum %p, %g, %m, %lr, %lr {nesterov=true}
          return %n
        }
        """,
        None,
    ),
    "parameters stay, for callers count on them": (
        "graph @f(%x: f32[4], %y: f32[4]) { return %y }",
        None,
    ),
    "regions are cleaned": (
        """
        graph @f(%x: f32[4]) {
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %n: f32[4] = exp %a
              %m: f32[4] = sin %a
              return %m
            }
          }
          return %y
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %m: f32[4] = sin %a
              return %m
            }
          }
          return %y
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_dce(before: str, after: str | None) -> None:
    assert_rewrites(dce, before, before if after is None else after)


def test_impure_nodes_stay(impure_op: Op) -> None:
    text = f"""
        graph @f(%x: f32[4]) {{
          %a: f32[4] = exp %x
          %b: f32[4] = {impure_op.name} %a
          return
        }}
        """
    assert_rewrites(dce, text, text)


def test_nodes_that_may_raise_stay() -> None:
    text = """
        graph @f(%x: f32[4], %i: i64[2]) {
          %a: f32[2] = take %x, %i {axis=0}
          return
        }
        """
    assert_rewrites(dce, text, text)


def test_a_clean_graph_comes_back_itself() -> None:
    graph = graph_of("graph @f(%x: f32[4]) { %a: f32[4] = exp %x return %a }")
    assert dce(graph) is graph
