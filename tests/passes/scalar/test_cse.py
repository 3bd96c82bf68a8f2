"""cse merges equal pure nodes, and only those."""

import pytest

from hybrid.ir import Op
from hybrid.passes import cse
from tests.helpers import assert_rewrites

CASES = {
    "equal nodes become one": (
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = exp %x
          %b: f32[4] = exp %x
          %c: f32[4] = subtract %a, %b
          return %c
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = exp %x
          %c: f32[4] = subtract %a, %a
          return %c
        }
        """,
    ),
    "nodes of merged nodes are merged": (
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = exp %x
          %b: f32[4] = exp %x
          %c: f32[4] = sin %a
          %d: f32[4] = sin %b
          return %c, %d
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = exp %x
          %c: f32[4] = sin %a
          return %c, %c
        }
        """,
    ),
    "attributes tell nodes apart": (
        """
        graph @f(%x: f32[2,3]) {
          %a: f32[3] = sum %x {axis=(0,)}
          %b: f32[2] = sum %x {axis=(1,)}
          return %a, %b
        }
        """,
        None,  # unchanged
    ),
    "zeros of both signs, and numbers of both kinds, are different constants": (
        """
        graph @f() {
          %a: f32[] = full {shape=(), value=0.0, dtype=f32}
          %b: f32[] = full {shape=(), value=-0.0, dtype=f32}
          %c: f32[] = full {shape=(), value=0, dtype=f32}
          %d: f64[] = full {shape=(), value=0.0, dtype=f64}
          return %a, %b, %c, %d
        }
        """,
        None,
    ),
    "operands of an op that commutes may stand in either order": (
        """
        graph @f(%x: i32[4], %y: i32[4]) {
          %a: i32[4] = add %x, %y
          %b: i32[4] = add %y, %x
          %c: i32[4] = subtract %x, %y
          %d: i32[4] = subtract %y, %x
          return %a, %b, %c, %d
        }
        """,
        """
        graph @f(%x: i32[4], %y: i32[4]) {
          %a: i32[4] = add %x, %y
          %c: i32[4] = subtract %x, %y
          %d: i32[4] = subtract %y, %x
          return %a, %a, %c, %d
        }
        """,
    ),
    "but not in floats: of two NaN the first gives its bits": (
        """
        graph @f(%x: f32[4], %y: f32[4]) {
          %a: f32[4] = add %x, %y
          %b: f32[4] = add %y, %x
          return %a, %b
        }
        """,
        None,
    ),
    "random draws depend on their state alone": (
        """
        graph @f(%s: i64[2], %t: i64[2]) {
          %a: f32[4] = random_uniform %s {dtype=f32, shape=(4,)}
          %b: f32[4] = random_uniform %s {dtype=f32, shape=(4,)}
          %c: f32[4] = random_uniform %t {dtype=f32, shape=(4,)}
          return %a, %b, %c
        }
        """,
        """
        graph @f(%s: i64[2], %t: i64[2]) {
          %a: f32[4] = random_uniform %s {dtype=f32, shape=(4,)}
          %c: f32[4] = random_uniform %t {dtype=f32, shape=(4,)}
          return %a, %a, %c
        }
        """,
    ),
    "regions are cleaned apart from the graph around them": (
        """
        graph @f(%x: f32[4]) {
          %k: f32[] = full {shape=(), value=2.0, dtype=f32}
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %n: f32[4] = exp %a
              %m: f32[4] = exp %a
              %s: f32[4] = add %n, %m
              return %s
            }
          }
          return %y, %k
        }
        """,
        """
        graph @f(%x: f32[4]) {
          %k: f32[] = full {shape=(), value=2.0, dtype=f32}
          %y: f32[4] = map %x {
            (%a: f32[4]) {
              %n: f32[4] = exp %a
              %s: f32[4] = add %n, %n
              return %s
            }
          }
          return %y, %k
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_cse(before: str, after: str | None) -> None:
    assert_rewrites(cse, before, before if after is None else after)


def test_impure_nodes_are_not_merged(impure_op: Op) -> None:
    text = f"""
        graph @f(%x: f32[4]) {{
          %a: f32[4] = {impure_op.name} %x
          %b: f32[4] = {impure_op.name} %x
          return %a, %b
        }}
        """
    assert_rewrites(cse, text, text)
