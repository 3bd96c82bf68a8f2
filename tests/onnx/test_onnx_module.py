"""Loaded models as modules: their state, training, text, copies and plans."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import hybrid as hy
from hybrid.errors import OnnxError
from tests.onnx.small_models import graph, model, network, node, ones, saved, value

X = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)


def of_onnxruntime(made, *inputs: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(made.SerializeToString())
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def test_it_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    made = network()
    [wanted] = of_onnxruntime(made, X)
    for given in (saved(made, tmp_path / "m.onnx"), tmp_path / "m.onnx", made,
                  made.SerializeToString()):  # fmt: skip
        np.testing.assert_allclose(hy.onnx.load(given)(hy.asarray(X)).numpy(), wanted, rtol=1e-5)


ONE = {
    "gemm": [node("Gemm", ["x", "w", "one"], ["y"])],
    "sum": [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "one"], ["y"])],
    "product": [node("MatMul", ["x", "w"], ["p"]), node("Mul", ["one", "p"], ["y"])],
    "slope": [node("MatMul", ["x", "w"], ["p"]), node("PRelu", ["p", "one"], ["y"])],
    "matrix": [node("MatMul", ["x", "w"], ["p"]), node("MatMul", ["p", "one"], ["y"])],
}


@pytest.mark.parametrize("how", ONE)
def test_weights_of_one_element_are_trained(how: str) -> None:
    one = np.full((1, 1) if how == "matrix" else 1, 0.5, np.float32)
    weights = {"w": np.ones((4, 1), np.float32) / 4, "one": one}
    made = model(ONE[how], [value("x", shape=["batch", 4])], weights=weights)
    module = hy.onnx.load(made)
    assert sorted(name for name, _ in module.named_parameters()) == ["one", "w"]
    assert sorted(module.state_dict()) == ["one", "w"]
    [wanted] = of_onnxruntime(made, X)
    got = module(hy.asarray(X))
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)
    got.sum().backward()
    assert module.get_parameter("one").grad.shape == one.shape


def test_parameters_are_what_products_use_and_keys_are_names_of_initializers() -> None:
    module = hy.onnx.load(network())
    names = ["layers.0.bias", "layers.0.weight", "onnx::MatMul_7"]
    assert sorted(name for name, _ in module.named_parameters()) == names
    assert sorted(module.state_dict()) == names
    assert list(module.buffers()) == []  # a number and a shape stand in the text
    assert (module.input_names, module.output_names) == (("x",), ("y",))


def test_names_that_no_path_can_be() -> None:
    weights = {
        name: ones(4, 4) for name in ("a", "a.b", ".", "training", "forward", "b..c", "k.0", "d.d")
    }
    nodes, before = [], "x"
    for number, name in enumerate(weights):
        nodes.append(node("MatMul", [before, name], [f"h{number}"]))
        before = f"h{number}"
    nodes.append(node("Relu", [before], ["y"]))
    module = hy.onnx.load(model(nodes, weights=weights))
    found = {"a", "forward_", "a_b", "tensor", "training_", "b_c", "k.0", "d.d"}
    assert set(module.state_dict()) == found
    assert module(hy.asarray(ones(1, 4))).shape == (1, 4)


def test_the_text_is_what_runs() -> None:
    module = hy.onnx.load(network())
    assert module.source() == (
        '"""the model: ai.onnx 17."""\n'
        "\n"
        "import hybrid as hy\n"
        "from hybrid.onnx import OnnxModule\n"
        "from hybrid.onnx.handlers.arithmetic_nodes import mul\n"
        "from hybrid.onnx.handlers.product_nodes import gemm, mat_mul\n"
        "from hybrid.onnx.handlers.shape_nodes import reshape\n"
        "from hybrid.onnx.known_values import constant\n"
        "\n"
        "\n"
        "class Small(OnnxModule):\n"
        "    def forward(self, x):\n"
        "        v0_Gemm_output_0 = gemm(\n"
        "            x,\n"
        '            getattr(self.layers, "0").weight,\n'
        '            getattr(self.layers, "0").bias,\n'
        "            transB=1,\n"
        "        )\n"
        "        v1_Relu_output_0 = hy.relu(v0_Gemm_output_0)\n"
        '        h = mat_mul(v1_Relu_output_0, getattr(self, "onnx::MatMul_7"))\n'
        "        scaled = mul(h, constant(0.5, hy.float32))\n"
        "        y = reshape(scaled, constant([0, -1]))\n"
        "        return y\n"
    )
    names: dict = {}
    exec(module.source(), names)
    again = names["Small"]()
    for name in ("layers", "onnx::MatMul_7"):
        setattr(again, name, getattr(module, name))
    x = hy.asarray(X)
    assert np.array_equal(again(x).numpy(), module(x).numpy())


def test_nothing_of_a_file_becomes_code() -> None:
    bad = '"); import os; os.abort()\n#'
    nodes = [
        node("Elu", [bad], ["'''"], name=bad, alpha=2.0),
        node("Gemm", ["'''", f"w.{bad}"], ["class"]),
    ]
    made = model(nodes, [value(bad)], [value("class")], {f"w.{bad}": ones(2, 2)})
    made.producer_name, made.graph.name = '"""\nimport os', "1) + import"
    text = hy.onnx.load(made).source()
    assert "class Model1Import(OnnxModule):" in text
    assert "def forward(self, import_os_os_abort):" in text
    assert text.count('"""') == 2
    compile(text, "text", "exec")


def test_it_trains_as_other_modules_do() -> None:
    module = hy.onnx.load(network())
    target = hy.asarray(np.ones((5, 3), np.float32))
    optimizer = hy.optim.Adam(module.parameters(), lr=0.05)

    def step(x: hy.Tensor) -> hy.Tensor:
        loss = ((module(x) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    eager = [step(hy.asarray(X)).item() for _ in range(3)]
    module = hy.onnx.load(network())
    optimizer = hy.optim.Adam(module.parameters(), lr=0.05)
    hybridized = hy.hybridize(step)
    assert [hybridized(hy.asarray(X)).item() for _ in range(3)] == eager
    assert eager[2] < eager[0]


def test_batches_of_any_size_share_a_plan() -> None:
    module = hy.onnx.load(network())
    plain = {n: module(hy.asarray(X[:n])).numpy() for n in (2, 3, 4, 5)}
    module.hybridize()
    for n in (2, 3, 4, 5):
        assert np.array_equal(module(hy.asarray(X[:n])).numpy(), plain[n])
    assert len(module.plans) < 4


def test_copies_and_pickles_compute_the_same() -> None:
    module = hy.onnx.load(network())
    x = hy.asarray(X)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other.source() == module.source() and other.input_names == ("x",)
        assert np.array_equal(other(x).numpy(), module(x).numpy())
        other.hybridize()
        assert np.array_equal(other(x).numpy(), module(x).numpy())


def test_an_error_of_a_node_shows_its_line() -> None:
    with pytest.raises(hy.errors.ShapeError) as caught:
        hy.onnx.load(network())(hy.asarray(ones(2, 3)))
    assert [entry for entry in caught.traceback if "v0_Gemm" in str(entry.statement)]
    nodes = [node("Hardmax", ["x"], ["h"]), node("Pad", ["h", "pads"], ["y"], mode="around")]
    made = model(nodes, weights={"pads": np.array([0, 0, 1, 1], np.int64)})
    with pytest.raises(OnnxError) as refused:
        hy.onnx.load(made)(hy.asarray(ones(2, 2)))
    assert re.fullmatch(
        r"Pad got mode 'around' \(<onnx the model \d+>:13\)\n"
        r'    13 \| y = pad\(h, constant\(\[0, 0, 1, 1\]\), mode="around"\)\n'
        r"It is one of constant, reflect, edge, wrap\.",
        str(refused.value),
    ), str(refused.value)


def test_shapes_cost_nothing_in_a_plan() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Mul", ["n", "two"], ["m"]),
        node("Unsqueeze", ["m", "axes"], ["ms"]),
        node("Concat", ["ms", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    weights = {
        "zero": np.array(0, np.int64),
        "two": np.array(2, np.int64),
        "axes": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    module = hy.onnx.load(model(nodes, weights=weights))
    module.hybridize()
    x = hy.asarray(ones(3, 4))
    assert module(x).shape == (6, 2)
    assert [n.op.name for n in module.graph(x).nodes] == ["reshape"]
    assert module(hy.asarray(ones(5, 4))).shape == (10, 2)
    assert module(hy.asarray(ones(7, 2))).shape == (14, 1)


def test_what_follows_from_constants_stands_in_the_text() -> None:
    nodes = [
        node("Mul", ["two", "two"], ["four"]),
        node("Unsqueeze", ["four", "axes"], ["fours"]),
        node("Concat", ["fours", "rest"], ["shape"], axis=0),
        node("Expand", ["fours", "many"], ["large"]),  # it may be as large as it likes
        node("Reshape", ["x", "shape"], ["h"]),
        node("Cast", ["large"], ["float"], to=TensorProto.FLOAT),
        node("Mul", ["h", "float"], ["y"]),
    ]
    weights = {
        "two": np.array(2), "axes": np.array([0]), "rest": np.array([-1]), "many": np.array([3]),
    }  # fmt: skip
    module = hy.onnx.load(model(nodes, weights=weights))
    text = module.source()
    assert "h = reshape(x, constant([4, -1]))" in text
    assert "large = expand(constant([4]), constant([3]))" in text and "concat" not in text
    assert module(hy.asarray(ones(12))).tolist() == [[4.0] * 3] * 4


def test_a_shape_that_is_an_input_is_a_size_of_each_run() -> None:
    made = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        [value("x"), value("shape", TensorProto.INT64, [2])],
    )
    module = hy.onnx.load(made).hybridize()
    x = hy.asarray(np.arange(12, dtype=np.float32))
    for shape in ([3, 4], [4, -1], [2, 6], [12, 1]):
        wanted = np.arange(12, dtype=np.float32).reshape(shape)
        assert np.array_equal(module(x, hy.asarray(shape)).numpy(), wanted)


def test_initializers_that_are_inputs_are_weights() -> None:
    made = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [value("x"), value("w", shape=[4, 2])],
        weights={"w": ones(4, 2)},
    )
    module = hy.onnx.load(made)
    assert module.input_names == ("x",) and list(module.state_dict()) == ["w"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, None)), "a sequence"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(1, None)),
         "an optional value"),
        (helper.make_tensor_type_proto(TensorProto.STRING, None), "of type STRING"),
        (helper.make_tensor_type_proto(TensorProto.FLOAT8E5M2, None), "of type FLOAT8E5M2"),
    ],
)  # fmt: skip
def test_values_that_are_no_tensors_are_refused_by_name(kind, said: str) -> None:
    given = helper.make_value_info("x", kind)
    made = model([node("Identity", ["x"], ["y"])], [given])
    with pytest.raises(OnnxError, match=f"the model: input 'x' is {said}"):
        hy.onnx.load(made)


def test_two_outputs_and_outputs_that_are_inputs() -> None:
    made = model([node("Abs", ["x"], ["y"])], outputs=[value("y"), value("x")])
    x = hy.asarray(-ones(2))
    y, same = hy.onnx.load(made)(x)
    assert (y.tolist(), same.tolist()) == ([1.0, 1.0], [-1.0, -1.0])


def test_sequences_inside_a_graph_are_lists() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=0),
        node("SequenceInsert", ["s", "x0"], ["t"]),
        node("SequenceErase", ["t", "first"], ["u"]),
        node("ConcatFromSequence", ["u"], ["y"], axis=0, new_axis=1),
    ]
    weights = {"x0": np.array([7.0, 8, 9], np.float32), "first": np.array(0, np.int64)}
    module = hy.onnx.load(model(nodes, weights=weights))
    x = hy.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(2):
        assert module(x).tolist() == [[3.0, 4.0, 5.0], [7.0, 8.0, 9.0]]
        module.hybridize()


def test_importing_hybrid_does_not_import_onnx(tmp_path: Path) -> None:
    script = (
        "import sys, hybrid; assert 'onnx' not in hybrid.__all__; "
        "assert 'onnx' not in sys.modules and 'hybrid.onnx' not in sys.modules; "
        "assert 'onnx' in dir(hybrid)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_without_the_package_onnx_importing_says_so(tmp_path: Path) -> None:
    script = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'onnx' else find(name, *a)\n"
        "import hybrid\n"
        "try:\n    hybrid.onnx\n"
        "except ImportError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == (
        "hybrid.onnx needs the package onnx, which is not installed\n"
        'Fix: pip install "hybrid[onnx]".\n'
    ), done.stderr


def test_a_graph_without_outputs_is_refused() -> None:
    made = model([node("Abs", ["x"], ["y"])])
    made.graph.CopyFrom(graph([], [value("x")], []))
    with pytest.raises(OnnxError, match="the graph has no outputs"):
        hy.onnx.load(made)


@pytest.mark.parametrize("op", ["Constant", "Abs"])
def test_a_node_without_outputs_is_refused(op: str) -> None:
    made = model([node("Abs", ["x"], ["y"]), helper.make_node(op, [], [], name="odd")])
    with pytest.raises(OnnxError, match=rf"node 'odd' \({op}\): it has no outputs"):
        hy.onnx.load(made)


def test_what_is_prepared_of_weights_is_kept(tmp_path: Path) -> None:
    """They have memory of their own, not that of the file: nobody else can write to it."""
    weight = np.random.default_rng(0).standard_normal((64, 128), np.float32)
    made = model([node("MatMul", ["x", "w"], ["y"])], weights={"w": weight})
    network = hy.onnx.load(made).requires_grad_(False)
    run = hy.hybridize(network.forward)
    x = hy.asarray(np.ones((8, 64), np.float32))
    for _ in range(3):
        found = run(x)
    [plan] = run.plans
    assert plan.kept_nbytes == weight.nbytes
    assert found.numpy().tobytes() == network(x).numpy().tobytes()
