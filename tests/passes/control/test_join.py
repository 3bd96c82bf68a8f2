"""join makes one cond of several on the same predicate."""

import pytest

from hybrid.ir import Graph, Op
from hybrid.passes import dce, join, known, simplify_cond, sink
from tests.helpers import assert_rewrites

CASES = {
    "the second reads what the first gives": (
        """
        graph @f(%p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          %b: f32[] = cond %p, %a, %y {
            then(%a: f32[], %y: f32[]) { %b: f32[] = add %a, %y return %b }
            else(%a: f32[], %y: f32[]) { %b: f32[] = sin %a return %b }
          }
          return %b
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[], %b: f32[] = cond %p, %x, %y {
            then(%x: f32[], %y: f32[]) {
              %a: f32[] = exp %x
              %b: f32[] = add %a, %y
              return %a, %b
            }
            else(%x: f32[], %y: f32[]) {
              %b: f32[] = sin %x
              return %x, %b
            }
          }
          return %b
        }
        """,
    ),
    "a node on the way goes into both branches, and out again if it is needed": (
        """
        graph @f(%p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          %m: f32[] = add %a, %y
          %b: f32[] = cond %p, %m {
            then(%m: f32[]) { %b: f32[] = tan %m return %b }
            else(%m: f32[]) { return %m }
          }
          return %b, %m
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[], %y: f32[]) {
          %a: f32[], %m: f32[], %b: f32[] = cond %p, %x, %y {
            then(%x: f32[], %y: f32[]) {
              %a: f32[] = exp %x
              %m: f32[] = add %a, %y
              %b: f32[] = tan %m
              return %a, %m, %b
            }
            else(%x: f32[], %y: f32[]) {
              %m: f32[] = add %x, %y
              return %x, %m, %m
            }
          }
          return %b, %m
        }
        """,
    ),
    "other nodes between stay outside, before and behind": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          %u: f32[] = sin %a
          %v: f32[] = cos %x
          %b: f32[] = cond %p, %v {
            then(%v: f32[]) { %b: f32[] = tan %v return %b }
            else(%v: f32[]) { return %v }
          }
          return %b, %u
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %v: f32[] = cos %x
          %a: f32[], %b: f32[] = cond %p, %x, %v {
            then(%x: f32[], %v: f32[]) {
              %a: f32[] = exp %x
              %b: f32[] = tan %v
              return %a, %b
            }
            else(%x: f32[], %v: f32[]) { return %x, %v }
          }
          %u: f32[] = sin %a
          return %b, %u
        }
        """,
    ),
    "three become one": (
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          %b: f32[] = cond %p, %x {
            then(%x: f32[]) { %b: f32[] = sin %x return %b }
            else(%x: f32[]) { return %x }
          }
          %c: f32[] = cond %p, %x {
            then(%x: f32[]) { return %x }
            else(%x: f32[]) { %c: f32[] = cos %x return %c }
          }
          return %a, %b, %c
        }
        """,
        """
        graph @f(%p: bool[], %x: f32[]) {
          %a: f32[], %b: f32[], %c: f32[] = cond %p, %x {
            then(%x: f32[]) {
              %a: f32[] = exp %x
              %b: f32[] = sin %x
              return %a, %b, %x
            }
            else(%x: f32[]) {
              %c: f32[] = cos %x
              return %x, %x, %c
            }
          }
          return %a, %b, %c
        }
        """,
    ),
    "within a loop": (
        """
        graph @f(%n: i64[], %p: bool[], %x: f32[]) {
          %y: f32[] = for %n, %x, %p {carried=1} {
            body(%i: i64[], %x: f32[], %p: bool[]) {
              %a: f32[] = cond %p, %x {
                then(%x: f32[]) { %a: f32[] = exp %x return %a }
                else(%x: f32[]) { return %x }
              }
              %b: f32[] = cond %p, %a {
                then(%a: f32[]) { return %a }
                else(%a: f32[]) { %b: f32[] = sin %a return %b }
              }
              return %b
            }
          }
          return %y
        }
        """,
        """
        graph @f(%n: i64[], %p: bool[], %x: f32[]) {
          %y: f32[] = for %n, %x, %p {carried=1} {
            body(%i: i64[], %x: f32[], %p: bool[]) {
              %a: f32[], %b: f32[] = cond %p, %x {
                then(%x: f32[]) { %a: f32[] = exp %x return %a, %a }
                else(%x: f32[]) { %b: f32[] = sin %x return %x, %b }
              }
              return %b
            }
          }
          return %y
        }
        """,
    ),
    "other predicates": (
        """
        graph @f(%p: bool[], %q: bool[], %x: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          %b: f32[] = cond %q, %x {
            then(%x: f32[]) { %b: f32[] = sin %x return %b }
            else(%x: f32[]) { return %x }
          }
          return %a, %b
        }
        """,
        None,
    ),
    "a loop on the way": (
        """
        graph @f(%p: bool[], %n: i64[], %x: f32[]) {
          %a: f32[] = cond %p, %x {
            then(%x: f32[]) { %a: f32[] = exp %x return %a }
            else(%x: f32[]) { return %x }
          }
          %m: f32[] = for %n, %a {carried=1} {
            body(%i: i64[], %a: f32[]) { %b: f32[] = sin %a return %b }
          }
          %b: f32[] = cond %p, %m {
            then(%m: f32[]) { %b: f32[] = tan %m return %b }
            else(%m: f32[]) { return %m }
          }
          return %b
        }
        """,
        None,
    ),
    "what may raise keeps its place": (
        """
        graph @f(%p: bool[], %x: f32[4], %i: i64[1], %j: i64[1]) {
          %a: f32[1] = cond %p, %x, %i {
            then(%x: f32[4], %i: i64[1]) { %a: f32[1] = take %x, %i {axis=0} return %a }
            else(%x: f32[4], %i: i64[1]) { %a: f32[1] = slice %x {start=(0,), size=(1,), step=(1,)}
              return %a }
          }
          %t: f32[1] = take %x, %j {axis=0}
          %b: f32[1] = cond %p, %x, %t {
            then(%x: f32[4], %t: f32[1]) { return %t }
            else(%x: f32[4], %t: f32[1]) { %b: f32[1] = exp %t return %b }
          }
          return %a, %b
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_join(before: str, after: str | None) -> None:
    assert_rewrites(join, before, before if after is None else after)


def act(name: str, value: str) -> str:
    return f"%{value}: f32[] = {name} %x return %{value}"


def test_what_acts_stays_in_order(impure_op: Op) -> None:
    """Both conds act: nothing between them may, or it would come before or after both."""
    name = impure_op.name

    def graph(between: str) -> str:
        return f"""
            graph @f(%p: bool[], %x: f32[]) {{
              %a: f32[] = cond %p, %x {{
                then(%x: f32[]) {{ {act(name, "a")} }}
                else(%x: f32[]) {{ return %x }}
              }}
              {between}
              %b: f32[] = cond %p, %x {{
                then(%x: f32[]) {{ return %x }}
                else(%x: f32[]) {{ {act(name, "b")} }}
              }}
              return %a, %b
            }}
            """

    after = f"""
        graph @f(%p: bool[], %x: f32[]) {{
          %a: f32[], %b: f32[] = cond %p, %x {{
            then(%x: f32[]) {{ %a: f32[] = {name} %x return %a, %x }}
            else(%x: f32[]) {{ %b: f32[] = {name} %x return %x, %b }}
          }}
          return %a, %b
        }}
        """
    assert_rewrites(join, graph(""), after)
    between = graph(f"%c: f32[] = {name} %x")
    assert_rewrites(join, between, between)


def test_early_return_becomes_one_cond() -> None:
    """``if p: return exp(x)``, then code that runs only if nothing has been returned."""
    before = """
        graph @f(%p: bool[], %x: f32[]) {
          %zero: f32[] = full {shape=(), value=0, dtype=f32}
          %done: bool[], %result: f32[] = cond %p, %x, %zero {
            then(%x: f32[], %zero: f32[]) {
              %t: bool[] = full {shape=(), value=true, dtype=bool}
              %e: f32[] = exp %x
              return %t, %e
            }
            else(%x: f32[], %zero: f32[]) {
              %t: bool[] = full {shape=(), value=false, dtype=bool}
              return %t, %zero
            }
          }
          %clear: bool[] = logical_not %done
          %out: f32[] = cond %clear, %x, %result {
            then(%x: f32[], %result: f32[]) {
              %s: f32[] = sin %x
              return %s
            }
            else(%x: f32[], %result: f32[]) { return %result }
          }
          return %out
        }
        """
    after = """
        graph @f(%p: bool[], %x: f32[]) {
          %out: f32[] = cond %p, %x {
            then(%x: f32[]) { %e: f32[] = exp %x return %e }
            else(%x: f32[]) { %s: f32[] = sin %x return %s }
          }
          return %out
        }
        """

    def passes(graph: Graph) -> Graph:
        for _ in range(2):
            for change in (sink, known, simplify_cond, join, dce):
                graph = change(graph)
        return graph

    assert_rewrites(passes, before, after)
