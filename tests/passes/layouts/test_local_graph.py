"""Local graphs: what each rank runs, simulated, comes to what one process computes."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.layouts import PARTIAL, Held, Split, laid_type
from hybrid.core.layouts import part_of as type_of_part
from hybrid.ir import Builder
from hybrid.models.gpt import GPT, Config
from hybrid.passes.layouts.local_graph import layout_page
from hybrid.passes.layouts.work import Work
from tests.helpers import graph_of, interpret, normal_text
from tests.passes.layouts.simulated_ranks import (
    axis_of,
    joined,
    local_graphs,
    part_of,
    run_ranks,
)

ROWS, COLUMNS = Split(0), Split(1)


def results_of(graph, places, arrays, ranks, wanted=None):
    """The results of ``graph`` by simulated ranks whose parameters are at ``places``."""
    local = local_graphs(graph, places, ranks, wanted)
    parts = [
        [part_of(x, p, ranks, rank) for x, p in zip(arrays, places, strict=True)]
        for rank in range(ranks)
    ]
    found = run_ranks([one.graph for one in local], parts)
    ends = [t.layout[0][1] if t.layout else None for t in local[0].results]
    return [joined([rank[i] for rank in found], end) for i, end in enumerate(ends)], local


MLP = """
graph @f(%x: f32[8,4], %w: f32[12,4], %b: f32[12], %v: f32[4,12], %c: f32[4]) {
  %h: f32[8,12] = matmul_nt %x, %w
  %i: f32[8,12] = add %h, %b
  %r: f32[8,12] = relu %i
  %y: f32[8,4] = matmul_nt %r, %v
  %z: f32[8,4] = add %y, %c
  return %z
}
"""


def test_columns_and_rows_of_two_layers_ask_for_one_sum() -> None:
    graph = graph_of(MLP)
    local = local_graphs(graph, [None, ROWS, ROWS, COLUMNS, None], 2)
    assert normal_text(local[0].graph) == normal_text(
        graph_of("""
        graph @f(%x: f32[8,4], %w: f32[6,4], %b: f32[6], %v: f32[4,6], %c: f32[4]) {
          %h: f32[8,6] = matmul_nt %x, %w
          %i: f32[8,6] = add %h, %b
          %r: f32[8,6] = relu %i
          %y: f32[8,4] = matmul_nt %r, %v
          %s: f32[8,4] = all_reduce %y {comm="tp of tp=2", ranks=2}
          %z: f32[8,4] = add %s, %c
          return %z
        }
        """)
    )
    assert layout_page(local[0]) == (
        "tp: 2 ranks, 1 collectives of 128 bytes in all\n"
        "  matmul_nt -> f32[8,12]: axis 1 by tp\n"
        "  add -> f32[8,12]: axis 1 by tp\n"
        "  relu -> f32[8,12]: axis 1 by tp\n"
        "  matmul_nt -> f32[8,4]: partial over tp\n"
        "  add -> f32[8,4]: whole; after all_reduce of f32[8,4]"
    )


def test_what_has_no_rule_gets_all_and_is_named() -> None:
    graph = graph_of("""
    graph @f(%x: f32[4,4]) {
      %y: f32[4,4] = inv %x
      return %y
    }
    """)
    page = layout_page(local_graphs(graph, [ROWS], 2)[0])
    assert page.endswith(
        "inv -> f32[4,4]: whole; after all_gather of f32[1,1,2,4], for inv has no rule for parts"
    )


PLACES = [
    *(None, PARTIAL, Split(0), Split(1), Split(2), Split(0, 2), Split(1, 3), Split(2, 3)),
    *(Held(0), Held(1)),
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_parts_become_other_parts(ranks: int) -> None:
    shape = (6 * ranks, 6 * ranks, 3 * ranks)
    x = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
    type_ = hy.asarray(x).type
    for now in PLACES:
        for then in PLACES:
            graphs = []
            for rank in range(ranks):
                builder = Builder("move")
                axis = axis_of(ranks, rank)
                value = builder.param(type_of_part(type_, now, axis))
                work = Work(builder, axis)
                graphs.append(builder.finish([work.moved_to(value, now, then, type_)]))
            parts = [[part_of(x, now, ranks, rank)] for rank in range(ranks)]
            found = [results[0] for results in run_ranks(graphs, parts)]
            np.testing.assert_array_equal(joined(found, then), x, f"{now} -> {then}")
            if then != PARTIAL:
                for rank in range(ranks):
                    np.testing.assert_array_equal(found[rank], part_of(x, then, ranks, rank))


def mlp_step(w, b, v, c, x, y):
    def loss(w, b, v, c):
        h = hy.nn.functional.gelu(x @ w.T + b, approximate="tanh")
        return hy.mean(hy.square(h @ v.T + c - y))

    value, grads = hy.value_and_grad(loss, argnums=(0, 1, 2, 3))(w, b, v, c)
    return value, *[p - 0.1 * g for p, g in zip((w, b, v, c), grads, strict=True)]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "places",
    [
        [ROWS, ROWS, COLUMNS, None, None, None],
        [None, None, None, None, ROWS, ROWS],
        [COLUMNS, None, ROWS, ROWS, None, None],
        [Split(0, 2), Split(0, 2), Split(1, 2), PARTIAL, COLUMNS, PARTIAL],
        [PARTIAL, ROWS, None, None, PARTIAL, COLUMNS],
        [Held(1), Held(0), Held(1), ROWS, Held(0), None],
    ],
)
def test_a_step_of_training_whatever_is_split(ranks: int, places: list) -> None:
    rng = np.random.default_rng(0)
    shapes = [(16, 8), (16,), (8, 16), (8,), (8, 8), (8, 8)]
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    graph = hy.hybridize(mlp_step).graph(*map(hy.asarray, arrays))
    want = interpret(graph, *arrays)
    asked = dict(enumerate(places[:4], start=1))
    found, local = results_of(graph, places, arrays, ranks, asked)
    for y, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
    for at, place in asked.items():
        want_type = laid_type(graph.results[at].type, [(axis_of(ranks, 0), place)])
        assert local[0].results[at] is want_type


@pytest.mark.parametrize("ranks", [2, 4])
def test_gpt_with_heads_layers_and_classes_split(ranks: int) -> None:
    hy.random.seed(0)
    model = GPT(Config(tokens=32, block=8, width=16, heads=4, depth=1))

    def loss(tokens):
        logits = model(tokens)[:, :-1]
        found = hy.nn.functional.cross_entropy(
            logits.reshape((-1, 32)), tokens[:, 1:].reshape((-1,))
        )
        found.backward()
        return found, *[p.grad for p in model.parameters()]

    tokens = hy.asarray(np.random.default_rng(0).integers(0, 32, (4, 8)))
    graph = hy.hybridize(loss).graph(tokens)
    by_shape = {
        (48, 16): Split(0, 3), (48,): Split(0, 3), (16, 16): COLUMNS, (64, 16): ROWS, (64,): ROWS,
        (16, 64): COLUMNS, (32, 16): ROWS,
    }  # fmt: skip
    places = [by_shape.get(v.type.shape) for v in graph.params]
    arrays = [tokens.numpy(), *[p.numpy() for p in model.parameters()]]
    assert [a.shape for a in arrays] == [v.type.shape for v in graph.params]
    want = interpret(graph, *arrays)
    found, local = results_of(graph, places, arrays, ranks)
    for y, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=2e-6 * np.abs(wanted).max())
    assert "has no rule" not in layout_page(local[0])
    heads = [line for line in layout_page(local[0]).splitlines() if " attention ->" in line]
    assert len(heads) == 1 and "f32[4,4,8,4]: axis 1 by tp" in heads[0]
