"""The end of the conversation that runs in the framework's process.

Every line that comes is a JSON object with what is asked, every line that goes is the answer:

=============================================== ================================================
``{"ask": "load"}``                             ``{"version": "2.1", "workloads": ["gemm", ...]}``
``{"ask": "build", "workload": ..., "case": ...,
"variant": ...}``                               ``{"seconds": 0.1}``
``{"ask": "check"}``                            ``{"first_call": 0.1, "results": {...}}``
``{"ask": "sample", "count": 10,
"clock": "wall"}``                              ``{"seconds": 0.1}``
``{"ask": "memory"}``                           ``{"peak": bytes, "loaded": bytes}``
=============================================== ================================================

What goes wrong is answered by ``{"error": "ValueError: ..."}``, and the process goes on.  An answer
goes when the process has come to rest: the threads of some frameworks spin for 50 ms after a run,
in which another one would be measured on the cores that they leave.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.bench.compare.adapter import WorkloadProgram
from hybrid.bench.compare.cases import case_of

# Where others use the machine, too, the processor's time of one thread says more than the clock's.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
# Seconds between looks whether threads spin, which systems count at each tick, and of all looks.
LOOK, LONGEST = 0.02, 0.5
SPINNING = 0.1  # of a core: a process of which all threads sleep uses less
SHOWN = 512  # elements of an array that are compared; of larger ones, evenly spread


def brief(array: Any) -> dict[str, Any]:
    """The shape of ``array``, some of its elements, and the root of the mean of all squares."""
    values = np.asarray(array, np.float64)
    flat = values.ravel()
    at = np.linspace(0, max(flat.size - 1, 0), min(flat.size, SHOWN)).astype(np.int64)
    mean = float(np.sqrt(np.mean(flat * flat))) if flat.size else 0.0
    return {"shape": list(values.shape), "values": flat[at].tolist(), "root mean square": mean}


def come_to_rest() -> None:
    """Wait until this process uses no processor, or for LONGEST if it always does."""
    end = time.perf_counter() + LONGEST
    used, at = time.process_time(), time.perf_counter()
    while at < end:
        time.sleep(LOOK)
        before, since, used, at = used, at, time.process_time(), time.perf_counter()
        if used - before < SPINNING * (at - since):
            return


class Served:
    """One program of a framework."""

    def __init__(self, framework: str, threads: int) -> None:
        self.framework, self.threads = framework, threads
        self.adapter: Any = None
        self.program: WorkloadProgram | None = None
        self.loaded = 0

    def load(self) -> dict[str, Any]:
        self.adapter = importlib.import_module(f"hybrid.bench.compare.adapters.{self.framework}_")
        self.adapter.set_threads(self.threads)
        self.loaded = peak()
        return {"version": self.adapter.VERSION, "workloads": sorted(self.adapter.PROGRAMS)}

    def build(self, workload: str, case: str, variant: str) -> dict[str, Any]:
        start = time.perf_counter()
        problem = case_of(workload, case).problem()
        self.program = self.adapter.PROGRAMS[workload](problem, variant)
        return {"seconds": time.perf_counter() - start}

    def check(self) -> dict[str, Any]:
        start = time.perf_counter()
        found = [self.program.run()]
        first = time.perf_counter() - start
        found += [self.program.run() for _ in range(self.program.runs - 1)]
        results = {name: brief(array) for name, array in self.program.read(found).items()}
        return {"first_call": first, "results": results}

    def sample(self, count: int, clock: str) -> dict[str, Any]:
        run, now = self.program.run, CLOCKS[clock]
        if count > 1:
            run()  # what ran meanwhile has the caches
        start = now()
        for _ in itertools.repeat(None, count):
            run()
        return {"seconds": now() - start}

    def memory(self) -> dict[str, Any]:
        return {"peak": peak(), "loaded": self.loaded}


def peak() -> int:
    """Bytes of memory that this process has had at most.

    Linux counts those of whom a process was forked from, too, but for those in ``/proc``.
    """
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as told:
        for line in told:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


ASKED: dict[str, Callable[..., dict[str, Any]]] = {
    "load": Served.load,
    "build": Served.build,
    "check": Served.check,
    "sample": Served.sample,
    "memory": Served.memory,
}


def serve(framework: str, threads: int) -> None:
    """Answer until the input ends.  What else is printed goes to the error output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    served = Served(framework, threads)
    for line in sys.stdin:
        try:
            asked = json.loads(line)
            answer = ASKED[asked.pop("ask")](served, **asked)
        except Exception as error:  # whatever a framework does
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        come_to_rest()
        print(json.dumps(answer), file=answers, flush=True)
