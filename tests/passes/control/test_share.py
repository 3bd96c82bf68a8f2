"""share hands in what is computed already, and takes out what both branches compute."""

import pytest

from hybrid.ir import Op
from hybrid.passes import share
from tests.helpers import assert_rewrites

CASES = {
    "equal constants stand for one": (
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %y: f32[] = cond %p, %x {
            then(%x: f32[8]) {
              %a: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
              %b: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
              %c: f32[8] = add %x, %b
              %s: f32[] = sum %c {axis=(0,)}
              return %s
            }
            else(%x: f32[8]) {
              %b: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
              %c: f32[8] = add %x, %b
              %s: f32[] = sum %c {axis=(0,)}
              %r: f32[] = exp %s
              return %r
            }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %a: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
          %c: f32[8] = add %x, %a
          %s: f32[] = sum %c {axis=(0,)}
          %y: f32[] = cond %p, %x, %s, %s {
            then(%x: f32[8], %s: f32[], %s_1: f32[]) {
              %a: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
              %b: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
              %c: f32[8] = add %x, %b
              return %s
            }
            else(%x: f32[8], %s: f32[], %s_1: f32[]) {
              %b: f32[8] = full {dtype=f32, shape=(8,), value=0.5}
              %c: f32[8] = add %x, %b
              %r: f32[] = exp %s_1
              return %r
            }
          }
          return %y
        }
        """,
    ),
    "what is computed outside is handed in": (
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %s: f32[] = sum %x {axis=(0,)}
          %y: f32[] = cond %p, %x {
            then(%x: f32[8]) { %a: f32[] = sum %x {axis=(0,)} %b: f32[] = exp %a return %b }
            else(%x: f32[8]) { %a: f32[] = max %x {axis=(0,)} return %a }
          }
          return %y, %s
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %s: f32[] = sum %x {axis=(0,)}
          %y: f32[] = cond %p, %x, %s {
            then(%x: f32[8], %a: f32[]) { %b: f32[] = exp %a return %b }
            else(%x: f32[8], %a: f32[]) { %a_1: f32[] = max %x {axis=(0,)} return %a_1 }
          }
          return %y, %s
        }
        """,
    ),
    "through elementwise nodes and views": (
        """
        graph @f(%p: bool[], %x: f32[2,4]) {
          %e: f32[2,4] = exp %x
          %t: f32[4,2] = permute_dims %e {axes=(1, 0)}
          %s: f32[4] = sum %t {axis=(1,)}
          %y: f32[4] = cond %p, %x {
            then(%x: f32[2,4]) {
              %e: f32[2,4] = exp %x
              %t: f32[4,2] = permute_dims %e {axes=(1, 0)}
              %s: f32[4] = sum %t {axis=(1,)}
              return %s
            }
            else(%x: f32[2,4]) { %s: f32[4] = sum %x {axis=(0,)} return %s }
          }
          return %y, %s
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[2,4]) {
          %e: f32[2,4] = exp %x
          %t: f32[4,2] = permute_dims %e {axes=(1, 0)}
          %s: f32[4] = sum %t {axis=(1,)}
          %y: f32[4] = cond %p, %x, %s {
            then(%x: f32[2,4], %s: f32[4]) {
              %e: f32[2,4] = exp %x
              %t: f32[4,2] = permute_dims %e {axes=(1, 0)}
              return %s
            }
            else(%x: f32[2,4], %s: f32[4]) { %s_1: f32[4] = sum %x {axis=(0,)} return %s_1 }
          }
          return %y, %s
        }
        """,
    ),
    "what both branches compute moves out": (
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %y: f32[] = cond %p, %x {
            then(%x: f32[8]) {
              %e: f32[8] = exp %x
              %a: f32[] = sum %e {axis=(0,)}
              %b: f32[] = sin %a
              return %b
            }
            else(%x: f32[8]) {
              %e: f32[8] = exp %x
              %a: f32[] = sum %e {axis=(0,)}
              %b: f32[] = cos %a
              return %b
            }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %e: f32[8] = exp %x
          %a: f32[] = sum %e {axis=(0,)}
          %y: f32[] = cond %p, %x, %a, %a {
            then(%x: f32[8], %a: f32[], %z: f32[]) {
              %e: f32[8] = exp %x
              %b: f32[] = sin %a
              return %b
            }
            else(%x: f32[8], %z: f32[], %a: f32[]) {
              %e: f32[8] = exp %x
              %b: f32[] = cos %a
              return %b
            }
          }
          return %y
        }
        """,
    ),
    "elementwise nodes stay in branches": (
        """
        graph @f(%p: bool[], %x: f32[8]) {
          %e: f32[8] = exp %x
          %y: f32[8] = cond %p, %x {
            then(%x: f32[8]) { %e: f32[8] = exp %x %b: f32[8] = sin %e return %b }
            else(%x: f32[8]) { %e: f32[8] = exp %x %b: f32[8] = cos %e return %b }
          }
          return %y, %e
        }
        """,
        None,
    ),
    "they do not stay in loops": (
        """
        graph @f(%n: i64[], %x: f32[8], %w: f32[8]) {
          %e: f32[8] = exp %w
          %y: f32[8] = for %n, %x, %w {carried=1} {
            body(%i: i64[], %x: f32[8], %w: f32[8]) {
              %v: f32[8] = exp %w
              %y: f32[8] = add %x, %v
              return %y
            }
          }
          return %y, %e
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[8], %w: f32[8]) {
          %e: f32[8] = exp %w
          %y: f32[8] = for %n, %x, %e {carried=1} {
            body(%i: i64[], %x: f32[8], %v: f32[8]) {
              %y: f32[8] = add %x, %v
              return %y
            }
          }
          return %y, %e
        }
        """,
    ),
    "what may raise is not done twice": (
        """
        graph @f(%go: bool[], %x: f32[4], %i: i64[2]) {
          %t: f32[2] = take %x, %i {axis=0}
          %n: i64[], %y: f32[2] = while %go, %t, %x, %i {carried=1} {
            body(%y: f32[2], %x: f32[4], %i: i64[2]) {
              %t: f32[2] = take %x, %i {axis=0}
              %s: f32[2] = add %y, %t
              %m: f32[] = max %s {axis=(0,)}
              %more: bool[] = isfinite %m
              return %more, %s
            }
          }
          return %n, %y
        }
        """,
        """
        graph @f(%go: bool[], %x: f32[4], %i: i64[2]) {
          %t: f32[2] = take %x, %i {axis=0}
          %n: i64[], %y: f32[2] = while %go, %t, %t {carried=1} {
            body(%y: f32[2], %t: f32[2]) {
              %s: f32[2] = add %y, %t
              %m: f32[] = max %s {axis=(0,)}
              %more: bool[] = isfinite %m
              return %more, %s
            }
          }
          return %n, %y
        }
        """,
    ),
    "but it does not move out": (
        """
        graph @f(%p: bool[], %x: f32[4], %i: i64[2]) {
          %y: f32[2] = cond %p, %x, %i {
            then(%x: f32[4], %i: i64[2]) { %t: f32[2] = take %x, %i {axis=0} return %t }
            else(%x: f32[4], %i: i64[2]) {
              %t: f32[2] = take %x, %i {axis=0}
              %u: f32[2] = exp %t
              return %u
            }
          }
          return %y
        }
        """,
        None,
    ),
    "values of other operands": (
        """
        graph @f(%p: bool[], %x: f32[8], %w: f32[8]) {
          %s: f32[] = sum %x {axis=(0,)}
          %y: f32[] = cond %p, %w {
            then(%x: f32[8]) { %a: f32[] = sum %x {axis=(0,)} return %a }
            else(%x: f32[8]) { %a: f32[] = max %x {axis=(0,)} return %a }
          }
          return %y, %s
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_share(before: str, after: str | None) -> None:
    assert_rewrites(share, before, before if after is None else after)


def test_what_acts_is_done_as_often_as_before(impure_op: Op) -> None:
    text = f"""
        graph @f(%p: bool[], %x: f32[]) {{
          %s: f32[] = {impure_op.name} %x
          %y: f32[] = cond %p, %x {{
            then(%x: f32[]) {{ %a: f32[] = {impure_op.name} %x return %a }}
            else(%x: f32[]) {{ %a: f32[] = {impure_op.name} %x %b: f32[] = exp %a return %b }}
          }}
          return %y, %s
        }}
        """
    assert_rewrites(share, text, text)
