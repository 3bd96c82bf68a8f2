"""Programs of other frameworks: the conversation with their processes, and what they compute."""

import sys
from pathlib import Path

import numpy as np
import pytest

from hybrid.bench.peers import FRAMEWORKS, Peer, installed, peers, require_agreement
from hybrid.bench.registry import BenchError, Case, find
from hybrid.bench.runner import run_case


def test_a_peer_keeps_the_time_and_gives_its_result() -> None:
    peer = Peer("numpy", "matmul", 4)
    assert 0 < peer.sample(1) < 10
    a, b = np.random.RandomState(0).randn(2, 4, 4).astype(np.float32)
    assert peer.result() == pytest.approx(np.diagonal(a @ b).tolist(), rel=1e-6)
    assert peer.sample(3) > 0


def test_a_process_starts_when_it_is_needed() -> None:
    peer = Peer("numpy", "no such program")
    assert peer.process is None


def test_a_program_that_ends_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    peer = Peer("numpy", "juggle", 3)
    with pytest.raises(BenchError) as raised:
        peer.sample(1)
    assert str(raised.value) == (
        "the peer numpy juggle 3 has ended\nWhat it wrote to the error output says why."
    )
    assert "KeyError: 'juggle'" in capfd.readouterr().err
    with pytest.raises(BenchError, match="has ended"):
        peer.result()


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert installed("numpy") and not installed("no_such_framework")
    found = peers("matmul", 4, frameworks=("numpy", "no_such_framework"))
    assert list(found) == ["numpy"]
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "no_such_framework.py").touch()
    assert installed("no_such_framework")


def test_a_peer_that_computes_something_else_is_named() -> None:
    found = {"numpy": Peer("numpy", "matmul", 2)}
    ours = found["numpy"].result()
    require_agreement("matmul", ours, found)
    with pytest.raises(BenchError) as raised:
        require_agreement("matmul", [ours[0] + 2, ours[1]], found)
    assert str(raised.value) == "matmul: the result of numpy differs by up to 2"


PROGRAMS = {"while_loop": FRAMEWORKS, "lstm_loop": ("jax", "torch")}


@pytest.mark.peers
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_peers_compute_the_same(name: str) -> None:
    (case,) = find(name).build()
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
