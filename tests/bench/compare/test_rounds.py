"""A comparison goes on whatever a peer does, and tells what that was."""

import functools
import sys
from collections.abc import Callable

import pytest

from hybrid.bench.compare.cases import WORKLOADS
from hybrid.bench.compare.comparison_report import document, remarks, slower, table_of
from hybrid.bench.compare.contenders import (
    NAMES,
    Contender,
    Survey,
    contender,
    interpreters,
    survey,
)
from hybrid.bench.compare.process import Process
from hybrid.bench.compare.rounds import Comparison, ContenderLine, Settings, compare_case
from hybrid.bench.measure import SampleTiming
from hybrid.errors import ArgumentError

Fake = Callable[..., str]
QUICK = Settings(threads=1, rounds=3, seconds=0.002, timeout=300)
DISPATCH = WORKLOADS["dispatch"]


@functools.cache
def surveyed(name: str) -> Survey:
    return survey(contender(name), 1, 300)


def compared(*others: Contender) -> Comparison:
    everyone = [contender("hybrid"), *others]
    surveys = {
        who.name: surveyed(who.name) if who == contender(who.name) else survey(who, 1, 300)
        for who in everyone
    }
    return compare_case(DISPATCH, DISPATCH.cases[0], everyone, surveys, QUICK)


class Impatient(Contender):
    """The others have as long as they need."""

    def start(self, threads: int, timeout: float) -> Process:
        return super().start(threads, 3.0)


def faulty(path: str, kind: type[Contender] = Contender) -> Contender:
    return kind("jax", "jax", "", path)


def test_numpy_is_compared() -> None:
    found = compared(contender("numpy"))
    assert [line.state for line in found.lines] == ["timed", "timed"]
    ours, numpys = found.lines
    assert ours.timing.samples == 3 and ours.timing.p10 <= ours.timing.median <= ours.timing.p90
    assert 0 < ours.first_call < 60 and ours.peak >= ours.loaded > 1 << 20
    assert found.best == "numpy"
    assert found.speed("numpy") == numpys.timing.median / ours.timing.median
    assert set(found.versions) == {"hybrid", "numpy"}


FAULTS = {
    "dies when it is built": (
        {"build": "os._exit(3)"}, "failed", "it ended with code 3",
    ),
    "dies in the third sample": (
        {"sample": "os._exit(4) if asked['count'] > 3 else {'seconds': 1e-4}"},
        "failed", "it ended with code 4",
    ),
    "dies at the end": ({"memory": "os._exit(5)"}, "failed", "it ended with code 5"),
    "hangs": ({"check": "time.sleep(50)"}, "timed out", "no answer after 3 s"),
    "computes something else": (
        {"check": "{'first_call': 1, 'results': {'result': "
                  "{'shape': [8], 'values': [0.0] * 8, 'root mean square': 0.0}}}"},
        "disagrees", "its result has 0 where ",
    ),
    "raises": ({"check": '{"error": "MemoryError: no"}'}, "failed", "MemoryError: no"),
    "has unreadable results": (
        {"check": "{'first_call': 1, 'results': {'result': 7}}"}, "failed",
        "its results cannot be read: TypeError(",
    ),
    "cannot load": ({"load": '{"error": "OSError: libmkl"}'}, "does not start", "OSError: libmkl"),
    "has not the package": (
        {"load": '''{"error": "ModuleNotFoundError: No module named 'jax'"}'''}, "not installed",
        "ModuleNotFoundError: No module named 'jax'; name an interpreter that has it: "
        "--python jax=PATH",
    ),
    "has no such program": (
        {"load": '{"version": "1", "workloads": []}'}, "not supported", "no dispatch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FAULTS)
def test_the_others_are_timed_beside_one_that(what: str, fake: Fake) -> None:
    does, state, reason = FAULTS[what]
    good = f"{{'first_call': 1, 'results': {_dispatched()!r}}}"
    path = fake(**({"check": good} | does))
    found = compared(contender("numpy"), faulty(path, Impatient))
    ours, numpys, bad = found.lines
    assert (ours.state, numpys.state) == ("timed", "timed") and ours.timing.samples == 3
    assert (bad.state, bad.timing) == (state, None)
    assert bad.reason.startswith(reason)
    assert found.speed("jax") is None and found.best == "numpy"
    assert any(bad.name in note for note in remarks([found]))


@functools.cache
def _dispatched() -> dict:
    with contender("numpy").start(1, 60) as process:
        process.ask("load")
        process.ask("build", workload="dispatch", case="8", variant="")
        return process.ask("check")["results"]


def test_when_ours_fails_the_others_are_compared_with_each_other(fake: Fake) -> None:
    ours = Contender("hybrid", "hybrid", "", fake(check="os._exit(1)"))
    everyone = [ours, contender("numpy"), faulty(fake())]
    surveys = {who.name: survey(who, 1, 30) for who in everyone}
    found = compare_case(DISPATCH, DISPATCH.cases[0], everyone, surveys, QUICK)
    assert [line.state for line in found.lines] == ["failed", "timed", "disagrees"]
    assert slower([found], 0.1) == ["dispatch (8): hybrid has no time"]


def test_who_takes_part() -> None:
    assert contender("torch.compile", {"torch": "/x"}) == Contender(
        "torch.compile", "torch", "compile", "/x"
    )
    assert contender("jax").python == sys.executable
    assert interpreters(["jax=/a=b", "torch=/c"]) == {"jax": "/a=b", "torch": "/c"}
    assert all(contender(name).name == name for name in NAMES)


ERRORS = {
    lambda: contender("tensorflw"): (
        "there is no peer named 'tensorflw'; did you mean 'tensorflow'?"
    ),
    lambda: contender("qqqq"): (
        "there is no peer named 'qqqq'\nFix: choose among hybrid.eager, torch, torch.compile, jax, "
        "onnxruntime, tensorflow, numpy."
    ),
    lambda: interpreters(["jax"]): (
        "'jax' names no interpreter\nFix: write PEER=PATH, as in jax=/path/to/python; "
        "peers: torch, jax, onnxruntime, tensorflow, numpy."
    ),
}


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError) as raised:
        call()
    assert str(raised.value) == ERRORS[call]


def made(**medians: float | None) -> Comparison:
    lines = tuple(
        ContenderLine(name.replace("_", "."), "failed", "no") if median is None
        else ContenderLine(
            name.replace("_", "."), timing=SampleTiming(median, median, median, 3, 1)
        )
        for name, median in medians.items()
    )  # fmt: skip
    return Comparison("gemm", "2x2x2", lines, 16.0, 48.0)


def test_the_best_of_the_others_decides() -> None:
    found = made(hybrid=2.0, hybrid_eager=0.5, jax=1.0, torch=3.0, numpy=None)
    assert found.best == "jax" and found.speed("jax") == 0.5 and found.speed("torch") == 1.5
    assert slower([found], 0.5) == []
    assert slower([found], 0.6) == ["gemm (2x2x2): 0.50 times as fast as jax"]
    assert slower([made(hybrid=None, jax=1.0)], 0.1) == ["gemm (2x2x2): hybrid has no time"]
    assert slower([made(hybrid=1.0)], 2.0) == []
    assert slower([made(hybrid=1.0, jax=None)], 0.1) == ["gemm (2x2x2): no peer has a time"]
    lacking = Comparison(
        "gemm", "2x2x2", (*found.lines[:1], ContenderLine("jax", "not supported")), 1, 1
    )
    assert slower([lacking], 2.0) == []


def test_the_table_and_the_document() -> None:
    found = made(hybrid=2.0, jax=1.0, torch=None)
    table = table_of([found])
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert columns["workload"] == ["gemm", "  2x2x2", ""]
    assert columns["peer"] == ["hybrid", "jax", "torch"]
    assert columns["ours"] == ["", "0.50x", ""]
    assert [str(cell) for cell in columns["median"]] == ["2.00 s", "1.00 s", "failed"]
    assert remarks([found]) == ["torch: gemm (2x2x2): failed: no"]
    written = document([found], QUICK, None)
    assert written["settings"]["rounds"] == 3 and written["machine"]["isa"]
    (one,) = written["comparisons"]
    assert one["best"] == "jax" and one["speed"] == {"hybrid": 1.0, "jax": 0.5, "torch": None}
    assert one["lines"][1]["timing"]["median"] == 1.0
