"""Shared work: what ranks compute of parts, put together, is what one computes, for every op."""

import zlib

import numpy as np
import pytest

import hybrid.passes  # noqa: F401  declares the ops that passes build
from hybrid.core.layouts import PARTIAL, Split, cut, laid_type
from hybrid.core.types import dtype_of, tensor_type
from hybrid.eager.execution import EAGER, from_numpy
from hybrid.ir import REGISTRY, Builder, get_op
from hybrid.ops.support.sampling import samples
from hybrid.ops.support.shared_work import AxisCut, SharedWay
from hybrid.passes.layouts.layout_choice import ways_of
from hybrid.passes.layouts.local_graph import computed_by
from hybrid.passes.layouts.work import Work
from tests.passes.layouts.simulated_ranks import axis_of, joined, part_of, run_ranks

OPS = sorted(
    (
        op
        for op in REGISTRY.values()
        if op.__module__.startswith("hybrid.")
        and op.operand_names
        and not op.communicates
        and (op.share_rule is not None or op.elementwise)
        and op.name != "laid_out"
    ),
    key=lambda op: op.name,
)


def node_of(op, operands, attrs):
    builder = Builder(op.name)
    given = [builder.param(tensor_type(dtype_of(x.dtype), x.shape)) for x in operands]
    builder.apply(op, given, op.attributes(attrs))
    return builder.nodes[0]


def shared(node, way: SharedWay, ranks: int, operands) -> list[np.ndarray]:
    """The results of ``node`` by ranks that have the parts of ``operands`` that ``way`` says."""
    graphs = []
    for rank in range(ranks):
        builder = Builder(node.op.name)
        work = Work(builder, axis_of(ranks, rank))
        pairs = zip(node.operands, way.operands, strict=True)
        given = [builder.param(cut(v.type, place, ranks)) for v, place in pairs]
        graphs.append(builder.finish(computed_by(work, node, way, given)))
    pairs = list(zip(operands, way.operands, strict=True))
    parts = [[part_of(x, p, ranks, rank) for x, p in pairs] for rank in range(ranks)]
    found = run_ranks(graphs, parts)
    places = way.results
    return [joined([found[r][i] for r in range(ranks)], p) for i, p in enumerate(places)]


def assert_near(found: np.ndarray, want: np.ndarray, about: str) -> None:
    assert found.dtype == want.dtype and found.shape == want.shape, about
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(found, want, about)
        return
    finite = np.abs(want[np.isfinite(want)])
    size = float(finite.max(initial=0)) + 1
    rounding = 3e-6 if want.dtype.itemsize == 4 else 1e-12
    np.testing.assert_allclose(found, want, rtol=10 * rounding, atol=rounding * size, err_msg=about)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_parts_put_together_are_the_whole(op) -> None:
    drawn = [
        (operands, attrs)
        for operands, attrs in samples(op, seed=zlib.crc32(op.name.encode()))
        if all(0 < x.size < 2000 for x in operands) and any(x.ndim for x in operands)
    ]
    checked = 0
    for at in np.random.default_rng(0).permutation(len(drawn))[:12]:
        operands, attrs = drawn[at]
        node = node_of(op, operands, attrs)
        given = [from_numpy(np.array(x, order="C"), copy=True) for x in operands]
        want = [t.numpy() for t in EAGER.run(op, given, node.attrs)]
        for ranks in (2, 3, 5):
            for way in ways_of(node, axis_of(ranks, 0), (1, 2)):
                about = f"{op.name} {attrs} {[x.shape for x in operands]} {way}"
                for y, wanted in zip(shared(node, way, ranks, operands), want, strict=True):
                    assert_near(y, wanted, about)
                checked += any((*way.operands, *way.results))
    assert checked or op.name == "nadam_product", "no sample has parts"


def ways(name: str, *shapes, ranks: int = 2, outer: int = 1, **attrs) -> list[tuple]:
    """Where operands and results are, in each way but that of all on each rank."""
    op = get_op(name)
    node = node_of(op, [np.zeros(s, np.float32) for s in shapes], attrs)
    return [
        (way.operands, way.results)
        for way in ways_of(node, axis_of(ranks, 0), (outer,))
        if any(way.operands)
    ]


def test_a_product_is_shared_by_rows_by_columns_and_by_terms() -> None:
    rows, columns = Split(0), Split(1)
    assert ways("matmul", (4, 6), (6, 8)) == [
        ((rows, None), (rows,)),
        ((None, columns), (columns,)),
        ((columns, rows), (PARTIAL,)),
        ((PARTIAL, None), (PARTIAL,)),
        ((None, PARTIAL), (PARTIAL,)),
    ]
    assert ways("matmul", (3, 5), (5, 7))[:1] == [((PARTIAL, None), (PARTIAL,))]


def test_blocks_of_an_axis_become_an_axis() -> None:
    assert ways("reshape", (2, 24), shape=(2, 3, 4, 2), ranks=4) == [
        ((Split(1, 3),), (Split(2),)),
        ((PARTIAL,), (PARTIAL,)),
    ]
    assert ((Split(0, 3),), (Split(0, 3),)) in ways("exp", (24,), outer=3)


def test_heads_of_causal_attention_are_shared_and_queries_are_not() -> None:
    heads = (2, 4, 8, 16)
    found = ways("attention", heads, heads, heads, scale=0.5, causal=True)
    assert found == [((Split(a),) * 3, (Split(a),) * 2) for a in (0, 1)]


def test_what_draws_or_needs_all_is_not_shared() -> None:
    x = np.zeros((4, 4), np.float32)
    node = node_of(get_op("inv"), [x], {})
    assert ways_of(node, axis_of(2, 0)) == [SharedWay((None,), (None,))]
    assert AxisCut(2).of(tensor_type(dtype_of("float32"), (3, 4)), 0) is None


def test_layouts_are_in_types() -> None:
    whole = tensor_type(dtype_of("float32"), (8, 4))
    laid = laid_type(whole, [(axis_of(2, 1), Split(0))])
    assert laid is laid_type(laid, [(axis_of(2, 1), Split(0))]) is not whole
    assert (laid.shape, laid.nbytes, laid.local.shape) == ((8, 4), 64, (4, 4))
    assert laid_type(laid, []) is whole and laid_type(whole, [(axis_of(1, 0), Split(0))]) is whole
    assert str(laid) == "f32[8,4]" and laid.with_shape((4, 8)).layout is None
