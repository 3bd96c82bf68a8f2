"""assemble makes one tensor of a sum of parts, where that leaves all bits as they are."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.ir import Graph
from hybrid.passes import assemble, dce
from hybrid.plan import make_plan
from tests.helpers import assert_rewrites, graph_of

HEAD = """
graph @f(%a: f32[2,2], %b: f32[2,2]) {
  %zero: f32[] = full {shape=(), value=0.0, dtype=f32}
  %z: f32[2,4] = full {shape=(2, 4), value=0.0, dtype=f32}
"""
ZEROED = """
  %c: f32[2,2] = add %a, %zero
  %d: f32[2,2] = add %zero, %b
"""
LEFT = "  %p: f32[2,4] = slice_assign %z, %c {start=(0, 0), size=(2, 2), step=(1, 1)}\n"
RIGHT = "  %q: f32[2,4] = slice_assign %z, %d {start=(0, 2), size=(2, 2), step=(1, 1)}\n"
ODD = "  %q: f32[2,4] = slice_assign %z, %d {start=(0, 1), size=(2, 2), step=(1, 2)}\n"
REVERSED = "  %q: f32[2,4] = slice_assign %z, %d {start=(0, 3), size=(2, 2), step=(1, -1)}\n"
SUM = "  %s: f32[2,4] = add %p, %q\n  return %s\n}"
RAW = "\n".join([HEAD, LEFT.replace("%c", "%a"), RIGHT.replace("%d", "%b"), SUM])

CASES = {
    "all of it": (
        HEAD + ZEROED + LEFT + RIGHT + SUM,
        HEAD.replace("  %z: f32[2,4] = full {shape=(2, 4), value=0.0, dtype=f32}\n", "")
        + ZEROED
        + "  %s: f32[2,4] = concat %c, %d {axis=1}\n  return %s\n}",
    ),
    "not in order": (
        HEAD + ZEROED + LEFT + REVERSED + SUM,
        HEAD + ZEROED + LEFT
        + "  %s: f32[2,4] = slice_assign %p, %d {start=(0, 3), size=(2, 2), step=(1, -1)}\n"
        + "  return %s\n}",
    ),
}  # fmt: skip
KEPT = {
    "a part may hold -0.0": RAW,
    "parts that meet": HEAD + ZEROED + LEFT + ODD + SUM,
    "onto other than zeros": (HEAD + ZEROED + LEFT + RIGHT + SUM).replace(
        "shape=(2, 4), value=0.0", "shape=(2, 4), value=-0.0"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_parts_become_one_tensor(case: str) -> None:
    before, after = CASES[case]

    def both(graph: Graph) -> Graph:
        return dce(assemble(graph))

    assert_rewrites(both, before, after)


@pytest.mark.parametrize("case", KEPT)
def test_other_sums_stay(case: str) -> None:
    graph = graph_of(KEPT[case])
    assert assemble(graph) is graph


@pytest.mark.parametrize("case", CASES)
def test_same_bits(case: str) -> None:
    """Zeros of both signs, infinities and NaN."""
    values = np.array([[-0.0, 0.0], [np.inf, np.nan]], np.float32)
    operands = [as_tensor(values), as_tensor(-values)]
    graph = graph_of(CASES[case][0])
    first, then = (
        call_plan(make_plan(version), operands)[0].numpy().tobytes()
        for version in (graph, assemble(graph))
    )
    assert first == then


def test_the_gradient_of_a_split_holds_no_zeros_of_its_own() -> None:
    def parts(x):
        a, b, c = hy.chunk(x, 3, axis=1)
        return (a * b - hy.sin(c)).sum()

    x = hy.asarray(np.linspace(-1, 1, 12).astype(np.float32).reshape(2, 6))
    gradient = hy.hybridize(hy.grad(parts))
    assert gradient(x).tolist() == hy.grad(parts)(x).tolist()
    (planned,) = gradient._table.all()
    kernels = [step.kernel for step in planned.plan.lowered.steps]
    assert kernels.count("copy") == 3


def test_parts_that_are_all_there_is_at_one_size_alone() -> None:
    """Of two rows x[:-1] and x[1:] are one each, and fill n rows: 2 * n - 2 are n there."""

    def pairs(x):
        return (hy.sin(x[:-1]) * x[1:]).sum()

    gradient, eager = hy.hybridize(hy.grad(pairs)), hy.grad(pairs)
    opened = hy.hybridize(pairs)
    for n in (3, 7, 2, 5, 2):
        x = hy.asarray(np.linspace(-1, 1, n, dtype=np.float32))
        assert gradient(x).tolist() == eager(x).tolist()
        x.requires_grad = True
        opened(x).backward()
        assert x.grad.tolist() == eager(x.detach()).tolist()
