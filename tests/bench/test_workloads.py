"""Every workload builds, checks its results, and can be measured."""

import functools
import re
import time
from collections.abc import Callable

import numpy as np
import pytest

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.registry import BenchError, Case, Target, Workload, find, workload, workloads
from hybrid.bench.runner import ledgers_kept, run_case, threads_set_to
from hybrid.bench.workloads import call_costs, digits_accuracy, size_changes, stream_calls
from hybrid.bench.workloads.callers import Callers
from hybrid.bench.workloads.digits_accuracy import DigitReader, compare
from hybrid.errors import ArgumentError
from hybrid.memory import native

CASES = [(load, case) for load in workloads().values() for case in range(len(load.build()))]


FIRST_WAYS = {
    "int4_linear": {"float32"},
    "int8_linear": {"float32"},
    "parallel": {"serial"},
    "int8_conv": {"float32"},
    "sink": {"batch in place"},
    "sizes": {"eager", "alone", "dynamic=False"},
    "distributed": {"1 rank", "mpi4py"},
    "new_sizes": {"known", "eager"},
    "verified": {"plain"},
}


@functools.lru_cache(maxsize=1)
def built(load: Workload) -> list[Case]:
    return load.build()


@pytest.mark.parametrize(
    ("load", "case"), CASES, ids=[f"{load.name}-{case}" for load, case in CASES]
)
def test_workload(load: Workload, case: int) -> None:
    rounds = []
    result = run_case(load, built(load)[case], 2, seconds=1e-6, advance=lambda: rounds.append(None))
    assert len(rounds) == 2
    first = FIRST_WAYS.get(load.name, {"eager"})
    assert result.workload == load.name and result.lines[0].way in first
    for line in result.lines:
        assert 0 < line.timing.p10 <= line.timing.median <= line.timing.p90
        assert line.first_call > 0
        assert (line.gflops is not None) == (load.name == "matmul")


def test_parallel_measures_what_runs_side_by_side() -> None:
    made = find("parallel").build()
    names = [case.label.split(",")[0] for case in made]
    assert sorted(set(names), key=names.index) == [
        *("two towers", "inception block", "32 chains", "60 updates")
    ]
    assert [case.threads for case in made] == [1, 2] * 4
    members = []
    for case in made[1::2]:
        for way in case.ways.values():
            way()
        [(name, fact)] = case.check().items()
        assert name == case.label
        members.append(fact.split(";")[0])
    assert members == [f"groups of {n} members" for n in (2, 3, 32, 60)]


def test_overheads_have_budgets_and_the_graphs_they_speak_of() -> None:
    made = {case.label: case for case in find("overheads").build()}
    assert {label: list(case.budgets.items()) for label, case in made.items()} == {
        "an op": [("eager", 0.7e-6)],
        "a call": [("hybridized", 2.5e-6)],
        "a kernel step": [("hybridized", 30e-9)],
        "a map kernel": [("hybridized", 15e-9)],
    }
    wrong = call_costs.case(hy.zeros(8), "two", call_costs.twice, 2, "eager", 1.0)
    with pytest.raises(BenchError) as raised:
        wrong.check()
    assert str(raised.value) == "two: the graph has 1 nodes instead of 2"


def test_sizes_are_met_once_and_again_with_targets() -> None:
    made = {case.label: case for case in find("sizes").build()}
    assert {label: dict(case.targets) for label, case in made.items()} == {
        "200 lengths, 64 wide": {"hybridized": (Target(0.6),)},
        "200 lengths, 256 wide": {"hybridized": (Target(0.6),)},
        "seen before, 64 wide": {"open": (Target(1.05),)},
        "seen before, 256 wide": {"open": (Target(1.05),)},
        "seen before, x + x": {"open": (Target(1.0, more=0.3e-6),)},
        "cache of 100 tokens": {"hybridized": (Target(0.7),)},
        "cache of 100 tokens in attributes": {"hybridized": (Target(0.7),)},
        "sum of a mask, 100,000": {"hybridized": (Target(1.1),)},
        "first calls, 64 wide": {"first call": (Target(1.1),)},
        "first calls, 256 wide": {"first call": (Target(1.1),)},
    }
    assert {case.clock for case in made.values()} == {"cpu"}
    assert {case.threads for case in made.values()} == {1}
    assert made["sum of a mask, 100,000"].check() == {}


def test_each_size_is_met_once_by_a_function_that_is_new() -> None:
    met: list[list[int]] = []

    def make() -> Callable[[int], int]:
        met.append([])
        return lambda x: met[-1].append(x) or -x

    way = size_changes.EachOnce(make, [4, 2], [7, 5, 9])
    assert way.sample(2) >= 0 and way.found == [-7, -5, -9]
    assert met == [[4, 2, 7, 5, 9]] * 2


def test_what_serves_all_sizes_is_one_open_plan() -> None:
    make, layer = size_changes.layer_of(8)
    call = make()
    for n in (*size_changes.FIRST, 5, 9):
        require_same_bits(
            "layer", layer(size_changes.floats(1, n, 8)), call(size_changes.floats(1, n, 8))
        )
    assert len(call.plans) == 2  # the first call's own, and the open one


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_callers_share_the_calls(count: int) -> None:
    calls: list[int] = []
    assert Callers(2, lambda: calls.append(0)).sample(count) > 0
    assert len(calls) == count


def test_digits_reaches_its_accuracy_with_identical_bits() -> None:
    (case,) = find("digits").build()
    facts = case.check()
    assert facts["test accuracy"].startswith("9") and "identical bits" in facts


def test_too_low_an_accuracy_is_found() -> None:
    case = compare("rnn_digits", lambda: DigitReader(4), epochs=1)
    with pytest.raises(BenchError) as raised:
        case.check()
    assert re.fullmatch(
        r"rnn_digits: \d+\.\d% of the test images are recognised\n"
        r"More than 95% are expected after 1 epochs\.",
        str(raised.value),
    )


def test_a_plan_for_each_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits_accuracy, "REQUIRED_ACCURACY", -1.0)
    case = compare("rnn_digits", lambda: DigitReader(4), epochs=0)
    with pytest.raises(BenchError) as raised:
        case.check()
    assert str(raised.value) == "rnn_digits: 0 plans were made for steps that are all alike"


def test_the_rows_are_read_in_a_loop() -> None:
    images = hy.zeros((5, 64))
    graph = hy.hybridize(DigitReader(4)).graph(images)
    assert [node.op.name for node in graph.nodes].count("for") == 1


def test_matmul_runs_on_one_thread() -> None:
    before = native.num_threads()
    seen = []
    case = Case("x", {"eager": lambda: seen.append(native.num_threads())}, dict, threads=1)
    result = run_case(Workload("x", "x", lambda: [case]), case, 1, seconds=0.0)
    assert set(seen) == {1} and result.threads == 1
    assert native.num_threads() == before
    with threads_set_to(None) as count:
        assert count == before


def test_an_unknown_workload_names_the_nearest() -> None:
    with pytest.raises(ArgumentError) as raised:
        find("mlptrain")
    assert str(raised.value) == "there is no bench named 'mlptrain'; did you mean 'mlp_train'?"
    with pytest.raises(ArgumentError, match="see `hybrid bench list`"):
        find("zzzzzzzz")


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        workload("dispatch", "again")(list)


TREE = {"a": hy.asarray([1.0, 2.0]), "b": [hy.asarray(3), 4]}


def test_same_bits() -> None:
    assert require_same_bits("x", TREE, {"a": hy.asarray([1.0, 2.0]), "b": [hy.asarray(3), 4]}) == 3
    nan = hy.asarray(np.array([np.nan], np.float32))
    require_same_bits("x", nan, hy.asarray(np.array([np.nan], np.float32)))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            {"a": hy.asarray([1.0, 2.5]), "b": [hy.asarray(3), 4]},
            "x: eager and hybridized differ in 'a'\n1 of 2 elements, the largest gap is 0.5.",
        ),
        (
            {"a": hy.asarray([1.0, 2.0]), "b": [hy.asarray(3), 5]},
            "x: eager and hybridized differ in 'b.1'\n4 and 5.",
        ),
        (
            {"a": hy.asarray([1, 2]), "b": [hy.asarray(3), 4]},
            "x: eager and hybridized differ in 'a'\nfloat32[2] and int64[2].",
        ),
        (
            {"a": hy.asarray([1.0, 2.0])},
            "x: only one of eager and hybridized has 'b.0'",
        ),
    ],
)
def test_other_bits_are_found(other: object, expected: str) -> None:
    with pytest.raises(BenchError) as raised:
        require_same_bits("x", TREE, other)
    assert str(raised.value) == expected


def test_signed_zeros_are_other_bits() -> None:
    with pytest.raises(BenchError, match="0 of 1 elements"):
        require_same_bits("x", hy.asarray([0.0]), hy.asarray([-0.0]))


def test_a_wrong_result_is_found() -> None:
    with pytest.raises(BenchError, match=r"NumPy's result differs by up to 0\.5"):
        require_close("x", hy.asarray([1.0]), np.asarray([1.5], np.float32))


def test_async_measures_the_return_and_the_end() -> None:
    made = find("async").build()
    assert [case.threads for case in made] == [1, 2] * 2
    assert all(case.parts == stream_calls.CALLS for case in made)
    done: list[int] = []
    stream = hy.stream()
    x = hy.ones((700, 700))

    def work() -> None:
        assert stream.done()  # what was queued before is waited for
        done.append(1)
        for _ in range(10):
            x @ x

    took = stream_calls.Return(stream, work).sample(100)
    assert len(done) == stream_calls.MOST and stream.done()
    started = time.perf_counter()
    with stream:
        work()
    stream.wait()
    assert 0 < took / 100 < time.perf_counter() - started


def test_plans_are_timed_but_where_ledgers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYBRID_LEDGER")
    with ledgers_kept(False):
        assert hy.hybridize(hy.exp).ledger.state == "off"
    with ledgers_kept(True):
        assert hy.hybridize(hy.exp).ledger.state == "captures"
    monkeypatch.setenv("HYBRID_LEDGER", "1")
    with ledgers_kept(False):
        assert hy.hybridize(hy.exp).ledger.state == "off"
    assert hy.hybridize(hy.exp).ledger.state == "captures"
    assert [load.name for load in workloads().values() if load.ledgers] == ["new_sizes", "sizes"]
