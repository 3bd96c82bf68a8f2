"""simplify_loop carries, slices and stacks each thing once, and only what changes."""

import pytest

from hybrid.passes import simplify_loop
from tests.helpers import assert_rewrites

CASES = {
    "a carried value that is returned as it came": (
        """
        graph @f(%go: bool[], %x: f32[], %y: f32[]) {
          %n: i64[], %a: f32[], %b: f32[] = while %go, %x, %y {carried=2} {
            body(%a: f32[], %b: f32[]) {
              %c: f32[] = add %a, %b
              %more: bool[] = isnan %c
              return %more, %c, %b
            }
          }
          return %n, %a, %b
        }
        """,
        """
        graph @f(%go: bool[], %x: f32[], %y: f32[]) {
          %n: i64[], %a: f32[] = while %go, %x, %y {carried=1} {
            body(%a: f32[], %b: f32[]) {
              %c: f32[] = add %a, %b
              %more: bool[] = isnan %c
              return %more, %c
            }
          }
          return %n, %a, %y
        }
        """,
    ),
    "two that are always the same value": (
        """
        graph @f(%n: i64[], %x: f32[], %z: f32[]) {
          %a: f32[], %b: f32[], %c: f32[] = for %n, %x, %x, %z, %x {carried=3} {
            body(%i: i64[], %a: f32[], %b: f32[], %c: f32[], %w: f32[]) {
              %d: f32[] = add %a, %c
              %e: f32[] = multiply %d, %w
              return %b, %w, %e
            }
          }
          return %a, %b, %c
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[], %z: f32[]) {
          %c: f32[] = for %n, %z, %x {carried=1} {
            body(%i: i64[], %c: f32[], %w: f32[]) {
              %d: f32[] = add %w, %c
              %e: f32[] = multiply %d, %w
              return %e
            }
          }
          return %x, %x, %c
        }
        """,
    ),
    "a flag that is never set": (
        """
        graph @f(%n: i64[], %x: f32[]) {
          %no: bool[] = full {shape=(), value=false, dtype=bool}
          %y: f32[], %found: bool[] = for %n, %x, %no {carried=2} {
            body(%i: i64[], %x: f32[], %found: bool[]) {
              %y: f32[] = where %found, %x, %x
              %no: bool[] = full {shape=(), value=false, dtype=bool}
              return %y, %no
            }
          }
          return %y, %found
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[]) {
          %no: bool[] = full {shape=(), value=false, dtype=bool}
          %y: f32[] = for %n, %x, %no {carried=1} {
            body(%i: i64[], %x: f32[], %found: bool[]) {
              %y: f32[] = where %found, %x, %x
              %no: bool[] = full {shape=(), value=false, dtype=bool}
              return %y
            }
          }
          return %y, %no
        }
        """,
    ),
    "a flag that is set in the first iteration": (
        """
        graph @f(%n: i64[]) {
          %no: bool[] = full {shape=(), value=false, dtype=bool}
          %found: bool[] = for %n, %no {carried=1} {
            body(%i: i64[], %found: bool[]) {
              %yes: bool[] = full {shape=(), value=true, dtype=bool}
              return %yes
            }
          }
          return %found
        }
        """,
        None,
    ),
    "values that only exchange their places change": (
        """
        graph @f(%n: i64[], %x: f32[], %y: f32[]) {
          %a: f32[], %b: f32[] = for %n, %x, %y {carried=2} {
            body(%i: i64[], %a: f32[], %b: f32[]) { return %b, %a }
          }
          return %a, %b
        }
        """,
        None,
    ),
    "what is computed twice from the same beginning": (
        """
        graph @f(%n: i64[], %x: f32[]) {
          %a: f32[], %b: f32[] = for %n, %x, %x {carried=2} {
            body(%i: i64[], %a: f32[], %b: f32[]) {
              %c: f32[] = exp %a
              %d: f32[] = exp %b
              return %c, %d
            }
          }
          return %a, %b
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[]) {
          %a: f32[] = for %n, %x {carried=1} {
            body(%i: i64[], %a: f32[]) {
              %c: f32[] = exp %a
              %d: f32[] = exp %a
              return %c
            }
          }
          return %a, %a
        }
        """,
    ),
    "what begins alike and goes on differently": (
        """
        graph @f(%n: i64[], %x: f32[]) {
          %a: f32[], %b: f32[] = for %n, %x, %x {carried=2} {
            body(%i: i64[], %a: f32[], %b: f32[]) {
              %c: f32[] = exp %a
              %d: f32[] = sin %b
              return %c, %d
            }
          }
          return %a, %b
        }
        """,
        None,
    ),
    "slices, stacks and invariants given twice or not used": (
        """
        graph @f(%n: i64[], %x: f32[], %xs: f32[4], %w: f32[], %v: f32[]) {
          %a: f32[], %r: f32[4], %s: f32[4] = for %n, %x, %xs, %xs, %w, %v, %w {carried=1, length=4,
            sliced=2} {
            body(%i: i64[], %a: f32[], %p: f32[], %q: f32[], %w: f32[], %v: f32[], %u: f32[]) {
              %b: f32[] = add %p, %q
              %c: f32[] = multiply %w, %u
              %d: f32[] = add %a, %c
              return %d, %b, %b
            }
          }
          return %a, %r, %s
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[], %xs: f32[4], %w: f32[], %v: f32[]) {
          %a: f32[], %r: f32[4] = for %n, %x, %xs, %w {carried=1, length=4, sliced=1} {
            body(%i: i64[], %a: f32[], %p: f32[], %w: f32[]) {
              %b: f32[] = add %p, %p
              %c: f32[] = multiply %w, %w
              %d: f32[] = add %a, %c
              return %d, %b
            }
          }
          return %a, %r, %r
        }
        """,
    ),
    "the last slice leaves the length behind": (
        """
        graph @f(%n: i64[], %x: f32[], %xs: f32[4]) {
          %a: f32[] = for %n, %x, %xs {carried=1, length=4, sliced=1} {
            body(%i: i64[], %a: f32[], %p: f32[]) { %b: f32[] = exp %a return %b }
          }
          return %a
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[], %xs: f32[4]) {
          %length: i64[] = full {shape=(), value=4, dtype=i64}
          %count: i64[] = minimum %n, %length
          %a: f32[] = for %count, %x {carried=1} {
            body(%i: i64[], %a: f32[]) { %b: f32[] = exp %a return %b }
          }
          return %a
        }
        """,
    ),
    "a flag that ends the loop is not set while it runs": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %go: bool[] = logical_not %p
          %n: i64[], %done: bool[], %y: f32[] = while %go, %p, %x {carried=2} {
            body(%done: bool[], %x: f32[]) {
              %y: f32[] = where %done, %x, %x
              %q: bool[] = isnan %y
              %r: bool[] = isinf %y
              %m: bool[] = logical_not %q
              %more: bool[] = logical_and %m, %r
              return %more, %q, %y
            }
          }
          return %n, %done, %y
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %go: bool[] = logical_not %p
          %n: i64[], %done: bool[], %y: f32[] = while %go, %p, %x {carried=2} {
            body(%d: bool[], %x: f32[]) {
              %done: bool[] = full {shape=(), value=false, dtype=bool}
              %y: f32[] = where %done, %x, %x
              %q: bool[] = isnan %y
              %r: bool[] = isinf %y
              %m: bool[] = logical_not %q
              %more: bool[] = logical_and %m, %r
              return %more, %q, %y
            }
          }
          return %n, %done, %y
        }
        """,
    ),
    "a result is bound exactly when it is returned": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %go: bool[] = logical_not %p
          %n: i64[], %b: bool[], %r: bool[], %y: f32[] = while %go, %p, %p, %x {carried=3} {
            body(%bound: bool[], %returned: bool[], %x: f32[]) {
              %y: f32[] = exp %x
              %q: bool[] = isinf %y
              %bound_1: bool[] = logical_or %q, %bound
              %more: bool[] = logical_not %q
              return %more, %bound_1, %q, %y
            }
          }
          return %n, %b, %r, %y
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %go: bool[] = logical_not %p
          %n: i64[], %r: bool[], %y: f32[] = while %go, %p, %x {carried=2} {
            body(%returned: bool[], %x: f32[]) {
              %no: bool[] = full {shape=(), value=false, dtype=bool}
              %y: f32[] = exp %x
              %q: bool[] = isinf %y
              %bound_1: bool[] = logical_or %q, %no
              %more: bool[] = logical_not %q
              return %more, %q, %y
            }
          }
          return %n, %r, %r, %y
        }
        """,
    ),
    "a flag that is not set at first, but may be when the loop goes on": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %go: bool[] = logical_not %p
          %n: i64[], %done: bool[], %y: f32[] = while %go, %p, %x {carried=2} {
            body(%done: bool[], %x: f32[]) {
              %y: f32[] = where %done, %x, %x
              %q: bool[] = isnan %y
              %m: bool[] = logical_not %q
              %more: bool[] = logical_or %m, %q
              return %more, %q, %y
            }
          }
          return %n, %done, %y
        }
        """,
        None,
    ),
    "a stack of no rows": (
        """
        graph @f(%go: bool[], %x: f32[3]) {
          %n: i64[], %a: f32[3], %rows: f32[0,3] = while %go, %x {carried=1, length=0} {
            body(%a: f32[3]) {
              %b: f32[3] = exp %a
              %m: f32[] = max %b {axis=(0,)}
              %more: bool[] = isfinite %m
              return %more, %b, %a
            }
          }
          return %n, %a, %rows
        }
        """,
        """
        graph @f(%go: bool[], %x: f32[3]) {
          %rows: f32[0,3] = full {shape=(0, 3), value=0, dtype=f32}
          %n: i64[], %a: f32[3] = while %go, %x {carried=1} {
            body(%a: f32[3]) {
              %b: f32[3] = exp %a
              %m: f32[] = max %b {axis=(0,)}
              %more: bool[] = isfinite %m
              return %more, %b
            }
          }
          return %n, %a, %rows
        }
        """,
    ),
    "within a branch": (
        """
        graph @f(%p: bool[], %n: i64[], %x: f32[]) {
          %a: f32[] = cond %p, %n, %x {
            then(%n: i64[], %x: f32[]) {
              %a: f32[] = for %n, %x {carried=1} { body(%i: i64[], %a: f32[]) { return %a } }
              return %a
            }
            else(%n: i64[], %x: f32[]) { return %x }
          }
          return %a
        }
        """,
        """
        graph @f(%p: bool[], %n: i64[], %x: f32[]) {
          %a: f32[] = cond %p, %n, %x {
            then(%n: i64[], %x: f32[]) {
              for %n {carried=0} { body(%i: i64[]) { return } }
              return %x
            }
            else(%n: i64[], %x: f32[]) { return %x }
          }
          return %a
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_simplify_loop(before: str, after: str | None) -> None:
    assert_rewrites(simplify_loop, before, before if after is None else after)
