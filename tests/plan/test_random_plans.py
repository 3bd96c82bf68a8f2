"""Random graphs: eager node by node, planned, and planned after the passes give the same bits."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybrid.calls.executable import optimized_plan
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import HybridError
from hybrid.ir import Graph
from hybrid.passes import run_pipeline
from hybrid.plan import interpret, make_plan
from hybrid.trace.regions.build import replay
from tests.random_graphs import all_ops, exact_ops, graphs

SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def inputs_for(graph: Graph, seed: int) -> list[np.ndarray]:
    """Operands for ``graph``: a few special values among small ones."""
    random = np.random.default_rng(seed)
    made = []
    for value in graph.params:
        kind, shape = value.type.dtype.numpy, value.type.shape
        array = random.integers(-3, 4, shape)
        if kind.kind == "f":
            special = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape)
            array = np.where(random.random(shape) < 0.1, special, random.standard_normal(shape))
        made.append(np.array(np.abs(array) if kind.kind == "u" else array, kind))
    return made


def outcome(run):
    """What ``run`` gives: its results as bits, or its exception's type."""
    try:
        return [(t.type, t.numpy().tobytes()) for t in run()]
    except (HybridError, IndexError) as error:
        return type(error)


def check_modes(graph: Graph, seed: int) -> None:
    tensors = [as_tensor(a) for a in inputs_for(graph, seed)]
    eager = outcome(lambda: replay(graph, tensors))
    assert outcome(lambda: call_plan(make_plan(graph), tensors)) == eager
    assert outcome(lambda: call_plan(optimized_plan(graph), tensors)) == eager


@settings(SETTINGS, max_examples=100)
@given(graphs(all_ops), st.integers(0, 2**31))
def test_same_bits(graph: Graph, seed: int) -> None:
    check_modes(graph, seed)


@pytest.mark.nightly
@settings(SETTINGS, max_examples=3000)
@given(graphs(all_ops, nodes=40), st.integers(0, 2**31))
def test_same_bits_of_many(graph: Graph, seed: int) -> None:
    check_modes(graph, seed)


@settings(SETTINGS, max_examples=100)
@given(graphs(exact_ops), st.integers(0, 2**31))
def test_the_interpreter_agrees(graph: Graph, seed: int) -> None:
    """The oracle runs the plan's own steps over the plan's own offsets, poisoning what is dead."""
    arrays = inputs_for(graph, seed)
    plan = make_plan(run_pipeline(graph))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = interpret(plan, arrays)
    found = call_plan(plan, [as_tensor(a) for a in arrays])
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6, equal_nan=True)
