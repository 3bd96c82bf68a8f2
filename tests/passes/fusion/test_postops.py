"""fuse_products moves the map that reads a product or a convolution into it."""

# ruff: noqa: E501  graphs as they print

import numpy as np
import pytest
from hypothesis import given

from hybrid.ir import Graph, verify
from hybrid.passes import fuse, fuse_products
from tests.helpers import assert_rewrites, bits, graph_of, interpret
from tests.passes.samples import arrays_for
from tests.random_graphs import exact_ops, graphs, unhurried

CASES = {
    "a map": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4], %c: f32[4]) {
          %p: f32[8,4] = matmul %a, %b
          %r: f32[8,4] = map %c, %p {
            (%c: f32[4], %p: f32[8,4]) {
              %s: f32[8,4] = add %p, %c
              %t: f32[8,4] = tanh %s
              return %t
            }
          }
          return %r
        }
        """,
        """
        graph @f(%a: f32[8,2], %b: f32[2,4], %c: f32[4]) {
          %r: f32[8,4] = matmul_map %a, %b, %c {
            (%p: f32[8,4], %c: f32[4]) {
              %s: f32[8,4] = add %p, %c
              %t: f32[8,4] = tanh %s
              return %t
            }
          }
          return %r
        }
        """,
    ),
    "a convolution of bytes": (
        """
        graph @f(%x: u8[2,3,8,8], %w: i8[4,3,3,3], %z: u8[], %s: f32[4,1,1]) {
          %y: i32[2,4,6,6] = conv_integer %x, %w, %z {stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, size=(6, 6)}
          %r: f32[2,4,6,6] = map %s, %y {
            (%s: f32[4,1,1], %y: i32[2,4,6,6]) {
              %c: f32[2,4,6,6] = cast %y {dtype=f32}
              %u: f32[2,4,6,6] = multiply %c, %s
              return %u
            }
          }
          return %r
        }
        """,
        """
        graph @f(%x: u8[2,3,8,8], %w: i8[4,3,3,3], %z: u8[], %s: f32[4,1,1]) {
          %r: f32[2,4,6,6] = conv_integer_map %x, %w, %z, %s {stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, size=(6, 6)} {
            (%y: i32[2,4,6,6], %s: f32[4,1,1]) {
              %c: f32[2,4,6,6] = cast %y {dtype=f32}
              %u: f32[2,4,6,6] = multiply %c, %s
              return %u
            }
          }
          return %r
        }
        """,
    ),
    "a product of bytes": (
        """
        graph @f(%a: u8[8,2], %b: i8[2,4], %z: i32[4], %s: f32[4]) {
          %p: i32[8,4] = matmul_integer %a, %b
          %r: f32[8,4] = map %p, %z, %s {
            (%p: i32[8,4], %z: i32[4], %s: f32[4]) {
              %d: i32[8,4] = subtract %p, %z
              %f: f32[8,4] = cast %d {dtype=f32}
              %y: f32[8,4] = multiply %f, %s
              return %y
            }
          }
          return %r
        }
        """,
        """
        graph @f(%a: u8[8,2], %b: i8[2,4], %z: i32[4], %s: f32[4]) {
          %r: f32[8,4] = matmul_integer_map %a, %b, %z, %s {
            (%p: i32[8,4], %z: i32[4], %s: f32[4]) {
              %d: i32[8,4] = subtract %p, %z
              %f: f32[8,4] = cast %d {dtype=f32}
              %y: f32[8,4] = multiply %f, %s
              return %y
            }
          }
          return %r
        }
        """,
    ),
    "a convolution": (
        """
        graph @f(%x: f32[2,3,8,8], %w: f32[4,3,3,3], %b: f32[4,1,1], %r: f32[2,4,6,6]) {
          %y: f32[2,4,6,6] = conv %x, %w {stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, size=(6, 6)}
          %z: f32[2,4,6,6] = map %b, %y, %r {
            (%b: f32[4,1,1], %y: f32[2,4,6,6], %r: f32[2,4,6,6]) {
              %s: f32[2,4,6,6] = add %y, %b
              %t: f32[2,4,6,6] = add %s, %r
              %u: f32[2,4,6,6] = relu %t
              return %u
            }
          }
          return %z
        }
        """,
        """
        graph @f(%x: f32[2,3,8,8], %w: f32[4,3,3,3], %b: f32[4,1,1], %r: f32[2,4,6,6]) {
          %z: f32[2,4,6,6] = conv_map %x, %w, %b, %r {stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, size=(6, 6)} {
            (%y: f32[2,4,6,6], %b: f32[4,1,1], %r: f32[2,4,6,6]) {
              %s: f32[2,4,6,6] = add %y, %b
              %t: f32[2,4,6,6] = add %s, %r
              %u: f32[2,4,6,6] = relu %t
              return %u
            }
          }
          return %z
        }
        """,
    ),
    "a transposed convolution that is needed itself": (
        """
        graph @f(%y: f64[1,2,4], %w: f64[2,3,3]) {
          %x: f64[1,3,9] = conv_transpose %y, %w {stride=(2,), padding=(0,), dilation=(1,), groups=1, size=(9,)}
          %z: f64[1,3,9] = tanh %x
          return %x, %z
        }
        """,
        """
        graph @f(%y: f64[1,2,4], %w: f64[2,3,3]) {
          %x: f64[1,3,9], %z: f64[1,3,9] = conv_transpose_map %y, %w {stride=(2,), padding=(0,), dilation=(1,), groups=1, size=(9,)} {
            (%x: f64[1,3,9]) {
              %z: f64[1,3,9] = tanh %x
              return %x, %z
            }
          }
          return %x, %z
        }
        """,
    ),
    "a single node": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %r: f32[8,4] = multiply %p, %p
          return %r
        }
        """,
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %r: f32[8,4] = matmul_map %a, %b {
            (%p: f32[8,4]) {
              %r: f32[8,4] = multiply %p, %p
              return %r
            }
          }
          return %r
        }
        """,
    ),
    "a product that is used again is the first result": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %r: f32[8,4] = relu %p
          %s: f32[8] = sum %p {axis=(1,)}
          return %r, %s
        }
        """,
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4], %r: f32[8,4] = matmul_map %a, %b {
            (%p: f32[8,4]) {
              %r: f32[8,4] = relu %p
              return %p, %r
            }
          }
          %s: f32[8] = sum %p {axis=(1,)}
          return %r, %s
        }
        """,
    ),
    "a product that is returned is the first result": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %r: f32[8,4] = relu %p
          return %r, %p
        }
        """,
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4], %r: f32[8,4] = matmul_map %a, %b {
            (%p: f32[8,4]) {
              %r: f32[8,4] = relu %p
              return %p, %r
            }
          }
          return %r, %p
        }
        """,
    ),
    "the product waits for the other operands of the map": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %s: f32[2] = sum %a {axis=(0,)}
          %t: f32[] = sum %s {axis=(0,)}
          %r: f32[8,4] = add %p, %t
          return %r
        }
        """,
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %s: f32[2] = sum %a {axis=(0,)}
          %t: f32[] = sum %s {axis=(0,)}
          %r: f32[8,4] = matmul_map %a, %b, %t {
            (%p: f32[8,4], %t: f32[]) {
              %r: f32[8,4] = add %p, %t
              return %r
            }
          }
          return %r
        }
        """,
    ),
    "a map of two products joins the later one": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %q: f32[8,4] = matmul %a, %b
          %r: f32[8,4] = add %p, %q
          return %r
        }
        """,
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %r: f32[8,4] = matmul_map %a, %b, %p {
            (%q: f32[8,4], %p: f32[8,4]) {
              %r: f32[8,4] = add %p, %q
              return %r
            }
          }
          return %r
        }
        """,
    ),
    "results of other dtypes": (
        """
        graph @f(%a: f64[8,2], %b: f64[2,4], %c: f64[]) {
          %p: f64[8,4] = matmul %a, %b
          %r: bool[8,4] = less %p, %c
          return %r
        }
        """,
        """
        graph @f(%a: f64[8,2], %b: f64[2,4], %c: f64[]) {
          %r: bool[8,4] = matmul_map %a, %b, %c {
            (%p: f64[8,4], %c: f64[]) {
              %r: bool[8,4] = less %p, %c
              return %r
            }
          }
          return %r
        }
        """,
    ),
    "batches": (
        """
        graph @f(%a: f32[3,8,2], %b: f32[2,4]) {
          %p: f32[3,8,4] = matmul %a, %b
          %r: f32[3,8,4] = relu %p
          return %r
        }
        """,
        """
        graph @f(%a: f32[3,8,2], %b: f32[2,4]) {
          %r: f32[3,8,4] = matmul_map %a, %b {
            (%p: f32[3,8,4]) {
              %r: f32[3,8,4] = relu %p
              return %r
            }
          }
          return %r
        }
        """,
    ),
    "a reader before the map needs the product first": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          %s: f32[4] = sum %p {axis=(0,)}
          %r: f32[8,4] = subtract %p, %s
          return %r
        }
        """,
        None,
    ),
    "a map of another shape": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4], %c: f32[3,1,1]) {
          %p: f32[8,4] = matmul %a, %b
          %r: f32[3,8,4] = add %p, %c
          return %r
        }
        """,
        None,
    ),
    "integers have kernels without post-ops": (
        """
        graph @f(%a: i64[8,2], %b: i64[2,4]) {
          %p: i64[8,4] = matmul %a, %b
          %r: i64[8,4] = negative %p
          return %r
        }
        """,
        None,
    ),
    "a product that nobody reads": (
        """
        graph @f(%a: f32[8,2], %b: f32[2,4]) {
          %p: f32[8,4] = matmul %a, %b
          return %p
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_fuse_products(before: str, after: str | None) -> None:
    assert_rewrites(fuse_products, before, before if after is None else after)


def test_too_many_results_stay_apart() -> None:
    lines = "".join(f"%r{i}: f32[8,4] = {op} %p\n" for i, op in enumerate(UNARY))
    names = ", ".join(f"%r{i}" for i in range(len(UNARY)))
    graph = graph_of(
        f"""graph @f(%a: f32[8,2], %b: f32[2,4]) {{
          %p: f32[8,4] = matmul %a, %b
          {lines} return {names}, %p }}"""
    )
    kept = fuse_products(fuse(graph))
    verify(kept)
    assert [node.op.name for node in kept.nodes] == ["matmul", "map"]
    alone = fuse_products(fuse(Graph("f", graph.params, graph.nodes, graph.results[:-1])))
    assert [node.op.name for node in alone.nodes] == ["matmul_map"]


@pytest.mark.parametrize(
    ("rows", "read", "joined"),
    [(127, ("%u", "%v"), True), (128, ("%u", "%v"), False), (2047, ("%u",), True),
     (2048, ("%u",), False), (4096, ("%c", "%c"), True)],
)  # fmt: skip
def test_what_reads_much_else_stays_apart(rows: int, read: tuple[str, ...], joined: bool) -> None:
    whole = f"f32[{rows},128]"
    lines, last = "", "%p"
    for i, name in enumerate(read):
        lines += f"%s{i}: {whole} = add {last}, {name}\n"
        last = f"%s{i}"
    graph = graph_of(
        f"""graph @f(%a: f32[{rows},2], %b: f32[2,128], %c: f32[128], %u: {whole}, %v: {whole}) {{
          %p: {whole} = matmul %a, %b
          {lines} return {last} }}"""
    )
    names = [node.op.name for node in fuse_products(fuse(graph)).nodes]
    assert (names == ["matmul_map"]) is joined and len(names) == 2 - joined


UNARY = ["exp", "sin", "cos", "tan", "tanh", "relu", "abs", "square"]


@unhurried
@given(graphs(exact_ops, nodes=30))
def test_random_graphs_keep_their_bits(graph: Graph) -> None:
    fused = fuse_products(fuse(graph))
    verify(fused)
    arrays = arrays_for(graph)
    assert bits(interpret(fused, *arrays)) == bits(interpret(graph, *arrays))


def test_the_reference_of_matmul_map() -> None:
    graph = graph_of(CASES["a map"][1])
    a, b, c = (
        np.arange(n, dtype=np.float32).reshape(s) / 8
        for n, s in [(16, (8, 2)), (8, (2, 4)), (4, 4)]
    )
    np.testing.assert_array_equal(interpret(graph, a, b, c)[0], np.tanh(a @ b + c))
