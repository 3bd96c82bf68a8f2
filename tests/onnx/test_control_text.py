"""If, Loop and Scan: as ONNX Runtime runs them, eagerly and hybridized, and with gradients."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import hybrid as hy
from hybrid.errors import OnnxError
from tests.onnx.small_models import graph, model, node, ones, value
from tests.onnx.test_onnx_module import of_onnxruntime

BOOL, INT = TensorProto.BOOL, TensorProto.INT64


def same_everywhere(made, *calls: tuple[np.ndarray, ...]) -> hy.onnx.OnnxModule:
    module = hy.onnx.load(made)
    for hybridized in (False, True):
        if hybridized:
            module.hybridize()
        for inputs in calls:
            found = module(*[hy.asarray(array) for array in inputs])
            found = found if isinstance(found, tuple) else (found,)
            for got, wanted in zip(found, of_onnxruntime(made, *inputs), strict=True):
                assert got.numpy().dtype == wanted.dtype
                np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
    return module


def test_branches_see_outer_names_and_may_differ_in_shape() -> None:
    then = graph([node("Add", ["x", "w"], ["a"])], [], [value("a")])
    other = graph([node("ReduceSum", ["h"], ["b"], keepdims=0)], [], [value("b")])
    nodes = [
        node("Mul", ["x", "x"], ["h"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    made = model(nodes, [value("x", shape=[3]), value("c", BOOL, [])], weights={"w": ones(3)})
    x = np.array([1, 2, 3], np.float32)
    module = same_everywhere(made, (x, np.array(True)), (x, np.array(False)))
    assert "if c:" in module.source() and "else:" in module.source()


def summing(limit: str, going: str, **weights: np.ndarray):
    """total = sum of x + i while it is below 20, and all totals."""
    nodes = [
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["total", "x"], ["h"]),
        node("Add", ["h", "f"], ["next"]),
        node("Less", ["next", "most"], ["on"]),
        node("Identity", ["next"], ["row"]),
    ]
    inputs = [value("i", INT, []), value("c", BOOL, []), value("total", shape=[])]
    outputs = [value("on", BOOL, []), value("next", shape=[]), value("row", shape=[])]
    body = graph(nodes, inputs, outputs)
    return model(
        [node("Loop", [limit, going, "zero"], ["y", "all"], body=body)],
        [value("x", shape=[]), *([value("n", INT, [])] if limit == "n" else [])],
        [value("y"), value("all")],
        {"zero": np.array(0, np.float32), "most": np.array(20, np.float32), **weights},
    )


def test_loops_by_count_by_condition_and_by_both() -> None:
    x = np.array(1.5, np.float32)
    both = same_everywhere(
        summing("n", "yes", yes=np.array(True)),
        (x, np.array(3)), (x, np.array(50)), (x, np.array(0)),
    )  # fmt: skip
    assert "for i in range(count(n)):" in both.source()
    by_condition = same_everywhere(summing("", "yes", yes=np.array(True)), (x,))
    assert "while c:" in by_condition.source()
    far = {"yes": np.array(True), "far": np.array(2**63 - 1)}
    assert "while c:" in same_everywhere(summing("far", "yes", **far), (x,)).source()
    never = {"no": np.array(False), "m": np.array(4)}
    same_everywhere(summing("m", "no", **never), (x,))


def test_the_index_of_a_loop_slices_and_decides() -> None:
    then = graph([], [], [value("one", INT, [])], {"one": np.array(1)})
    other = graph([], [], [value("two", INT, [])], {"two": np.array(2)})
    nodes = [
        node("Add", ["i", "width"], ["end"]),
        node("Unsqueeze", ["i", "zero"], ["first"]),
        node("Unsqueeze", ["end", "zero"], ["last"]),
        node("Slice", ["x", "first", "last"], ["part"]),
        node("Equal", ["i", "width"], ["middle"]),
        node("If", ["middle"], ["factor"], then_branch=then, else_branch=other),
        node("Cast", ["factor"], ["float"], to=TensorProto.FLOAT),
        node("Mul", ["part", "float"], ["more"]),
        node("Add", ["h", "more"], ["g"]),
        node("Identity", ["c"], ["d"]),
    ]
    inputs = [value("i", INT, []), value("c", BOOL, []), value("h", shape=[2])]
    body = graph(nodes, inputs, [value("d", BOOL, []), value("g", shape=[2])])
    made = model(
        [node("Loop", ["n", "", "start"], ["y"], body=body)],
        [value("x", shape=[6]), value("n", INT, [])],
        weights={"width": np.array(2), "zero": np.array([0]), "start": ones(2)},
    )
    x = np.arange(6, dtype=np.float32)
    same_everywhere(made, (x, np.array(1)), (x, np.array(4)), (x, np.array(0)))


def test_gradients_go_through_loops() -> None:
    nodes = [node("Mul", ["h", "x"], ["g"]), node("Identity", ["c"], ["d"])]
    inputs = [value("i", INT, []), value("c", BOOL, []), value("h", shape=[2])]
    body = graph(nodes, inputs, [value("d", BOOL, []), value("g", shape=[2])])
    made = model(
        [node("Loop", ["m", "", "one"], ["y"], body=body)],
        weights={"m": np.array(3), "one": ones(2)},
    )
    module = hy.onnx.load(made)
    x = hy.asarray([2.0, 3.0])
    assert module.source().count("if not") == 0  # nothing asks for a condition that stays
    for _ in range(2):
        assert hy.grad(lambda x: module(x).sum())(x).tolist() == [12.0, 27.0]
        module.hybridize()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("back", [0, 1])
def test_scans(axis: int, back: int) -> None:
    nodes = [node("Add", ["s", "r"], ["t"]), node("Mul", ["t", "q"], ["row"])]
    body = graph(
        nodes,
        [value("s", shape=[2]), value("r", shape=[2]), value("q", shape=[2])],
        [value("t", shape=[2]), value("row", shape=[2])],
    )
    scan = node(
        "Scan", ["start", "x", "z"], ["last", "y"], body=body, num_scan_inputs=2,
        scan_input_axes=[axis, 0], scan_input_directions=[back, 0],
        scan_output_axes=[axis], scan_output_directions=[back],
    )  # fmt: skip
    rng = np.random.default_rng(0)
    start, z = rng.normal(size=2).astype(np.float32), rng.normal(size=(3, 2)).astype(np.float32)
    x = rng.normal(size=(2, 3) if axis else (3, 2)).astype(np.float32)
    inputs = [value("start", shape=[2]), value("x", shape=list(x.shape)), value("z", shape=[3, 2])]
    made = model([scan], inputs, [value("last"), value("y")])
    same_everywhere(made, (start, x, z))


def test_bodies_that_do_not_fit() -> None:
    body = graph([node("Abs", ["h"], ["g"])], [value("h")], [value("g")])
    cases = [
        (node("Loop", ["", "", "x"], ["y"], body=body),
         "its body takes 1 values and gives 1, the node has 1 outputs\n1 values are carried."),
        (node("Scan", ["x", "x"], ["y"], body=body, num_scan_inputs=1),
         "its body takes 1 values and gives 1, the node has 2 inputs and 1 outputs\n"
         "1 values are carried, 1 gone over."),
        (node("Loop", ["", "", "x"], ["y"]), "it has no body"),
        (node("If", ["x"], ["y"], then_branch=body),
         "it needs one input, a then_branch and an else_branch"),
        (node("If", ["x"], ["y"], then_branch=body, else_branch=body),
         "its then_branch has 1 inputs and 1 outputs\nIt takes none, and gives 1."),
    ]  # fmt: skip
    for made, said in cases:
        with pytest.raises(OnnxError) as caught:
            hy.onnx.load(model([made]))
        assert str(caught.value) == f"the model: node 'y' ({made.op_type}): {said}"


def test_functions_of_the_file_are_inlined() -> None:
    twice = helper.make_function(
        "own", "Twice", ["a"], ["b"],
        [helper.make_node("Add", ["a", "a"], ["s"]), helper.make_node("Scale", ["s"], ["b"],
                                                                     domain="own")],
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )  # fmt: skip
    scale = node("LeakyRelu", ["a"], ["b"])
    attribute = scale.attribute.add(name="alpha", type=1)
    attribute.ref_attr_name = "slope"
    scales = helper.make_function(
        "own", "Scale", ["a"], ["b"], [scale], [helper.make_opsetid("", 17)], ["slope"]
    )
    scales.attribute_proto.add(name="slope", type=1, f=0.5)
    del scales.attribute[:]
    made = model(
        [node("Twice", ["x"], ["h"], domain="own"), node("MatMul", ["h", "w"], ["y"])],
        weights={"w": 2 * np.eye(80, dtype=np.float32)},
        functions=[twice, scales],
        domains=[helper.make_opsetid("own", 1)],
    )
    module = hy.onnx.load(made)
    assert [name for name, _ in module.named_parameters()] == ["w"]
    x = np.linspace(-1, 1, 80, dtype=np.float32)[None]
    wanted = np.where(x > 0, 4 * x, 2 * x)
    np.testing.assert_allclose(module(hy.asarray(x)).numpy(), wanted, rtol=1e-6)
    made.functions[1].node[0].op_type, made.functions[1].node[0].domain = "Twice", "own"
    made.functions[1].opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(OnnxError, match="the model: the function 'Twice' calls itself"):
        hy.onnx.load(made)
