"""The nodes of a graph while they are written: names, constants, what is there once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from hybrid.core.types import BY_NAME, bool_, float32, int8, int64, uint64
from hybrid.errors import OnnxError
from hybrid.onnx.graph_writer import CODES, GraphWriter, ModelWriter, needed_nodes


@pytest.fixture
def g() -> GraphWriter:
    return GraphWriter(ModelWriter(18))


def test_what_computes_the_same_is_there_once(g: GraphWriter) -> None:
    x, one = g.constant([1.0, 2.0], float32), g.constant(1, float32)
    assert g("Add", x, one) == g("Add", x, one) != g("Add", one, x)
    assert g("Concat", x, x, axis=0) != g("Concat", x, x, axis=-1)
    assert len(g.nodes) == 4


def test_nodes_with_graphs_are_each_their_own(g: GraphWriter) -> None:
    """Their graphs are copied, and another may be where one was in memory."""
    flag, graph = g.constant(True, bool_), onnx.GraphProto(name="branch")
    made = [g("If", flag, dtype=int64, then_branch=graph, else_branch=graph) for _ in range(2)]
    assert made[0] != made[1] and len(g.nodes) == 2


def test_equal_constants_are_one(g: GraphWriter) -> None:
    assert g.constant(1, int64) == g.constant(1, int64) != g.ints(1)
    assert (g.constant(1, int64).shape, g.ints(1).shape) == ((), (1,))
    assert g.constant([1, 2], int64) == g.ints(1, 2)
    assert g.constant(0.0, float32) != g.constant(-0.0, float32)
    assert g.constant(1, int8) != g.constant(1, uint64)
    assert np.array_equal(g.array_of(g.ints(3)), [3])
    assert g.array_of(g("Neg", g.ints(3))) is None


def test_names_are_used_once(g: GraphWriter) -> None:
    names = [g.model.free_name(name) for name in ("x", "x", "x_1", "x", "y")]
    assert names == ["x", "x_1", "x_1_1", "x_2", "y"]


@pytest.mark.parametrize(
    ("op", "dtype", "carrier"),
    [("Where", "bool", "uint8"), ("Add", "int8", "int32"), ("Add", "uint32", "int64"),
     ("Add", "uint64", "int64"), ("Max", "uint64", "uint64"), ("Pad", "float16", "float32"),
     ("Concat", "uint16", "uint16"), ("Erf", "float64", "float64")],
)  # fmt: skip
def test_what_carries_dtypes_that_kernels_lack(
    g: GraphWriter, op: str, dtype: str, carrier: str
) -> None:
    assert g.carrier(op, BY_NAME[dtype]) is BY_NAME[carrier]


def test_a_result_has_its_dtype_again(g: GraphWriter) -> None:
    x = g.constant([100, 100], int8)
    made = g.wide("Add", x, x)
    assert made.dtype is int8
    assert [node.op_type for node in g.nodes] == ["Cast", "Add", "Cast"]
    assert [node.attribute[0].i for node in g.nodes[::2]] == [
        CODES[BY_NAME["int32"]], CODES[int8]
    ]  # fmt: skip


def test_nodes_that_nothing_needs_go(g: GraphWriter) -> None:
    x = g.constant([1.0], float32)
    one = g("Exp", x)
    g("Log", one)
    two = g("Neg", one)
    assert [node.op_type for node in needed_nodes(g.nodes, {two.name})] == ["Exp", "Neg"]


def test_what_a_graph_inside_reads_is_needed(g: GraphWriter) -> None:
    flag, x = g.constant(True, bool_), g.constant([1.0], float32)
    seen = g("Exp", x)
    inner = g.inner()
    inner("Neg", seen)
    body = inner.plain_graph("body", [], [(inner("Neg", seen), (1,))])
    found = g("If", flag, dtype=float32, then_branch=body, else_branch=body)
    assert [node.op_type for node in needed_nodes(g.nodes, {found.name})] == ["Exp", "If"]


def test_numpy_has_no_constants_of_bfloat16(g: GraphWriter) -> None:
    with pytest.raises(OnnxError, match="a constant of bfloat16 cannot be written in ONNX"):
        g.constant(1, BY_NAME["bfloat16"])
