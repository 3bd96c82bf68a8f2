"""Functions and modules as models of ONNX: what onnxruntime computes of the files."""

from __future__ import annotations

import os
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError, ArgumentTypeError, OnnxError
from hybrid.models import encoder, gpt
from hybrid.models.examples import EXAMPLES
from hybrid.onnx.model_assembly import OPSETS
from tests.onnx.exported import assert_exported, run
from tests.onnx.test_torch_models import FILES, FOLDER

RANDOM = np.random.default_rng(3)
IMAGE = RANDOM.random((3, 1, 8, 8), np.float32)
INPUTS = {
    "lenet": RANDOM.random((2, 1, 32, 32), np.float32), "resnet20": IMAGE, "mobilenet": IMAGE,
    "mixer": RANDOM.random((2, 1, 16, 16), np.float32), "lstm": IMAGE[:, 0], "gru": IMAGE[:, 0],
    "unet": RANDOM.random((2, 1, 16, 16), np.float32), "gpt": RANDOM.integers(0, 40, (2, 12)),
}  # fmt: skip


# Models -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_models_that_come_with_the_package(name: str, tmp_path: Path) -> None:
    hy.random.seed(0)
    model = EXAMPLES[name].make()
    opset = OPSETS[sorted(INPUTS).index(name) % len(OPSETS)]
    made = assert_exported(model, [hy.asarray(INPUTS[name])], tmp_path / "m.onnx", opset=opset)
    weights = {tensor.name: tensor for tensor in made.graph.initializer}
    for key, value in model.state_dict().items():
        if "num_batches" not in key and key != "lm_head.weight":  # which is that of the embedding
            assert list(weights[key].dims) == list(value.shape), key


def test_every_example_model_is_among_these() -> None:
    assert INPUTS.keys() | {"vae"} == EXAMPLES.keys()


def test_a_model_that_draws_is_exported_by_its_parts(tmp_path: Path) -> None:
    model = EXAMPLES["vae"].make()
    images = hy.asarray(RANDOM.random((2, 64), np.float32))
    assert_exported(model.encode, [images], tmp_path / "encode.onnx")
    codes = hy.asarray(RANDOM.random((2, model.latent), np.float32))
    assert_exported(model.decode, [codes], tmp_path / "decode.onnx")
    with pytest.raises(OnnxError, match="random_normal cannot be written in ONNX"):
        hy.onnx.export(model, tmp_path / "m.onnx", images)


def small_encoder() -> encoder.SentenceEncoder:
    return encoder.SentenceEncoder(
        encoder.Config(
            vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=20, type_vocab_size=2,
        )
    )  # fmt: skip


@pytest.mark.parametrize("opset", [17, 23])
def test_an_encoder_with_a_mask(opset: int, tmp_path: Path) -> None:
    ids = hy.asarray(RANDOM.integers(0, 50, (3, 7)))
    mask = hy.asarray((np.arange(7) < np.array([[7], [4], [1]])).astype(np.int64))
    assert_exported(small_encoder(), [ids, mask], tmp_path / "m.onnx", opset=opset)


@pytest.mark.parametrize(
    ("opset", "op"), [(17, "Softmax"), (19, "Tanh"), (20, "Gelu"), (22, "Softmax"),
                      (23, "Attention")],
)  # fmt: skip
def test_fused_layers_are_ops_where_the_opset_has_them(opset: int, op: str, tmp_path: Path) -> None:
    model = gpt.GPT(gpt.Config(tokens=11, block=8, width=8, depth=1, heads=2))
    tokens = hy.asarray(RANDOM.integers(0, 11, (2, 8)))
    made = assert_exported(model, [tokens], tmp_path / "m.onnx", opset=opset)
    ops = {node.op_type for node in made.graph.node}
    assert op in ops and "LayerNormalization" in ops
    assert made.opset_import[0].version == opset


@pytest.mark.parametrize(
    ("opset", "version"), [(17, 8), (18, 8), (19, 9), (20, 9), (21, 10), (22, 10), (23, 11)]
)
def test_the_lowest_version_of_the_format(opset: int, version: int, tmp_path: Path) -> None:
    path = hy.onnx.export(hy.exp, tmp_path / "m.onnx", hy.ones(3), opset=opset)
    assert onnx.load(path).ir_version == version


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("looping")])
def test_models_that_were_read_are_written_again(name: str, tmp_path: Path) -> None:
    module = hy.onnx.load(FOLDER / f"{name}.onnx")
    with np.load(FOLDER / f"{name.rpartition('_')[0]}.npz") as file:
        arrays = dict(file)
    made = assert_exported(module, [hy.asarray(arrays["x"])], tmp_path / "m.onnx")
    weights = {tensor.name for tensor in made.graph.initializer}
    assert {key for key, _ in module.named_parameters()} <= weights


def test_a_loop_that_was_read_is_written_again(tmp_path: Path) -> None:
    module = hy.onnx.load(FOLDER / "looping_old.onnx")
    counts = [[hy.ones(3), hy.asarray(n)] for n in (4, 0, 9)]
    made = assert_exported(module, counts[0], tmp_path / "m.onnx", counts[1:])
    assert "Loop" in {node.op_type for node in made.graph.node}


def test_what_is_hybridized_is_captured_as_it_is(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), hy.ones((2, 4))
    model.hybridize()
    model(x)
    assert_exported(model, [x], tmp_path / "m.onnx")
    inner = hy.hybridize(lambda x: x * 2)
    assert_exported(inner, [x], tmp_path / "m.onnx")
    assert_exported(lambda x: inner(x) + 1, [x], tmp_path / "m.onnx")
    hy.export(model, tmp_path / "m.hyb", x)
    assert_exported(hy.load_exported(tmp_path / "m.hyb")["predict"], [x], tmp_path / "m.onnx")


def test_floats_of_two_bytes(tmp_path: Path) -> None:
    x = hy.asarray(RANDOM.standard_normal((2, 4)).astype(np.float32))
    layer = nn.Linear(4, 3).to(hy.float16)
    assert_exported(layer, [x.astype(hy.float16)], tmp_path / "m.onnx")
    layer = nn.Linear(4, 3).to(hy.bfloat16)

    def function(x):
        return layer(x.astype(hy.bfloat16)).astype(hy.float32)

    made = assert_exported(function, [x], tmp_path / "m.onnx")
    kinds = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    assert onnx.TensorProto.BFLOAT16 in kinds.values()


# Modes, files, bytes ------------------------------------------------------------------------------


class Norm(nn.Module):
    def __init__(self) -> None:
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.norm(x))

    def scaled(self, x, factor):
        return self(x) * factor

    @hy.hybridize
    def doubled(self, x):
        return self(x) * 2


def test_a_module_is_exported_as_it_evaluates_and_stays_as_it_was(tmp_path: Path) -> None:
    model, x = Norm(), hy.asarray(RANDOM.random((5, 4), np.float32))
    before = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    state = hy.random.default_generator().state.numpy().copy()
    hy.onnx.export(model, tmp_path / "m.onnx", x)
    assert model.training and model.norm.training
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    np.testing.assert_array_equal(hy.random.default_generator().state.numpy(), state)
    [got] = run(tmp_path / "m.onnx", x)
    np.testing.assert_allclose(got, model.eval()(x).numpy(), 1e-5)


def test_a_method_of_a_module_evaluates_too(tmp_path: Path) -> None:
    model, x = Norm(), hy.asarray(RANDOM.random((5, 4), np.float32))
    assert_exported(model.scaled, [x, hy.asarray(2.0)], tmp_path / "m.onnx")


def test_a_hybridized_method_of_a_module_evaluates_too(tmp_path: Path) -> None:
    model, x = Norm(), hy.asarray(RANDOM.random((5, 4), np.float32))
    factor = hy.asarray(2.0)
    for method, args in ((model.doubled, [x]), (hy.hybridize(model.scaled), [x, factor])):
        hy.onnx.export(method, tmp_path / "m.onnx", *args)
        assert model.training
        [got] = run(tmp_path / "m.onnx", *args)
        np.testing.assert_allclose(got, model.eval()(x).numpy() * 2, 1e-5)
        model.train()


def test_numbers_among_the_arguments_are_constants(tmp_path: Path) -> None:
    model, x = Norm(), hy.asarray(RANDOM.random((5, 4), np.float32))
    hy.onnx.export(model.scaled, tmp_path / "m.onnx", x, 3.0)
    [got] = run(tmp_path / "m.onnx", x)
    np.testing.assert_allclose(got, model.eval()(x).numpy() * 3, 1e-5)


PROGRAM = """
import hybrid as hy
from hybrid import nn
hy.random.seed(1)
model = nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.LayerNorm(3), nn.Linear(3, 2))
def function(x):
    y = model(x)
    if y.sum() > 0:
        a, b, c, d = y + 1, y + 2, y + 3, y + 4
    else:
        a, b, c, d = y - 1, y - 2, y - 3, y - 4
    return a * b * c * d
hy.onnx.export(function, "{name}", hy.ones((2, 4)), dynamic_axes={{0: {{0: "batch"}}}})
"""


def test_the_same_model_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / f"{name}.py").write_text(PROGRAM.format(name=tmp_path / f"{name}.onnx"))
    runpy.run_path(str(tmp_path / "here.py"))
    subprocess.run(
        [sys.executable, "there.py"], cwd=tmp_path, check=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )  # fmt: skip
    assert (tmp_path / "here.onnx").read_bytes() == (tmp_path / "there.onnx").read_bytes()


def test_weights_beside_the_file(tmp_path: Path) -> None:
    model, x = nn.Linear(64, 32), hy.ones((2, 64))
    made = assert_exported(model, [x], tmp_path / "m.onnx", external_data=True)
    [data] = tmp_path.glob("m.onnx.*.data")
    assert data.stat().st_size >= 64 * 32 * 4
    assert (tmp_path / "m.onnx").stat().st_size < 1000
    assert len(made.graph.initializer) == 2  # the bias is small, and stays
    assert sorted(tmp_path.iterdir()) == [tmp_path / "m.onnx", data]
    hy.onnx.export(model, tmp_path / "n.onnx", x, external_data=True)
    hy.onnx.export(model, tmp_path / "m.onnx", x, external_data=True)  # over itself
    assert data.exists()
    hy.onnx.export(model, tmp_path / "m.onnx", x)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "m.onnx", "n.onnx", data.name.replace("m.onnx", "n.onnx"),
    ]  # fmt: skip


class Documented(nn.Module):
    """Twice what it is given.

    And more of it.
    """

    def forward(self, x):
        return x * 2


def documented(x):
    """Half of it."""
    return x / 2


@pytest.mark.parametrize(
    ("function", "doc"),
    [
        (Documented(), "Twice what it is given.\n\nAnd more of it."),
        (documented, "Half of it."),
        (lambda x: x + 1, ""),
    ],
)
def test_a_model_says_who_wrote_it_and_what_it_is(function: Any, doc: str, tmp_path: Path) -> None:
    hy.onnx.export(function, tmp_path / "m.onnx", hy.ones(3))
    made = onnx.load(tmp_path / "m.onnx")
    assert (made.producer_name, made.producer_version) == ("hybrid", hy.__version__)
    assert made.doc_string == doc
    module = hy.onnx.load(made)
    assert f"written by hybrid {hy.__version__}" in module.source()
    for loaded in (module, pickle.loads(pickle.dumps(module))):
        assert loaded.__doc__ == (doc or None)
    [row] = hy.onnx.summary(made)["model"]
    assert row["producer"] == f"hybrid {hy.__version__}"
    assert row["about"] == doc.partition("\n")[0]


STOPPED = """
import os, pathlib, sys
import hybrid as hy
left = int(sys.argv[1])
for name in ("replace", "unlink"):
    def stop(*args, before=getattr(os, name), **options):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return before(*args, **options)
    setattr(os, name, stop)
    if hasattr(pathlib, "_NormalAccessor"):  # what it has taken, in Python 3.10
        setattr(pathlib._NormalAccessor, name, staticmethod(stop))
model = hy.nn.Linear(64, 32, bias=False)
model.weight.assign(hy.full((32, 64), 2.0))
hy.onnx.export(model, "m.onnx", hy.ones((2, 64)), external_data=True)
"""


def test_a_kill_leaves_a_model_with_its_own_weights(tmp_path: Path) -> None:
    """Between all changes of names: those of the data, the model, and the data from before."""
    model, x = nn.Linear(64, 32, bias=False), hy.ones((2, 64))
    model.weight.assign(hy.ones((32, 64)))
    found = []
    for steps in range(6):  # each write takes a name, and looks whether its own is gone
        hy.onnx.export(model, tmp_path / "m.onnx", x, external_data=True)
        assert len(list(tmp_path.glob("*.data"))) == 1  # those that a kill has left are gone
        command = [sys.executable, "-c", STOPPED, str(steps)]
        ended = subprocess.run(command, cwd=tmp_path, check=False)
        assert ended.returncode == (9 if steps < 5 else 0)
        [y] = run(tmp_path / "m.onnx", x)
        found += set(y.reshape(-1).tolist())
    assert found == [64.0] * 3 + [128.0] * 3


def test_data_of_a_model_that_is_not_written_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any, **_options: Any) -> bytes:
        raise OSError("no space")

    monkeypatch.setattr(onnx.ModelProto, "SerializeToString", fail, raising=False)
    with pytest.raises(OSError, match="no space"):
        hy.onnx.export(nn.Linear(64, 32), tmp_path / "m.onnx", hy.ones((2, 64)), external_data=True)
    assert list(tmp_path.iterdir()) == []


def test_more_than_two_gigabytes_lie_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.onnx.model_storage.LARGEST", 8000)
    model, x = nn.Linear(64, 32), hy.ones((2, 64))
    assert_exported(model, [x], tmp_path / "m.onnx")
    assert len(list(tmp_path.glob("m.onnx.*.data"))) == 1
    with pytest.raises(OnnxError) as error:
        hy.onnx.export(model, tmp_path / "n.onnx", x, external_data=False)
    assert str(error.value) == (
        "n.onnx would have weights of 8320 bytes\n"
        "A file of ONNX holds less than 2 GB.\nFix: leave external_data out."
    )


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")
    with pytest.raises(OnnxError):
        hy.onnx.export(hy.linalg.inv, path, hy.ones((2, 2)))
    assert path.read_bytes() == b"before"
    with pytest.raises(FileNotFoundError):
        hy.onnx.export(hy.exp, tmp_path / "none" / "m.onnx", hy.ones(2))
    assert [found.name for found in tmp_path.iterdir()] == ["m.onnx"]


# Names and results --------------------------------------------------------------------------------


def several(x, batch):
    return {"sum": x + batch["mask"], "rest": [batch["ids"], None, (x * 2, x)]}


def test_trees_of_arguments_and_results(tmp_path: Path) -> None:
    args = [hy.ones(3), {"mask": hy.zeros(3), "ids": hy.asarray([1, 2])}]
    path = hy.onnx.export(several, tmp_path / "m.onnx", *args)
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["x", "batch['mask']", "batch['ids']"]
    assert [value.name for value in graph.output] == ["result0", "result1", "result2", "result3"]
    found = run(path, np.ones(3, np.float32), np.zeros(3, np.float32), np.array([1, 2]))
    for got, want in zip(found, [[1, 1, 1], [1, 2], [2, 2, 2], [1, 1, 1]], strict=True):
        np.testing.assert_array_equal(got, want)


def test_names_of_inputs_and_outputs(tmp_path: Path) -> None:
    path = hy.onnx.export(
        hy.add, tmp_path / "m.onnx", hy.ones(3), hy.ones(3), input_names=["a", "b"],
        output_names="sum",
    )  # fmt: skip
    graph = onnx.load(path).graph
    assert [value.name for value in (*graph.input, *graph.output)] == ["a", "b", "sum"]
    assert [list(node.input) for node in graph.node] == [["a", "b"]]


def test_an_argument_that_is_not_read_is_an_input_all_the_same(tmp_path: Path) -> None:
    path = hy.onnx.export(lambda x, y: x + 1, tmp_path / "m.onnx", hy.ones(3), hy.ones(2))
    assert [value.name for value in onnx.load(path).graph.input] == ["x", "y"]
    [got] = run(path, np.ones(3, np.float32), np.ones(2, np.float32))
    np.testing.assert_array_equal(got, [2, 2, 2])


def test_weights_that_are_returned_and_constants(tmp_path: Path) -> None:
    weight = hy.asarray([1.0, 2.0])

    def function(x):
        return weight, x, hy.asarray([3, 4]), x.sum().item() + 1, x.shape[0], True, 0.5

    path = hy.onnx.export(function, tmp_path / "m.onnx", hy.ones(2))
    found = run(path, np.ones(2, np.float32))
    for got, want in zip(found, [[1, 2], [1, 1], [3, 4], 3.0, 2, True, 0.5], strict=True):
        np.testing.assert_array_equal(got, want)


# What is left out, and what is refused ------------------------------------------------------------


def chatty(x):
    print("x is", x)
    assert (x > 0).all(), "negative"
    if x.sum() > 100:
        raise ValueError("large")
    return x + 1


def test_prints_and_checks_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning) as caught:
        hy.onnx.export(chatty, tmp_path / "m.onnx", hy.ones(3))
    first = chatty.__code__.co_firstlineno
    here = re.escape(__file__)
    assert re.fullmatch(
        "chatty was exported without what ONNX does not do:\n"
        rf"  print \({here}:{first + 1}\)\n"
        rf"  assert \({here}:{first + 2}\)\n"
        rf"  raise \({here}:{first + 3}\)",
        str(caught[0].message),
    )
    assert caught[0].filename == __file__
    [got] = run(tmp_path / "m.onnx", -np.ones(3, np.float32))
    np.testing.assert_array_equal(got, [0, 0, 0])


def test_programs_that_print_and_check(tmp_path: Path) -> None:
    def function(x):
        print("sum", x.sum().item())
        assert (x > 0).all(), "negative"
        if x.sum() > 100:
            raise ValueError("large")
        return x + 1

    hy.export(function, tmp_path / "m.hyb", hy.ones(3))
    program = hy.load_exported(tmp_path / "m.hyb")["function"]
    with pytest.warns(UserWarning) as caught:
        hy.onnx.export(program, tmp_path / "m.onnx", hy.ones(3))
    lines = str(caught[0].message).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["print", "assert", "raise"]
    [got] = run(tmp_path / "m.onnx", -np.ones(3, np.float32))
    np.testing.assert_array_equal(got, [0, 0, 0])


def test_what_a_function_leaves_somewhere_is_said(tmp_path: Path) -> None:
    class Owner:
        last = None

    owner = Owner()

    def function(x):
        owner.last = x * 2
        return x + 1

    with pytest.warns(UserWarning, match=r"\n  what it leaves in .*\.last$"):
        hy.onnx.export(function, tmp_path / "m.onnx", hy.ones(3))
    assert owner.last is None


COUNT = hy.asarray(0)


def counting(x):
    COUNT.assign(COUNT + 1)
    return x * COUNT


def calling(x):
    return hy.py_call(np.sort, x, result=x.type)


def drawing(x):
    return x + hy.random.uniform(size=x.shape)


def solving(x):
    return hy.linalg.solve(x, x)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            counting,
            "counting cannot be exported: it writes to COUNT\n"
            "A model of ONNX keeps nothing between its runs.\n"
            "Fix: take the old value as an argument, and return the new one.",
        ),
        (
            calling,
            "py_call cannot be written in ONNX (FILE:LINE)\n"
            "    LINE | return hy.py_call(np.sort, x, result=x.type)\n"
            "It calls Python while it runs, and there is none where ONNX models run.\n"
            "Fix: do it outside, with what the function returns.",
        ),
        (
            drawing,
            "random_uniform cannot be written in ONNX (FILE:LINE)\n"
            "    LINE | return x + hy.random.uniform(size=x.shape)\n"
            "The numbers would be others: each runtime of ONNX draws its own.\n"
            "Fix: draw outside, and pass the numbers as an argument; export what evaluates.",
        ),
        (
            solving,
            "solve cannot be written in ONNX (FILE:LINE)\n"
            "    LINE | return hy.linalg.solve(x, x)\n"
            "ONNX has no op for it.\n"
            "Fix: compute it outside, and pass the result as an argument.",
        ),
        (
            lambda x: (x, "text"),
            "<lambda> cannot be exported: a result of it is a str\n"
            "Fix: return tensors and numbers.",
        ),
        (
            lambda x: f"{x.sum()}",
            "<lambda> cannot be exported: it returns a text that a run makes\n"
            "Fix: return tensors and numbers.",
        ),
        (lambda x: None, "<lambda> cannot be exported: it returns no tensor"),
    ],
    ids=["state", "python", "random", "linalg", "text", "made text", "nothing"],
)
def test_what_cannot_be_exported(function: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(OnnxError) as error:
        hy.onnx.export(function, tmp_path / "m.onnx", hy.eye(2))
    line = str(function.__code__.co_firstlineno + 1)
    assert str(error.value) == text.replace("FILE", __file__).replace("LINE", line)
    assert not (tmp_path / "m.onnx").exists()


def test_one_tensor_for_two_arguments_is_refused(tmp_path: Path) -> None:
    x = hy.ones(3)
    with pytest.raises(OnnxError) as error:
        hy.onnx.export(several, tmp_path / "m.onnx", x, {"mask": x, "ids": hy.ones(1)})
    assert str(error.value) == (
        "several cannot be exported: x and batch['mask'] are one tensor\nFix: give two tensors."
    )


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (
            {"opset": 16},
            ArgumentError,
            "opset is 16\nModels are written in opsets 17 to 23.\n"
            "Fix: leave it out, or give one of these.",
        ),
        (
            {"input_names": ["a"]},
            ArgumentError,
            "input_names has 1 name, and add has 2 inputs\nFix: give a name for each: a, b.",
        ),
        (
            {"output_names": [3]},
            ArgumentTypeError,
            "output_names is [3]\nFix: give a list of texts.",
        ),
        (
            {"input_names": ["a", "a"]},
            OnnxError,
            "add cannot be exported: two of its values are called 'a'\n"
            "Fix: give other input_names or output_names.",
        ),
        (
            {"dynamic_axes": ["batch"]},
            ArgumentTypeError,
            'dynamic_axes is a list\nFix: give a dict such as {"x": {0: "batch"}}.',
        ),
    ],
)
def test_options_that_are_wrong(options: Any, kind: type, text: str, tmp_path: Path) -> None:
    with pytest.raises(kind) as error:
        hy.onnx.export(hy.add, tmp_path / "m.onnx", hy.ones(3), hy.ones(3), **options)
    assert str(error.value) == text
