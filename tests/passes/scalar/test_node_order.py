"""order lets large values die sooner, where fewer bytes are alive at once for it."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.passes import order
from tests.helpers import assert_rewrites, graph_of

CASES = {
    "what frees a value comes before what takes another": (
        """
        graph @f(%x: f32[1000000]) {
          %a: f32[1000000] = exp %x
          %b: f32[1000000] = sin %x
          %s: f32[] = sum %a {axis=(0,), keepdims=false}
          %t: f32[] = sum %b {axis=(0,), keepdims=false}
          %r: f32[] = add %s, %t
          return %r
        }
        """,
        """
        graph @f(%x: f32[1000000]) {
          %a: f32[1000000] = exp %x
          %s: f32[] = sum %a {axis=(0,), keepdims=false}
          %b: f32[1000000] = sin %x
          %t: f32[] = sum %b {axis=(0,), keepdims=false}
          %r: f32[] = add %s, %t
          return %r
        }
        """,
    ),
    "a view frees nothing that it is a view of": (
        """
        graph @f(%x: f32[1000000]) {
          %a: f32[1000000] = exp %x
          %b: f32[1000000] = sin %x
          %v: f32[1000,1000] = reshape %a {shape=(1000, 1000)}
          %w: f32[1000,1000] = reshape %b {shape=(1000, 1000)}
          %s: f32[] = sum %v {axis=(0, 1), keepdims=false}
          %t: f32[] = sum %w {axis=(0, 1), keepdims=false}
          %r: f32[] = add %s, %t
          return %r
        }
        """,
        """
        graph @f(%x: f32[1000000]) {
          %a: f32[1000000] = exp %x
          %v: f32[1000,1000] = reshape %a {shape=(1000, 1000)}
          %s: f32[] = sum %v {axis=(0, 1), keepdims=false}
          %b: f32[1000000] = sin %x
          %w: f32[1000,1000] = reshape %b {shape=(1000, 1000)}
          %t: f32[] = sum %w {axis=(0, 1), keepdims=false}
          %r: f32[] = add %s, %t
          return %r
        }
        """,
    ),
    "values that fit into caches stay where they are": (
        """
        graph @f(%x: f32[1000]) {
          %a: f32[1000] = exp %x
          %b: f32[1000] = sin %x
          %s: f32[] = sum %a {axis=(0,), keepdims=false}
          %t: f32[] = sum %b {axis=(0,), keepdims=false}
          %r: f32[] = add %s, %t
          return %r
        }
        """,
        None,
    ),
    "nothing moves where as much would be alive": (
        """
        graph @f(%x: f32[1000000]) {
          %a: f32[1000000] = exp %x
          %b: f32[1000000] = sin %x
          %c: f32[1000000] = cos %a
          %d: f32[1000000] = add %b, %c
          %s: f32[] = sum %d {axis=(0,), keepdims=false}
          return %s
        }
        """,
        None,
    ),
    "a result is not computed before something that may fail": (
        """
        graph @f(%x: f32[1000000], %y: f32[1000000], %i: i64[3]) {
          %a: f32[1000000] = exp %x
          %b: f32[3] = take %y, %i {axis=0}
          %n: f32[1000000] = multiply %a, %x
          return %n, %b
        }
        """,
        None,
    ),
    "what may fail keeps its place among its like": (
        """
        graph @f(%x: f32[1000000], %i: i64[3], %j: i64[3]) {
          %a: f32[1000000] = exp %x
          %b: f32[1000000] = sin %x
          %s: f32[3] = take %b, %j {axis=0}
          %t: f32[3] = take %a, %i {axis=0}
          %r: f32[3] = add %s, %t
          return %r
        }
        """,
        """
        graph @f(%x: f32[1000000], %i: i64[3], %j: i64[3]) {
          %b: f32[1000000] = sin %x
          %s: f32[3] = take %b, %j {axis=0}
          %a: f32[1000000] = exp %x
          %t: f32[3] = take %a, %i {axis=0}
          %r: f32[3] = add %s, %t
          return %r
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_order(before: str, after: str | None) -> None:
    assert_rewrites(order, before, before if after is None else after)


def test_bodies_are_ordered_too() -> None:
    graph = graph_of(
        """
        graph @f(%x: f32[1000000], %p: bool[]) {
          %y: f32[] = cond %p, %x {
            then(%x: f32[1000000]) {
              %a: f32[1000000] = exp %x
              %b: f32[1000000] = sin %x
              %s: f32[] = sum %a {axis=(0,), keepdims=false}
              %t: f32[] = sum %b {axis=(0,), keepdims=false}
              %r: f32[] = add %s, %t
              return %r
            }
            else(%x: f32[1000000]) {
              %s: f32[] = sum %x {axis=(0,), keepdims=false}
              return %s
            }
          }
          return %y
        }
        """
    )
    then = order(graph).nodes[0].regions[0]
    assert [node.op.name for node in then.nodes] == ["exp", "sum", "sin", "sum", "add"]


def test_a_plan_needs_less_memory_and_computes_the_same() -> None:
    def many(x: hy.Tensor) -> hy.Tensor:
        sums = [hy.cumulative_sum(x * float(i)) for i in range(20)]
        again = [hy.cumulative_sum(value) for value in sums]
        return sum(hy.sum(value) for value in again)

    x = hy.asarray(np.linspace(-1, 1, 300_000, dtype=np.float32))
    captured = hy.hybridize(many)
    assert captured(x).numpy().tobytes() == many(x).numpy().tobytes()
    (plan,) = captured.plans
    assert plan.arena_nbytes < 12 * x.nbytes < plan.scratch_nbytes / 3
