"""Products and convolutions of integers that models ask for, with zero points of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.ops.spatial.convolution import patches
from tests.onnx.small_models import model, node, value

RNG = np.random.default_rng(5)
DTYPES = {"int8": 3, "uint8": 2}  # numbers of TensorProto


def drawn(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def run(
    op: str, x: np.ndarray, given: dict[str, np.ndarray], names: list[str], **attrs: Any
) -> Any:
    """What a node of x, the first input, and of weights gives, eagerly and hybridized."""
    inputs = [value("x", DTYPES[x.dtype.name], x.shape)]
    made = model([node(op, ["x", *names], ["y"], **attrs)], inputs, [value("y", 6)], weights=given)
    module = hy.onnx.load(made)
    found = module(hy.asarray(x)).numpy()
    module.hybridize()
    assert (module(hy.asarray(x)).numpy() == found).all()
    assert found.dtype == np.int32
    return found


ZEROS = [(None, None), ((), None), (None, ()), ((), ()), ("rows", "columns"), ((1,), (1,))]


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
@pytest.mark.parametrize("zeros", ZEROS)
def test_products_are_those_of_integers(left: str, right: str, zeros: Any) -> None:
    for m, k, n in [(1, 37, 9), (5, 64, 33), (17, 3, 4)]:
        x, w = drawn(left, m, k), drawn(right, k, n)
        shapes = [{"rows": (m,), "columns": (n,)}.get(z, z) if z else z for z in zeros]
        parts = {
            name: drawn(dtype, *shape)
            for name, dtype, shape in zip("pq", (left, right), shapes, strict=True)
            if shape is not None
        }
        names = ["w", *[name if name in parts else "" for name in "pq"]]
        while not names[-1]:
            names.pop()
        a, b = x.astype(np.int64), w.astype(np.int64)
        if "p" in parts:
            p = parts["p"].astype(np.int64)
            a = a - (p[:, None] if zeros[0] == "rows" else p)
        if "q" in parts:
            b = b - parts["q"].astype(np.int64)
        found = run("MatMulInteger", x, {"w": w, **parts}, names)
        assert (found == a @ b).all()


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("zeros", [(False, None), (True, None), (True, ()), (False, "filters")])
@pytest.mark.parametrize(
    "group, stride, dilation, pads",
    [
        (1, (1, 1), (1, 1), (0, 0, 0, 0)),
        (1, (1, 1), (1, 1), (1, 1, 1, 1)),
        (2, (2, 1), (1, 2), (0, 1, 2, 0)),
        (4, (2, 3), (1, 1), (3, 0, 1, 2)),
    ],
)
def test_convolutions_are_those_of_integers(
    source: str, kind: str, zeros: Any, group: int, stride: Any, dilation: Any, pads: Any
) -> None:
    x, w = drawn(source, 2, 4, 11, 9), drawn(kind, 8, 4 // group, 3, 2)
    parts = {"p": drawn(source)} if zeros[0] else {}
    if zeros[1] is not None:
        parts["q"] = drawn(kind, *((8,) if zeros[1] == "filters" else ()))
    names = ["w", *[name if name in parts else "" for name in "pq"]]
    while not names[-1]:
        names.pop()
    found = run(
        "ConvInteger", x, {"w": w, **parts}, names, group=group, strides=stride,
        dilations=dilation, pads=pads,
    )  # fmt: skip
    steps = x.astype(np.int64) - int(parts.get("p", 0))
    steps = np.pad(steps, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    weight = w.astype(np.int64)
    if "q" in parts:
        weight = weight - parts["q"].astype(np.int64).reshape(-1, 1, 1, 1)
    size = tuple(
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(steps.shape[2:], (3, 2), stride, dilation, strict=True)
    )
    columns = patches(steps, size, (3, 2), stride, (0, 0), dilation, group).astype(np.int64)
    weight = weight.reshape(group, 8 // group, 4 // group, 6)
    want = np.einsum("ngcpk,gock->ngop", columns, weight).reshape(2, 8, *size)
    assert found.shape == want.shape
    assert (found == want).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_linear_quantization_along_an_axis(dtype: str) -> None:
    """Numbers with a fraction of one half, those beyond the type, and what is none."""
    x = np.float32([[0.5, 1.5, -2.5, np.nan, np.inf], [-np.inf, 1e30, -1e30, 7.25, -0.0]]) * 2
    scale, zero = np.float32([2, 0.25]), drawn(dtype, 2)
    kinds = {"int16": 5, "uint16": 4, **DTYPES}
    made = model(
        [node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=0)],
        [value("x", 1, x.shape)], [value("y", kinds[dtype])], {"s": scale, "z": zero}, opset=21,
    )  # fmt: skip
    module = hy.onnx.load(made)
    steps = np.rint(x.astype(np.float64) / scale[:, None])
    steps = np.where(np.isnan(steps), 0, steps) + zero[:, None]
    limits = np.iinfo(dtype)
    want = np.clip(steps, limits.min, limits.max).astype(dtype)
    assert (module(hy.asarray(x)).numpy() == want).all()
    assert (module.hybridize()(hy.asarray(x)).numpy() == want).all()
