"""known removes control flow that is decided before the run."""

import pytest

from hybrid.passes import known
from tests.helpers import assert_rewrites

CASES = {
    "a cond on true is its first branch": (
        """
        graph @f(%x: f32[]) {
          %p: bool[] = full {shape=(), value=true, dtype=bool}
          %y: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { %a: f32[] = sin %x return %a }
          }
          return %y
        }
        """,
        """
        graph @f(%x: f32[]) {
          %p: bool[] = full {shape=(), value=true, dtype=bool}
          %a: f32[] = exp %x
          return %a
        }
        """,
    ),
    "a cond on false is its second branch": (
        """
        graph @f(%x: f32[], %y: f32[]) {
          %p: bool[] = full {shape=(), value=false, dtype=bool}
          %a: f32[], %b: f32[] = cond %p, %x, %y {
            then(%x: f32[], %y: f32[]) { return %x, %y }
            else(%x: f32[], %y: f32[]) { return %y, %y }
          }
          return %a, %b
        }
        """,
        """
        graph @f(%x: f32[], %y: f32[]) {
          %p: bool[] = full {shape=(), value=false, dtype=bool}
          return %y, %y
        }
        """,
    ),
    "what comes in makes more known": (
        """
        graph @f(%x: f32[]) {
          %p: bool[] = full {shape=(), value=true, dtype=bool}
          %q: bool[] = cond %p {
            then() { %q: bool[] = full {shape=(), value=false, dtype=bool} return %q }
            else() { %q: bool[] = full {shape=(), value=true, dtype=bool} return %q }
          }
          %y: f32[] = cond %q, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { %a: f32[] = sin %x return %a }
          }
          return %y
        }
        """,
        """
        graph @f(%x: f32[]) {
          %p: bool[] = full {shape=(), value=true, dtype=bool}
          %q: bool[] = full {shape=(), value=false, dtype=bool}
          %a: f32[] = sin %x
          return %a
        }
        """,
    ),
    "a branch within a branch": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %y: f32[] = cond %p, %x {
            then(%x: f32[]) {
              %p: bool[] = full {shape=(), value=true, dtype=bool}
              %y: f32[] = cond %p, %x {
                then(%x: f32[]) { %a: f32[] = exp %x return %a }
                else(%x: f32[]) { return %x }
              }
              return %y
            }
            else(%x: f32[]) { return %x }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %y: f32[] = cond %p, %x {
            then(%x: f32[]) {
              %p: bool[] = full {shape=(), value=true, dtype=bool}
              %a: f32[] = exp %x
              return %a
            }
            else(%x: f32[]) { return %x }
          }
          return %y
        }
        """,
    ),
    "a while that does not begin": (
        """
        graph @f(%x: f32[3]) {
          %go: bool[] = full {shape=(), value=false, dtype=bool}
          %n: i64[], %y: f32[3], %rows: f32[8,3] = while %go, %x {carried=1, length=8} {
            body(%x: f32[3]) {
              %y: f32[3] = exp %x
              %s: f32[] = sum %y {axis=(0,)}
              %go: bool[] = isnan %s
              return %go, %y, %y
            }
          }
          return %n, %y, %rows
        }
        """,
        """
        graph @f(%x: f32[3]) {
          %go: bool[] = full {shape=(), value=false, dtype=bool}
          %n: i64[] = full {shape=(), value=0, dtype=i64}
          %rows: f32[8,3] = full {shape=(8, 3), value=0, dtype=f32}
          return %n, %x, %rows
        }
        """,
    ),
    "a while that breaks at its end": (
        """
        graph @f(%x: f32[], %w: f32[]) {
          %go: bool[] = full {shape=(), value=true, dtype=bool}
          %n: i64[], %y: f32[], %rows: f32[1] = while %go, %x, %w {carried=1, length=1} {
            body(%x: f32[], %w: f32[]) {
              %y: f32[] = add %x, %w
              %go: bool[] = full {shape=(), value=false, dtype=bool}
              return %go, %y, %x
            }
          }
          return %n, %y, %rows
        }
        """,
        """
        graph @f(%x: f32[], %w: f32[]) {
          %go: bool[] = full {shape=(), value=true, dtype=bool}
          %y: f32[] = add %x, %w
          %stop: bool[] = full {shape=(), value=false, dtype=bool}
          %row: f32[1] = reshape %x {shape=(1,)}
          %n: i64[] = full {shape=(), value=1, dtype=i64}
          return %n, %y, %row
        }
        """,
    ),
    "a while that may go on": (
        """
        graph @f(%x: f32[], %p: bool[]) {
          %go: bool[] = full {shape=(), value=true, dtype=bool}
          %n: i64[], %y: f32[] = while %go, %x, %p {carried=1} {
            body(%x: f32[], %p: bool[]) {
              %y: f32[] = exp %x
              return %p, %y
            }
          }
          return %n, %y
        }
        """,
        None,
    ),
    "a for of no iteration": (
        """
        graph @f(%x: f32[], %xs: f32[8]) {
          %n: i64[] = full {shape=(), value=-3, dtype=i64}
          %y: f32[], %rows: f32[8] = for %n, %x, %xs {carried=1, length=8, sliced=1} {
            body(%i: i64[], %x: f32[], %row: f32[]) {
              %y: f32[] = add %x, %row
              return %y, %row
            }
          }
          return %y, %rows
        }
        """,
        """
        graph @f(%x: f32[], %xs: f32[8]) {
          %n: i64[] = full {shape=(), value=-3, dtype=i64}
          %rows: f32[8] = full {shape=(8,), value=0, dtype=f32}
          return %x, %rows
        }
        """,
    ),
    "a for over no rows": (
        """
        graph @f(%n: i64[], %x: f32[], %xs: f32[0]) {
          %y: f32[] = for %n, %x, %xs {carried=1, length=0, sliced=1} {
            body(%i: i64[], %x: f32[], %row: f32[]) { %y: f32[] = add %x, %row return %y }
          }
          return %y
        }
        """,
        "graph @f(%n: i64[], %x: f32[], %xs: f32[0]) { return %x }",
    ),
    "a for of one iteration": (
        """
        graph @f(%x: f32[], %xs: f32[4], %w: f32[]) {
          %n: i64[] = full {shape=(), value=1, dtype=i64}
          %y: f32[] = for %n, %x, %xs, %w {carried=1, length=4, sliced=1} {
            body(%i: i64[], %x: f32[], %row: f32[], %w: f32[]) {
              %s: f32[] = add %x, %row
              %y: f32[] = multiply %s, %w
              return %y
            }
          }
          return %y
        }
        """,
        """
        graph @f(%x: f32[], %xs: f32[4], %w: f32[]) {
          %n: i64[] = full {shape=(), value=1, dtype=i64}
          %i: i64[] = full {shape=(), value=0, dtype=i64}
          %part: f32[1] = slice %xs {start=(0,), size=(1,), step=(1,)}
          %row: f32[] = reshape %part {shape=()}
          %s: f32[] = add %x, %row
          %y: f32[] = multiply %s, %w
          return %y
        }
        """,
    ),
    "a for that stops at its length": (
        """
        graph @f(%xs: f32[1,2]) {
          %n: i64[] = full {shape=(), value=9, dtype=i64}
          %is: i64[1] = for %n, %xs {carried=0, length=1, sliced=1} {
            body(%i: i64[], %row: f32[2]) { return %i }
          }
          return %is
        }
        """,
        """
        graph @f(%xs: f32[1,2]) {
          %n: i64[] = full {shape=(), value=9, dtype=i64}
          %i: i64[] = full {shape=(), value=0, dtype=i64}
          %part: f32[1,2] = slice %xs {start=(0, 0), size=(1, 2), step=(1, 1)}
          %row: f32[2] = reshape %part {shape=(2,)}
          %is: i64[1] = reshape %i {shape=(1,)}
          return %is
        }
        """,
    ),
    "one row of several stays a loop": (
        """
        graph @f() {
          %n: i64[] = full {shape=(), value=1, dtype=i64}
          %is: i64[4] = for %n {carried=0, length=4} { body(%i: i64[]) { return %i } }
          return %is
        }
        """,
        None,
    ),
    "a for of several iterations": (
        """
        graph @f(%x: f32[]) {
          %n: i64[] = full {shape=(), value=2, dtype=i64}
          %y: f32[] = for %n, %x {carried=1} {
            body(%i: i64[], %x: f32[]) { %y: f32[] = exp %x return %y }
          }
          return %y
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_known(before: str, after: str | None) -> None:
    assert_rewrites(known, before, before if after is None else after)
