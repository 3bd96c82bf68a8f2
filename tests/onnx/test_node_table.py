"""Every op of every version has a function, a body, or a reason why it has neither."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import hybrid as hy
from hybrid.onnx.control_text import CONSTRUCTS
from hybrid.onnx.function_bodies import CONTROL
from hybrid.onnx.model_file import DOMAINS
from hybrid.onnx.node_table import REFUSED, handled, handler_of
from tests.onnx.small_models import ML, model, node, ones, value

SCHEMAS = {
    (schema.domain, schema.name, schema.since_version): schema
    for schema in onnx.defs.get_all_schemas_with_history()
    if schema.domain in DOMAINS
}
GONE = {  # versions that nothing stands for, and why
    ("", "Cast", 1): "types are named by texts in opset 1 to 5",
    ("", "Upsample", 10): "taken out of use",
    (ML, "LabelEncoder", 1): "it goes from texts to numbers, or back",
}


def test_every_op_has_a_function_a_body_or_a_reason() -> None:
    missing = []
    for (domain, op, since), schema in SCHEMAS.items():
        has_body = schema.has_function or schema.has_context_dependent_function
        known = handler_of(op, domain, since) is not None or (domain == "" and op in CONTROL)
        if not (known or has_body or (domain, op) in REFUSED or (domain, op, since) in GONE):
            missing.append((domain, op, since))
    assert not missing


def test_every_function_stands_for_versions_that_there_are() -> None:
    for (domain, op), versions in handled().items():
        for since in versions:
            assert (domain, op, since) in SCHEMAS, (domain, op, since)
    for domain, op in REFUSED:
        assert any(key[:2] == (domain, op) for key in SCHEMAS) and (domain, op) not in handled()
    assert set(CONSTRUCTS) <= CONTROL


def test_every_function_takes_the_inputs_and_attributes_of_its_op() -> None:
    faults = []
    for (domain, op), versions in handled().items():
        for since, handler in versions.items():
            schema = SCHEMAS[domain, op, since]
            missing = set(schema.attributes) - handler.attributes - {"consumed_inputs"}
            if missing and op != "Constant":
                faults.append(f"{op} {since}: attributes {sorted(missing)}")
            if handler.most < min(schema.max_input, 2**31 - 1):
                faults.append(f"{op} {since}: takes {handler.most} of {schema.max_input} inputs")
            if handler.fewest > schema.min_input:
                faults.append(f"{op} {since}: asks for {handler.fewest}, not {schema.min_input}")
            if schema.max_output > 1 and not handler.counts_outputs and op not in FEWER:
                faults.append(f"{op} {since}: gives one of {schema.max_output} outputs")
    assert not faults, "\n".join(faults)


FEWER = {"BatchNormalization"}  # before opset 14 the others are those of training


@pytest.mark.parametrize(
    ("opset", "wanted"),
    [(12, [[0.25, 0.25], [0.25, 0.25]]), (13, [[0.5, 0.5], [0.5, 0.5]])],
)
def test_a_model_means_what_its_opset_said(opset: int, wanted: list) -> None:
    made = model([node("Softmax", ["x"], ["y"], axis=0)], opset=opset)
    assert hy.onnx.load(made)(hy.asarray(ones(2, 2))).tolist() == wanted


OLD = [  # of an op its opset, inputs, attributes, and what it gives
    ("Add", 6, [ones(2, 3), np.array([1, 2], np.float32)], {"axis": 0, "broadcast": 1},
     [[2, 2, 2], [3, 3, 3]]),
    ("Clip", 6, [np.array([-3, 0.5, 9], np.float32)], {"min": -1.0, "max": 2.0}, [-1, 0.5, 2]),
    ("Reshape", 1, [ones(2, 3)], {"shape": [0, -1, 1]}, [[[1], [1], [1]]] * 2),
    ("Slice", 1, [np.arange(5, dtype=np.float32)], {"starts": [1], "ends": [-1]}, [1, 2, 3]),
    ("Squeeze", 11, [ones(1, 2, 1)], {"axes": [0]}, [[1], [1]]),
    ("Unsqueeze", 11, [ones(2)], {"axes": [0, 2]}, [[[1], [1]]]),
    ("Pad", 2, [ones(1)], {"pads": [1, 2], "value": 3.0}, [3, 1, 3, 3]),
    ("Pad", 1, [ones(1)], {"paddings": [0, 1]}, [1, 0]),
    ("TopK", 1, [np.array([1, 3, 2], np.float32)], {"k": 2}, [3, 2]),
    ("ReduceSum", 11, [ones(2, 3)], {"axes": [1], "keepdims": 0}, [3, 3]),
    ("Concat", 1, [ones(1, 1), ones(1, 2)], {}, [[1, 1, 1]]),
    ("Upsample", 7, [ones(1, 1, 1, 2)], {"scales": [1.0, 1.0, 2.0, 1.0]}, [[[[1, 1]] * 2]]),
    ("Upsample", 1, [ones(1, 1, 1, 1)], {"height_scale": 1.0, "width_scale": 3.0},
     [[[[1, 1, 1]]]]),
    ("Dropout", 6, [ones(2)], {"is_test": 1}, [1, 1]),
    ("PRelu", 6, [np.array([[-1, -1], [1, 1]], np.float32), np.array([2, 3], np.float32)], {},
     [[-2, -3], [1, 1]]),
    ("Hardmax", 11, [np.array([[1, 3], [2, 9]], np.float32)], {"axis": 0}, [[0, 0], [0, 1]]),
    ("Selu", 1, [np.array([1, 0], np.float32)], {"gamma": 2.0}, [2, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "opset", "inputs", "attributes", "wanted"), OLD)
def test_ops_of_old_opsets(op, opset, inputs, attributes, wanted) -> None:
    names = [f"x{number}" for number in range(len(inputs))]
    made = model(
        [node(op, names, ["y"], **attributes)], [value(name) for name in names], opset=opset
    )
    module = hy.onnx.load(made)
    for _ in range(2):
        np.testing.assert_allclose(module(*map(hy.asarray, inputs)).numpy(), wanted, rtol=1e-6)
        module.hybridize()


def test_a_known_value_and_a_tensor_give_the_same() -> None:
    """The functions for known values mean what those for tensors do."""
    a, b = np.array([7, -7, 7, -8, 0]), np.array([2, 2, -2, 3, 5])
    for op in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Less", "LessOrEqual",
               "Greater", "GreaterOrEqual"):  # fmt: skip
        nodes = [node(op, ["a", "b"], ["k"]), node(op, ["x", "b"], ["t"])]
        out = [value("k", TensorProto.INT64), value("t", TensorProto.INT64)]
        made = model(nodes, [value("x", TensorProto.INT64)], out, {"a": a, "b": b})
        known, traced = hy.onnx.load(made)(hy.asarray(a))
        assert (known.dtype, known.tolist()) == (traced.dtype, traced.tolist()), op
