"""What the frameworks compute: the same as hybrid, in every case that they have a program for."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import hybrid as hy
from hybrid.bench.compare.cases import (
    MODEL,
    WORKLOADS,
    Amount,
    Contest,
    difference,
    model_case,
)
from hybrid.bench.compare.contenders import FRAMEWORKS, OURS, contender
from hybrid.bench.compare.process import Process
from hybrid.bench.compare.rounds import Entrant

# What NumPy is for, in sizes that a test can wait for.
QUICK = [
    (name, case.label)
    for name in ("dispatch", "chain20", "d2l_mlp", "tiny_train", "mlp_train", "fused", "softmax",
                 "layernorm", "gemm", "while_loop")
    for case in WORKLOADS[name].cases
    if "2048" not in case.label
]  # fmt: skip


Results = Callable[[str, Contest, Amount], dict]


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """What a contender computes, in a process that it has for all of the tests."""
    started: dict[str, Process] = {}
    with ExitStack() as processes:

        def computed(name: str, workload: Contest, case: Amount) -> dict:
            who = contender(name)
            if name not in started:
                started[name] = processes.enter_context(who.start(1, 600))
            return Entrant(who, started[name]).prepare(workload, case)

        yield computed


@pytest.mark.parametrize(("name", "label"), QUICK)
def test_numpy_computes_what_hybrid_does(name: str, label: str, results: Results) -> None:
    workload = WORKLOADS[name]
    case = workload.case(label)
    ours, theirs = results(OURS, workload, case), results("numpy", workload, case)
    assert difference(ours, theirs, workload.tolerance) == ""


@pytest.mark.parametrize("name", [w for w in WORKLOADS if w not in ("dispatch", "gpt_train")])
def test_eager_and_hybridized_results_are_the_same(name: str, results: Results) -> None:
    case = min(WORKLOADS[name].cases, key=lambda case: case.flops)
    ours = results(OURS, WORKLOADS[name], case)
    assert ours == results("hybrid.eager", WORKLOADS[name], case)


def test_onnxruntime_runs_the_same_file(results: Results, tmp_path: Path) -> None:
    model = hy.nn.Sequential(hy.nn.Linear(4, 3), hy.nn.Tanh())
    hy.onnx.export(model, tmp_path / "m.onnx", hy.ones((2, 4)), dynamic_axes={0: {0: "n"}})
    case = model_case(f"{tmp_path / 'm.onnx'}@n=5")
    ours, theirs = results(OURS, MODEL, case), results("onnxruntime", MODEL, case)
    assert ours["result 0"]["shape"] == [5, 3]
    assert difference(ours, theirs, MODEL.tolerance) == ""
    assert ours == results("hybrid.eager", MODEL, case)


@pytest.mark.peers
@pytest.mark.parametrize("name", [f for f in FRAMEWORKS if f != "numpy"])
def test_a_peer_computes_what_hybrid_does(name: str, results: Results) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed for {sys.executable}")
    for workload in WORKLOADS.values():
        with contender(name).start(1, 600) as process:
            known = process.ask("load")["workloads"]
        if workload.name not in known:
            continue
        for case in workload.cases:
            ours, theirs = (results(who, workload, case) for who in (OURS, name))
            assert difference(ours, theirs, workload.tolerance) == "", (workload.name, case.label)
