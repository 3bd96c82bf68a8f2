"""hoist computes before a loop what all its iterations would."""

import pytest

from hybrid.ir import Op
from hybrid.passes import hoist
from tests.helpers import assert_rewrites

CASES = {
    "a chain of invariants": (
        """
        graph @f(%n: i64[], %x: f32[], %w: f32[]) {
          %y: f32[] = for %n, %x, %w {carried=1} {
            body(%i: i64[], %x: f32[], %w: f32[]) {
              %e: f32[] = exp %w
              %s: f32[] = sin %e
              %y: f32[] = add %x, %s
              return %y
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[], %w: f32[]) {
          %e: f32[] = exp %w
          %s: f32[] = sin %e
          %y: f32[] = for %n, %x, %w, %s {carried=1} {
            body(%i: i64[], %x: f32[], %w: f32[], %s: f32[]) {
              %y: f32[] = add %x, %s
              return %y
            }
          }
          return %y
        }
        """,
    ),
    "out of several loops": (
        """
        graph @f(%n: i64[], %x: f32[], %w: f32[]) {
          %y: f32[] = for %n, %x, %w, %n {carried=1} {
            body(%i: i64[], %x: f32[], %w: f32[], %n: i64[]) {
              %y: f32[] = for %n, %x, %w {carried=1} {
                body(%i: i64[], %x: f32[], %w: f32[]) {
                  %e: f32[] = exp %w
                  %y: f32[] = add %x, %e
                  return %y
                }
              }
              return %y
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[], %w: f32[]) {
          %e: f32[] = exp %w
          %y: f32[] = for %n, %x, %w, %n, %e {carried=1} {
            body(%i: i64[], %x: f32[], %w: f32[], %n: i64[], %e: f32[]) {
              %y: f32[] = for %n, %x, %w, %e {carried=1} {
                body(%i: i64[], %x: f32[], %w: f32[], %e: f32[]) {
                  %y: f32[] = add %x, %e
                  return %y
                }
              }
              return %y
            }
          }
          return %y
        }
        """,
    ),
    "whole conds": (
        """
        graph @f(%go: bool[], %x: f32[], %p: bool[], %w: f32[]) {
          %n: i64[], %y: f32[] = while %go, %x, %p, %w {carried=1} {
            body(%x: f32[], %p: bool[], %w: f32[]) {
              %c: f32[] = cond %p, %w {
                then(%w: f32[]) { %c: f32[] = exp %w return %c }
                else(%w: f32[]) { return %w }
              }
              %y: f32[] = add %x, %c
              %more: bool[] = less %y, %c
              return %more, %y
            }
          }
          return %n, %y
        }
        """,
        """
        graph @f(%go: bool[], %x: f32[], %p: bool[], %w: f32[]) {
          %c: f32[] = cond %p, %w {
            then(%w: f32[]) { %c: f32[] = exp %w return %c }
            else(%w: f32[]) { return %w }
          }
          %n: i64[], %y: f32[] = while %go, %x, %p, %w, %c {carried=1} {
            body(%x: f32[], %p: bool[], %w: f32[], %c: f32[]) {
              %y: f32[] = add %x, %c
              %more: bool[] = less %y, %c
              return %more, %y
            }
          }
          return %n, %y
        }
        """,
    ),
    "what depends on the index, a slice or a carried value stays": (
        """
        graph @f(%n: i64[], %x: f32[], %xs: f32[4]) {
          %y: f32[], %s: f32[4], %is: i64[4] = for %n, %x, %xs {carried=1, length=4, sliced=1} {
            body(%i: i64[], %x: f32[], %row: f32[]) {
              %y: f32[] = exp %x
              %s: f32[] = sin %row
              %j: i64[] = negative %i
              return %y, %s, %j
            }
          }
          return %y, %s, %is
        }
        """,
        None,
    ),
    "constants and views stay": (
        """
        graph @f(%n: i64[], %x: f32[3,2], %w: f32[2,2]) {
          %y: f32[3,2] = for %n, %x, %w {carried=1} {
            body(%i: i64[], %x: f32[3,2], %w: f32[2,2]) {
              %t: f32[2,2] = permute_dims %w {axes=(1, 0)}
              %p: f32[3,2] = matmul %x, %t
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %y: f32[3,2] = multiply %p, %c
              return %y
            }
          }
          return %y
        }
        """,
        None,
    ),
    "a view goes along with what needs it, and stays for what stays": (
        """
        graph @f(%n: i64[], %x: f32[2,3], %w: f32[3,2]) {
          %y: f32[2,3] = for %n, %x, %w {carried=1} {
            body(%i: i64[], %x: f32[2,3], %w: f32[3,2]) {
              %t: f32[2,3] = permute_dims %w {axes=(1, 0)}
              %e: f32[2,3] = exp %t
              %u: f32[6] = reshape %w {shape=(6,)}
              %s: f32[] = sum %u {axis=(0,)}
              %a: f32[2,3] = add %x, %t
              %b: f32[2,3] = multiply %a, %e
              %y: f32[2,3] = multiply %b, %s
              return %y
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[2,3], %w: f32[3,2]) {
          %t: f32[2,3] = permute_dims %w {axes=(1, 0)}
          %e: f32[2,3] = exp %t
          %u: f32[6] = reshape %w {shape=(6,)}
          %s: f32[] = sum %u {axis=(0,)}
          %y: f32[2,3] = for %n, %x, %w, %e, %s {carried=1} {
            body(%i: i64[], %x: f32[2,3], %w: f32[3,2], %e: f32[2,3], %s: f32[]) {
              %t: f32[2,3] = permute_dims %w {axes=(1, 0)}
              %a: f32[2,3] = add %x, %t
              %b: f32[2,3] = multiply %a, %e
              %y: f32[2,3] = multiply %b, %s
              return %y
            }
          }
          return %y
        }
        """,
    ),
    "an outer sum is computed in the cache": (
        """
        graph @f(%n: i64[], %x: f32[500,500], %v: f32[500,1], %w: f32[1,500]) {
          %y: f32[500,500] = for %n, %x, %v, %w {carried=1} {
            body(%i: i64[], %x: f32[500,500], %v: f32[500,1], %w: f32[1,500]) {
              %s: f32[500,500] = add %v, %w
              %y: f32[500,500] = multiply %x, %s
              return %y
            }
          }
          return %y
        }
        """,
        None,
    ),
    "what may raise stays, for the loop may not run": (
        """
        graph @f(%n: i64[], %x: f32[1], %w: f32[4], %at: i64[1]) {
          %y: f32[1] = for %n, %x, %w, %at {carried=1} {
            body(%i: i64[], %x: f32[1], %w: f32[4], %at: i64[1]) {
              %t: f32[1] = take %w, %at {axis=0}
              %y: f32[1] = add %x, %t
              return %y
            }
          }
          return %y
        }
        """,
        None,
    ),
    "what products need of weights": (
        """
        graph @f(%n: i64[], %x: f32[3,40], %w: f32[40,64]) {
          %y: f32[3,40] = for %n, %x, %w {carried=1} {
            body(%i: i64[], %x: f32[3,40], %w: f32[40,64]) {
              %p: f32[3,64] = matmul %x, %w
              %t: f32[64,40] = permute_dims %w {axes=(1, 0)}
              %q: f32[3,40] = matmul %p, %t
              return %q
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[3,40], %w: f32[40,64]) {
          %a: f32[2560] = matmul_prepare %w {rows=4}
          %t: f32[64,40] = permute_dims %w {axes=(1, 0)}
          %b: f32[4096] = matmul_prepare %t {rows=4}
          %y: f32[3,40] = for %n, %x, %w, %a, %b {carried=1} {
            body(%i: i64[], %x: f32[3,40], %w: f32[40,64], %a: f32[2560], %b: f32[4096]) {
              %p: f32[3,64] = matmul_prepared %x, %w, %a
              %t: f32[64,40] = permute_dims %w {axes=(1, 0)}
              %q: f32[3,40] = matmul_prepared %p, %t, %b
              return %q
            }
          }
          return %y
        }
        """,
    ),
    "not for weights that change, nor for one row, nor for a single iteration": (
        """
        graph @f(%n: i64[], %x: f32[3,40], %v: f32[1,40], %w: f32[40,40], %u: f32[40,40]) {
          %y: f32[3,40], %z: f32[1,40], %r: f32[40,40] = for %n, %x, %v, %w, %u {carried=3} {
            body(%i: i64[], %x: f32[3,40], %v: f32[1,40], %w: f32[40,40], %u: f32[40,40]) {
              %p: f32[3,40] = matmul %x, %w
              %q: f32[1,40] = matmul %v, %u
              %r: f32[40,40] = add %w, %u
              return %p, %q, %r
            }
          }
          %a: f32[3,40], %b: f32[1,3,40] = for %n, %x, %u {carried=1, length=1} {
            body(%i: i64[], %x: f32[3,40], %u: f32[40,40]) {
              %p: f32[3,40] = matmul %x, %u
              return %p, %p
            }
          }
          return %y, %z, %r, %a, %b
        }
        """,
        None,
    ),
    "of weights that take much memory, as much as there is room for": (
        """
        graph @f(%n: i64[], %x: f32[3,3072], %v: f32[3072,3072], %w: f32[3072,3072]) {
          %y: f32[3,3072] = for %n, %x, %v, %w {carried=1} {
            body(%i: i64[], %x: f32[3,3072], %v: f32[3072,3072], %w: f32[3072,3072]) {
              %p: f32[3,3072] = matmul %x, %v
              %q: f32[3,3072] = matmul %p, %w
              return %q
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[3,3072], %v: f32[3072,3072], %w: f32[3072,3072]) {
          %a: f32[9437184] = matmul_prepare %v {rows=4}
          %y: f32[3,3072] = for %n, %x, %v, %w, %a {carried=1} {
            body(
              %i: i64[], %x: f32[3,3072], %v: f32[3072,3072], %w: f32[3072,3072], %a: f32[9437184]
            ) {
              %p: f32[3,3072] = matmul_prepared %x, %v, %a
              %q: f32[3,3072] = matmul %p, %w
              return %q
            }
          }
          return %y
        }
        """,
    ),
    "a while stays, for it may not end": (
        """
        graph @f(%n: i64[], %x: f32[], %w: f32[], %go: bool[]) {
          %y: f32[] = for %n, %x, %w, %go {carried=1} {
            body(%i: i64[], %x: f32[], %w: f32[], %go: bool[]) {
              %m: i64[], %t: f32[] = while %go, %w {carried=1} {
                body(%w: f32[]) { %e: f32[] = exp %w %q: bool[] = isfinite %e return %q, %e }
              }
              %y: f32[] = add %x, %t
              return %y
            }
          }
          return %y
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_hoist(before: str, after: str | None) -> None:
    assert_rewrites(hoist, before, before if after is None else after)


def test_what_acts_stays(impure_op: Op) -> None:
    text = f"""
        graph @f(%n: i64[], %w: f32[]) {{
          for %n, %w {{carried=0}} {{
            body(%i: i64[], %w: f32[]) {{ %a: f32[] = {impure_op.name} %w return }}
          }}
          return
        }}
        """
    assert_rewrites(hoist, text, text)
