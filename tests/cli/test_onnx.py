"""``hybrid onnx export``, ``import`` and ``inspect``."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import hybrid as hy
from tests.cli.test_program_commands import X, failure, text_of

SOURCE = """
import hybrid as hy

hy.random.seed(0)
network = hy.nn.Sequential(hy.nn.Linear(4, 3), hy.nn.GELU())
small = hy.compress.quantize(network, "static", data=[hy.ones((2, 4))])
total = hy.zeros(3)

def tell(x):
    print(x)
    return x + 1

def choose(x):
    return x * 2 if x.shape[0] > 4 else x

def add(x):
    total.assign(total + x)
    return total * 2

wide = hy.nn.Linear(64, 32)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model_for_onnx.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def exported(folder: Path, name: str, *args: str) -> Path:
    file = folder / f"{name}.onnx"
    text_of("onnx", "export", f"{folder}/model_for_onnx.py:{name}", "-o", file, *args)
    return file


def test_a_module(folder: Path) -> None:
    file = folder / "m.onnx"
    target = f"{folder}/model_for_onnx.py:network"
    told = text_of("onnx", "export", target, "-i", "f32[n,4]", "-o", file, "--opset", "20")
    assert told == f"{file}: {file.stat().st_size:,} bytes\n"
    session = onnxruntime.InferenceSession(str(file))
    for count in (2, 5):
        x = np.ones((count, 4), np.float32)
        [got] = session.run(None, {"input": x})
        np.testing.assert_allclose(got, hy.onnx.load(file)(hy.asarray(x)).numpy(), 1e-5)
    assert onnx.load(file).opset_import[0].version == 20


def test_weights_beside_the_file(folder: Path) -> None:
    file = exported(folder, "wide", "-i", "f32[2,64]", "--external-data")
    assert [*folder.glob("wide.onnx.*.data")] and onnx.load(file).graph.initializer


def test_a_quantized_model_for_runtimes_that_fuse(folder: Path) -> None:
    file = exported(folder, "small", "-i", "f32[2,4]", "--format", "qdq")
    assert [node.op_type for node in onnx.load(file).graph.node].count("QuantizeLinear") == 1
    assert failure(
        "onnx", "export", f"{folder}/model_for_onnx.py:network", "-o", file, "-i", "f32[2,4]",
        "--format", "qdq",
    ).endswith('or leave format out.')  # fmt: skip


def test_what_was_left_out_and_for_which_sizes_it_is(folder: Path) -> None:
    target, file = f"{folder}/model_for_onnx.py:tell", folder / "m.onnx"
    told = text_of("onnx", "export", target, "-i", "f32[2]", "-o", file)
    path = f"{folder}/model_for_onnx.py"
    assert told.splitlines()[0] == f"left out: print ({path}:10)"
    told = text_of("onnx", "export", f"{path}:choose", "-i", "f32[n]", "-o", file)
    assert told.splitlines()[0] == f"for sizes with n > 4 ({path}:14)"


def test_a_model_as_python(folder: Path) -> None:
    file, text = exported(folder, "network", "-i", "f32[2,4]"), folder / "m.py"
    shown = text_of("onnx", "import", file)
    assert "(OnnxModule):\n" in shown and "result0 = mul(" in shown
    told = text_of("onnx", "import", file, "-o", text)
    assert told == f"{text}: {text.stat().st_size:,} bytes\n"
    assert text.read_text(encoding="utf-8").strip() == shown.strip()


def test_a_model_as_a_program(folder: Path) -> None:
    file, out = exported(folder, "network", "-i", "f32[2,4]"), folder / "m.hyb"
    told = text_of("onnx", "import", file, "-o", out)
    assert told == f"{out}: {out.stat().st_size:,} bytes\n"
    got = hy.load_exported(out)["predict"](hy.asarray(X))
    np.testing.assert_allclose(got.numpy(), hy.onnx.load(file)(hy.asarray(X)).numpy(), 1e-6)
    file = exported(folder, "network", "-i", "f32[n,4]")
    assert failure("onnx", "import", file, "-o", out) == (
        f"hybrid: {file} does not say all sizes: f32[n,4]. Fix: give --input for each."
    )
    text_of("onnx", "import", file, "-o", out, "-i", "f32[3,4]")
    assert hy.load_exported(out)["predict"](hy.ones((3, 4))).shape == (3, 3)
    text_of("onnx", "import", file, "-o", out, "-i", "f32[n,4]")
    assert hy.load_exported(out)["predict"](hy.ones((5, 4))).shape == (5, 3)


def test_what_is_in_it(folder: Path) -> None:
    file = exported(folder, "network", "-i", "f32[n,4]")
    about = json.loads(text_of("onnx", "inspect", file, "--json"))
    assert about["inputs"] == [{"name": "input", "type": "f32[n,4]"}]
    assert about["outputs"] == [{"name": "result0", "type": "f32[n,3]"}]
    [row] = about["model"]
    assert row["producer"] == f"hybrid {hy.__version__}" and "modules" in row["about"].lower()
    assert about["opsets"] == [{"domain": "ai.onnx", "opset": 18}]
    ops = {row["op"]: row for row in about["ops"]}
    assert ops["Gemm"] == {"op": "Gemm", "since": 13, "count": 1, "by": "handler"}
    assert about["weights"][0]["bytes"] >= 60
    shown = text_of("onnx", "inspect", file)
    assert "f32[n,4]" in shown and "Gemm" in shown and "handler" in shown


def test_what_stands_for_ops(folder: Path) -> None:
    file, helper = exported(folder, "network", "-i", "f32[2,4]"), onnx.helper
    model = onnx.load(file)
    called = [("Frobnicate", "com.example"), ("Twice", "own"), ("DynamicQuantizeLinear", "")]
    for op, domain in called:
        model.graph.node.append(helper.make_node(op, ["result0"], [op], domain=domain))
    opsets = [helper.make_opsetid("", 18)]
    twice = [helper.make_node("Add", ["x", "x"], ["y"])]
    model.functions.append(helper.make_function("own", "Twice", ["x"], ["y"], twice, opsets))
    onnx.save(model, file)
    rows = json.loads(text_of("onnx", "inspect", file, "--json"))["ops"]
    by = {row["op"]: row["by"] for row in rows}
    assert by["com.example.Frobnicate"] == "nothing"
    assert by["own.Twice"] == by["DynamicQuantizeLinear"] == "body"
    assert by["Gemm"] == by["Add"] == "handler"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            ["export", "FILE:add", "-i", "f32[3]", "-o", "m.onnx"],
            "FILE:add: add cannot be exported: it writes to total. A model of ONNX keeps nothing "
            "between its runs. Fix: take the old value as an argument, and return the new one.",
        ),
        (
            ["export", "FILE:tell", "-i", "f32[3]", "-o", "m.onnx", "--opset", "9"],
            "FILE:tell: opset is 9. Models are written in opsets 17 to 23. Fix: leave it out, or "
            "give one of these.",
        ),
        (
            ["export", "FILE:tell", "-i", "f32[3]", "-o", "none/m.onnx"],
            "--output none/m.onnx cannot be written: No such file or directory.",
        ),
        (
            ["export", "FILE:tell", "-i", "f32[1000000000000,4]", "-o", "m.onnx"],
            "FILE:tell: no memory for 16000000000000 bytes.",
        ),
        (["export", "FILE:tell", "-o", "m.onnx"], "FILE:tell: tell() missing 1 required"),
        (["import", "FILE"], "model_for_onnx.py is no ONNX model: "),
        (["inspect", "absent.onnx"], "absent.onnx cannot be read: No such file or directory."),
    ],
)
def test_mistakes_are_one_line(
    args: list[str], expected: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = f"{folder}/model_for_onnx.py"
    line = failure("onnx", *[arg.replace("FILE", file) for arg in args])
    assert line.startswith("hybrid: " + expected.replace("FILE", file))
    assert not (folder / "m.onnx").exists()


def test_only_texts_and_programs_are_written(folder: Path) -> None:
    file = exported(folder, "network", "-i", "f32[2,4]")
    expected = f"hybrid: --output {folder}/m.txt: give a file that ends with .py or .hyb."
    assert failure("onnx", "import", file, "-o", folder / "m.txt") == expected
