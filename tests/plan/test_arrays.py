"""Plans made of arrays: those of graphs run as before, and others stay where they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import GraphError, HybridError
from hybrid.ir import Graph
from hybrid.memory.native import PlanArrays
from hybrid.passes import run_pipeline
from hybrid.plan import Plan, arrays, make_plan
from hybrid.plan.arrays import packed, plan_of, provable, unpacked
from tests.helpers import graph_of
from tests.plan.test_random_plans import inputs_for, outcome
from tests.random_graphs import all_ops, graphs

LOOP = """
graph @loop(%n: i64[], %h: f32[4], %xs: f32[3,4]) {
  %y: f32[4], %hs: f32[3,4] = for %n, %h, %xs {carried=1, length=3, sliced=1} {
    body(%i: i64[], %h: f32[4], %x: f32[4]) {
      %a: f32[4] = add %h, %x
      return %a, %h
    }
  }
  return %y, %hs
}
"""
ADD = """
graph @add(%x: f32[4], %y: f32[4]) {
  %a: f32[4] = sin %x
  %b: f32[4] = multiply %a, %y
  return %b
}
"""


def again(plan: Plan, change: Callable[[PlanArrays], Any] = lambda found: None) -> Plan:
    """A plan of the arrays of ``plan``, as a file would hold them."""
    written = plan.arrays()
    assert written is not None
    found = unpacked(packed(written), written.arena_nbytes, written.n_externals)
    assert all(bytes(rows) == bytes(found.rows[name]) for name, rows in written.rows.items())
    change(found)
    donations = provable(written, plan.input_types, plan.output_types, plan.donations)
    return plan_of(
        found, plan.input_types, plan.output_types, donations, plan.exposed, plan.sizes,
        lambda: plan.graph,
    )  # fmt: skip


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(graphs(all_ops), st.integers(0, 2**31))
def test_the_same_bits(graph: Graph, seed: int) -> None:
    tensors = [as_tensor(a) for a in inputs_for(graph, seed)]
    plan = make_plan(run_pipeline(graph))
    if plan.arrays() is None:  # it calls functions
        assert any(step.call is not None for step in plan.steps)
        return
    assert outcome(lambda: call_plan(again(plan), tensors)) == outcome(
        lambda: call_plan(plan, tensors)
    )


def test_loops_and_what_a_plan_tells() -> None:
    plan = make_plan(graph_of(LOOP))
    made = again(plan)
    xs = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensors = [as_tensor(a) for a in (np.int64(2), np.ones(4, np.float32), xs)]
    assert outcome(lambda: call_plan(made, tensors)) == outcome(lambda: call_plan(plan, tensors))
    assert made.sizes == plan.sizes and made.graph == plan.graph
    assert [step.kernel for step in made.steps] == [step.kernel for step in plan.steps]
    assert len(made.steps) > made.sizes.steps == len(made.lowered.steps)


def rows(found: PlanArrays, name: str, kind: np.dtype) -> np.ndarray:
    """To be written to."""
    found.rows[name] = bytearray(found.rows[name])
    return np.frombuffer(found.rows[name], kind)


def external(number: int, **changes: int) -> Callable[[PlanArrays], None]:
    """Changes the slot of the pointer of this number."""

    def change(found: PlanArrays) -> None:
        slots = rows(found, "slots", arrays._SLOT)
        (at,) = np.flatnonzero((slots["kind"] == 0) & (slots["external"] == number))
        for name, value in changes.items():
            slots[name][at] = value

    return change


def host(found: PlanArrays) -> None:
    step = rows(found, "steps", arrays._STEP)
    step["kind"][0], step["kernel"][0], step["n_ops"][0] = 5, 0, 0


def turned(found: PlanArrays) -> None:
    """Reads its output, writes its first input: those of the first step are exchanged."""
    slots = rows(found, "slots", arrays._SLOT)
    places = slots["external"].copy()
    slots["external"] = np.where(places == 0, 1, np.where(places == 1, 0, places))


def rows_of_input(found: PlanArrays) -> None:
    """The rows that the loop writes are those of what it reads."""
    slots = rows(found, "slots", arrays._SLOT)
    base = {int(slots["external"][b]): b for b in range(len(slots)) if slots["kind"][b] == 0}
    for at in np.flatnonzero(slots["kind"] == 3):
        slots["base"][at] = base[4]


WRONG: dict[str, tuple[str, Callable[[PlanArrays], Any], str]] = {
    "too large an input": (ADD, external(1, nbytes=32), "more bytes than its values have"),
    "too large an output": (ADD, external(0, nbytes=17), "more bytes than its values have"),
    "one that is not there": (ADD, external(2, external=3), "external 3 of 3"),
    "more pointers": (ADD, lambda f: setattr(f, "n_externals", 4), "of 3 values takes 4"),
    "a function": (ADD, host, "calls functions that are not there"),
    "an input that is written": (ADD, turned, "writes to what it is given"),
    "a row that is written": (LOOP, rows_of_input, "writes to what it is given"),
    "a kernel": (ADD, lambda f: rows(f, "ops", np.dtype("i4")).__setitem__(0, 99999), "kernel"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_refused(what: str) -> None:
    text, change, message = WRONG[what]
    plan = make_plan(graph_of(text))
    with pytest.raises(HybridError, match=message):
        again(plan, change)


TURNED = """
graph @turned(%x: f32[4,4], %y: f32[8]) {
  %a: f32[4,4] = permute_dims %x {axes=(1,0)}
  %b: f32[4,4] = sin %a
  return %b
}
"""


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [(ADD, 0, ""), (ADD, 1, ""), (TURNED, 0, "overlaps"), (TURNED, 1, "of another size")],
)
def test_outputs_overwrite_only_what_is_read_by_then(text: str, given: int, message: str) -> None:
    plan = make_plan(graph_of(text))
    written = plan.arrays()
    assert written is not None

    def made() -> Plan:
        return plan_of(
            written, plan.input_types, plan.output_types, {0: given}, plan.exposed, plan.sizes,
            lambda: plan.graph,
        )  # fmt: skip

    if message:
        with pytest.raises(HybridError, match=message):
            made()
    else:
        assert made().donations == {0: given}


@pytest.mark.parametrize("at", range(len(arrays.PARTS) - 1))
def test_parts_that_end_in_the_middle(at: int) -> None:
    written = make_plan(graph_of(LOOP)).arrays()
    assert written is not None
    parts = packed(written)
    parts[at] = parts[at] + b"\0"
    with pytest.raises((GraphError, ValueError)):
        unpacked(parts, written.arena_nbytes, written.n_externals)
