"""How long a plan takes: of a graph that is run again and again on memory of its own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, float32, float64
from hybrid.ir import Graph
from hybrid.memory import native
from hybrid.plan import make_plan

_RUNS = 5  # at least
_MOST = 200
_SECONDS = 0.004  # that runs are to take together, unless one alone takes longer


def runner(graph: Graph) -> Callable[[], None]:
    """A function that runs the plan of ``graph`` on numbers between 0.5 and 1, or zeros."""
    plan = make_plan(graph)
    kept: list[Any] = [native.allocate(max(t.nbytes, 1)) for t in plan.output_types]
    for type in plan.input_types:
        kept.append(_filled(type))
    pointers = native.pointers(len(kept))
    for at, data in enumerate(kept):
        pointers[at] = data
    held = plan, kept  # alive as long as the function

    def run() -> None:
        held[0].run(pointers)

    return run


def _filled(type: TensorType) -> Any:
    data = native.allocate(max(type.nbytes, 1))
    view = np.frombuffer(native.view(data, type.nbytes), np.uint8)
    view[:] = 0  # indices that are in every range
    if type.dtype in (float32, float64):
        numbers = view.view(type.dtype.numpy)
        numbers[:] = np.linspace(0.5, 1.0, numbers.size)
    return data


def seconds_of(run: Callable[[], None], runs: int = 0) -> float:
    """The median of the seconds that ``run`` takes, after one run that does not count.

    ``runs`` says how often it runs, where several ranks have to run it equally often.
    """
    run()
    if not runs:
        begin = time.perf_counter()
        run()
        once = time.perf_counter() - begin
        runs = int(min(max(_SECONDS / max(once, 1e-7), _RUNS), _MOST))
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)
