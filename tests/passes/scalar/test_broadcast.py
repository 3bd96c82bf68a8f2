"""implicit_broadcast lets elementwise nodes do their own broadcasting."""

import pytest

from hybrid.passes import dce, implicit_broadcast
from tests.helpers import assert_rewrites

CASES = {
    "a broadcast operand": (
        """
        graph @f(%x: f32[8,4], %b: f32[4]) {
          %r: f32[8,4] = broadcast_to %b {shape=(8, 4)}
          %y: f32[8,4] = add %x, %r
          return %y
        }
        """,
        """
        graph @f(%x: f32[8,4], %b: f32[4]) {
          %y: f32[8,4] = add %x, %b
          return %y
        }
        """,
    ),
    "a uniform constant": (
        """
        graph @f(%x: f32[8,4]) {
          %o: f32[8,4] = full {shape=(8, 4), value=1, dtype=f32}
          %y: f32[8,4] = subtract %o, %x
          return %y
        }
        """,
        """
        graph @f(%x: f32[8,4]) {
          %o: f32[] = full {shape=(), value=1, dtype=f32}
          %y: f32[8,4] = subtract %o, %x
          return %y
        }
        """,
    ),
    "one scalar serves all uses": (
        """
        graph @f(%x: f32[8,4]) {
          %o: f32[4] = full {shape=(4,), value=1, dtype=f32}
          %r: f32[8,4] = broadcast_to %o {shape=(8, 4)}
          %y: f32[8,4] = subtract %r, %x
          %z: f32[8,4] = add %o, %y
          return %z
        }
        """,
        """
        graph @f(%x: f32[8,4]) {
          %o: f32[] = full {shape=(), value=1, dtype=f32}
          %y: f32[8,4] = subtract %o, %x
          %z: f32[8,4] = add %o, %y
          return %z
        }
        """,
    ),
    "a step of an optimizer, which takes a gradient of its parameter's shape alone": (
        """
        graph @f(%p: f32[4], %lr: f32[]) {
          %g: f32[4] = full {shape=(4,), value=1, dtype=f32}
          %q: f32[4] = sgd %p, %g, %lr {maximize=false, weight_decay=0.0}
          return %q
        }
        """,
        """
        graph @f(%p: f32[4], %lr: f32[]) {
          %g: f32[4] = full {shape=(4,), value=1, dtype=f32}
          %q: f32[4] = sgd %p, %g, %lr {maximize=false, weight_decay=0.0}
          return %q
        }
        """,
    ),
    "the operand that gives the result its shape stays": (
        """
        graph @f(%x: f32[4], %y: f32[4]) {
          %a: f32[8,4] = broadcast_to %x {shape=(8, 4)}
          %b: f32[8,4] = broadcast_to %y {shape=(8, 4)}
          %c: f32[8,4] = add %a, %b
          return %c
        }
        """,
        """
        graph @f(%x: f32[4], %y: f32[4]) {
          %b: f32[8,4] = broadcast_to %y {shape=(8, 4)}
          %c: f32[8,4] = add %x, %b
          return %c
        }
        """,
    ),
    "nodes that are not elementwise read the whole operand": (
        """
        graph @f(%x: f32[4], %w: f32[4,4]) {
          %a: f32[8,4] = broadcast_to %x {shape=(8, 4)}
          %c: f32[8,4] = matmul %a, %w
          %s: f32[4] = sum %a {axis=(0,)}
          %e: f32[8,4] = exp %a
          return %c, %s, %e
        }
        """,
        None,
    ),
    "sizes of one that are not repeated stay": (
        """
        graph @f(%x: f32[], %y: f32[1]) {
          %o: f32[1,1] = full {shape=(1, 1), value=1, dtype=f32}
          %a: f32[1,1] = add %x, %o
          return %a
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_implicit_broadcast(before: str, after: str | None) -> None:
    def run(graph):
        return dce(implicit_broadcast(graph))

    assert_rewrites(run, before, before if after is None else after)
