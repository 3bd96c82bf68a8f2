"""fuse_reductions moves the map that a reduction alone reads into it."""

import numpy as np
import pytest
from hypothesis import given

import hybrid as hy
from hybrid.calls.executable import optimized_plan
from hybrid.eager.launch import call_plan
from hybrid.errors import GraphError
from hybrid.ir import Graph, verify
from hybrid.passes import fuse, fuse_reductions
from hybrid.trace.regions.build import replay
from tests.helpers import assert_rewrites, bits, graph_of, interpret, same
from tests.passes.samples import arrays_for
from tests.random_graphs import exact_ops, graphs, unhurried

CASES = {
    "a map": (
        """
        graph @f(%a: f32[8,4], %b: f32[4]) {
          %m: f32[8,4] = map %a, %b {
            (%a: f32[8,4], %b: f32[4]) {
              %d: f32[8,4] = subtract %a, %b
              %q: f32[8,4] = square %d
              return %q
            }
          }
          %s: f32[8] = sum %m {axis=(1,), keepdims=false}
          return %s
        }
        """,
        """
        graph @f(%a: f32[8,4], %b: f32[4]) {
          %s: f32[8] = map_sum %a, %b {axis=(1,), keepdims=false} {
            (%a: f32[8,4], %b: f32[4]) {
              %d: f32[8,4] = subtract %a, %b
              %q: f32[8,4] = square %d
              return %q
            }
          }
          return %s
        }
        """,
    ),
    "one node, used twice": (
        """
        graph @f(%a: f32[8,4]) {
          %m: f32[8,4] = multiply %a, %a
          %s: f32[1,4] = max %m {axis=(0,), keepdims=true}
          return %s
        }
        """,
        """
        graph @f(%a: f32[8,4]) {
          %s: f32[1,4] = map_max %a {axis=(0,), keepdims=true} {
            (%a: f32[8,4]) {
              %m: f32[8,4] = multiply %a, %a
              return %m
            }
          }
          return %s
        }
        """,
    ),
    "other results are stored": (
        """
        graph @f(%a: f32[8,4], %b: f32[8,4]) {
          %g: f32[8,4], %q: f32[8,4] = map %a, %b {
            (%a: f32[8,4], %b: f32[8,4]) {
              %d: f32[8,4] = subtract %a, %b
              %g: f32[8,4] = negative %d
              %q: f32[8,4] = square %d
              return %g, %q
            }
          }
          %s: f32[] = mean %q {axis=(0, 1), keepdims=false}
          return %s, %g
        }
        """,
        """
        graph @f(%a: f32[8,4], %b: f32[8,4]) {
          %s: f32[], %g: f32[8,4] = map_mean %a, %b {axis=(0, 1), keepdims=false} {
            (%a: f32[8,4], %b: f32[8,4]) {
              %d: f32[8,4] = subtract %a, %b
              %g: f32[8,4] = negative %d
              %q: f32[8,4] = square %d
              return %q, %g
            }
          }
          return %s, %g
        }
        """,
    ),
    "several reductions that share nothing": (
        """
        graph @f(%a: f32[8,4], %b: f32[8,4]) {
          %p: f32[8,4], %q: f32[8,4] = map %a, %b {
            (%a: f32[8,4], %b: f32[8,4]) {
              %p: f32[8,4] = exp %a
              %q: f32[8,4] = add %a, %b
              return %p, %q
            }
          }
          %s: f32[] = sum %p {axis=(0, 1), keepdims=false}
          %t: f32[8] = min %q {axis=(1,), keepdims=false}
          return %s, %t
        }
        """,
        """
        graph @f(%a: f32[8,4], %b: f32[8,4]) {
          %s: f32[] = map_sum %a {axis=(0, 1), keepdims=false} {
            (%a: f32[8,4]) {
              %p: f32[8,4] = exp %a
              return %p
            }
          }
          %t: f32[8] = map_min %a, %b {axis=(1,), keepdims=false} {
            (%a: f32[8,4], %b: f32[8,4]) {
              %q: f32[8,4] = add %a, %b
              return %q
            }
          }
          return %s, %t
        }
        """,
    ),
    "several reductions that share a node": (
        """
        graph @f(%a: f32[8,4]) {
          %p: f32[8,4], %q: f32[8,4] = map %a {
            (%a: f32[8,4]) {
              %e: f32[8,4] = exp %a
              %p: f32[8,4] = sin %e
              %q: f32[8,4] = cos %e
              return %p, %q
            }
          }
          %s: f32[] = sum %p {axis=(0, 1), keepdims=false}
          %t: f32[] = sum %q {axis=(0, 1), keepdims=false}
          return %s, %t
        }
        """,
        """
        graph @f(%a: f32[8,4]) {
          %s: f32[], %q: f32[8,4] = map_sum %a {axis=(0, 1), keepdims=false} {
            (%a: f32[8,4]) {
              %e: f32[8,4] = exp %a
              %p: f32[8,4] = sin %e
              %q: f32[8,4] = cos %e
              return %p, %q
            }
          }
          %t: f32[] = sum %q {axis=(0, 1), keepdims=false}
          return %s, %t
        }
        """,
    ),
    "behind a product that others read": (
        """
        graph @f(%a: f32[8,8], %b: f32[8,8]) {
          %p: f32[8,8] = matmul %a, %b
          %r: f32[8,8], %q: f32[8,8] = map %p, %a {
            (%p: f32[8,8], %a: f32[8,8]) {
              %r: f32[8,8] = negative %p
              %q: f32[8,8] = multiply %p, %a
              return %r, %q
            }
          }
          %s: f32[8] = sum %q {axis=(0,), keepdims=false}
          %t: f32[8] = sum %p {axis=(0,), keepdims=false}
          return %r, %s, %t
        }
        """,
        """
        graph @f(%a: f32[8,8], %b: f32[8,8]) {
          %p: f32[8,8] = matmul %a, %b
          %s: f32[8] = map_sum %p, %a {axis=(0,), keepdims=false} {
            (%p: f32[8,8], %a: f32[8,8]) {
              %q: f32[8,8] = multiply %p, %a
              return %q
            }
          }
          %r: f32[8,8] = map %p {
            (%p: f32[8,8]) {
              %r: f32[8,8] = negative %p
              return %r
            }
          }
          %t: f32[8] = sum %p {axis=(0,), keepdims=false}
          return %r, %s, %t
        }
        """,
    ),
    "in another order": (
        """
        graph @f(%a: f32[2,3,400]) {
          %m: f32[2,3,400] = exp %a
          %s: f32[3] = sum %m {axis=(0, 2), keepdims=false}
          return %s
        }
        """,
        """
        graph @f(%a: f32[2,3,400]) {
          %s: f32[3] = map_sum %a {axis=(0, 2), keepdims=false} {
            (%a: f32[2,3,400]) {
              %m: f32[2,3,400] = exp %a
              return %m
            }
          }
          return %s
        }
        """,
    ),
    "in another order, by short stretches": (
        """
        graph @f(%a: f32[2,3,40]) {
          %m: f32[2,3,40] = exp %a
          %s: f32[3] = sum %m {axis=(0, 2), keepdims=false}
          return %s
        }
        """,
        None,
    ),
    "in another order, with something to store": (
        """
        graph @f(%a: f32[2,3,400]) {
          %m: f32[2,3,400], %n: f32[2,3,400] = map %a {
            (%a: f32[2,3,400]) {
              %e: f32[2,3,400] = exp %a
              %m: f32[2,3,400] = sin %e
              %n: f32[2,3,400] = cos %e
              return %m, %n
            }
          }
          %s: f32[3] = sum %m {axis=(0, 2), keepdims=false}
          return %s, %n
        }
        """,
        None,
    ),
    "needed elsewhere": (
        """
        graph @f(%a: f32[8,4]) {
          %m: f32[8,4] = exp %a
          %s: f32[8] = sum %m {axis=(1,), keepdims=false}
          return %s, %m
        }
        """,
        None,
    ),
    "two reductions of one value": (
        """
        graph @f(%a: f32[8,4]) {
          %m: f32[8,4] = exp %a
          %s: f32[8] = sum %m {axis=(1,), keepdims=false}
          %t: f32[8] = max %m {axis=(1,), keepdims=false}
          return %s, %t
        }
        """,
        None,
    ),
    "behind a product of its own": (
        """
        graph @f(%a: f32[8,8], %b: f32[8,8]) {
          %p: f32[8,8] = matmul %a, %b
          %m: f32[8,8] = exp %p
          %s: f32[8] = sum %m {axis=(1,), keepdims=false}
          return %s
        }
        """,
        None,
    ),
    "of nothing": (
        """
        graph @f(%a: f32[0,4]) {
          %m: f32[0,4] = exp %a
          %s: f32[4] = sum %m {axis=(0,), keepdims=false}
          return %s
        }
        """,
        None,
    ),
    "a place": (
        """
        graph @f(%a: f32[8,4]) {
          %m: f32[8,4] = exp %a
          %s: i64[8] = argmax %m {axis=1, keepdims=false}
          return %s
        }
        """,
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_fuse_reductions(before: str, after: str | None) -> None:
    assert_rewrites(fuse_reductions, before, before if after is None else after)


@pytest.mark.parametrize("before", [before for before, _ in CASES.values()], ids=CASES)
def test_the_cases_run_with_the_same_bits(before: str) -> None:
    graph = graph_of(before)
    tensors = [hy.asarray(array) for array in arrays_for(graph)]
    eager = [t.numpy().tobytes() for t in replay(graph, tensors)]
    assert [t.numpy().tobytes() for t in call_plan(optimized_plan(graph), tensors)] == eager


def test_branches_and_loops() -> None:
    graph = graph_of(
        """
        graph @f(%p: bool[], %a: f32[8,4]) {
          %s: f32[8] = cond %p, %a {
            then(%a: f32[8,4]) {
              %m: f32[8,4] = exp %a
              %s: f32[8] = sum %m {axis=(1,), keepdims=false}
              return %s
            }
            else(%a: f32[8,4]) {
              %t: f32[8] = sum %a {axis=(1,), keepdims=false}
              return %t
            }
          }
          return %s
        }
        """
    )
    (node,) = fuse_reductions(graph).nodes
    assert [n.op.name for n in node.regions[0].nodes] == ["map_sum"]
    assert node.regions[1] == graph.nodes[0].regions[1]


def test_a_region_that_returns_what_it_was_given() -> None:
    with pytest.raises(GraphError) as error:
        graph_of(
            """
            graph @f(%a: f32[8,4]) {
              %s: f32[8] = map_sum %a {axis=(1,), keepdims=false} {
                (%a: f32[8,4]) {
                  %m: f32[8,4] = exp %a
                  return %a
                }
              }
              return %s
            }
            """
        )
    assert "the region of map_sum returns a parameter, or a value twice" in str(error.value)


@unhurried
@given(graphs(exact_ops, nodes=30))
def test_random_graphs_keep_their_bits(graph: Graph) -> None:
    fused = fuse_reductions(fuse(graph))
    verify(fused)
    arrays = arrays_for(graph)
    assert bits(interpret(fused, *arrays)) == bits(interpret(graph, *arrays))


SHAPES = [
    ((5,), 0), ((63,), 0), ((4097,), 0), ((20_000,), None), ((3, 300), 1), ((300, 3), 0),
    ((1000, 33), 1), ((700, 600), 0), ((129, 1030), 0), ((17, 3000), 1), ((4, 5, 6, 7), (0, 2)),
    ((4, 5, 20, 20), (0, 2, 3)), ((2, 2000, 3), 1), ((1, 1), None), ((2, 70_000), 1),
]  # fmt: skip
FLOATS, INTEGERS = ["float32", "float64", "bfloat16", "float16"], ["int8", "int64", "uint16"]
KINDS = [
    *[(dtype, kind) for dtype in FLOATS for kind in ("sum", "mean", "max", "min", "prod")],
    *[(dtype, kind) for dtype in INTEGERS for kind in ("sum", "max", "prod", "any", "all")],
]


@pytest.mark.parametrize(("dtype", "kind"), KINDS)
def test_eager_and_hybridized_give_the_same_bits(dtype: str, kind: str) -> None:
    """Sizes around those of groups, leaves and blocks; NaN, infinities and zeros among them."""
    draw = np.random.default_rng(0)
    reduce, floating = getattr(hy, kind), dtype in FLOATS

    def function(x, y, axis):
        chain = (x - y) * (x + y)
        return reduce(chain > 0 if kind in ("any", "all") else chain, axis=axis)

    hybrid = hy.hybridize(function)
    for shape, axis in SHAPES:
        special = draw.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape)
        for rare in (0, 0.001) if floating else (0,):
            values = np.where(draw.random(shape) < rare, special, draw.normal(0, 4, shape))
            x = hy.astype(hy.asarray(values if floating else np.abs(values)), getattr(hy, dtype))
            y = hy.flip(x)
            found, expected = hybrid(x, y, axis), function(x, y, axis)
            if dtype == "bfloat16":  # which NumPy lacks
                found, expected = found.astype(hy.float32), expected.astype(hy.float32)
            assert same(found, expected), (shape, axis, rare)


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
def test_operands_of_every_layout(axis) -> None:
    draw = np.random.default_rng(1).standard_normal
    x, row, column = (hy.asarray(draw(s).astype("float32")) for s in [(6, 50, 7), (7,), (50, 1)])

    def function(x, row, column):
        turned = hy.permute_dims(x, (2, 1, 0))
        spread = hy.permute_dims(hy.flip(x, axis=1), (2, 1, 0))
        a = hy.sum(turned * spread, axis=axis)
        b = hy.max((x - row) * column, axis=axis)
        return a, b, hy.mean((x[::2, 3:] + row) * 2.0, axis=axis)

    found, expected = hy.hybridize(function)(x, row, column), function(x, row, column)
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))


def test_losses_and_their_gradients() -> None:
    draw = np.random.default_rng(2).standard_normal

    def loss(w, x, y):
        d = hy.tanh(x @ w) - y
        return hy.mean(d * d) + hy.sum(hy.exp(w) * w, axis=0).max() + hy.sum(w * w)

    tensors = [hy.asarray(draw(s).astype("float32")) for s in [(30, 20), (40, 30), (40, 20)]]
    step = hy.value_and_grad(loss)
    found, expected = hy.hybridize(step)(*tensors), step(*tensors)
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))


def test_threads_do_not_matter() -> None:
    x = hy.asarray(np.random.default_rng(3).standard_normal((300, 999)).astype("float32"))
    function = hy.hybridize(lambda x: [hy.sum(hy.exp(x) * x, axis=a) for a in (None, 0, 1)])
    before, found = hy.num_threads(), []
    try:
        for threads in (1, 2, 5):
            hy.set_num_threads(threads)
            found.append([t.numpy().tobytes() for t in function(x)])
    finally:
        hy.set_num_threads(before)
    assert found[0] == found[1] == found[2]
