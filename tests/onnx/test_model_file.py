"""Files as they may be: what is read, and what each refusal says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hybrid as hy
from hybrid.errors import ArgumentTypeError, OnnxError
from tests.onnx.small_models import model, node, ones, saved, value
from tests.onnx.torch_models import FOLDER


def fails(made, said: str, **options) -> None:
    with pytest.raises(OnnxError) as caught:
        hy.onnx.load(made, **options)
    assert str(caught.value) == said


# What is no model --------------------------------------------------------------------------------


def test_other_things_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="a int is no ONNX model"):
        hy.onnx.load(3)
    fails(
        str(tmp_path / "none.onnx"),
        f"{tmp_path}/none.onnx cannot be read: No such file or directory",
    )
    (tmp_path / "empty.onnx").write_bytes(b"")
    fails(
        tmp_path / "empty.onnx",
        "empty.onnx is no ONNX model: it has no graph\n"
        "A file of another kind, or one that was cut off, can look like an empty model.",
    )
    with pytest.raises(OnnxError, match="the model is no ONNX model: "):
        hy.onnx.load(b"\xff" * 100)


def test_every_truncation_is_an_error_with_a_text() -> None:
    whole = model(
        [node("MatMul", ["x", "w"], ["y"])], weights={"w": ones(4, 4)}
    ).SerializeToString()
    for length in range(0, len(whole), 7):
        with pytest.raises(OnnxError) as caught:
            hy.onnx.load(whole[:length])
        assert str(caught.value)


@pytest.mark.parametrize("name", ["hourglass_dynamo", "looping_old", "recurrent_dynamo"])
def test_bytes_that_are_changed_do_no_harm(name: str) -> None:
    whole = (FOLDER / f"{name}.onnx").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        for place in rng.integers(len(whole) - 4, size=rng.integers(1, 4)):
            how = rng.integers(3)
            if how == 0:
                data[place] ^= 1 << rng.integers(8)
            elif how == 1:
                del data[place : place + rng.integers(1, 4)]
            else:
                data[place:place] = rng.bytes(2)
        try:
            hy.onnx.load(bytes(data), folder=FOLDER)
        except OnnxError as error:
            assert str(error)
            refused += 1
    assert 200 < refused < 400


# Opsets and ops ----------------------------------------------------------------------------------


def test_an_opset_that_is_not_known() -> None:
    newest = onnx.defs.onnx_opset_version()
    made = model([node("Abs", ["x"], ["y"])], opset=newest + 1)
    fails(
        made,
        f"the model is of opset {newest + 1} of ai.onnx\n"
        f"The installed package onnx {onnx.__version__} knows opsets 1 to {newest}.\n"
        "Fix: install a newer onnx, or export the model for an older opset.",
    )
    made = model([node("Abs", ["x"], ["y"])], domains=[helper.make_opsetid("ai.onnx", 12)])
    fails(made, "the model names two opsets of ai.onnx")


def test_all_unknown_ops_are_listed_at_once() -> None:
    nodes = [
        node("Gelu", ["x"], ["a"], domain="com.microsoft"),
        node("Nothing", ["a"], ["b"]),
        node("Gelu", ["b"], ["c"], domain="com.microsoft"),
        node("StringConcat", ["c", "c"], ["y"]),
        node("Sub", ["y", "y"], ["z"]),
    ]
    made = model(
        nodes, outputs=[value("z")], opset=20, domains=[helper.make_opsetid("com.microsoft", 1)]
    )
    fails(
        made,
        "the model: 3 ops are unknown: com.microsoft.Gelu of opset 1 (2 nodes), Nothing of opset "
        "20, StringConcat of opset 20 (it works on texts, and tensors hold none)\n"
        "An op needs a function in hybrid.onnx, or a body: a function of the file, or one that "
        "ONNX defines it by.\n"
        "Fix: export the model with ops of ai.onnx, or with the bodies of its functions.",
    )


def test_attributes_and_inputs_that_an_op_does_not_know() -> None:
    fails(
        model([node("Softmax", ["x"], ["y"], name="s", axes=[1])]),
        "the model: node 's' (Softmax): unknown attribute 'axes'\nIt knows axis.",
    )
    fails(
        model([node("MatMul", ["x"], ["y"])]),
        "the model: node 'y' (MatMul): it has 1 inputs\nIt takes 2.",
    )
    fails(
        model([node("Abs", ["x"], ["y", "z"])], outputs=[value("y"), value("z")]),
        "the model: node 'y' (Abs): it has 2 outputs\nIt gives one.",
    )


# Graphs ------------------------------------------------------------------------------------------


def test_names_given_twice_circles_and_names_that_nothing_gives() -> None:
    fails(
        model([node("Abs", ["x"], ["y"]), node("Neg", ["x"], ["y"], name="n")]),
        "the model: node 'n' (Neg): the name 'y' is given twice",
    )
    fails(
        model([node("Abs", ["x"], ["x"])], outputs=[value("x")]),
        "the model: node 'x' (Abs): the name 'x' is given twice",
    )
    twice = model([node("Abs", ["x"], ["y"])], weights={"w": ones(2)})
    twice.graph.initializer.add().CopyFrom(twice.graph.initializer[0])
    fails(twice, "the model: the name 'w' is given twice")
    fails(
        model([node("Abs", ["x"], ["y"])], [value("x"), value("x")]),
        "the model: two inputs are called 'x'",
    )
    circle = [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["y"])]
    fails(
        model(circle),
        "the model: node 'a' (Add): 3 nodes read of one another in a circle",
    )
    fails(
        model([node("Add", ["x", "w"], ["y"])]),
        "the model: node 'y' (Add): it reads 'w', which nothing gives",
    )
    fails(model([node("Abs", ["x"], ["z"])]), "the model: it reads 'y', which nothing gives")


def test_nodes_in_any_order_are_sorted() -> None:
    nodes = [node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])]
    assert hy.onnx.load(model(nodes))(hy.asarray([-2.0])).tolist() == [-2.0]


def nested(depth: int):
    other = helper.make_graph([node("Neg", ["x"], ["z"])], "g", [], [value("z")])
    inner = other
    for level in range(depth):
        nodes = [node("If", ["c"], [f"y{level}"], then_branch=inner, else_branch=other)]
        inner = helper.make_graph(nodes, "g", [], [value(f"y{level}")])
    made = node("If", ["c"], ["y"], then_branch=inner, else_branch=other)
    return model([made], [value("x"), value("c", TensorProto.BOOL)])


def test_graphs_in_graphs_have_an_end() -> None:
    x, true = hy.asarray([1.0]), hy.asarray(True)
    assert hy.onnx.load(nested(20))(x, true).tolist() == [-1.0]
    with pytest.raises(OnnxError, match="the model is no ONNX model: "):  # so says protobuf
        hy.onnx.load(deep(nested(31).SerializeToString()))


def test_loops_in_loops_have_an_end() -> None:
    weights = {"m": np.array(1, np.int64), "c": np.array(True)}

    def loop(depth: int):
        at = f"{depth}"
        inputs = [value(f"i{at}", TensorProto.INT64), value(f"c{at}", TensorProto.BOOL),
                  value(f"h{at}")]  # fmt: skip
        nodes = [node("Identity", [f"c{at}"], [f"d{at}"])]
        if depth:
            inner = loop(depth - 1)
            nodes.append(node("Loop", ["m", "c", f"h{at}"], [f"g{at}"], body=inner))
        else:
            nodes.append(node("Neg", [f"h{at}"], [f"g{at}"]))
        outputs = [value(f"d{at}", TensorProto.BOOL), value(f"g{at}")]
        return helper.make_graph(nodes, "g", inputs, outputs)

    made = model([node("Loop", ["m", "c", "x"], ["y"], body=loop(18))], weights=weights)
    assert hy.onnx.load(made)(hy.asarray([1.0])).tolist() == [-1.0]
    made = model([node("Loop", ["m", "c", "x"], ["y"], body=loop(22))], weights=weights)
    with pytest.raises(OnnxError) as caught:
        hy.onnx.load(made)
    assert re.fullmatch(
        r"the model: its graphs lie in graphs too deep for Python: too many statically nested "
        r"blocks \(.*\)\nLoops may lie in one another 20 deep, conditions about 90\.",
        str(caught.value),
    ), caught.value


def deep(data: bytes) -> bytes:
    """The bytes of a model as those of the graph of an attribute, forty times over."""
    made = onnx.ModelProto.FromString(data)
    inner = made.graph.SerializeToString()
    for _ in range(40):
        inner = _message(1, _message(5, _message(6, inner)))  # of a node, its attribute, its graph
    made.ClearField("graph")
    return made.SerializeToString() + _message(7, inner)


def _message(field: int, data: bytes) -> bytes:
    """A field of protobuf that holds a message."""
    length, said = len(data), bytearray([field << 3 | 2])
    while length > 127:
        said.append(length & 127 | 128)
        length >>= 7
    return bytes(said) + bytes([length]) + data


def test_names_that_are_no_texts() -> None:
    data = model([node("Abs", ["x"], ["name"])], outputs=[value("name")]).SerializeToString()
    fails(data.replace(b"name", b"n\xffme"), "the model has a name that is no text in UTF-8")


# Tensors -----------------------------------------------------------------------------------------


def with_weight(tensor) -> object:
    made = model([node("Add", ["x", "w"], ["y"])])
    made.graph.initializer.append(tensor)
    return made


def test_tensors_whose_bytes_do_not_fit_their_type() -> None:
    tensor = numpy_helper.from_array(ones(3), "w")
    tensor.raw_data = tensor.raw_data[:-1]
    fails(with_weight(tensor), "the model: tensor 'w' has 11 bytes\nf32[3] takes 12.")
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**30])
    fails(
        with_weight(tensor),
        f"the model: tensor 'w' has 0 values\nIts shape [{2**40}, {2**30}] takes {2**70}.",
    )
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-1])
    fails(with_weight(tensor), "the model: tensor 'w' has the shape [-1]")
    tensor = TensorProto(name="w", data_type=TensorProto.INT4, dims=[2], raw_data=b"a")
    fails(
        with_weight(tensor),
        "the model: tensor 'w' is of type INT4\n"
        "Tensors hold bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 and "
        "float64.",
    )


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
              "float16", "float32", "float64"],
)  # fmt: skip
@pytest.mark.parametrize("raw", [True, False])
def test_tensors_of_each_type(dtype: str, raw: bool) -> None:
    array = np.arange(200).reshape(4, 50).astype(dtype)
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    data = array.tobytes() if raw else array.reshape(-1)
    tensor = helper.make_tensor("w", code, array.shape, data, raw=raw)
    made = model(
        [node("Gather", ["w", "i"], ["y"])], [value("i", TensorProto.INT64)], [value("y", code)]
    )
    made.graph.initializer.append(tensor)
    found = hy.onnx.load(made)(hy.asarray(2))
    assert found.numpy().dtype == array.dtype and np.array_equal(found.numpy(), array[2])


def test_sparse_tensors() -> None:
    made = model([node("Add", ["x", "w"], ["y"])])
    sparse = made.graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([5.0, 6.0], np.float32), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([[0, 1], [1, 2]]), "i"))
    sparse.dims.extend([2, 3])
    x = hy.asarray(np.zeros((2, 3), np.float32))
    assert hy.onnx.load(made)(x).tolist() == [[0, 5, 0], [0, 0, 6]]
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 6]), "i"))
    fails(made, "the model: sparse tensor 'w' has an index outside its shape [2, 3]")
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1]), "i"))
    fails(made, "the model: sparse tensor 'w' has values (2,) at indices (1,)")
    sparse.dims[0] = 2**40
    fails(made, f"the model: sparse tensor 'w' has the shape [{2**40}, 3]")


# Weights beside the file -------------------------------------------------------------------------


def external(folder: Path, location: str, **entries: int) -> Path:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, said in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(said))
    return Path(saved(with_weight(tensor), folder / "m.onnx"))


def test_weights_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/w.bin").write_bytes(b"\0" * 8 + np.arange(4, dtype="<f4").tobytes())
    path = external(tmp_path, "sub/w.bin", offset=8, length=16)
    zeros = hy.asarray(np.zeros(4, np.float32))
    assert hy.onnx.load(path)(zeros).tolist() == [0, 1, 2, 3]
    data = path.read_bytes()
    assert hy.onnx.load(data, folder=tmp_path)(zeros).tolist() == [0, 1, 2, 3]
    fails(
        data,
        "the model: tensor 'w' is in the file 'sub/w.bin' beside the model\n"
        "A model that is given as bytes is in no folder.\n"
        "Fix: pass the path of the file, or folder=.",
    )


RULE = (
    "Weights lie in regular files in the folder of the model or below, named by a relative path "
    "without links."
)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("/etc/passwd", "the path is not relative"),
        ("", "the path is not relative"),
        ("c:w.bin", "the path is not relative"),
        ("a\0b", "the path is not relative"),
        ("../w.bin", "the path leads out of the folder of the model"),
        ("sub/../../w.bin", "the path leads out of the folder of the model"),
        (".", "the path leads out of the folder of the model"),
        ("none.bin", "No such file or directory"),
        ("sub", "it is no regular file"),
        ("pipe", "it is no regular file"),
        ("link.bin", "Too many levels of symbolic links"),
        ("linked/w.bin", "Not a directory"),
    ],
)
def test_weights_that_are_not_in_regular_files_of_the_folder(
    tmp_path: Path, location: str, reason: str
) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)
    (folder / "sub/w.bin").write_bytes(b"\0" * 16)
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "linked").symlink_to(folder / "sub")
    os.mkfifo(folder / "pipe")
    fails(
        external(folder, location),
        f"m.onnx: tensor 'w' cannot be read from {location!r}: {reason}\n{RULE}",
    )


def test_weights_beyond_the_end_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 20)
    fails(
        external(tmp_path, "w.bin", offset=8),
        "m.onnx: tensor 'w' takes 16 bytes from 8 on of 'w.bin'\nThe file has 20.",
    )
    fails(
        external(tmp_path, "w.bin", offset=-8),
        "m.onnx: tensor 'w' takes 16 bytes from -8 on of 'w.bin'\n"
        "Its type takes 16, from 0 on at least.",
    )
    fails(
        external(tmp_path, "w.bin", length=2**62),
        f"m.onnx: tensor 'w' takes {2**62} bytes from 0 on of 'w.bin'\n"
        "Its type takes 16, from 0 on at least.",
    )
