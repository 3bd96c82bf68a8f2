"""Axes that vary: sizes that a file computes from the shapes it is given."""

from __future__ import annotations

import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, CaptureError, OnnxError
from hybrid.models import gpt
from hybrid.models.examples import EXAMPLES
from hybrid.nn import functional
from tests.calls import open_loops as open_loops  # which adds to the programs
from tests.calls import open_models as open_models
from tests.calls.open_programs import PROGRAMS as OPEN
from tests.calls.value_sizes import PROGRAMS as VALUE_SIZES
from tests.helpers import part_of, parts
from tests.onnx.exported import assert_exported, assert_same, leaves, run
from tests.onnx.test_model_export import small_encoder

RANDOM = np.random.default_rng(7)


def drawn(*shape: int) -> hy.Tensor:
    return hy.asarray(RANDOM.random(shape, np.float32))


def tokens(*shape: int) -> hy.Tensor:
    return hy.asarray(RANDOM.integers(0, 11, shape))


def dims(value: Any) -> list[Any]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


SHAPES = {"lenet": (1, 32, 32), "resnet20": (1, 8, 8), "mobilenet": (1, 8, 8), "lstm": (8, 8),
          "mixer": (1, 16, 16), "gru": (8, 8), "unet": (1, 16, 16)}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_batch_of_models_varies(name: str, tmp_path: Path) -> None:
    model, shape = EXAMPLES[name].make(), SHAPES[name]
    made = assert_exported(
        model, [drawn(3, *shape)], tmp_path / "m.onnx", [[drawn(n, *shape)] for n in (1, 5)],
        dynamic_axes={0: {0: "batch"}},
    )  # fmt: skip
    assert dims(made.graph.input[0])[0] == dims(made.graph.output[0])[0] == "batch"


def test_batch_and_length_of_a_gpt(tmp_path: Path) -> None:
    model = gpt.GPT(gpt.Config(tokens=11, block=16, width=8, depth=2, heads=2))
    with pytest.warns(UserWarning) as caught:
        made = assert_exported(
            model, [tokens(3, 10)], tmp_path / "m.onnx",
            [[tokens(1, 10)], [tokens(2, 15)], [tokens(1, 16)], [tokens(1, 1)]],
            dynamic_axes={"tokens": {0: "batch", 1: hy.Dim("length", 1, 16)}},
        )  # fmt: skip
    assert dims(made.graph.output[0]) == ["batch", "length", 11]
    assert "GPT was exported for sizes of which this is true:\n  length != 16" in str(
        caught[0].message
    )


def test_axes_of_one_name_have_one_size(tmp_path: Path) -> None:
    axes = {0: "batch", 1: hy.Dim("length", 1, 19)}
    ids, mask = tokens(3, 7), hy.asarray(np.ones((3, 7), np.int64))
    assert_exported(
        small_encoder(), [ids, mask], tmp_path / "m.onnx",
        [[tokens(2, 12), hy.asarray(np.ones((2, 12), np.int64))]],
        dynamic_axes={"ids": axes, "mask": axes},
    )  # fmt: skip


def each_row(x):
    state, found = hy.zeros(3), []
    for row in x:
        state = state * 0.5 + row
        found.append(state)
    return hy.stack(found)


def by_index(x):
    state = hy.zeros(3)
    for i in range(x.shape[0]):
        state = state * 0.5 + x[i] * i
    return state


FUNCTIONS = {
    "arange": lambda x: x + hy.arange(x.shape[0])[:, None],
    "eye": lambda x: hy.eye(x.shape[0]) @ x,
    "triangles": lambda x: hy.tril(x @ x.T) + hy.triu(x @ x.T, k=1),
    "linspace": lambda x: x * hy.linspace(0, 1, x.shape[0])[:, None],
    "floats": lambda x: x.sum() / x.shape[0] + x.shape[0] ** 0.5,
    "every second": lambda x: x.reshape(-1)[::2],
    "backwards": lambda x: x[::-1] * x.shape[0],
    "flipped": lambda x: hy.flip(x, axis=0) + x.size // 2,
    "padded": lambda x: hy.pad(x, ((1, 2), (0, 0))),
    "full": lambda x: hy.full((x.shape[0], 2), x.shape[0] / 2),
    "sorted": lambda x: hy.sort(x, axis=0),
    "normalized": lambda x: functional.batch_norm(x, None, None, training=True),
    "mask": lambda x: x[x > 0.5],
    "rows": each_row,
    "index": by_index,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_made_of_sizes(name: str, tmp_path: Path) -> None:
    assert_exported(
        FUNCTIONS[name], [drawn(6, 3)], tmp_path / "m.onnx", [[drawn(9, 3)], [drawn(3, 3)]],
        dynamic_axes={0: {0: "n"}},
    )  # fmt: skip


@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda x: functional.interpolate(x, scale_factor=2),
        lambda x: functional.adaptive_avg_pool2d(x, 1),
        lambda x: functional.conv2d(x, hy.ones((2, 3, 3, 3)), stride=2, padding=1),
    ],
)
def test_pictures_of_any_size(function: Any, tmp_path: Path) -> None:
    made = assert_exported(
        function, [drawn(2, 3, 4, 5)], tmp_path / "m.onnx", [[drawn(2, 3, 7, 6)]],
        dynamic_axes={"x": {2: "height", 3: "width"}},
    )  # fmt: skip
    assert dims(made.graph.input[0]) == [2, 3, "height", "width"]


def interpolated(mode: str, factor: Any, align: bool | None = None) -> Any:
    return lambda x: functional.interpolate(
        x, scale_factor=factor, mode=mode, align_corners=align
    )  # fmt: skip


INTERPOLATIONS = {  # and whether Resize does it
    "doubled": (interpolated("bilinear", 2.0), True),
    "doubled with its corners": (interpolated("bilinear", 2, True), True),
    "nearest": (interpolated("nearest", 1.5), False),
    "by another factor for each axis": (interpolated("bilinear", (2.0, 1.3)), True),
    "by no whole factor": (interpolated("bilinear", 1.5), False),
    "smaller": (interpolated("bilinear", 0.5), False),
    "bicubic": (interpolated("bicubic", 1.5), False),
    "bicubic with its corners": (interpolated("bicubic", 2.0, True), False),
    "in float64": (lambda x: interpolated("bilinear", 2.0)(x.astype(hy.float64)), False),
    "in float16": (lambda x: interpolated("bilinear", 1.5)(x.astype(hy.float16)), False),
    "a gradient": (
        lambda x: hy.grad(lambda x: (interpolated("bilinear", 1.5)(x) ** 2).sum())(x),
        False,
    ),
}


@pytest.mark.parametrize("name", INTERPOLATIONS)
def test_interpolations_of_any_size(name: str, tmp_path: Path) -> None:
    function, resizes = INTERPOLATIONS[name]
    tolerance = 2e-3 if name == "in float16" else 1e-5
    path, x = tmp_path / "m.onnx", drawn(2, 3, 4, 5)
    hy.onnx.export(function, path, x, dynamic_axes={"x": {2: "height", 3: "width"}})
    module = hy.onnx.load(path)
    for shape in ((2, 3, 4, 5), (2, 3, 7, 6), (2, 3, 12, 3)):
        x = drawn(*shape)
        wanted = [function(x)]
        assert_same(run(path, x), wanted, name, rtol=tolerance, atol=tolerance)
        assert_same([module(x)], wanted, name, rtol=tolerance, atol=tolerance)
    ops = {node.op_type for node in onnx.load(path).graph.node}
    assert ("Resize" in ops) is resizes


@pytest.mark.parametrize(
    "function",
    [lambda x: functional.avg_pool2d(x, 3, stride=2, padding=1),
     lambda x: functional.max_pool2d(x, 3, stride=2, padding=1)],
)  # fmt: skip
def test_windows_over_pictures_of_any_size(function: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="exported for sizes of which this is true"):
        assert_exported(
            function, [drawn(2, 3, 8, 9)], tmp_path / "m.onnx", [[drawn(2, 3, 7, 6)]],
            dynamic_axes={0: {2: "height", 3: "width"}},
        )  # fmt: skip


def test_sizes_are_read_and_computed_once(tmp_path: Path) -> None:
    def function(x, y):
        return [hy.broadcast_to(y, (x.shape[0] + 1, 3)) for _ in range(3)]

    path = tmp_path / "m.onnx"
    made = assert_exported(
        function, [drawn(6, 3), drawn(1, 3)], path, dynamic_axes={0: {0: "n"}},
    )  # fmt: skip
    ops = [node.op_type for node in made.graph.node]
    assert (ops.count("Shape"), ops.count("Add")) == (1, 1)


def chooses(x):
    if x.shape[0] > 4:
        return x * 2
    return x


def test_conditions_that_sizes_have_to_meet_are_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning) as caught:
        hy.onnx.export(chooses, tmp_path / "m.onnx", drawn(6, 3), dynamic_axes={0: {0: "n"}})
    line = chooses.__code__.co_firstlineno + 1
    assert str(caught[0].message) == (
        f"chooses was exported for sizes of which this is true:\n  n > 4 ({__file__}:{line})"
    )


LSTM = hy.nn.LSTM(4, 6, batch_first=True)
GRU = hy.nn.GRU(4, 6, num_layers=2, bidirectional=True, batch_first=True)
WITHOUT_CONDITIONS = {
    "LSTM": lambda x: LSTM(x)[0],
    "GRU in two directions": lambda x: GRU(x)[0],
    "all but the first": lambda x: x[:, 1:] * 2,
    "every other": lambda x: x[:, ::2] * 2,
}


@pytest.mark.parametrize("name", WITHOUT_CONDITIONS)
def test_what_gradients_and_layouts_ask_of_sizes_is_no_condition(name: str, tmp_path: Path) -> None:
    assert_exported(
        WITHOUT_CONDITIONS[name], [drawn(2, 5, 4)], tmp_path / "m.onnx",
        [[drawn(b, t, 4)] for b, t in ((3, 2), (2, 3), (7, 9))],
        dynamic_axes={"x": {0: "b", 1: "t"}},
    )  # fmt: skip


def fixes(x):
    return x + len(str(x.shape[0]))


def test_an_axis_that_the_function_fixes(tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as error:
        hy.onnx.export(fixes, tmp_path / "m.onnx", drawn(6, 3), dynamic_axes={0: {0: "n"}})
    text = "axis 0 of x is declared to vary, and the function fixes it: n == 6"
    assert str(error.value).startswith(f"{text} ({__file__}:")


def test_an_axis_of_one_element_cannot_vary(tmp_path: Path) -> None:
    with pytest.raises(OnnxError) as error:
        hy.onnx.export(
            hy.nn.Linear(4, 3), tmp_path / "m.onnx", drawn(1, 4), dynamic_axes={0: {0: "n"}}
        )
    assert str(error.value) == (
        "Linear cannot be exported: axis 0 of input is declared to vary, and has 1 element here\n"
        "Axes of 0 and 1 are special to most ops, so they stay as they are.\n"
        "Fix: give an argument with 2 elements or more along it."
    )


def test_an_argument_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="dynamic names the argument 'y', which there is not"):
        hy.onnx.export(hy.nn.ReLU(), tmp_path / "m.onnx", drawn(2), dynamic_axes={"y": {0: "n"}})


def adapted(x):
    return functional.adaptive_max_pool1d(x, 3)


def repeated(x):
    return hy.asarray(np.ones(3, np.float32)) * math.gamma(x.shape[2])


@pytest.mark.parametrize(
    ("function", "shape", "text"),
    [
        (adapted, (2, 3, 6), r"windows of \(n // 3\) over an axis of n elements, 3 of them cannot"),
        (repeated, (1, 1, 6), r"the size math\.gamma\(n\) cannot be written in ONNX"),
    ],
)
def test_sizes_that_nothing_there_computes(
    function: Any, shape: tuple, text: str, tmp_path: Path
) -> None:
    with pytest.raises(OnnxError, match=text) as error:
        hy.onnx.export(function, tmp_path / "m.onnx", drawn(*shape), dynamic_axes={0: {2: "n"}})
    assert re.search(r"Fix: leave the axis out of dynamic_axes", str(error.value))


# Programs of the tests of sizes -------------------------------------------------------------------

WAYS = {  # whose shapes depend on which way they go
    "compared_length", "stacked_where_positive", "in_one_branch", "returned_from_a_branch",
    "two_shapes", "in_a_loop", "shrinking", "growing", "growing_until",
}  # fmt: skip
REFUSED = {  # of those of open sizes
    "halves_by_shape": "which way it goes depends on values",
    "random_tensors": "random_\\w+ cannot be written in ONNX",
}
CONDITIONED = {"slice_between": "k1 <= k", "parity": r"\(n9 % 2\) != 0"}  # other sizes differ


def varying_axes(sets: list[Any]) -> dict[int, dict[int, str]]:
    """The axes of arguments that differ from call to call, by their sizes at the first."""
    table: dict[int, dict[int, str]] = {}
    for position, given in enumerate(zip(*sets, strict=True)):
        if not isinstance(given[0], hy.Tensor):
            continue
        shapes = zip(*[x.shape for x in given], strict=True)
        names = {axis: f"n{n[0]}" for axis, n in enumerate(shapes) if len(set(n)) > 1}
        if names:
            table[position] = names
    return table


def assert_program(name: str, function: Any, sets: list[Any], path: Path) -> None:
    """It computes the same in onnxruntime, for all ``sets`` of arguments."""
    axes = varying_axes(sets)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hy.onnx.export(function, path, *sets[0], dynamic_axes=axes)
    if name in CONDITIONED:
        assert re.search(CONDITIONED[name], "".join(str(w.message) for w in caught))
        sets = sets[:1]
    for given in sets:
        wanted = leaves(function(*given), hy.Tensor, int, float)
        assert_same(run(path, *leaves(tuple(given))), wanted, name, 1e-4)


@pytest.mark.parametrize("part", parts(8))
def test_programs_whose_sizes_depend_on_values(part: int, tmp_path: Path) -> None:
    for name, (function, arguments) in part_of(VALUE_SIZES.items(), part, 8):
        if name not in WAYS:
            draw = np.random.default_rng(1)
            sets = [arguments(draw) for _ in range(4)]
            assert_program(name, function, sets, tmp_path / "m.onnx")


@pytest.mark.parametrize("name", sorted(WAYS))
def test_shapes_that_depend_on_the_way(name: str, tmp_path: Path) -> None:
    function, arguments = VALUE_SIZES[name]
    with pytest.raises(OnnxError) as error:
        hy.onnx.export(function, tmp_path / "m.onnx", *arguments(np.random.default_rng(1)))
    lines = str(error.value).splitlines()
    assert lines[0].startswith(
        f"{name} cannot be exported: which way it goes depends on values, and shapes depend on "
        "that ("
    )
    assert lines[2:] == [
        "A branch of ONNX gives the same shapes either way, and an iteration those that it got.",
        "Fix: let both ways give tensors of one shape, or choose with hybrid.where.",
    ]


@pytest.mark.parametrize("part", parts(4))
def test_programs_of_open_sizes(part: int, tmp_path: Path) -> None:
    for name, (function, arguments) in part_of(OPEN.items(), part, 4):
        sets = [arguments(n) for n in (9, 12, 17, 33)]
        if name in REFUSED:
            with pytest.raises(OnnxError, match=REFUSED[name]):
                hy.onnx.export(
                    function, tmp_path / "m.onnx", *sets[0], dynamic_axes=varying_axes(sets)
                )
        else:
            assert_program(name, function, sets, tmp_path / "m.onnx")
