"""The time of each test is kept; which may take long is listed; see ``tools/durations.py``."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import durations

SLOW = durations.listed(durations.LIST.read_text(encoding="utf-8"))

TESTS = """
import subprocess, sys, time
import pytest

def used(seconds):
    while time.process_time() < used.until + seconds: pass

@pytest.fixture
def long_fixture():
    used.until = time.process_time()
    used(0.1)

def test_fixture(long_fixture):
    assert 0

def test_child():
    code = "import time\\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code])

def test_waits():
    time.sleep(0.4)

def test_absent():
    pytest.skip("needs what is not there")
"""


def test_tests_that_may_take_long_are_tests_and_have_a_reason() -> None:
    for test, reason in SLOW.items():
        path, _, name = test.partition("::")
        text = (durations.LIST.parents[2] / path).read_text(encoding="utf-8")
        assert f"def {name.rpartition('::')[2]}(" in text and reason.strip(), test
    assert [*SLOW] == sorted(SLOW)


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one process", "two"])
def test_the_time_of_each_test_is_kept(processes: list[str], tmp_path: Path) -> None:
    root = durations.LIST.parents[2]
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.append({str(root)!r})\n"
        "from tests.tools.durations import Durations\n"
        "def pytest_configure(config):\n"
        "    config.pluginmanager.register(Durations(config))\n"
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    subprocess.run(
        [sys.executable, "-m", "pytest", *processes, "-q", "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        check=False,
        capture_output=True,
    )
    kept = (tmp_path / ".pytest_cache/d/durations/seconds.csv").read_text(encoding="utf-8")
    rows = {test: (float(taken), how) for taken, test, how in csv.reader(kept.splitlines())}
    names = ("child", "fixture", "waits", "absent")
    assert sorted(rows) == sorted([f"test_it.py::test_{name}" for name in names])
    assert [taken for taken, _ in rows.values()] == sorted([t for t, _ in rows.values()])[::-1]
    (child, fixture, waits, absent), how = zip(
        *[rows[f"test_it.py::test_{n}"] for n in names], strict=True
    )
    assert child > 0.25 and 0.09 < fixture < child and waits < 0.09 and absent < 0.09
    assert how == ("run", "run", "run", "skipped")


def test_what_takes_long_is_found_unless_it_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed, kept = tmp_path / "slow_tests.txt", tmp_path / "seconds.csv"
    monkeypatch.setattr(durations, "LIST", listed)
    monkeypatch.setattr(durations, "seconds_alone", lambda tests: dict.fromkeys(tests, 3.05))
    listed.write_text("# why\n\na.py::test_a: it is: so\na.py::test_b: so\nb.py::test: so\n")
    kept.write_text(
        '9.5,a.py::test_a[1],run\n3.1,"a.py::test_c[x, y]",run\n0.2,a.py::test_b,run\n'
        "3.0,c.py::d,run\n"
    )
    assert durations.main(kept) == 1
    assert capsys.readouterr().out == (
        "run again, alone: a.py::test_c[x, y]\nrun again, alone: a.py::test_c[x, y]\n"
        "a.py::test_c[x, y] takes 3.0 s of 3.0\n"
        "b.py::test is listed and was not run\n"
        "a.py::test_b is listed and takes 0.2 s: it need not be\n"
        "4 tests, 16 s of processor time, 2 over 3.0 s\n"
    )
    listed.write_text("a.py::test_a: so\na.py::test_b: so\na.py::test_c: so\n")
    assert durations.main(kept) == 0
    assert "a.py::test_b is listed and takes 0.2 s" in capsys.readouterr().out
    listed.write_text("a.py::test_a: so\na.py::test_c: so\n")
    kept.write_text("9.5,a.py::test_a[1],run\n0.0,a.py::test_c,skipped\n")
    assert durations.main(kept) == 0


def test_a_slow_machine_gets_more_time() -> None:
    few = {"a.py::test": 9.0}
    assert durations.limit_of(few) == 3.0
    for average, limit in ((0.01, 3.0), (0.03, 3.0), (0.06, 6.0)):
        many = {f"a.py::test_{i}": average for i in range(durations.MANY)}
        assert durations.limit_of(many) == pytest.approx(limit)
    late = {**many, "a.py::test": 9.0, "b.py::test": 5.5}
    assert durations.too_long(late, {}, durations.limit_of(late)) == ["a.py::test"]


def test_one_that_took_long_is_run_again_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The tests of this file take less than three seconds, whatever an earlier run says."""
    monkeypatch.chdir(durations.LIST.parents[2])
    kept, test = (
        tmp_path / "seconds.csv",
        "tests/test_durations.py::"
        + (test_tests_that_may_take_long_are_tests_and_have_a_reason.__name__),
    )
    kept.write_text(f"9.5,{test},run\n")
    listed = tmp_path / "slow_tests.txt"
    listed.write_text("")
    monkeypatch.setattr(durations, "LIST", listed)
    assert durations.main(kept) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"run again, alone: {test}"
    assert last.startswith("1 tests, 0 s") and last.endswith("0 over 3.0 s")
