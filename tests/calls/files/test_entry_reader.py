"""Reading entries: plans are there at once, graphs when somebody asks for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid.plan import Plan
from hybrid.trace.capture.captured_graph import LazyGraph
from tests.staging.harness import describe, draw, f32, i64

KEPT, LOADED = "kept in a file", "loaded from a file"
CELL = hy.asarray(np.float32([1.0, 2.0, 3.0]))


def test_graphs_are_read_when_somebody_asks(folder: Path) -> None:
    net = hy.nn.Linear(3, 3)
    x = draw(4, 3, seed=1)
    told = []
    for filed in (KEPT, LOADED):
        call = hy.hybridize(lambda x: net(x) + CELL)
        assert describe(call(x)) == describe(net(x) + CELL)
        (planned,), (about,) = call._table.all(), call.plans
        assert about.filed == filed
        assert isinstance(planned.capture.stored_graph, LazyGraph) == (filed == LOADED)
        with hy.profile() as profile:
            call(x)
        rows = [(row.name, row.detail, str(row.at)) for row in profile.steps]
        graphs = str(planned.plan.graph), str(planned.capture.graph)
        told.append((graphs, sorted(rows), about.sizes, planned.plan.sizes))
        assert not isinstance(planned.capture.stored_graph, LazyGraph)
    assert told[0][0] == told[1][0] and told[0][1] == told[1][1]
    assert told[0][3] == told[1][3]


def test_errors_in_loaded_plans_tell_the_line(folder: Path) -> None:
    def pick(x, i):
        return hy.sin(x)[i] * 2.0

    texts = []
    for filed in (KEPT, LOADED):
        call = hy.hybridize(pick)
        call(f32([1.0, 2.0]), i64(1))
        assert call.plans[0].filed == filed
        with pytest.raises(IndexError) as caught:
            call(f32([1.0, 2.0]), i64(7))
        texts.append(str(caught.value))
    assert texts[0] == texts[1] and "hy.sin(x)[i]" in texts[0]


def test_plans_that_have_no_arrays_are_lowered_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those have that call functions of the process."""
    monkeypatch.setattr(Plan, "arrays", lambda _plan: None)
    x = draw(3, 3, seed=2)
    for filed in (KEPT, LOADED):
        call = hy.hybridize(lambda x: hy.tanh(x @ x.mT) + 1.0)
        assert describe(call(x)) == describe(hy.tanh(x @ x.mT) + 1.0)
        assert call.plans[0].filed == filed
        assert call._table.all()[0].plan.steps
