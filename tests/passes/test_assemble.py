"""assemble joins parts that were put into zeros and added up, and only where no bit changes."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from hybrid.passes import assemble, run_pipeline
from tests.helpers import assert_rewrites, bits, graph_of, interpret, same

PLACE = "{size=(2, 2), start=(%d, 0), step=(1, 1)}"
HEAD = """
    graph @f(%x: f32[2,2], %y: f32[2,2], %w: f32[2,2]) {
      %o: f32[] = full {dtype=f32, shape=(), value=0.0}
      %a: f32[2,2] = add %x, %o
      %b: f32[2,2] = add %o, %y
      %c: f32[2,2] = add %w, %o
"""
ZEROS = "      %z: f32[6,2] = full {dtype=f32, shape=(6, 2), value=0.0}\n"


def placed(name: str, part: str, start: int, onto: str = "%z") -> str:
    return f"      %{name}: f32[6,2] = slice_assign {onto}, %{part} {PLACE % start}\n"


THREE = HEAD + ZEROS + placed("p", "a", 4) + placed("q", "b", 0) + placed("r", "c", 2)
SUM = "      %s: f32[6,2] = add %p, %q\n      %t: f32[6,2] = add %s, %r\n      return %t\n    }\n"
SAME = {  # name: a graph that stays as it is
    "a part that may hold -0.0": HEAD
    + ZEROS
    + placed("p", "x", 4)
    + placed("q", "b", 0)
    + placed("r", "c", 2)
    + SUM,
    "parts that overlap": HEAD
    + ZEROS
    + placed("p", "a", 4)
    + placed("q", "b", 0)
    + placed("r", "c", 1)
    + SUM,
    "a gap": HEAD
    + ZEROS
    + placed("p", "a", 4)
    + placed("q", "b", 0)
    + "      %t: f32[6,2] = add %p, %q\n      return %t\n    }\n",
    "onto -0.0": HEAD
    + ZEROS.replace("0.0}", "-0.0}")
    + placed("p", "a", 4)
    + placed("q", "b", 0)
    + placed("r", "c", 2)
    + SUM,
    "rows apart": HEAD
    + ZEROS
    + placed("p", "a", 4)
    + placed("q", "b", 0).replace("step=(1, 1)", "step=(2, 1)")
    + placed("r", "c", 2)
    + SUM,
}


def test_parts_that_fill_a_tensor_are_joined() -> None:
    tail = "      %t: f32[6,2] = concat %b, %c, %a {axis=0}\n      return %t\n    }\n"
    first = "      %s: f32[6,2] = add %p, %q\n"
    assert_rewrites(assemble, THREE + SUM, THREE + first + tail)


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_other_sums_stay(text: str) -> None:
    graph = graph_of(text)
    assert assemble(graph) is graph


def test_the_bits_are_those_of_the_sum() -> None:
    special = np.array([[0.0, -0.0], [np.nan, -np.inf]], np.float32)
    operands = special, -special, special[::-1].copy()
    graph = graph_of(THREE + SUM)
    assert bits(interpret(assemble(graph), *operands)) == bits(interpret(graph, *operands))


def test_gradients_of_all_slices_are_one_concat() -> None:
    x = hy.asarray(np.arange(24, dtype="float32").reshape(4, 3, 2) - 12)

    def step(x):
        def loss(x):
            a, b, c = x[:, 0], x[:, 1], x[:, 2]
            return hy.sum(a * b - hy.tanh(c) * a)

        return hy.grad(loss)(x)

    captured = hy.hybridize(step)
    assert same(captured(x), step(x))
    ops = [node.op.name for node in run_pipeline(captured.graph(x)).nodes]
    assert "concat" in ops and "slice_assign" not in ops
