"""Known values of open axes: a loaded model is captured once, not once for each size."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import hybrid as hy
from hybrid.onnx.node_table import handled
from tests.onnx.exported import listed, run
from tests.onnx.small_models import graph, model, node, ones, value
from tests.onnx.test_onnx_module import of_onnxruntime

INTEGERS = {
    **{f"i{n}": np.array(n) for n in (-1, 0, 1, 2, 3, 4, 5, 7)},
    **{f"l{n}": np.array([n]) for n in (-1, 0, 1, 2, 4)},
    "l01": np.array([0, 1]),
    "l41": np.array([4, 1]),
    "places": np.arange(10, 40),
}
WEIGHTS = {**INTEGERS, "c": np.array(1.5, np.float32), "row": ones(1, 4)}
# Of "s", the shape [n, 4] of x, and n, its first number.  What each case calls y is an output.
CASES: dict[str, list[Any]] = {
    "Add": [node("Add", ["n", "i1"], ["y"])],
    "Sub": [node("Sub", ["i7", "n"], ["y"])],
    "Mul": [node("Mul", ["s", "s"], ["y"])],
    "Div": [node("Div", ["n", "i2"], ["y"])],
    "Div below 0": [node("Sub", ["i1", "n"], ["m"]), node("Div", ["m", "i2"], ["y"])],
    "Div by a size": [node("Div", ["i7", "n"], ["y"])],
    "Pow": [node("Pow", ["n", "i2"], ["y"])],
    "Mod": [node("Sub", ["i1", "n"], ["m"]), node("Mod", ["m", "i3"], ["y"])],
    "Mod as of C": [node("Sub", ["i1", "n"], ["m"]), node("Mod", ["m", "i3"], ["y"], fmod=1)],
    "Equal": [
        node("Equal", ["s", "l-1"], ["e"]),
        node("Where", ["e", "l1", "s"], ["w"]),
        node("Expand", ["c", "w"], ["y"]),
    ],
    "comparisons": [
        node("Less", ["n", "i1"], ["a"]),
        node("LessOrEqual", ["n", "i0"], ["b"]),
        node("Greater", ["i0", "n"], ["d"]),
        node("GreaterOrEqual", ["n", "i1"], ["e"]),
        node("Or", ["a", "b"], ["f"]),
        node("And", ["f", "e"], ["g"]),
        node("Xor", ["g", "d"], ["h"]),
        node("Not", ["h"], ["k"]),
        node("Where", ["k", "n", "i0"], ["y"]),
    ],
    "Max and Min": [node("Max", ["n", "i1"], ["a"]), node("Min", ["i-1", "a"], ["y"])],
    "Cast": [node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)],
    "Slice": [node("Slice", ["s", "l0", "l1"], ["a"]), node("Expand", ["c", "a"], ["y"])],
    "Slice to a size": [node("Slice", ["places", "l0", "l"], ["y"])],
    "Gather": [node("Gather", ["s", "l01"], ["a"]), node("Expand", ["c", "a"], ["y"])],
    "Gather at a size": [node("Gather", ["places", "n"], ["y"])],
    "Reductions": [
        node("ReduceProd", ["s"], ["a"], keepdims=0),
        node("ReduceSum", ["s", "l0"], ["b"]),
        node("ReduceMax", ["s"], ["d"], keepdims=0),
        node("ReduceMin", ["s"], ["e"], keepdims=0),
        node("Sub", ["d", "e"], ["f"]),
        node("Add", ["f", "a"], ["g"]),
        node("Add", ["g", "b"], ["y"]),
    ],
    "Reshape": [
        node("Shape", ["x"], ["a"]),
        node("Squeeze", ["n"], ["b"]),
        node("Reshape", ["b", "l1"], ["d"]),
        node("Concat", ["d", "l4"], ["e"], axis=0),
        node("Transpose", ["e"], ["f"]),
        node("Expand", ["row", "f"], ["y"]),
    ],
    "Size": [node("Size", ["x"], ["y"])],
    "Expand": [node("Expand", ["c", "s"], ["y"])],
    "Expand of a size": [node("Expand", ["n", "l41"], ["y"])],
    "Expand of a size to sizes": [node("Expand", ["n", "s"], ["y"])],
    "Tile": [node("Tile", ["row", "t"], ["y"])],
    "Tile of a size": [node("Tile", ["s", "l2"], ["y"])],
    "ConstantOfShape": [node("Gather", ["s", "l0"], ["a"]), node("ConstantOfShape", ["a"], ["y"])],
    "Range": [node("Range", ["i0", "n", "i1"], ["y"])],
    "Range between sizes": [
        node("Sub", ["i1", "n"], ["m"]),
        node("Range", ["n", "m", "i-1"], ["y"]),
    ],
}  # fmt: skip
CONDITIONS = {"Slice to a size": ["  n <= 30, n != 30, n < 31"]}  # there are 30 places
FORGOTTEN = {"OptionalHasElement", "SequenceLength"}  # which ask no size


def loaded(nodes: list[Any]) -> tuple[Any, Any]:
    """The model of a case, and the module of it."""
    before = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i0"], ["n"]),
        node("Unsqueeze", ["n", "l0"], ["l"]),
        node("Concat", ["l", "l1"], ["t"], axis=0),
    ]
    after = [node("Cast", ["y"], ["out"], to=TensorProto.FLOAT), node("Relu", ["x"], ["z"])]
    read = {name for made in [*before, *nodes] for name in made.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in read}
    outputs = [value("out"), value("z")]
    made = model([*before, *nodes, *after], [value("x", shape=["n", 4])], outputs, weights)
    return made, hy.onnx.load(made)


@pytest.mark.parametrize("case", CASES)
def test_sizes_stay_open(case: str, tmp_path: Path) -> None:
    made, module = loaded(CASES[case])
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        hy.onnx.export(module, path, hy.ones((4, 4)), dynamic_axes={0: {0: "n"}})
    assert [str(warning.message).splitlines()[1].split(" (")[0] for warning in said] == (
        CONDITIONS.get(case, [])
    )
    captured = hy.hybridize(module)
    for n in (3, 4, 7, 5, 9, 2):
        x = ones(n, 4)
        for wanted, *found in zip(
            of_onnxruntime(made, x), run(path, x), module(hy.asarray(x)), captured(hy.asarray(x)),
            strict=True,
        ):  # fmt: skip
            for got in listed(found):
                np.testing.assert_array_equal(got, wanted, strict=True)
    assert len(captured.plans) <= 2  # one for a size, one for all


def test_all_functions_of_known_values_are_tried() -> None:
    known = {
        op
        for (_, op), versions in handled().items()
        if any(handler.gives_known or handler.always_known for handler in versions.values())
    }
    tried = {"Shape", "Gather", "Unsqueeze", "Concat"}
    tried |= {made.op_type for nodes in CASES.values() for made in nodes}
    assert known - tried == FORGOTTEN


def test_a_loop_of_as_many_rounds_as_an_axis_has_elements() -> None:
    body = graph(
        [node("Add", ["before", "step"], ["after"]), node("Identity", ["go_on"], ["still"])],
        [
            value("i", TensorProto.INT64, []),
            value("go_on", TensorProto.BOOL, []),
            value("before", shape=["n", 4]),
        ],
        [value("still", TensorProto.BOOL, []), value("after", shape=["n", 4])],
    )
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i0"], ["n"]),
        node("Loop", ["n", "", "x"], ["y"], body=body),
    ]
    weights = {"i0": np.array(0), "step": np.array(0.5, np.float32)}
    made = model(nodes, [value("x", shape=["n", 4])], weights=weights)
    captured = hy.hybridize(hy.onnx.load(made))
    for n in (3, 4, 7, 5, 9, 2):
        x = ones(n, 4)
        [wanted] = of_onnxruntime(made, x)
        np.testing.assert_array_equal(captured(hy.asarray(x)).numpy(), wanted)
    assert len(captured.plans) <= 2
