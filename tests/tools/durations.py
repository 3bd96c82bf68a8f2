"""How long each test takes, in seconds of processor time; none may take over three unless listed.

    python -m tests.tools.durations [FILE]   # of the last run; or of a file that it left

Every run of the tests leaves ``.pytest_cache/d/durations/seconds.csv``, the slowest first: the
processor time of a test with its fixtures, threads and the programs it has waited for.  Unlike the
time on the clock it is nearly the same whatever else the machine does.  ``slow_tests.txt`` lists
those that may take long, each with the reason.  Three seconds are those of a machine on which all
tests take 30 milliseconds each, on average; where they take longer it is slow, and so is the one
in question.  Another one that takes long is run again, alone.  The exit code is 1 if it does each
of three times, or if one that is listed is no longer there.  One that is listed and takes less than
half a second is shown, for it need not be: how quick a machine is refuses no change.  One that is
skipped, for want of a program that this machine lacks, takes no time and may be listed.
"""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow_tests.txt")
KEPT = Path(__file__).resolve().parents[2] / ".pytest_cache/d/durations/seconds.csv"
LIMIT, QUICK = 3.0, 0.5
TRIES = 3
USUAL, MANY = 0.03, 1000  # seconds of a test, on average; tests that make an average


def processor_seconds() -> float:
    """What this process has used, with those that it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


class Durations:
    """A plugin of pytest: each report of a test's end says what the test has used."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: dict[str, float] = {}
        self.skipped: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self.start = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            report.processor_seconds = processor_seconds() - self.start  # xdist carries it over
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped.add(report.nodeid)
        if report.when == "teardown":
            self.seconds[report.nodeid] = report.processor_seconds

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self.config, "cache", None)
        if cache is None or hasattr(self.config, "workerinput"):
            return
        slowest = sorted(self.seconds.items(), key=lambda item: -item[1])
        file = cache.mkdir("durations") / KEPT.name
        with open(file, "w", encoding="utf-8", newline="") as text:
            csv.writer(text).writerows(
                (f"{taken:.3f}", test, "skipped" if test in self.skipped else "run")
                for test, taken in slowest
            )


def listed(text: str) -> dict[str, str]:
    """The reason of each test of ``slow_tests.txt``; ``[...]`` stands for any parameters."""
    rows = [line.split(": ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {test: reason for test, reason in rows}


def kept_in(file: Path) -> dict[str, float]:
    with open(file, encoding="utf-8", newline="") as text:
        return {test: float(taken) for taken, test, _ in csv.reader(text)}


def skipped_in(file: Path) -> set[str]:
    """The tests, without their parameters, of which some were skipped."""
    with open(file, encoding="utf-8", newline="") as text:
        return {test.partition("[")[0] for _, test, how in csv.reader(text) if how == "skipped"}


def seconds_alone(tests: list[str]) -> dict[str, float]:
    """What ``tests`` take when nothing but them runs."""
    with tempfile.TemporaryDirectory() as cache:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "0", "-o", f"cache_dir={cache}", *tests],
            check=False,
            stdout=subprocess.DEVNULL,
        )
        return kept_in(Path(cache, *KEPT.parts[-3:]))


def limit_of(seconds: dict[str, float]) -> float:
    """What a test may take on the machine on which they all took ``seconds``."""
    average = sum(seconds.values()) / len(seconds) if len(seconds) >= MANY else USUAL
    return LIMIT * max(average / USUAL, 1.0)


def too_long(seconds: dict[str, float], slow: Collection[str], limit: float) -> list[str]:
    """The tests over the limit that are not listed."""
    return [
        test
        for test, taken in seconds.items()
        if taken > limit and test.partition("[")[0] not in slow
    ]


def longest_of(seconds: dict[str, float]) -> dict[str, float]:
    """The most that each test took with any of its parameters."""
    longest: dict[str, float] = {}
    for test, taken in seconds.items():
        name = test.partition("[")[0]
        longest[name] = max(taken, longest.get(name, 0.0))
    return longest


def faults(seconds: dict[str, float], slow: Collection[str], limit: float) -> list[str]:
    """What takes long and is not listed, and what is listed and not there."""
    late = [
        f"{test} takes {seconds[test]:.1f} s of {limit:.1f}"
        for test in too_long(seconds, slow, limit)
    ]
    there = longest_of(seconds)
    return late + [f"{name} is listed and was not run" for name in slow if name not in there]


def quick_ones(
    seconds: dict[str, float], slow: Collection[str], skipped: Collection[str]
) -> list[str]:
    """What is listed and need not be."""
    longest = longest_of(seconds)
    return [
        f"{name} is listed and takes {longest[name]:.1f} s: it need not be"
        for name in slow
        if name not in skipped and longest.get(name, QUICK) < QUICK
    ]


def main(file: Path) -> int:
    seconds = kept_in(file)
    slow = listed(LIST.read_text(encoding="utf-8"))
    limit = limit_of(seconds)
    for _ in range(TRIES - 1):
        if late := too_long(seconds, slow, limit):
            print("run again, alone:", *late)
            for test, taken in seconds_alone(late).items():
                seconds[test] = min(taken, seconds[test])
    found = faults(seconds, slow, limit)
    total, most = sum(seconds.values()), sum(taken > limit for taken in seconds.values())
    for line in found + quick_ones(seconds, slow, skipped_in(file)):
        print(line)
    print(f"{len(seconds)} tests, {total:.0f} s of processor time, {most} over {limit:.1f} s")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else KEPT))
