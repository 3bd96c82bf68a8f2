"""dce within control flow: results, operands and carried values that nothing needs go."""

import pytest

from hybrid.ir import Op
from hybrid.passes import dce
from tests.helpers import assert_rewrites

CASES = {
    "results of a cond": (
        """
        graph @f(%p: bool[], %x: f32[], %w: f32[]) {
          %e: f32[] = exp %w
          %a: f32[], %b: f32[] = cond %p, %x, %e {
            then(%x: f32[], %e: f32[]) { %a: f32[] = sin %x %b: f32[] = sin %e return %a, %b }
            else(%x: f32[], %e: f32[]) { return %x, %e }
          }
          return %a
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[], %w: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = sin %x return %a }
            else(%x: f32[]) { return %x }
          }
          return %a
        }
        """,
    ),
    "a carried value that feeds only itself": (
        """
        graph @f(%n: i64[], %x: f32[], %y: f32[], %w: f32[]) {
          %a: f32[], %b: f32[] = for %n, %x, %y, %w {carried=2} {
            body(%i: i64[], %a: f32[], %b: f32[], %w: f32[]) {
              %c: f32[] = exp %a
              %d: f32[] = multiply %b, %w
              return %c, %d
            }
          }
          return %a
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[], %y: f32[], %w: f32[]) {
          %a: f32[] = for %n, %x {carried=1} {
            body(%i: i64[], %a: f32[]) { %c: f32[] = exp %a return %c }
          }
          return %a
        }
        """,
    ),
    "one that the test needs stays": (
        """
        graph @f(%go: bool[], %x: f32[], %y: f32[]) {
          %n: i64[], %a: f32[], %b: f32[] = while %go, %x, %y {carried=2} {
            body(%a: f32[], %b: f32[]) {
              %c: f32[] = exp %a
              %d: f32[] = sin %b
              %more: bool[] = isfinite %d
              return %more, %c, %d
            }
          }
          return %a
        }
        """,
        None,
    ),
    "one that another carried value needs stays": (
        """
        graph @f(%n: i64[], %x: f32[], %y: f32[], %z: f32[]) {
          %a: f32[], %b: f32[], %c: f32[] = for %n, %x, %y, %z {carried=3} {
            body(%i: i64[], %a: f32[], %b: f32[], %c: f32[]) {
              %d: f32[] = exp %c
              return %b, %d, %c
            }
          }
          return %a
        }
        """,
        None,
    ),
    "stacks, and then what only they needed": (
        """
        graph @f(%go: bool[], %x: f32[], %y: f32[]) {
          %n: i64[], %a: f32[], %b: f32[], %r: f32[8] = while %go, %x, %y {carried=2, length=8} {
            body(%a: f32[], %b: f32[]) {
              %c: f32[] = exp %a
              %d: f32[] = sin %b
              %more: bool[] = isfinite %c
              return %more, %c, %d, %d
            }
          }
          return %n
        }
        """,
        """
        graph @f(%go: bool[], %x: f32[], %y: f32[]) {
          %n: i64[], %a: f32[] = while %go, %x {carried=1} {
            body(%a: f32[]) {
              %c: f32[] = exp %a
              %more: bool[] = isfinite %c
              return %more, %c
            }
          }
          return %n
        }
        """,
    ),
    "a for that stopped at its length still does": (
        """
        graph @f(%n: i64[], %x: f32[]) {
          %a: f32[], %r: f32[8] = for %n, %x {carried=1, length=8} {
            body(%i: i64[], %a: f32[]) { %b: f32[] = exp %a return %b, %a }
          }
          return %a
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[]) {
          %length: i64[] = full {shape=(), value=8, dtype=i64}
          %count: i64[] = minimum %n, %length
          %a: f32[] = for %count, %x {carried=1} {
            body(%i: i64[], %a: f32[]) { %b: f32[] = exp %a return %b }
          }
          return %a
        }
        """,
    ),
    "through nested loops and branches": (
        """
        graph @f(%n: i64[], %p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[], %b: f32[] = for %n, %x, %y, %n, %p {carried=2} {
            body(%i: i64[], %a: f32[], %b: f32[], %n: i64[], %p: bool[]) {
              %c: f32[], %d: f32[] = for %n, %a, %b, %p {carried=2} {
                body(%i: i64[], %a: f32[], %b: f32[], %p: bool[]) {
                  %c: f32[], %d: f32[] = cond %p, %a, %b {
                    then(%a: f32[], %b: f32[]) { %e: f32[] = exp %b return %a, %e }
                    else(%a: f32[], %b: f32[]) { %e: f32[] = exp %a return %e, %b }
                  }
                  return %c, %d
                }
              }
              return %c, %d
            }
          }
          return %a
        }
        """,
        """
        graph @f(%n: i64[], %p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[] = for %n, %x, %n, %p {carried=1} {
            body(%i: i64[], %a: f32[], %n: i64[], %p: bool[]) {
              %c: f32[] = for %n, %a, %p {carried=1} {
                body(%i: i64[], %a: f32[], %p: bool[]) {
                  %c: f32[] = cond %p, %a {
                    then(%a: f32[]) { return %a }
                    else(%a: f32[]) { %e: f32[] = exp %a return %e }
                  }
                  return %c
                }
              }
              return %c
            }
          }
          return %a
        }
        """,
    ),
    "a loop that nobody needs": (
        """
        graph @f(%n: i64[], %x: f32[]) {
          %a: f32[] = for %n, %x {carried=1} {
            body(%i: i64[], %a: f32[]) { %b: f32[] = exp %a return %b }
          }
          return %x
        }
        """,
        "graph @f(%n: i64[], %x: f32[]) { return %x }",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_prune(before: str, after: str | None) -> None:
    assert_rewrites(dce, before, before if after is None else after)


def test_what_acts_stays_with_what_it_needs(impure_op: Op) -> None:
    before = f"""
        graph @f(%n: i64[], %x: f32[], %y: f32[]) {{
          %a: f32[], %b: f32[] = for %n, %x, %y {{carried=2}} {{
            body(%i: i64[], %a: f32[], %b: f32[]) {{
              %c: f32[] = exp %a
              %d: f32[] = {impure_op.name} %c
              %e: f32[] = sin %b
              return %c, %e
            }}
          }}
          return
        }}
        """
    after = f"""
        graph @f(%n: i64[], %x: f32[], %y: f32[]) {{
          %a: f32[] = for %n, %x {{carried=1}} {{
            body(%i: i64[], %a: f32[]) {{
              %c: f32[] = exp %a
              %d: f32[] = {impure_op.name} %c
              return %c
            }}
          }}
          return
        }}
        """
    assert_rewrites(dce, before, after)
