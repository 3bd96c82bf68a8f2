"""Random control flow computes the same bits, and does the same, before and after each pass."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from hybrid.errors import OutOfRangeError
from hybrid.ir import Graph, verify
from hybrid.ops.flow.control import run_region
from hybrid.passes import PIPELINE, run_pipeline
from tests.helpers import bits
from tests.passes.samples import arrays_for
from tests.passes.scalar.test_fold import evaluate
from tests.random_graphs import LOG, control_graphs, unhurried

PASSES = [run for entry in PIPELINE for run in (entry if isinstance(entry, tuple) else (entry,))]


def evaluate_or_fail(*node: Any) -> Any:
    """An index that lies outside raises what a kernel raises."""
    try:
        return evaluate(*node)
    except IndexError as error:
        raise OutOfRangeError(str(error)) from error


def pipeline(graph: Graph) -> Graph:
    return run_pipeline(graph, check=True, evaluate=evaluate_or_fail)


def outcome(graph: Graph) -> Any:
    """What ``graph`` computes, or the error, and what it told Python on the way."""
    LOG.clear()
    with np.errstate(all="ignore"):
        try:
            found: Any = bits(run_region(graph, arrays_for(graph)))
        except IndexError:
            found = "index error"
    return found, list(LOG)


@settings(unhurried, max_examples=100)
@given(graph=control_graphs(observable=True))
def test_random_control_flow(graph: Graph) -> None:
    """Every pass gets the graph as it was made, and as the passes before it have changed it."""
    expected, changed = outcome(graph), graph
    for change in PASSES:
        for before in (graph, changed):
            after = change(before)
            verify(after, after=change.__name__)
            assert outcome(after) == expected, change.__name__
        changed = after
    assert outcome(pipeline(graph)) == expected


@pytest.mark.nightly
@settings(unhurried, max_examples=2000)
@given(graph=control_graphs(depth=4, nodes=12, observable=True))
def test_much_random_control_flow(graph: Graph) -> None:
    assert outcome(pipeline(graph)) == outcome(graph)
