"""Random control flow: planned, with and without the passes, it does what Python does by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybrid.calls.executable import optimized_plan
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.ir import Graph, verify
from hybrid.plan import interpret, make_plan
from tests.plan.random_control import control_graphs, run_by_hand

SETTINGS = settings(
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ],
)


def inputs_for(graph: Graph, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [
        np.array(random.integers(-2, 5, v.type.shape), v.type.dtype.numpy) for v in graph.params
    ]


def bits(tensors: list) -> list:
    return [(t.type, t.numpy().tobytes()) for t in tensors]


def check(graph: Graph, seed: int) -> None:
    verify(graph)
    arrays = inputs_for(graph, seed)
    tensors = [as_tensor(a) for a in arrays]
    wanted = run_by_hand(graph, tensors)
    plan = make_plan(graph)
    for _ in range(2):  # the second run reuses the arena
        assert bits(call_plan(plan, tensors)) == bits(wanted)
    assert bits(call_plan(optimized_plan(graph), tensors)) == bits(wanted)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for array, tensor in zip(interpret(plan, arrays), wanted, strict=True):
            np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("poison", ["0", "1"])
def test_same_bits(poison: str) -> None:
    @settings(SETTINGS, max_examples=60)
    @given(control_graphs(), st.integers(0, 2**31))
    def run(graph: Graph, seed: int) -> None:
        check(graph, seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRID_POISON", poison)
        run()


@pytest.mark.nightly
@settings(SETTINGS, max_examples=3000)
@given(control_graphs(nodes=20), st.integers(0, 2**31))
def test_same_bits_of_many(graph: Graph, seed: int) -> None:
    check(graph, seed)
