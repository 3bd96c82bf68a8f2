"""The whole pipeline: same bits, valid after every pass, quick."""

import statistics
import time

import pytest
from hypothesis import given, settings

import hybrid.passes
from hybrid.core.types import bool_, float32, int64, tensor_type
from hybrid.errors import GraphError
from hybrid.ir import Builder, Graph, get_op, verify
from hybrid.passes import PIPELINE, run_pipeline
from tests.helpers import assert_rewrites, bits, graph_of, interpret
from tests.passes.samples import arrays_for
from tests.passes.scalar.test_fold import evaluate
from tests.random_graphs import exact_ops, graphs, unhurried

PASSES = [run for entry in PIPELINE for run in (entry if isinstance(entry, tuple) else (entry,))]
LAYER = """
    graph @layer(%x: f32[8,4], %w: f32[4,4], %b: f32[4]) {
      %p: f32[8,4] = matmul %x, %w
      %r: f32[8,4] = broadcast_to %b {shape=(8, 4)}
      %s: f32[8,4] = add %p, %r
      %y: f32[8,4] = tanh %s
      %q: f32[8,4] = matmul %y, %w
      %two: f32[] = full {shape=(), value=2, dtype=f32}
      %one: f32[] = divide %two, %two
      %ones: f32[8,4] = broadcast_to %one {shape=(8, 4)}
      %z: f32[8,4] = multiply %y, %ones
      %zz: f32[8,4] = multiply %z, %y
      %d: f32[8,4] = subtract %ones, %zz
      %g: f32[8,4] = multiply %q, %d
      %h: f32[8,4] = multiply %q, %d
      %t: f32[4] = sum %g {axis=(0,)}
      return %t, %h
    }
    """
LAYER_AFTER = """
    graph @layer(%x: f32[8,4], %w: f32[4,4], %b: f32[4]) {
      %y: f32[8,4] = matmul_map %x, %w, %b {
        (%p: f32[8,4], %b: f32[4]) {
          %s: f32[8,4] = add %p, %b
          %y: f32[8,4] = tanh %s
          return %y
        }
      }
      %one: f32[] = full {shape=(), value=1.0, dtype=f32}
      %g: f32[8,4] = matmul_map %y, %w, %y, %one {
        (%q: f32[8,4], %y: f32[8,4], %one: f32[]) {
          %yy: f32[8,4] = multiply %y, %y
          %d: f32[8,4] = subtract %one, %yy
          %g: f32[8,4] = multiply %q, %d
          return %g
        }
      }
      %t: f32[4] = sum %g {axis=(0,)}
      return %t, %g
    }
    """


def pipeline(graph: Graph) -> Graph:
    return run_pipeline(graph, check=True, evaluate=evaluate)


def test_a_layer_and_its_gradient() -> None:
    assert_rewrites(pipeline, LAYER, LAYER_AFTER)


RETURNS = """
    graph @f(%x: f32[4], %w: f32[4], %n: i64[]) {
      %zero: f32[] = full {shape=(), value=0, dtype=f32}
      %no: bool[] = full {shape=(), value=false, dtype=bool}
      %two: f32[] = full {shape=(), value=2, dtype=f32}
      %y: f32[4], %broke: bool[] = for %n, %x, %no, %w, %two {carried=2} {
        body(%i: i64[], %y: f32[4], %broke: bool[], %w: f32[4], %two: f32[]) {
          %e: f32[4] = exp %w
          %s: f32[4] = multiply %e, %two
          %clear: bool[] = logical_not %broke
          %z: f32[4] = cond %clear, %y, %s {
            then(%y: f32[4], %s: f32[4]) { %z: f32[4] = add %y, %s return %z }
            else(%y: f32[4], %s: f32[4]) { return %y }
          }
          return %z, %broke
        }
      }
      %m: f32[] = sum %y {axis=(0,)}
      %p: bool[] = less %zero, %m
      %done: bool[], %found: f32[4] = cond %p, %y {
        then(%y: f32[4]) {
          %t: bool[] = full {shape=(), value=true, dtype=bool}
          %l: f32[4] = log %y
          return %t, %l
        }
        else(%y: f32[4]) {
          %t: bool[] = full {shape=(), value=false, dtype=bool}
          return %t, %y
        }
      }
      %open: bool[] = logical_not %done
      %done2: bool[], %found2: f32[4] = cond %open, %y, %done, %found, %m {
        then(%y: f32[4], %done: bool[], %found: f32[4], %m: f32[]) {
          %t: bool[] = full {shape=(), value=true, dtype=bool}
          %r: f32[4] = subtract %y, %m
          return %t, %r
        }
        else(%y: f32[4], %done: bool[], %found: f32[4], %m: f32[]) { return %done, %found }
      }
      %a: bool[] = logical_or %broke, %done2
      return %found2, %a
    }
    """
RETURNS_AFTER = """
    graph @f(%x: f32[4], %w: f32[4], %n: i64[]) {
      %zero: f32[] = full {shape=(), value=0, dtype=f32}
      %two: f32[] = full {shape=(), value=2, dtype=f32}
      %s: f32[4] = map %w, %two {
        (%w: f32[4], %two: f32[]) {
          %e: f32[4] = exp %w
          %s: f32[4] = multiply %e, %two
          return %s
        }
      }
      %y: f32[4] = for %n, %x, %s {carried=1} {
        body(%i: i64[], %y: f32[4], %s: f32[4]) {
          %z: f32[4] = add %y, %s
          return %z
        }
      }
      %m: f32[] = sum %y {axis=(0,)}
      %p: bool[] = less %zero, %m
      %true: bool[] = full {shape=(), value=true, dtype=bool}
      %found: f32[4] = cond %p, %y, %m {
        then(%y: f32[4], %m: f32[]) { %l: f32[4] = log %y return %l }
        else(%y: f32[4], %m: f32[]) { %r: f32[4] = subtract %y, %m return %r }
      }
      return %found, %true
    }
    """


def test_flags_of_jumps_leave_nothing_behind() -> None:
    """A loop whose break is never reached, and code behind an early return."""
    assert_rewrites(pipeline, RETURNS, RETURNS_AFTER)


@settings(unhurried, max_examples=200)
@given(graphs(exact_ops, nodes=40))
def test_random_graphs_keep_their_bits(graph: Graph) -> None:
    after = run_pipeline(graph, check=True, evaluate=evaluate)
    arrays = arrays_for(graph)
    assert bits(interpret(after, *arrays)) == bits(interpret(graph, *arrays))


@pytest.mark.parametrize("change", PASSES, ids=lambda change: change.__name__)
@unhurried
@given(graph=graphs())
def test_each_pass_makes_valid_graphs(change, graph: Graph) -> None:
    verify(change(graph), after=change.__name__)


def broken(graph: Graph) -> Graph:
    return Graph(graph.name, graph.params, graph.nodes[1:], graph.results)


def test_checking_names_the_pass_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid.passes, "PIPELINE", (broken,))
    graph = graph_of(LAYER)
    with pytest.raises(GraphError, match="@layer is not valid: after broken: add uses %"):
        run_pipeline(graph, check=True)
    run_pipeline(graph, check=False)


@pytest.mark.parametrize(("setting", "checks"), [("1", True), ("0", False), ("", False)])
def test_the_environment_asks_for_checks(
    monkeypatch: pytest.MonkeyPatch, setting: str, checks: bool
) -> None:
    monkeypatch.setattr(hybrid.passes, "PIPELINE", (broken,))
    monkeypatch.setenv("HYBRID_VERIFY", setting)
    if checks:
        with pytest.raises(GraphError):
            run_pipeline(graph_of(LAYER))
    else:
        run_pipeline(graph_of(LAYER))


def training_step(layers: int) -> Graph:
    """About 20 nodes a layer: dense layers, their gradients by hand, momentum updates."""
    builder = Builder("step")
    x = builder.param(tensor_type(float32, (32, 64)))
    lr = builder.param(tensor_type(float32, ()))
    weights, biases, moments, kept = [], [], [], [x]

    def one(name: str, *operands, **attrs):
        return builder.apply(get_op(name), operands, attrs)[0]

    for _ in range(layers):
        weights.append(builder.param(tensor_type(float32, (64, 64))))
        biases.append(builder.param(tensor_type(float32, (64,))))
        moments.append(builder.param(tensor_type(float32, (64, 64))))
        x = one(
            "add", one("matmul", x, weights[-1]), one("broadcast_to", biases[-1], shape=(32, 64))
        )
        x = one("tanh", x)
        kept.append(x)
    ct, results = x, []
    for i in reversed(range(layers)):
        ones = one("full", shape=(32, 64), value=1, dtype=float32)
        slope = one("subtract", ones, one("multiply", kept[i + 1], kept[i + 1]))
        ct = one("multiply", ct, slope)
        of_weight = one("matmul", one("permute_dims", kept[i], axes=(1, 0)), ct)
        of_bias = one("sum", ct, axis=(0,))
        scaled = one("multiply", of_bias, one("broadcast_to", lr, shape=(64,)))
        results.append(one("subtract", biases[i], scaled))
        results += builder.apply(
            get_op("sgd_momentum"), [weights[i], of_weight, moments[i], lr, lr], {}
        )
        ct = one("matmul", ct, one("permute_dims", weights[i], axes=(1, 0)))
    return builder.finish(results)


def looping_step(loops: int) -> Graph:
    """About 40 nodes a loop: bodies with matrix products and branches, and code between them."""
    builder = Builder("step")
    square = tensor_type(float32, (8, 8))
    x, w = builder.param(square), builder.param(square)
    flag, count = builder.param(tensor_type(bool_, ())), builder.param(tensor_type(int64, ()))

    def branch(name: str, op: str) -> Graph:
        region = Builder(name)
        return region.finish(region.apply(get_op(op), [region.param(square), region.param(square)]))

    for _ in range(loops):
        body = Builder("body")
        body.param(count.type)
        a, u, q = body.param(square), body.param(square), body.param(flag.type)
        for i in range(18):
            name = "matmul" if i % 5 == 0 else "add" if i % 3 else "tanh"
            (a,) = body.apply(get_op(name), [a] if name == "tanh" else [a, u])
        for _ in range(2):
            regions = branch("then", "multiply"), branch("else", "add")
            (a,) = body.apply(get_op("cond"), [q, a, u], regions=regions)
        regions = (body.finish([a]),)
        (x,) = builder.apply(get_op("for"), [count, x, w, flag], {"carried": 1}, regions=regions)
        for i in range(16):
            (x,) = builder.apply(get_op("tanh" if i % 2 else "exp"), [x])
    return builder.finish([x])


@pytest.mark.alone
@pytest.mark.parametrize("graph", [training_step(12), looping_step(5)], ids=["straight", "loops"])
def test_a_step_of_200_nodes_takes_milliseconds(graph: Graph) -> None:
    assert 180 <= sum(1 for _ in graph.walk()) <= 220
    run_pipeline(graph)  # fills the caches of the type rules
    seconds = []
    for _ in range(9):
        begin = time.process_time()
        run_pipeline(graph)
        seconds.append(time.process_time() - begin)
    assert statistics.median(seconds) < 0.05, "several times what it takes on a quiet machine"
