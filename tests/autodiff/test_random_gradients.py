"""Random functions: gradients eager, in a plan and of a planned function, have the same bits."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.ir import REGISTRY, Graph, Op
from hybrid.trace.regions.build import replay
from tests.random_graphs import graphs

SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def smooth_ops() -> list[Op]:
    names = [
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "exp",
        "tanh",
        "sigmoid",
        "relu",
        "gelu",
        "silu",
        "square",
        "sin",
        "maximum",
        "where",
        "greater",
        "matmul",
        "matmul_nt",
        "matmul_tn",
        "sum",
        "mean",
        "max",
        "reshape",
        "permute_dims",
        "broadcast_to",
        "concat",
        "softmax",
        "log_softmax",
        "cast",
        "full",
    ]
    return [REGISTRY[name] for name in names]


def as_function(graph: Graph):
    """``graph`` as a function of float tensors with a scalar result; None when nothing is float."""
    if not any(v.type.dtype.is_floating for v in graph.results):
        return None

    def function(*operands):
        total = None
        for result in replay(graph, operands):
            if result.dtype.is_floating:
                term = hy.sum(hy.astype(hy.tanh(result), hy.float32))
                total = term if total is None else total + term
        return total

    return function


def operands_for(graph: Graph, seed: int) -> list[hy.Tensor]:
    random = np.random.default_rng(seed)
    made = []
    for value in graph.params:
        array = random.standard_normal(value.type.shape)
        kind = value.type.dtype.numpy
        made.append(hy.asarray(np.array(np.abs(array * 2) if kind.kind == "u" else array, kind)))
    return made


def gradients(function, operands: list[hy.Tensor]) -> list[bytes | None]:
    leaves = [t.detach() for t in operands]
    for leaf in leaves:
        leaf.requires_grad = leaf.dtype.is_floating
    out = function(*leaves)
    if out.requires_grad:
        out.backward()
    found = [None if leaf.grad is None else leaf.grad.numpy().tobytes() for leaf in leaves]
    return [out.numpy().tobytes(), *found]


def check(graph: Graph, seed: int) -> None:
    function = as_function(graph)
    if function is None:
        return
    operands = operands_for(graph, seed)
    eager = gradients(function, operands)
    assert gradients(hy.hybridize(function), operands) == eager
    numbers = tuple(i for i, t in enumerate(operands) if t.dtype.is_floating)
    if numbers:
        inside = hy.hybridize(hy.grad(function, numbers))(*operands)
        outside = hy.grad(function, numbers)(*operands)
        for a, b in zip(inside, outside, strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()


@settings(SETTINGS, max_examples=60)
@given(graphs(smooth_ops, nodes=12), st.integers(0, 2**31))
def test_same_gradients(graph: Graph, seed: int) -> None:
    check(graph, seed)


@pytest.mark.nightly
@settings(SETTINGS, max_examples=2000)
@given(graphs(smooth_ops, nodes=30), st.integers(0, 2**31))
def test_same_gradients_of_many(graph: Graph, seed: int) -> None:
    check(graph, seed)


@settings(SETTINGS, max_examples=40)
@given(graphs(smooth_ops, nodes=10), st.integers(0, 2**31))
def test_forward_and_reverse_agree(graph: Graph, seed: int) -> None:
    """``<u, J v> == <J^T u, v>`` along random directions, in float64."""
    function = as_function(graph)
    if function is None:
        return
    operands = operands_for(graph, seed)
    numbers = [i for i, t in enumerate(operands) if t.dtype is hy.float64]
    if not numbers:
        return

    def of_floats(*floats):
        full = list(operands)
        for i, t in zip(numbers, floats, strict=True):
            full[i] = t
        return function(*full)

    primals = tuple(operands[i] for i in numbers)
    random = np.random.default_rng(seed)
    directions = tuple(hy.asarray(random.standard_normal(t.shape)) for t in primals)
    forward = float(hy.jvp(of_floats, primals, directions)[1])
    cts = hy.vjp(of_floats, *primals)[1](hy.ones(()))
    reverse = sum(float(hy.sum(c * d)) for c, d in zip(cts, directions, strict=True))
    if np.isfinite(forward) and np.isfinite(reverse):
        assert forward == pytest.approx(reverse, rel=1e-3, abs=1e-5)
