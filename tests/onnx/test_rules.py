"""Every op of hybrid as ONNX: written by its rule, checked, and run by onnxruntime."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import hybrid as hy
import hybrid.passes  # declares the ops that passes build
from hybrid.core.types import BY_NAME
from hybrid.errors import OnnxError
from hybrid.ir import REGISTRY, Builder, Op
from hybrid.onnx.model_assembly import OPSETS, ModelInput, model_of
from hybrid.onnx.rule_table import INSTEAD, REASONS, RULES
from hybrid.ops.support.sampling import Sample, samples, types_of
from tests.helpers import part_of, parts

PARTS = 8
WRITTEN = sorted(name for name in RULES if not REGISTRY[name].has_regions)
SINCE_18 = {"bitwise_and", "bitwise_or", "bitwise_xor", "scatter_along"}  # of some dtypes
# Ops for which onnxruntime has no kernel of float64: the evaluator of the package onnx runs them.
NO_FLOAT64 = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "conv", "conv_transpose",
    "conv_weight", "cosh", "det", "erf", "gelu", "gelu_slope", "sinh", "tan",
}  # fmt: skip

OPTIONS = onnxruntime.SessionOptions()
OPTIONS.log_severity_level = 4
OPTIONS.intra_op_num_threads = 1


def written(op: Op, sample: Sample, opset: int) -> Any:
    operands, attrs = sample
    builder = Builder(op.name)
    params = [builder.param(type_) for type_ in types_of(operands)]
    graph = builder.finish(builder.apply(op, params, attrs))
    inputs = [ModelInput(f"x{i}", p.type, p) for i, p in enumerate(params)]
    return model_of(graph, {}, inputs, [f"y{i}" for i in range(len(graph.results))], opset)


def results_of(model: Any, operands: Any, reference: bool = False) -> list[np.ndarray]:
    given = {f"x{i}": x for i, x in enumerate(operands)}
    if reference and any(a.name == "group" and a.i > 1 for n in model.graph.node if
                         n.op_type == "ConvTranspose" for a in n.attribute):  # fmt: skip
        return [hy.onnx.load(model)(*map(hy.asarray, operands)).numpy()]  # those it gets wrong
    if reference:
        return ReferenceEvaluator(model).run(None, given)
    session = onnxruntime.InferenceSession(model.SerializeToString(), OPTIONS)
    return session.run(None, given)


def expected(op: Op, sample: Sample) -> list[np.ndarray]:
    operands, attrs = sample
    found = op(*operands, **attrs)
    return [y.numpy() for y in (found if isinstance(found, tuple) else (found,))]


def assert_near(got: np.ndarray, want: np.ndarray, what: str) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape, what
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
        return
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=1))
    np.testing.assert_allclose(got, want, 1e-5, 1e-5 * largest, err_msg=what)


def test_every_op_has_a_rule_or_a_reason() -> None:
    """Those that are written out before (custom gradients, checkpoints) need neither."""
    ops = {op.name for op in REGISTRY.values() if op.__module__.startswith("hybrid.")}
    outside = {name for name in ops if REGISTRY[name].inline}
    assert not RULES.keys() & REASONS.keys()
    assert RULES.keys() | REASONS.keys() == ops - outside


def test_every_reason_says_why() -> None:
    assert all(len(reason) > 20 for reason in REASONS.values())
    assert INSTEAD.keys() <= set(REASONS.values())


def _effect(op: Op) -> Sample:
    """Operands and attributes of an op that does something to the world."""
    if "text" in op.attr_defaults:
        return (), {"text": "ValueError"}
    ranks = {name: 0 for name in ("root", "to", "source") if name in op.attr_defaults}
    ranks |= {"shards": 1} if "shards" in op.attr_defaults else {}
    size = 1 if "shards" in ranks else 2
    return tuple([np.ones(size, np.float32) for _ in op.operand_names]), ranks


@pytest.mark.parametrize(
    "name", sorted(n for n in REASONS.keys() - {"py_call"} if not REGISTRY[n].has_regions)
)
def test_what_has_a_reason_is_refused_with_it(name: str) -> None:
    op = REGISTRY[name]
    sample = next(iter(samples(op, seed=0))) if op.pure else _effect(op)
    with pytest.raises(OnnxError) as error:
        written(op, sample, 18)
    assert f"{name} cannot be written in ONNX" in str(error.value)
    assert REASONS[name][1:] in str(error.value)


@pytest.mark.parametrize("part", parts(PARTS))
@pytest.mark.parametrize("name", WRITTEN)
def test_onnxruntime_computes_what_the_op_does(name: str, part: int) -> None:
    """Samples go round the opsets, so that each rule meets all of them."""
    op = REGISTRY[name]
    table = enumerate(samples(op, seed=zlib.crc32(name.encode())))
    for number, sample in part_of(table, part, PARTS):
        opset = OPSETS[number % len(OPSETS)]
        operands, attrs = sample
        if opset < 18 and name in SINCE_18:
            opset = 18
        what = f"{name} of {', '.join(map(str, types_of(operands)))} {attrs}, opset {opset}"
        model = written(op, sample, opset)
        onnx.checker.check_model(model, full_check=True)
        reference = name in NO_FLOAT64 and operands[0].dtype == np.float64
        with np.errstate(all="ignore"):
            found = results_of(model, operands, reference)
            wanted = expected(op, sample)
        for got, want in zip(found, wanted, strict=True):
            assert_near(np.asarray(got), want, what)


@pytest.mark.parametrize("name", sorted(NO_FLOAT64))
def test_what_is_listed_without_a_kernel_has_none(name: str) -> None:
    op = REGISTRY[name]
    drawn = [s for s in samples(op, 0) if s[0][0].dtype == np.float64 and s[0][0].size > 0]
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented):
        results_of(written(op, drawn[0], 18), drawn[0][0])


@pytest.mark.parametrize("name", sorted(SINCE_18))
def test_opset_17_lacks_some_ops(name: str) -> None:
    op = REGISTRY[name]
    sample = next(s for s in samples(op, 0) if s[0][0].dtype == np.int32 and s[0][0].size > 0)
    with pytest.raises(OnnxError, match=r"is there since opset 18\.\nFix: export with opset=18\."):
        written(op, sample, 17)


# Values where NumPy and ONNX part -----------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 2.5, math.inf, -math.inf, math.nan, 1e-30, 1e30,
           2.0**24, 3e38, -3e38, 1e-3]  # fmt: skip
OF_INFINITY = {"silu", "gelu", "gelu_tanh"}  # NaN at -inf: docs/onnx.md says so
ELEMENTWISE = [name for name in WRITTEN if REGISTRY[name].elementwise]


def special(dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return np.array(SPECIAL, dtype)
    limits = np.iinfo(dtype)
    small = [0, 1, 2, 3, 7] + ([-1, -2, -7] if dtype[0] == "i" else [])
    return np.array([limits.min, limits.max, *small], dtype)


def special_samples(name: str, dtype: str) -> list[Sample]:
    op, column = REGISTRY[name], special(dtype)
    count = len(op.operand_names)
    if name == "cast":
        return [((column,), {"dtype": BY_NAME[to]}) for to in
                ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                 "float32", "float64")]  # fmt: skip
    operands: tuple[np.ndarray, ...] = (column,)
    if name == "where":
        operands = (column > 0, column, column[::-1].copy())
    elif "shift" in name:
        operands = (column[:, None], np.array([[0, 1, 5, 7]], dtype))
    elif count == 2:
        operands = (column[:, None], column[None, :])
    elif count == 3:
        operands = (column, column[::-1].copy(), np.roll(column, 1))
    return [(operands, {})]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int8", "int32", "int64", "uint8", "uint64"]
)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_special_values_come_out_as_eagerly(name: str, dtype: str) -> None:
    op = REGISTRY[name]
    for sample in special_samples(name, dtype):
        operands, attrs = sample
        try:
            op.infer(types_of(operands), op.attributes(attrs))
        except hy.HybridError:
            return
        if name in NO_FLOAT64 and dtype == "float64":
            return  # the kernels of float32 are what is tested here
        with np.errstate(all="ignore"):
            [got], [want] = results_of(written(op, sample, 18), operands), expected(op, sample)
        if name in OF_INFINITY:
            keep = operands[0] != -np.inf
            assert np.isnan(got[~keep]).all()
            got, want = got[keep], want[keep]
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, 1e-5, 1e-6)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("dtype", "divisor"), [("int32", 3), ("int32", -4), ("int64", 0), ("int8", -1), ("uint64", 10)]
)
def test_quotients_by_a_constant(dtype: str, divisor: int) -> None:
    def function(x):
        return x // divisor, x % divisor

    x = special(dtype)
    found = hy.onnx.model_export.exported_model(function, (hy.asarray(x),), opset=18)
    session = onnxruntime.InferenceSession(found.proto.SerializeToString(), OPTIONS)
    for got, want in zip(session.run(None, {"x": x}), function(hy.asarray(x)), strict=True):
        np.testing.assert_array_equal(got, want.numpy())


def test_the_last_of_equal_indices_wins() -> None:
    op = REGISTRY["scatter"]
    x, updates = np.zeros((4, 2), np.float32), np.arange(10, dtype=np.float32).reshape(5, 2)
    for opset in (17, 18):
        sample = (x, np.array([1, -1, 1, 3, 0]), updates), {"axis": 0}
        [got] = results_of(written(op, sample, opset), sample[0])
        np.testing.assert_array_equal(got, [[8, 9], [4, 5], [0, 0], [6, 7]])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint64", "float32"])
def test_equal_elements_keep_their_order(dtype: str) -> None:
    x = np.array([3, 1, 3, 1, 2, 3, 1], dtype)
    for name, attrs in [("argsort", {"descending": True}), ("argsort", {"descending": False}),
                        ("topk", {"k": 4, "largest": True}), ("argmax", {"axis": 0}),
                        ("argmin", {"axis": 0})]:  # fmt: skip
        op, sample = REGISTRY[name], ((x,), attrs)
        [got], [want] = results_of(written(op, sample, 18), (x,)), expected(op, sample)
        np.testing.assert_array_equal(got, want)
