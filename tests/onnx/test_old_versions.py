"""Versions and attributes of ops that ONNX's own cases leave out, as ONNX Runtime computes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from onnx import helper

import hybrid as hy
from hybrid.errors import OnnxError
from tests.onnx.small_models import model, node, value
from tests.onnx.test_onnx_module import of_onnxruntime

RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


class Row(NamedTuple):
    op: str
    opset: int
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any]
    outputs: int = 1


def recurrent() -> Iterator[Row]:
    """Each kind, direction, and what may be left out."""
    x, lengths = floats(5, 2, 3), np.array([5, 3], np.int32)
    for op, gates, states in (("RNN", 1, 1), ("GRU", 3, 1), ("LSTM", 4, 2)):
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            w, r = floats(count, gates * 4, 3), floats(count, gates * 4, 4)
            b, h = floats(count, 2 * gates * 4), floats(count, 2, 4)
            options = {"hidden_size": 4, "direction": direction}
            more = [floats(count, 2, 4), floats(count, 12)] if states == 2 else []
            full = [x, w, r, b, lengths, h, *more]
            yield Row(op, 7, full, options, 1 + states)
            yield Row(op, 14, [x, w, r], options, 1 + states)
            yield Row(op, 14, [x, w, r, b, None, h], {**options, "clip": 0.7}, 1 + states)
    w, r = floats(1, 12, 3), floats(1, 12, 4)
    for reset in (0, 1):
        options = {"hidden_size": 4, "linear_before_reset": reset}
        yield Row("GRU", 14, [x, w, r, floats(1, 24)], options, 2)
    options = {"hidden_size": 4, "activations": ["Relu", "Softsign"]}
    yield Row("GRU", 7, [x, w, r], options, 2)
    options = {"hidden_size": 4, "activations": ["HardSigmoid", "ScaledTanh", "Affine"],
               "activation_alpha": [0.3, 0.8, 1.5], "activation_beta": [0.4, 0.9, 0.1],
               "input_forget": 0}  # fmt: skip
    yield Row("LSTM", 7, [x, floats(1, 16, 3), floats(1, 16, 4)], options, 3)


def resized() -> Iterator[Row]:
    x = floats(1, 2, 5, 8)
    none, scales = np.array([], np.float32), np.array([1, 1, 2, 0.5], np.float32)
    for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"):
        for mode in ("nearest", "linear", "cubic"):
            options = {"mode": mode, "coordinate_transformation_mode": coordinates}
            yield Row("Resize", 11, [x, none, scales], options)
            sizes = np.array([1, 2, 3, 9])
            yield Row("Resize", 13, [x, none, None, sizes], options)
    for rounding in ("round_prefer_ceil", "floor", "ceil"):
        yield Row("Resize", 13, [x, none, scales], {"nearest_mode": rounding})
    cubic = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    yield Row("Resize", 13, [x, none, scales], cubic)
    for mode in ("nearest", "linear"):
        yield Row("Resize", 10, [x, np.array([1, 1, 2, 1.5], np.float32)], {"mode": mode})
        yield Row("Upsample", 9, [x, np.array([1, 1, 2, 3], np.float32)], {"mode": mode})
        yield Row("Upsample", 7, [x], {"mode": mode, "scales": [1.0, 1.0, 2.0, 2.0]})


def sampled() -> Iterator[Row]:
    x, grid = floats(2, 3, 5, 6), 1.3 * floats(2, 4, 3, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                options = {"mode": mode, "padding_mode": padding, "align_corners": align}
                yield Row("GridSample", 16, [x, grid], options)
    boxes = np.array([[0.2, 0.3, 3.1, 4.0], [1, 1, 2, 5]], np.float32)
    batch = np.array([1, 0])
    for mode in ("avg", "max"):
        options = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "mode": mode}
        yield Row("RoiAlign", 10, [x, boxes, batch], options)
        yield Row("RoiAlign", 16, [x, boxes, batch], {**options, "spatial_scale": 0.7})
    rois = np.array([[1, 0, 0, 4, 3], [0, 1, 1, 5, 4]], np.float32)
    yield Row("MaxRoiPool", 16, [x, rois], {"pooled_shape": [2, 2]})
    yield Row("MaxRoiPool", 16, [x, rois], {"pooled_shape": [1, 3], "spatial_scale": 0.5})


def others() -> Iterator[Row]:
    x = floats(2, 3, 4)
    picture = floats(2, 4, 6, 5)
    for op in ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
               "ReduceProd", "ReduceSum", "ReduceSumSquare"):  # fmt: skip
        yield Row(op, 11, [x], {"axes": [0, -1]})
        yield Row(op, 11, [x], {"keepdims": 0})
    yield Row("ReduceLogSum", 11, [np.abs(x)], {"axes": [1], "keepdims": 0})
    for op in ("ArgMax", "ArgMin"):
        yield Row(op, 11, [x], {"axis": 1, "keepdims": 0})
        yield Row(op, 13, [x.round()], {"axis": -1, "select_last_index": 1})
    yield Row("TopK", 10, [x, np.array([2])], {"axis": 1}, 2)
    yield Row("TopK", 11, [x, np.array([2])], {"axis": -1, "largest": 0}, 2)
    yield Row("Hardmax", 11, [x], {"axis": 1})
    yield Row("Softmax", 11, [x], {"axis": 2})
    yield Row("LogSoftmax", 11, [x], {"axis": 1})
    yield Row("LogSoftmax", 11, [x], {"axis": -1})
    yield Row("Flatten", 11, [x], {"axis": -2})
    yield Row("Flatten", 11, [x], {"axis": 3})
    yield Row("GatherND", 11, [x, np.array([[0, 1], [-1, 2]])], {})
    yield Row("GatherND", 12, [x, np.array([[1], [2]])], {"batch_dims": 1})
    yield Row("ScatterElements", 11, [x, np.array([[[0, 1]], [[-1, 0]]]), floats(2, 1, 2)],
              {"axis": 1})  # fmt: skip
    yield Row("ScatterND", 11, [x, np.array([[1], [0]]), floats(2, 3, 4)], {})
    for reduction in ("add", "mul"):
        places = np.array([[0, 1], [1, 1], [0, 1]])
        yield Row("ScatterND", 16, [x, places, floats(3, 4)], {"reduction": reduction})
    vectors = [floats(4), floats(4), floats(4), np.abs(floats(4)) + 0.5]
    yield Row("BatchNormalization", 9, [picture, *vectors], {"epsilon": 1e-3})
    yield Row("InstanceNormalization", 6, [picture, floats(4), floats(4)], {})
    yield Row("LRN", 13, [picture], {"size": 3, "alpha": 0.5, "bias": 2.0})
    yield Row("GlobalLpPool", 2, [picture], {})
    yield Row("GlobalLpPool", 2, [picture], {"p": 3})
    yield Row("LpPool", 11, [picture], {"kernel_shape": [3, 2], "strides": [2, 1]})
    yield Row("LpPool", 2, [picture], {"kernel_shape": [2, 2], "p": 1, "pads": [1, 0, 0, 1]})
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]):
        window = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": pads}
        yield Row("MaxPool", 8, [picture], window, 2)
        yield Row("MaxPool", 11, [picture], {**window, "ceil_mode": 1, "dilations": [1, 2]}, 1)
        yield Row("AveragePool", 7, [picture], {**window, "count_include_pad": 1})
        yield Row("AveragePool", 11, [picture], {**window, "ceil_mode": 1})
        w = floats(6, 2, 3, 2)
        spaced = {"pads": pads, "strides": [2, 1], "group": 2, "dilations": [1, 2]}
        yield Row("Conv", 11, [picture, w, floats(6)], spaced)
        back = {"pads": pads, "strides": [2, 3], "group": 2, "output_padding": [1, 2]}
        yield Row("ConvTranspose", 11, [picture, floats(4, 3, 3, 2), floats(6)], back)
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Row("Conv", 11, [picture, floats(3, 4, 3, 2)], {"auto_pad": auto, "strides": [2, 2]})
        yield Row("MaxPool", 12, [picture],
                  {"auto_pad": auto, "kernel_shape": [3, 2], "strides": [2, 2]})  # fmt: skip
    yield Row("Pad", 2, [x], {"pads": [0, 1, -1, 0, -1, 2], "value": 2.0})
    yield Row("Pad", 2, [x], {"pads": [0, 1, 2, 0, 1, 1], "mode": "reflect"})
    yield Row("Slice", 1, [x], {"starts": [0, -2], "ends": [1, 100], "axes": [0, 2]})
    yield Row("Split", 2, [x], {"axis": 2, "split": [1, 3]}, 2)
    yield Row("Split", 11, [x], {"axis": -1}, 2)
    yield Row("Squeeze", 11, [floats(1, 3, 1)], {})
    yield Row("Clip", 6, [x], {"min": -0.5, "max": 0.2})
    yield Row("Gemm", 9, [floats(3, 2), floats(3, 4), floats(4)],
              {"transA": 1, "alpha": 0.5, "beta": 2.0})  # fmt: skip
    yield Row("PRelu", 7, [picture, floats(4, 1, 1)], {})
    yield Row("DepthToSpace", 11, [floats(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"})
    yield Row("LayerNormalization", 17, [picture, floats(6, 5), floats(6, 5)], {"axis": 2}, 3)
    small = RNG.integers(0, 255, (2, 3)).astype(np.uint8)
    zero, scale = np.array([3, 130, 7], np.uint8), np.abs(floats(3)) + 0.1
    yield Row("DequantizeLinear", 13, [small, scale, zero], {"axis": 1})
    yield Row("QuantizeLinear", 13, [50 * floats(2, 3), scale, zero], {"axis": 1})
    yield Row("QuantizeLinear", 10, [50 * floats(2, 3), np.array(0.5, np.float32)], {})
    yield Row("Einsum", 12, [floats(2, 3, 4), floats(2, 4, 5)], {"equation": "bij, bjk -> bik"})
    yield Row("CumSum", 11, [x, np.array(-1)], {"exclusive": 1, "reverse": 1})
    yield Row("OneHot", 9, [np.array([0, 2, -1]), np.array(4), np.array([0.5, 2], np.float32)],
              {"axis": 0})  # fmt: skip
    yield Row("Mod", 10, [floats(6) * 9, floats(6) * 3], {"fmod": 1})
    yield Row("Mod", 10, [np.array([-7, 7, -9]), np.array([3, -3, 4])], {})
    yield Row("Mod", 10, [np.array([-7, 7, -9]), np.array([3, -3, 4])], {"fmod": 1})
    yield Row("Div", 7, [np.array([-7, 7, -9, 8]), np.array([3, -3, 4, 2])], {})
    yield Row("ReverseSequence", 10, [x, np.array([2, 1])], {"batch_axis": 0, "time_axis": 1})
    yield Row("Compress", 11, [x, np.array([True, False, True])], {"axis": 1})
    yield Row("Unique", 11, [np.array([3, 1, 3, 2, 1], np.float32)], {}, 4)
    yield Row("Unique", 11, [np.array([[1, 0], [1, 0], [0, 2]], np.float32)],
              {"axis": 0, "sorted": 1}, 4)  # fmt: skip
    yield Row("MeanVarianceNormalization", 13, [picture], {})
    yield Row("Det", 11, [floats(2, 3, 3)], {})
    yield Row("Trilu", 14, [x, np.array(1)], {"upper": 0})


TABLE = [*recurrent(), *resized(), *sampled(), *others()]


def of_row(row: Row) -> tuple[Any, list[np.ndarray]]:
    names = ["" if array is None else f"x{at}" for at, array in enumerate(row.inputs)]
    given = {n: a for n, a in zip(names, row.inputs, strict=True) if a is not None}
    inputs = [
        value(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))
        for name, array in given.items()
    ]
    outputs = [f"y{at}" for at in range(row.outputs)]
    found = [helper.make_empty_tensor_value_info(name) for name in outputs]
    made = model([node(row.op, names, outputs, **row.attributes)], inputs, found, opset=row.opset)
    made.ir_version = 6 if row.opset < 15 else 8
    return made, list(given.values())


@pytest.mark.parametrize("part", range(4))
def test_ops_are_as_onnxruntime_has_them(part: int) -> None:
    faults = []
    for row in TABLE[part::4]:
        made, arrays = of_row(row)
        module = hy.onnx.load(made)
        wanted = of_onnxruntime(made, *arrays)
        for hybridized in (False, True):
            if hybridized:
                module.hybridize()
            found = module(*map(hy.asarray, arrays))
            for got, one in zip(found if row.outputs > 1 else [found], wanted, strict=True):
                same = got.numpy().dtype == one.dtype and got.shape == one.shape
                if not same or not np.allclose(got.numpy(), one, rtol=1e-4, atol=1e-5):
                    faults.append(
                        f"{row.op} {row.opset} {row.attributes} {hybridized}: {got.shape}"
                    )
    assert not faults, "\n".join(faults)


def drawn(op: str, *inputs: np.ndarray, opset: int = 17, **attributes: Any) -> np.ndarray:
    """What a random op gives, the same again after the same seed, eagerly and hybridized."""
    names = [f"x{at}" for at in range(len(inputs))]
    nodes = [node(op, names, ["y"], **attributes)]
    made = model(nodes, [value(name) for name in names], opset=opset)
    del made.graph.input[len(names) :]
    module = hy.onnx.load(made)
    found = []
    for _ in range(2):
        hy.random.seed(5)
        found.append(module(*map(hy.asarray, inputs)).numpy())
        module.hybridize()
    assert np.array_equal(*found)
    return found[0]


def test_random_numbers() -> None:
    like = np.zeros((200, 50), np.float32)
    shape = list(like.shape)
    for y in (
        drawn("RandomNormal", shape=shape, mean=2.0, scale=0.5),
        drawn("RandomNormalLike", like, mean=2.0, scale=0.5),
    ):
        assert y.dtype == np.float32 and abs(y.mean() - 2) < 0.05 and abs(y.std() - 0.5) < 0.02
    assert drawn("RandomNormalLike", like, dtype=11).dtype == np.float64
    for y in (
        drawn("RandomUniform", shape=shape, low=-1.0, high=3.0),
        drawn("RandomUniformLike", like, low=-1.0, high=3.0),
    ):
        assert y.min() >= -1 and y.max() < 3 and abs(y.mean() - 1) < 0.05
    y = drawn("Bernoulli", like + 0.25, opset=15)
    assert set(np.unique(y)) == {0, 1} and abs(y.mean() - 0.25) < 0.02
    chances = np.log(np.tile(np.array([0.2, 0.5, 0.3], np.float32), (4, 1)))
    y = drawn("Multinomial", chances, sample_size=3000)
    assert y.dtype == np.int32 and y.shape == (4, 3000)
    counts = np.stack([np.bincount(row, minlength=3) for row in y]) / 3000
    assert np.abs(counts - [0.2, 0.5, 0.3]).max() < 0.05


def test_dropout_in_training() -> None:
    made = model(
        [node("Dropout", ["x", "ratio", "on"], ["y", "mask"])],
        outputs=[value("y"), value("mask", 9)],
        weights={"ratio": np.float32(0.25), "on": np.array(True)},
    )
    y, mask = hy.onnx.load(made)(hy.asarray(np.ones(10000, np.float32)))
    assert np.array_equal(y.numpy(), mask.numpy() * np.float32(4 / 3))
    assert abs(mask.numpy().mean() - 0.75) < 0.02
    assert drawn("Dropout", np.ones(100, np.float32), opset=6).min() == 0  # is_test is 0 there


WRONG = [
    ("Pad", 2, {"pads": [0] * 6, "mode": "around"}, "Pad got mode 'around'"),
    ("Hardmax", 17, {"axis": 5}, "axis 5 of a tensor of rank 3"),
    ("LSTM", 14, {"hidden_size": 4}, "it has 1 inputs"),
    ("Conv", 11, {}, "it has 1 inputs"),
    ("MaxPool", 12, {"kernel_shape": [2], "auto_pad": "MOST"}, "auto_pad is 'MOST'"),
    (
        "AveragePool",
        11,
        {"kernel_shape": [2], "strides": [1, 1]},
        "strides are [1, 1] for 1 spatial",
    ),
    ("Slice", 1, {"starts": [0], "ends": [1], "axes": [7]}, "axis 7 of a tensor of rank 3"),
    ("Squeeze", 11, {"axes": [1]}, "Squeeze of axis 1 of a tensor of shape [2, 3, 4]"),
    ("Unsqueeze", 11, {"axes": [1, 1]}, "Unsqueeze got axes [1, 1]"),
    ("Unsqueeze", 11, {"axes": [9]}, "axis 9 of a tensor of rank 4"),
]


@pytest.mark.parametrize(("op", "opset", "attributes", "said"), WRONG)
def test_nodes_that_ask_for_what_there_is_not(op, opset, attributes, said) -> None:
    made = model([node(op, ["x"], ["y"], **attributes)], opset=opset)
    with pytest.raises((OnnxError, ValueError, IndexError)) as caught:
        hy.onnx.load(made)(hy.asarray(np.ones((2, 3, 4), np.float32)))
    assert said in str(caught.value)
