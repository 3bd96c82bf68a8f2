"""What the parser accepts beyond what the printer writes, and what it says of the rest."""

from textwrap import dedent

import pytest

import hybrid.ops  # noqa: F401
from hybrid.errors import GraphError
from hybrid.ir import parse
from tests.helpers import graph_of

ONES = ",".join("1" * 33)


def test_line_breaks_mean_nothing_and_comments_are_skipped() -> None:
    short = "graph @f(%x: f32[4]) { %0: f32[4] = exp %x  %1: f32[4] = sin %0  return %1 }"
    long = """
        graph @f(%x: f32[4]) {      # of one operand
          %a:
            f32[4] = exp %x         # model.py:3
          %b: f32[4] = sin %a
          return %b
        }
        """
    assert parse(short) == graph_of(long)


def test_attributes_left_out_take_their_defaults() -> None:
    short = "graph @f(%x: f32[4]) { %s: f32[] = sum %x {axis=(0,)} return %s }"
    long = "graph @f(%x: f32[4]) { %s: f32[] = sum %x {keepdims=false, axis=(0,)} return %s }"
    assert parse(short) == parse(long)


def test_a_node_without_operands_ends_before_the_next_definition() -> None:
    text = """
        graph @f() {
          %a: f32[] = full {shape=(), value=1, dtype=f32}
          %b: f32[] = full {shape=(), value=2, dtype=f32}
          return %a, %b
        }
        """
    assert len(graph_of(text).nodes) == 2


def test_numbers_are_not_names() -> None:
    graph = parse("graph @f(%7: f32[4], %x: f32[4]) { return %7 }")
    assert [v.hint for v in graph.params] == ["", "x"]


ERRORS = {
    "no graph": (
        "module @f() { return }",
        """\
        line 1, column 1: expected "graph", found "module"
         1 | module @f() { return }
           | ^
        Fix: begin with "graph @name(".""",
    ),
    "an unknown op": (
        "graph @f(%x: f32[4]) {\n  %a: f32[4] = expp %x\n  return %a\n}",
        """\
        line 2, column 16: there is no op expp
         2 |   %a: f32[4] = expp %x
           |                ^
        Fix: write exp.""",
    ),
    "an op like no other": (
        "graph @f() { %a: f32[] = qqqqq return }",
        """\
        line 1, column 26: there is no op qqqqq
         1 | graph @f() { %a: f32[] = qqqqq return }
           |                          ^
        Fix: use a declared op.""",
    ),
    "a wrong result type": (
        "graph @f(%x: f32[4]) {\n  %a: f32[3] = exp %x\n  return %a\n}",
        """\
        line 2, column 16: exp is declared to give f32[3]; it gives f32[4]
         2 |   %a: f32[3] = exp %x
           |                ^
        Fix: declare f32[4].""",
    ),
    "a size that is not declared": (
        "graph @f<n = 37>(%x: f32[n,m]) { return }",
        """\
        line 1, column 28: there is no size m
         1 | graph @f<n = 37>(%x: f32[n,m]) { return }
           |                            ^
        Symbols are declared before the parameters, as in graph @f<n = 37>(...).
        Fix: use one of: n.""",
    ),
    "a size declared twice": (
        "graph @f<n = 37, n = 38>() { return }",
        """\
        line 1, column 18: the size n is declared twice
         1 | graph @f<n = 37, n = 38>() { return }
           |                  ^
        Fix: give one another name.""",
    ),
    "a size out of its range": (
        "graph @f<n = 37 to 12>() { return }",
        """\
        line 1, column 10: n = 37 is not in its range, from 2 to 12
         1 | graph @f<n = 37 to 12>() { return }
           |          ^
        Fix: give it a value in its range.""",
    ),
    "a size that is divided by nothing": (
        "graph @f<n = 37>(%x: f32[(n // 0)]) { return }",
        """\
        line 1, column 33: a division by 0
         1 | graph @f<n = 37>(%x: f32[(n // 0)]) { return }
           |                                 ^
        Fix: divide by a size that is not 0.""",
    ),
    "too few results": (
        "graph @f(%x: f32[4]) {\n  exp %x\n  return\n}",
        """\
        line 2, column 3: exp is declared to give nothing; it gives f32[4]
         2 |   exp %x
           |   ^
        Fix: declare f32[4].""",
    ),
    "a value like another": (
        "graph @f(%input: f32[4]) {\n  %a: f32[4] = exp %imput\n  return %a\n}",
        """\
        line 2, column 20: %imput is not defined before this line
         2 |   %a: f32[4] = exp %imput
           |                    ^
        A graph uses its own parameters and the results of earlier nodes; a region is a graph of \
its own.
        Fix: write %input.""",
    ),
    "a value of the graph around": (
        """\
graph @f(%x: f32[4]) {
  %y: f32[4] = map %x {
    (%a: f32[4]) {
      %n: f32[4] = exp %x
      return %n
    }
  }
  return %y
}""",
        """\
        line 4, column 24: %x is not defined before this line
         4 |       %n: f32[4] = exp %x
           |                        ^
        A graph uses its own parameters and the results of earlier nodes; a region is a graph of \
its own.
        Fix: define it, or make it an operand.""",
    ),
    "a value that is its own operand": (
        "graph @f() {\n  %a: f32[4] = exp %a\n  return %a\n}",
        """\
        line 2, column 20: %a is not defined before this line
         2 |   %a: f32[4] = exp %a
           |                    ^
        A graph uses its own parameters and the results of earlier nodes; a region is a graph of \
its own.
        Fix: define it, or make it an operand.""",
    ),
    "a second definition": (
        "graph @f(%x: f32[4]) {\n  %x: f32[4] = exp %x\n  return %x\n}",
        """\
        line 2, column 3: %x is defined twice
         2 |   %x: f32[4] = exp %x
           |   ^
        Fix: give one another name.""",
    ),
    "a parameter twice": (
        "graph @f(%x: f32[4], %x: f32[4]) { return }",
        """\
        line 1, column 22: %x is defined twice
         1 | graph @f(%x: f32[4], %x: f32[4]) { return }
           |                      ^
        Fix: give one another name.""",
    ),
    "an unknown attribute": (
        "graph @f(%x: f32[4]) {\n  %s: f32[] = sum %x {axes=(0,)}\n  return %s\n}",
        """\
        line 2, column 23: sum has no attribute axes
         2 |   %s: f32[] = sum %x {axes=(0,)}
           |                       ^
        Fix: write axis.""",
    ),
    "an attribute of an op without any": (
        "graph @f(%x: f32[4]) {\n  %s: f32[4] = exp %x {base=2}\n  return %s\n}",
        """\
        line 2, column 24: exp has no attribute base
         2 |   %s: f32[4] = exp %x {base=2}
           |                        ^
        Fix: use one of its own (none).""",
    ),
    "an attribute twice": (
        "graph @f(%x: f32[4]) {\n  %s: f32[] = sum %x {axis=0, axis=1}\n  return %s\n}",
        """\
        line 2, column 31: the attribute axis is given twice
         2 |   %s: f32[] = sum %x {axis=0, axis=1}
           |                               ^
        Fix: leave one out.""",
    ),
    "a missing attribute": (
        "graph @f(%x: f32[4]) {\n  %s: f32[1] = reshape %x\n  return %s\n}",
        """\
        line 2, column 16: reshape needs the attribute 'shape'
         2 |   %s: f32[1] = reshape %x
           |                ^
        Fix: write it as in {shape=...}.""",
    ),
    "no value for an attribute": (
        "graph @f(%x: f32[4]) {\n  %s: f32[] = sum %x {axis=f}\n  return %s\n}",
        """\
        line 2, column 28: expected an attribute's value, found "f"
         2 |   %s: f32[] = sum %x {axis=f}
           |                            ^
        Fix: write a number, "text", 0x00ff, true, false, none, a dtype, a type or (a, tuple).""",
    ),
    "a Python object": (
        "graph @f(%x: f32[4]) {\n  py_call %x {function=<step.<locals>.note>}\n  return\n}",
        """\
        line 2, column 24: this attribute is a Python object, which has no text
         2 |   py_call %x {function=<step.<locals>.note>}
           |                        ^
        Text holds numbers, strings, bytes, dtypes, types and tuples of them.
        Fix: build the graph with a Builder, or leave this node out.""",
    ),
    "branches of two types": (
        """\
graph @f(%p: bool[], %x: f32[4]) {
  %r: f32[4] = cond %p, %x {
    then(%x: f32[4]) { return %x }
    else(%x: f32[4]) { %s: f32[] = sum %x {axis=(0,)} return %s }
  }
  return %r
}""",
        """\
        line 2, column 16: the regions of cond return f32[4] and f32[]
         2 |   %r: f32[4] = cond %p, %x {
           |                ^
        Fix: let both return the same types.""",
    ),
    "a region for each count": (
        "graph @f(%n: i64[]) {\n  for %n {carried=0} {\n    body() { return }\n  }\n  return\n}",
        """\
        line 2, column 3: a region of for takes nothing; it is given i64[]
         2 |   for %n {carried=0} {
           |   ^
        Fix: give the region a parameter of the type of each operand.""",
    ),
    "half a byte": (
        "graph @f() {\n  %c: u8[1] = literal {shape=(1,), dtype=u8, data=0x0}\n  return %c\n}",
        """\
        line 2, column 51: half a byte
         2 |   %c: u8[1] = literal {shape=(1,), dtype=u8, data=0x0}
           |                                                   ^
        Fix: give two hexadecimal digits per byte.""",
    ),
    "a string with a wrong escape": (
        'graph @"a\\x"() { return }',
        """\
        line 1, column 8: this is no string
         1 | graph @"a\\x"() { return }
           |        ^
        Fix: write it as JSON does, in double quotes.""",
    ),
    "a type rule": (
        "graph @f(%x: f32[4], %y: f32[3]) {\n  %s: f32[4] = add %x, %y\n  return %s\n}",
        """\
        line 2, column 16: add cannot take f32[4] and f32[3]
         2 |   %s: f32[4] = add %x, %y
           |                ^
        Aligned at the last axis, sizes must agree or be 1; 4 and 3 do not.
        Fix: change one shape with reshape or expand_dims.""",
    ),
    "an unknown dtype": (
        "graph @f(%x: f33[4]) { return %x }",
        """\
        line 1, column 14: there is no dtype f33
         1 | graph @f(%x: f33[4]) { return %x }
           |              ^
        Fix: write f32.""",
    ),
    "a dtype for a type": (
        "graph @f(%x: f32) { return %x }",
        """\
        line 1, column 17: expected "[", found ")"
         1 | graph @f(%x: f32) { return %x }
           |                 ^
        Fix: write f32[] for a single number.""",
    ),
    "a negative size": (
        "graph @f(%x: f32[-1]) { return %x }",
        """\
        line 1, column 18: expected the size of a dimension, found "-1"
         1 | graph @f(%x: f32[-1]) { return %x }
           |                  ^
        Fix: write the size of a dimension here.""",
    ),
    "too many dimensions": (
        f"graph @f(%x: f32[{ONES}]) {{ return %x }}",
        f"""\
        line 1, column 14: a tensor of 33 dimensions was asked for
         1 | graph @f(%x: f32[{ONES}]) {{ return %x }}
           |              ^
        Tensors have at most 32 dimensions.
        Fix: merge some dimensions with reshape.""",
    ),
    "a forgotten comma": (
        "graph @f(%x: f32[4]) {\n  %a: f32[4] = exp %x\n  return %a %x\n}",
        """\
        line 3, column 13: expected "," or "}", found "%x"
         3 |   return %a %x
           |             ^
        Fix: end the graph after return.""",
    ),
    "a text that ends early": (
        "graph @f(%x: f32[4]) {\n  %a: f32[4] = exp %x\n",
        """\
        line 2, column 22: expected an op or "return", found the end of the text
         2 |   %a: f32[4] = exp %x
           |                      ^
        Fix: write an op or "return" here.""",
    ),
    "a brace at the end": (
        "graph @f(%x: f32[4]) { %a: f32[4] = exp %x {",
        """\
        line 1, column 45: expected "(", found the end of the text
         1 | graph @f(%x: f32[4]) { %a: f32[4] = exp %x {
           |                                             ^
        Fix: write "(" here.""",
    ),
    "something after the graph": (
        "graph @f(%x: f32[4]) { return %x } graph",
        """\
        line 1, column 36: expected the end of the text, found "graph"
         1 | graph @f(%x: f32[4]) { return %x } graph
           |                                    ^
        Fix: parse one graph at a time.""",
    ),
}


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse(text)
    assert str(caught.value) == dedent(message)
