"""fuse gathers elementwise nodes of one shape into maps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from hybrid.core.types import float32, tensor_type
from hybrid.ir import Builder, Graph, Op, get_op, verify
from hybrid.passes import cse, dce, fuse
from hybrid.passes.fusion.fuse import MAX_OPERANDS, MAX_RESULTS, MAX_TILES, tiles_of
from hybrid.plan.maps import map_ops
from tests.helpers import assert_rewrites, bits, graph_of, interpret
from tests.passes.samples import arrays_for
from tests.random_graphs import exact_ops, graphs, unhurried

CASES = {
    "a chain": (
        """
        graph @f(%x: f32[8], %y: f32[8]) {
          %a: f32[8] = multiply %x, %y
          %b: f32[8] = tanh %a
          %c: f32[8] = add %b, %x
          return %c
        }
        """,
        """
        graph @f(%x: f32[8], %y: f32[8]) {
          %c: f32[8] = map %x, %y {
            (%x: f32[8], %y: f32[8]) {
              %a: f32[8] = multiply %x, %y
              %b: f32[8] = tanh %a
              %c: f32[8] = add %b, %x
              return %c
            }
          }
          return %c
        }
        """,
    ),
    "a node alone stays a node": (
        "graph @f(%x: f32[8]) { %a: f32[8] = exp %x  return %a }",
        None,
    ),
    "values that are used elsewhere are results": (
        """
        graph @f(%x: f32[8]) {
          %a: f32[8] = exp %x
          %b: f32[8] = sin %a
          %s: f32[] = sum %a {axis=(0,)}
          return %b, %s
        }
        """,
        """
        graph @f(%x: f32[8]) {
          %a: f32[8], %b: f32[8] = map %x {
            (%x: f32[8]) {
              %a: f32[8] = exp %x
              %b: f32[8] = sin %a
              return %a, %b
            }
          }
          %s: f32[] = sum %a {axis=(0,)}
          return %b, %s
        }
        """,
    ),
    "operands may be smaller; the nodes broadcast them": (
        """
        graph @f(%x: f32[8,4], %b: f32[4], %c: f32[]) {
          %a: f32[8,4] = add %x, %b
          %d: f32[8,4] = multiply %a, %c
          return %d
        }
        """,
        """
        graph @f(%x: f32[8,4], %b: f32[4], %c: f32[]) {
          %d: f32[8,4] = map %x, %b, %c {
            (%x: f32[8,4], %b: f32[4], %c: f32[]) {
              %a: f32[8,4] = add %x, %b
              %d: f32[8,4] = multiply %a, %c
              return %d
            }
          }
          return %d
        }
        """,
    ),
    "nodes of another shape stay outside": (
        """
        graph @f(%x: f32[8,4], %b: f32[4]) {
          %e: f32[4] = exp %b
          %a: f32[8,4] = add %x, %e
          %d: f32[8,4] = multiply %a, %e
          return %d
        }
        """,
        """
        graph @f(%x: f32[8,4], %b: f32[4]) {
          %e: f32[4] = exp %b
          %d: f32[8,4] = map %x, %e {
            (%x: f32[8,4], %e: f32[4]) {
              %a: f32[8,4] = add %x, %e
              %d: f32[8,4] = multiply %a, %e
              return %d
            }
          }
          return %d
        }
        """,
    ),
    "dtypes may differ": (
        """
        graph @f(%x: f32[8]) {
          %z: f32[] = full {shape=(), value=0, dtype=f32}
          %p: bool[8] = greater %x, %z
          %y: f32[8] = where %p, %x, %z
          return %y
        }
        """,
        """
        graph @f(%x: f32[8]) {
          %z: f32[] = full {shape=(), value=0, dtype=f32}
          %y: f32[8] = map %x, %z {
            (%x: f32[8], %z: f32[]) {
              %p: bool[8] = greater %x, %z
              %y: f32[8] = where %p, %x, %z
              return %y
            }
          }
          return %y
        }
        """,
    ),
    "a path round the group would be a cycle": (
        """
        graph @f(%x: f32[8]) {
          %a: f32[8] = exp %x
          %s: f32[] = sum %a {axis=(0,)}
          %b: f32[8] = divide %a, %s
          return %b
        }
        """,
        None,
    ),
    "what a backward pass derives is computed where it is used": (
        """
        graph @f(%x: f32[4,4], %w: f32[4,4]) {
          %y: f32[4,4] = tanh %x
          %q: f32[4,4] = matmul %y, %w
          %z: f32[4,4] = square %y
          %g: f32[4,4] = multiply %q, %z
          return %g
        }
        """,
        """
        graph @f(%x: f32[4,4], %w: f32[4,4]) {
          %y: f32[4,4] = tanh %x
          %q: f32[4,4] = matmul %y, %w
          %g: f32[4,4] = map %y, %q {
            (%y: f32[4,4], %q: f32[4,4]) {
              %z: f32[4,4] = square %y
              %g: f32[4,4] = multiply %q, %z
              return %g
            }
          }
          return %g
        }
        """,
    ),
    "nodes that read one operand read it once": (
        """
        graph @f(%x: f32[8], %c: f32[]) {
          %a: f32[8] = exp %x
          %b: f32[8] = sin %x
          %d: f32[4] = slice %x {start=(0,), size=(4,), step=(1,)}
          %e: f32[4] = add %d, %c
          return %a, %b, %e
        }
        """,
        """
        graph @f(%x: f32[8], %c: f32[]) {
          %a: f32[8], %b: f32[8] = map %x {
            (%x: f32[8]) {
              %a: f32[8] = exp %x
              %b: f32[8] = sin %x
              return %a, %b
            }
          }
          %d: f32[4] = slice %x {start=(0,), size=(4,), step=(1,)}
          %e: f32[4] = add %d, %c
          return %a, %b, %e
        }
        """,
    ),
    "nodes that share only a scalar are no group": (
        """
        graph @f(%x: f32[8], %y: f32[8], %c: f32[]) {
          %a: f32[8] = add %x, %c
          %b: f32[8] = add %y, %c
          return %a, %b
        }
        """,
        None,
    ),
    "nodes of several results": (
        """
        graph @f(%p: f32[8], %g: f32[8], %m: f32[8], %lr: f32[]) {
          %h: f32[8] = negative %g
          %q: f32[8], %n: f32[8] = sgd_momentum %p, %h, %m, %lr, %lr {nesterov=true}
          return %q, %n
        }
        """,
        """
        graph @f(%p: f32[8], %g: f32[8], %m: f32[8], %lr: f32[]) {
          %q: f32[8], %n: f32[8] = map %g, %p, %m, %lr {
            (%g: f32[8], %p: f32[8], %m: f32[8], %lr: f32[]) {
              %h: f32[8] = negative %g
              %q: f32[8], %n: f32[8] = sgd_momentum %p, %h, %m, %lr, %lr {nesterov=true}
              return %q, %n
            }
          }
          return %q, %n
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_fuse(before: str, after: str | None) -> None:
    assert_rewrites(fuse, before, before if after is None else after)


def test_impure_nodes_keep_their_order_and_stay_outside(impure_op: Op) -> None:
    name = impure_op.name
    graph = graph_of(
        f"""
        graph @f(%x: f32[8]) {{
          %a: f32[8] = exp %x
          %u: f32[8] = {name} %x
          %b: f32[8] = sin %a
          %v: f32[8] = {name} %b
          %c: f32[8] = add %a, %v
          return %c, %u
        }}
        """
    )
    fused = fuse(graph)
    verify(fused)
    effects = [node for node in fused.nodes if node.op is impure_op]
    assert effects == [node for node in graph.nodes if node.op is impure_op]
    assert [node.op.name for node in fused.nodes] == [name, "map", name, "add"]


def chain(ops: list[str], count: int) -> Graph:
    builder = Builder("f")
    value = builder.param(tensor_type(float32, (8,)))
    for i in range(count):
        (value,) = builder.apply(get_op(ops[i % len(ops)]), [value])
    return builder.finish([value])


def test_a_long_chain_becomes_several_maps() -> None:
    fused = fuse(chain(["exp", "sin"], 200))
    verify(fused)
    assert [len(node.regions[0].nodes) for node in fused.nodes] == [8, 64, 64, 64]


def wide(count: int) -> Graph:
    """``count`` values that are all kept until the end, in a tree of additions."""
    builder = Builder("f")
    x = builder.param(tensor_type(float32, (8,)))
    values = [builder.apply(get_op(n), [x])[0] for n in ["exp", "sin", "cos", "tan"] * count]
    result = values.pop()
    while values:
        (result,) = builder.apply(get_op("add"), [result, values.pop(0)])
    return builder.finish([result])


def test_limits_hold() -> None:
    fused = fuse(cse(wide(8)))
    verify(fused)
    fused = fuse(wide(8))
    verify(fused)
    maps = [node for node in fused.nodes if node.op.name == "map"]
    assert sum(len(node.regions[0].nodes) for node in maps) + len(fused.nodes) - len(maps) == 63
    for node in maps:
        region = node.regions[0]
        assert len(node.operands) <= MAX_OPERANDS and len(node.results) <= MAX_RESULTS
        assert tiles_of(list(region.nodes), list(region.results)) <= MAX_TILES


@pytest.mark.parametrize(
    ("text", "tiles"),
    [
        ("%a: f32[8] = exp %x return %a", 0),
        ("%a: f32[8] = exp %x %b: f32[8] = exp %a return %b", 1),
        ("%a: f32[8] = exp %x %b: f32[8] = exp %a %c: f32[8] = exp %b return %c", 1),
        ("%a: f32[8] = exp %x %b: f32[8] = exp %a %c: f32[8] = add %a, %b return %c", 2),
        ("%a: f32[8] = exp %x %b: f32[8] = exp %a %c: f32[8] = add %a, %b return %a, %c", 1),
        ("%a: f32[8] = exp %x %b: f32[8] = add %a, %a %c: f32[8] = exp %b return %c", 1),
        ("%a: f32[8] = exp %x %b: f32[8] = sin %x return %b", 1),
        # A tile that has held numbers does not hold bools next.
        ("%a: f32[8] = exp %x %b: bool[8] = isnan %a %c: f32[8] = where %b, %x, %x return %c", 2),
    ],
)
def test_tiles(text: str, tiles: int) -> None:
    graph = graph_of(f"graph @f(%x: f32[8]) {{ {text} }}")
    assert tiles_of(list(graph.nodes), list(graph.results)) == tiles


@unhurried
@given(graphs(exact_ops, nodes=30))
def test_random_graphs_keep_their_bits(graph: Graph) -> None:
    fused = fuse(graph)
    verify(fused)
    arrays = arrays_for(graph)
    assert bits(interpret(fused, *arrays)) == bits(interpret(graph, *arrays))


@unhurried
@given(graphs(exact_ops, nodes=30))
def test_tiles_are_counted_as_the_planner_takes_them(graph: Graph) -> None:
    for node in fuse(dce(graph)).nodes:
        if node.op.name == "map":
            region = node.regions[0]
            places = {value: i for i, value in enumerate((*region.params, *region.results))}
            taken = {arg for op in map_ops(region, places, places) for arg in op.args if arg < 0}
            assert len(taken) == tiles_of(list(region.nodes), list(region.results))


@unhurried
@given(graphs(exact_ops, nodes=30))
def test_nothing_is_computed_twice(graph: Graph) -> None:
    graph = dce(graph)
    fused = fuse(graph)
    flat = [node for node in fused.walk() if node.op.name != "map"]
    assert sorted(n.op.name for n in flat) == sorted(n.op.name for n in graph.nodes)


def test_text_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    program = """
import hybrid.ops
from hybrid.passes import run_pipeline
from tests.passes.fusion.test_fuse import wide
print(run_pipeline(wide(3)))
"""
    # The tests come last on the path, behind the hybrid that is tested.
    path = os.pathsep.join([os.environ["PYTHONPATH"], str(Path(__file__).resolve().parents[3])])
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(texts) == 1 and "map" in texts.pop()
