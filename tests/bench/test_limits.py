"""The machine's limits: the work that C states is done, and a share of them is the roofline's."""

import threading
from pathlib import Path

import pytest

from hybrid.bench import limits
from hybrid.bench.limits import Limit, Limits
from hybrid.memory import native

ROWS = (
    Limit("f32", "", 1, 100.0, "FLOP/s"),
    Limit("L1", "", 1, 50.0, "B/s"),
    Limit("memory", "", 1, 5.0, "B/s"),
)


def test_every_limit_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # Some machines have caches of which four times the size takes seconds to go over.
    monkeypatch.setattr(limits, "cache_sizes", lambda: dict(limits.USUAL))
    found = limits.measure(2, seconds=0.002)
    for _ in range(9):  # something else may have run beside a part of it
        if found.rate("f32") > found.rate("f64"):
            break
        found = limits.measure(2, seconds=0.002)
    names = [row.name for row in found.rows]
    assert names[:2] == ["f32", "f64"] and names[-4:] == ["L1", "L2", "L3", "memory"]
    assert all(row.threads == 2 and row.rate > 1e8 for row in found.rows)
    assert found.rate("f32") > found.rate("f64")
    assert len(found.document()) == len(names)


@pytest.mark.parametrize("name", limits.CODES)
def test_work_grows_with_the_rounds(name: str) -> None:
    data, nbytes = (native.borrow(bytearray(12 * 64)), 12 * 64) if name == "triad" else (None, 0)
    one, ten = (limits.do_rounds(name, rounds, data, nbytes) for rounds in (1, 10))
    assert (one > 0) == bool(limits.instructions(name))
    assert ten == 10 * one
    assert limits.do_rounds(name, 0, data, nbytes) == 0
    if name == "triad":
        assert one == nbytes and limits.do_rounds(name, 1) == 0


def test_the_share_of_the_limit() -> None:
    found = Limits(1, ROWS, (("L1", 1000),))
    assert found.share(200, 0, 4) == 0.5  # operations decide
    assert found.share(0, 1000, 40) == 0.5  # bytes do, which the cache holds
    assert found.share(0, 2000, 800) == 0.5  # and which it does not
    assert found.share(300, 100, 6) == 0.5


def test_caches_as_the_system_tells_them(tmp_path: Path) -> None:
    told = (("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"))
    for index, values in enumerate(told):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, value in zip(("level", "type", "size"), values, strict=True):
            (folder / name).write_text(f"{value}\n")
    (tmp_path / "index3").mkdir()  # tells nothing
    assert limits.cache_sizes(tmp_path) == {
        "L1": 48 << 10, "L2": 2 << 20, "L3": limits.USUAL["L3"],
    }  # fmt: skip
    assert limits.cache_sizes(tmp_path / "none") == limits.USUAL


def test_runs_at_once_count_together() -> None:
    assert limits.together([(0.0, 2.0, 6.0), (1.0, 3.0, 6.0)]) == 4.0
    assert limits.apart([(0.0, 2.0, 6.0), (101.0, 103.0, 6.0)]) == 6.0


def test_the_time_of_the_processor() -> None:
    assert limits.best("f32", 2, 0, 0.002, "cpu") > 1e9


def test_threads_end() -> None:
    before = threading.active_count()
    limits.best("f32", 3, 0, 0.001)
    assert threading.active_count() == before
