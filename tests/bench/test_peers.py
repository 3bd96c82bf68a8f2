"""Programs of other frameworks as ways of running: their times and results, and who is left out."""

import sys
from pathlib import Path

import numpy as np
import pytest

from hybrid.bench.compare import contenders
from hybrid.bench.peers import FRAMEWORKS, Peer, installed, peers, require_agreement
from hybrid.bench.registry import BenchError, Case, find
from hybrid.bench.runner import run_case
from hybrid.bench.workloads import size_changes


def test_a_peer_keeps_the_time_and_gives_its_result() -> None:
    peer = Peer("numpy", "dispatch", "8")
    assert peer.entrant is None  # a process starts when it is needed
    assert 0 < peer.sample(1) < 10
    a, b = peer.case.problem().inputs
    assert peer.results()["result"]["values"] == (a + b).astype(float).tolist()
    assert peer.sample(3) > 0


def test_a_first_run_is_that_of_a_new_process() -> None:
    peer = Peer("numpy", "dispatch", "8", clock="cpu")
    assert 0 < peer.first_run() < 10 and 0 < peer.first_run() < 10
    assert peer.entrant is None


def test_a_peer_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contenders.NAMES, "numpy", ("juggle", ""))
    with pytest.raises(BenchError) as raised:
        Peer("numpy", "dispatch", "8").sample(1)
    assert str(raised.value) == (
        "the peer numpy, dispatch: ModuleNotFoundError: "
        "No module named 'hybrid.bench.compare.adapters.juggle_'"
    )


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert installed("numpy") and not installed("no_such_framework")
    found = peers("dispatch", "8", frameworks=("numpy", "no_such_framework"))
    assert list(found) == ["numpy"]
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "no_such_framework.py").touch()
    assert installed("no_such_framework")
    assert installed("torch.compile") == installed("torch")


def test_a_peer_that_computes_something_else_is_named() -> None:
    found = {"numpy": Peer("numpy", "dispatch", "8")}
    a, b = found["numpy"].case.problem().inputs
    require_agreement("dispatch", {"result": a + b}, found)
    with pytest.raises(BenchError) as raised:
        require_agreement("dispatch", {"result": np.zeros(8)}, found)
    first = (a + b)[np.argmax(np.abs(a + b))]
    assert str(raised.value) == (
        f"dispatch: numpy disagrees: its result has {first:.6g} where 0 is expected"
    )


PROGRAMS = {"while_loop": FRAMEWORKS, "lstm_loop": ("jax", "torch"), "sizes": size_changes.BESIDE}


@pytest.mark.peers
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_peers_compute_the_same(name: str) -> None:
    case, *_ = find(name).build()
    for way in () if name != "sizes" else (case.ways["eager, again"], case.ways["hybridized"]):
        way.sample(1)
    found = [framework for framework in PROGRAMS[name] if framework in case.ways]
    assert found == [framework for framework in PROGRAMS[name] if installed(framework)]
    case.check()


def test_a_part_of_a_run_is_timed() -> None:
    class Takes:
        def sample(self, count: int) -> float:
            return 0.5 * count

    case = Case("loop", {"eager": Takes()}, dict, parts=100)
    (line,) = run_case(find("dispatch"), case, 3).lines
    assert line.timing.median == line.timing.p10 == line.timing.p90 == 0.005
    assert line.first_call == 0.5
