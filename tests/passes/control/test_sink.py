"""sink tells regions what is known outside."""

import pytest

from hybrid.passes import sink
from tests.helpers import assert_rewrites

CASES = {
    "constants move into branches": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %c: f32[] = full {shape=(), value=2, dtype=f32}
          %d: f32[2] = literal {shape=(2,), dtype=f32, data=0x0000803f00000040}
          %y: f32[] = cond %p, %c, %x, %d {
            then(%c: f32[], %x: f32[], %d: f32[2]) {
              %a: f32[] = multiply %x, %c
              return %a
            }
            else(%c: f32[], %x: f32[], %d: f32[2]) {
              %a: f32[] = sum %d {axis=(0,)}
              return %a
            }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %c: f32[] = full {shape=(), value=2, dtype=f32}
          %d: f32[2] = literal {shape=(2,), dtype=f32, data=0x0000803f00000040}
          %y: f32[] = cond %p, %x {
            then(%x: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %d: f32[2] = literal {shape=(2,), dtype=f32, data=0x0000803f00000040}
              %a: f32[] = multiply %x, %c
              return %a
            }
            else(%x: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %d: f32[2] = literal {shape=(2,), dtype=f32, data=0x0000803f00000040}
              %a: f32[] = sum %d {axis=(0,)}
              return %a
            }
          }
          return %y
        }
        """,
    ),
    "the predicate is true in one branch and false in the other": (
        """
        graph @f(%p: bool[]) {
          %y: bool[] = cond %p, %p {
            then(%q: bool[]) { return %q }
            else(%q: bool[]) { return %q }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[]) {
          %y: bool[] = cond %p {
            then() { %q: bool[] = full {shape=(), value=true, dtype=bool} return %q }
            else() { %q: bool[] = full {shape=(), value=false, dtype=bool} return %q }
          }
          return %y
        }
        """,
    ),
    "so is its negation, the other way round": (
        """
        graph @f(%p: bool[]) {
          %n: bool[] = logical_not %p
          %y: bool[] = cond %p, %n {
            then(%q: bool[]) { return %q }
            else(%q: bool[]) { return %q }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[]) {
          %n: bool[] = logical_not %p
          %y: bool[] = cond %p {
            then() { %q: bool[] = full {shape=(), value=false, dtype=bool} return %q }
            else() { %q: bool[] = full {shape=(), value=true, dtype=bool} return %q }
          }
          return %y
        }
        """,
    ),
    "what the predicate implies, in the branch where it does": (
        """
        graph @f(%p: bool[], %q: bool[]) {
          %n: bool[] = logical_not %q
          %r: bool[] = logical_and %p, %n
          %y: bool[], %z: bool[] = cond %r, %p, %q {
            then(%p: bool[], %q: bool[]) { return %p, %q }
            else(%p: bool[], %q: bool[]) { return %p, %q }
          }
          return %y, %z
        }
        """,
        """
        graph @f(%p: bool[], %q: bool[]) {
          %n: bool[] = logical_not %q
          %r: bool[] = logical_and %p, %n
          %y: bool[], %z: bool[] = cond %r, %p, %q {
            then(%a: bool[], %b: bool[]) {
              %p: bool[] = full {shape=(), value=true, dtype=bool}
              %q: bool[] = full {shape=(), value=false, dtype=bool}
              return %p, %q
            }
            else(%p: bool[], %q: bool[]) { return %p, %q }
          }
          return %y, %z
        }
        """,
    ),
    "which branch another cond has taken": (
        """
        graph @f(%p: bool[], %q: bool[]) {
          %r: bool[] = cond %p, %q {
            then(%q: bool[]) { %r: bool[] = logical_not %q return %r }
            else(%q: bool[]) { %r: bool[] = full {shape=(), value=true, dtype=bool} return %r }
          }
          %y: bool[] = cond %r, %p {
            then(%p: bool[]) { return %p }
            else(%p: bool[]) { return %p }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[], %q: bool[]) {
          %r: bool[] = cond %p, %q {
            then(%q: bool[]) { %r: bool[] = logical_not %q return %r }
            else(%q: bool[]) { %r: bool[] = full {shape=(), value=true, dtype=bool} return %r }
          }
          %y: bool[] = cond %r, %p {
            then(%p: bool[]) { return %p }
            else(%p: bool[]) { %q: bool[] = full {shape=(), value=true, dtype=bool} return %q }
          }
          return %y
        }
        """,
    ),
    "invariants of a loop, but not what it carries": (
        """
        graph @f(%go: bool[], %x: f32[]) {
          %c: f32[] = full {shape=(), value=2, dtype=f32}
          %n: i64[], %y: f32[] = while %go, %c, %c, %go {carried=1} {
            body(%a: f32[], %c: f32[], %p: bool[]) {
              %b: f32[] = add %a, %c
              %q: bool[] = isnan %b
              %more: bool[] = logical_and %p, %q
              return %more, %b
            }
          }
          return %n, %y
        }
        """,
        """
        graph @f(%go: bool[], %x: f32[]) {
          %c: f32[] = full {shape=(), value=2, dtype=f32}
          %n: i64[], %y: f32[] = while %go, %c {carried=1} {
            body(%a: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %p: bool[] = full {shape=(), value=true, dtype=bool}
              %b: f32[] = add %a, %c
              %q: bool[] = isnan %b
              %more: bool[] = logical_and %p, %q
              return %more, %b
            }
          }
          return %n, %y
        }
        """,
    ),
    "rows of a constant are constants, and the loop still stops at its length": (
        """
        graph @f(%n: i64[], %x: f32[3]) {
          %zeros: f32[8,3] = full {shape=(8, 3), value=0, dtype=f32}
          %y: f32[3] = for %n, %x, %zeros {carried=1, length=8, sliced=1} {
            body(%i: i64[], %x: f32[3], %row: f32[3]) {
              %y: f32[3] = add %x, %row
              return %y
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %x: f32[3]) {
          %zeros: f32[8,3] = full {shape=(8, 3), value=0, dtype=f32}
          %length: i64[] = full {shape=(), value=8, dtype=i64}
          %count: i64[] = minimum %n, %length
          %y: f32[3] = for %count, %x {carried=1} {
            body(%i: i64[], %x: f32[3]) {
              %row: f32[3] = full {shape=(3,), value=0, dtype=f32}
              %y: f32[3] = add %x, %row
              return %y
            }
          }
          return %y
        }
        """,
    ),
    "through several levels": (
        """
        graph @f(%p: bool[], %n: i64[], %x: f32[]) {
          %c: f32[] = full {shape=(), value=2, dtype=f32}
          %y: f32[] = for %n, %x, %c, %p {carried=1} {
            body(%i: i64[], %x: f32[], %c: f32[], %p: bool[]) {
              %y: f32[] = cond %p, %x, %c {
                then(%x: f32[], %c: f32[]) { %y: f32[] = add %x, %c return %y }
                else(%x: f32[], %c: f32[]) { return %x }
              }
              return %y
            }
          }
          return %y
        }
        """,
        """
        graph @f(%p: bool[], %n: i64[], %x: f32[]) {
          %c: f32[] = full {shape=(), value=2, dtype=f32}
          %y: f32[] = for %n, %x, %p {carried=1} {
            body(%i: i64[], %x: f32[], %p: bool[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %y: f32[] = cond %p, %x {
                then(%x: f32[]) {
                  %c: f32[] = full {shape=(), value=2, dtype=f32}
                  %y: f32[] = add %x, %c
                  return %y
                }
                else(%x: f32[]) {
                  %c: f32[] = full {shape=(), value=2, dtype=f32}
                  return %x
                }
              }
              return %y
            }
          }
          return %y
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_sink(before: str, after: str | None) -> None:
    assert_rewrites(sink, before, before if after is None else after)


def test_large_literals_are_handed_in() -> None:
    data = "0x" + "00" * 4100
    text = f"""
        graph @f(%p: bool[]) {{
          %d: u8[4100] = literal {{shape=(4100,), dtype=u8, data={data}}}
          %y: u8[] = cond %p, %d {{
            then(%d: u8[4100]) {{ %s: u8[] = max %d {{axis=(0,)}} return %s }}
            else(%d: u8[4100]) {{ %s: u8[] = min %d {{axis=(0,)}} return %s }}
          }}
          return %y
        }}
        """
    assert_rewrites(sink, text, text)
