"""simplify_cond takes out of a cond what does not depend on the branch taken."""

import pytest

from hybrid.ir import Op
from hybrid.passes import simplify_cond
from tests.helpers import assert_rewrites

CASES = {
    "the same operand from both branches": (
        """
        graph @f(%p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[], %b: f32[] = cond %p, %x, %y {
            then(%x: f32[], %y: f32[]) { %a: f32[] = exp %x return %a, %y }
            else(%x: f32[], %y: f32[]) { return %x, %y }
          }
          return %a, %b
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          return %a, %y
        }
        """,
    ),
    "a cond that only passes on": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { return %x }
            else(%x: f32[]) { return %x }
          }
          return %a
        }
        """,
        "graph @f(%p: bool[], %x: f32[]) { return %x }",
    ),
    "the same constant from both branches": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[], %b: f32[] = cond %p, %x {
            then(%x: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %e: f32[] = exp %x
              return %c, %e
            }
            else(%x: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              return %c, %x
            }
          }
          return %a, %b
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %k: f32[] = full {shape=(), value=2, dtype=f32}
          %b: f32[] = cond %p, %x {
            then(%x: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              %e: f32[] = exp %x
              return %e
            }
            else(%x: f32[]) {
              %c: f32[] = full {shape=(), value=2, dtype=f32}
              return %x
            }
          }
          return %k, %b
        }
        """,
    ),
    "a choice of what is there": (
        """
        graph @f(%p: bool[], %x: f32[4], %y: f32[4]) {
          %a: f32[4], %b: f32[] = cond %p, %x, %y {
            then(%x: f32[4], %y: f32[4]) {
              %c: f32[] = full {shape=(), value=0.0, dtype=f32}
              return %x, %c
            }
            else(%x: f32[4], %y: f32[4]) {
              %c: f32[] = full {shape=(), value=-0.0, dtype=f32}
              return %y, %c
            }
          }
          return %a, %b
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[4], %y: f32[4]) {
          %a: f32[4] = where %p, %x, %y
          %c: f32[] = full {shape=(), value=0.0, dtype=f32}
          %d: f32[] = full {shape=(), value=-0.0, dtype=f32}
          %b: f32[] = where %p, %c, %d
          return %a, %b
        }
        """,
    ),
    "a choice of large values": (
        """
        graph @f(%p: bool[], %x: f32[65], %y: f32[65]) {
          %a: f32[65] = cond %p, %x, %y {
            then(%x: f32[65], %y: f32[65]) { return %x }
            else(%x: f32[65], %y: f32[65]) { return %y }
          }
          return %a
        }
        """,
        None,
    ),
    "a result that is given twice": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[], %b: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a, %a }
            else(%x: f32[]) { return %x, %x }
          }
          return %a, %b
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          return %a, %a
        }
        """,
    ),
    "an operand given twice, and one that is not used": (
        """
        graph @f(%p: bool[], %x: f32[], %z: f32[]) {
          %a: f32[] = cond %p, %x, %z, %x {
            then(%x: f32[], %z: f32[], %y: f32[]) { %a: f32[] = exp %y return %a }
            else(%x: f32[], %z: f32[], %y: f32[]) { %a: f32[] = sin %x return %a }
          }
          return %a
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[], %z: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { %a: f32[] = sin %x return %a }
          }
          return %a
        }
        """,
    ),
    "a negation": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %n: bool[] = logical_not %p
          %a: f32[] = cond %n, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%y: f32[]) { %a: f32[] = sin %y return %a }
          }
          return %a
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %n: bool[] = logical_not %p
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = sin %x return %a }
            else(%y: f32[]) { %a: f32[] = exp %y return %a }
          }
          return %a
        }
        """,
    ),
    "branches that do the same, whatever that is": (
        """
        graph @f(%p: bool[], %x: f32[], %i: i64[1], %n: i64[]) {
          %a: f32[] = cond %p, %x, %n {
            then(%x: f32[], %n: i64[]) {
              %a: f32[] = for %n, %x {carried=1} {
                body(%i: i64[], %x: f32[]) { %a: f32[] = exp %x return %a }
              }
              return %a
            }
            else(%x: f32[], %n: i64[]) {
              %a: f32[] = for %n, %x {carried=1} {
                body(%i: i64[], %x: f32[]) { %a: f32[] = exp %x return %a }
              }
              return %a
            }
          }
          return %a
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[], %i: i64[1], %n: i64[]) {
          %a: f32[] = for %n, %x {carried=1} {
            body(%i: i64[], %x: f32[]) { %a: f32[] = exp %x return %a }
          }
          return %a
        }
        """,
    ),
    "an empty cond": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          cond %p, %x { then(%x: f32[]) { return } else(%x: f32[]) { return } }
          return
        }
        """,
        "graph @f(%p: bool[], %x: f32[]) { return }",
    ),
    "within a loop": (
        """
        graph @f(%n: i64[], %p: bool[], %x: f32[]) {
          %y: f32[] = for %n, %x, %p {carried=1} {
            body(%i: i64[], %x: f32[], %p: bool[]) {
              %y: f32[], %z: f32[] = cond %p, %x {
                then(%x: f32[]) { %y: f32[] = exp %x return %x, %y }
                else(%x: f32[]) { return %x, %x }
              }
              return %z
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %p: bool[], %x: f32[]) {
          %y: f32[] = for %n, %x, %p {carried=1} {
            body(%i: i64[], %x: f32[], %p: bool[]) {
              %z: f32[] = cond %p, %x {
                then(%x: f32[]) { %y: f32[] = exp %x return %y }
                else(%x: f32[]) { return %x }
              }
              return %z
            }
          }
          return %y
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_simplify_cond(before: str, after: str | None) -> None:
    assert_rewrites(simplify_cond, before, before if after is None else after)


def constant(name: str) -> str:
    return f"%{name}: bool[] = full {{shape=(), value={name}, dtype=bool}} return %{name}"


FLAGS = {
    ("true", "false"): "return %p",
    ("false", "true"): "%n: bool[] = logical_not %p return %n",
    ("q", "false"): "%r: bool[] = logical_and %p, %q return %r",
    ("true", "q"): "%r: bool[] = logical_or %p, %q return %r",
    ("false", "q"): "%n: bool[] = logical_not %p %r: bool[] = logical_and %n, %q return %r",
    ("q", "true"): "%n: bool[] = logical_not %p %r: bool[] = logical_or %n, %q return %r",
}


@pytest.mark.parametrize(("values", "after"), FLAGS.items(), ids=map(str, FLAGS))
def test_a_flag_is_a_formula_of_the_predicate(values: tuple[str, str], after: str) -> None:
    first, second = ("return %q" if v == "q" else constant(v) for v in values)
    before = f"""
        graph @f(%p: bool[], %q: bool[]) {{
          %r: bool[] = cond %p, %q {{
            then(%q: bool[]) {{ {first} }}
            else(%q: bool[]) {{ {second} }}
          }}
          return %r
        }}
        """
    assert_rewrites(after_dce, before, f"graph @f(%p: bool[], %q: bool[]) {{ {after} }}")


def after_dce(graph):
    from hybrid.passes import dce

    return dce(simplify_cond(graph))


def test_a_cond_that_acts_stays(impure_op: Op) -> None:
    before = f"""
        graph @f(%p: bool[], %x: f32[]) {{
          %a: f32[] = cond %p, %x {{
            then(%x: f32[]) {{ %a: f32[] = {impure_op.name} %x return %x }}
            else(%x: f32[]) {{ return %x }}
          }}
          return %a
        }}
        """
    after = f"""
        graph @f(%p: bool[], %x: f32[]) {{
          cond %p, %x {{
            then(%x: f32[]) {{ %a: f32[] = {impure_op.name} %x return }}
            else(%x: f32[]) {{ return }}
          }}
          return %x
        }}
        """
    assert_rewrites(simplify_cond, before, after)
