"""What ``hybrid tune`` measures, decides and keeps."""

from pathlib import Path

import pytest

from hybrid.bench import tuning
from hybrid.bench.compare.cases import WORKLOADS
from hybrid.bench.compare.rounds import Comparison, ContenderLine, Settings
from hybrid.bench.measure import SampleTiming
from hybrid.bench.registry import BenchError
from hybrid.bench.tuning import PROBES, Trial, default_path, ratio, try_choice, write
from hybrid.errors import ArgumentError
from hybrid.memory import native


def compared(**medians: float) -> Comparison:
    lines = [
        ContenderLine(name, timing=SampleTiming(time, time, time, 1, 1))
        for name, time in medians.items()
    ]
    return Comparison("gemm", "case", tuple(lines), 1.0, 1.0)


def test_every_choice_is_tried_on_cases_that_there_are() -> None:
    assert list(PROBES) == list(native.choices())
    for probes, shares in PROBES.values():
        assert 1 in shares and len(set(shares)) == len(shares) > 1
        for workload, case in probes:
            assert WORKLOADS[workload].case(case).label == case


def test_the_ratio_is_a_geometric_mean() -> None:
    found = [compared(a=1.0, b=2.0), compared(a=8.0, b=1.0)]
    assert ratio(found, "a", "b") == pytest.approx(2.0)
    assert ratio(found, "b", "a") == pytest.approx(0.5)


def test_who_failed_is_told() -> None:
    broken = Comparison("gemm", "case", (ContenderLine("a", "failed", "it died"),), 1.0, 1.0)
    with pytest.raises(BenchError, match=r"^gemm, a: failed: it died$"):
        ratio([broken], "a", "a")


@pytest.mark.parametrize(
    ("ratios", "best"),
    [({1: 1.2, 2: 1.0, 4: 0.98}, 2), ({1: 1.2, 2: 1.0, 4: 0.9}, 4), ({1: 0.5, 2: 1.0}, 1)],
)
def test_only_what_is_clearly_faster_is_kept(ratios: dict[int, float], best: int) -> None:
    assert Trial("spin_ns", 2, ratios).best == best


def test_a_choice_is_tried_in_real_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROBES, "spin_ns", ((("dispatch", "8"),), (0.5, 1)))
    steps: list[None] = []
    settings = Settings(threads=1, rounds=2, seconds=0.001)
    trial = try_choice("spin_ns", {"task_work": 1 << 18}, settings, lambda: steps.append(None))
    assert trial.name == "spin_ns" and trial.usual == native.choices()["spin_ns"][1]
    assert set(trial.ratios) == {trial.usual, trial.usual // 2}
    assert trial.ratios[trial.usual] == 1.0 and trial.ratios[trial.usual // 2] > 0
    assert len(steps) == 4  # two processes, two rounds


def test_a_value_that_no_process_takes_is_told() -> None:
    with pytest.raises(
        BenchError, match=r"^gemm, \d+: does not start: NativeError: HYBRID_TUNING="
    ):
        try_choice("slice_bytes", {"spin_ns": -1}, Settings(rounds=1, seconds=0.001), lambda: None)


def test_what_is_kept_stands_beside_other_machines(tmp_path: Path) -> None:
    path, machine = tmp_path / "a" / "tuning", native.tuning()[2]
    write(path, {"spin_ns": 5})
    assert path.read_text() == f"{machine} spin_ns 5\n"
    path.write_text(f"other spin_ns 4\n\n{machine} task_work 4096\n")
    write(path, {"spin_ns": 6, "near_bytes": 4096})
    assert path.read_text() == f"other spin_ns 4\n{machine} spin_ns 6\n{machine} near_bytes 4096\n"
    write(path, {})
    assert path.read_text() == "other spin_ns 4\n"
    assert [file.name for file in path.parent.iterdir()] == ["tuning"]


def test_a_write_that_fails_leaves_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tuning"
    path.write_text("other spin_ns 4\n")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(tuning.os, "replace", refuse)
    with pytest.raises(OSError, match=r"^no$"):
        write(path, {"spin_ns": 6})
    assert path.read_text() == "other spin_ns 4\n"
    assert [file.name for file in tmp_path.iterdir()] == ["tuning"]


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/her")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_path() == Path("/home/her/.cache/hybrid/tuning")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_path() == Path("/cache/hybrid/tuning")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    with pytest.raises(ArgumentError) as raised:
        default_path()
    assert str(raised.value) == (
        "there is no folder for the tuning file\nFix: set HOME, or name a file: --output PATH."
    )
