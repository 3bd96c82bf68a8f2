"""Calls that run eagerly, to be timed or for want of a plan, are like others; and why they do."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls.ledger import CREDIT, seconds_text
from hybrid.errors import ArgumentError, CaptureError
from tests.calls.timed import Steps, Timed, X, named, squashed
from tests.staging.harness import describe

RATE: Any = 1


# Calls that are timed ---------------------------------------------------------------------------


def test_few_calls_run_eagerly_to_be_timed_and_they_are_the_call() -> None:
    timed = Timed(named, capture=0.03, eager=0.002, plan=0.001)
    done = [timed(X, "a") for _ in range(3000)]
    assert done[0] == ["capture", "plan"]
    assert all(len(part) == 1 for part in done[1:])  # nothing is run twice
    eager = sum(part == ["eager"] for part in done)
    assert eager >= 2 and eager * timed.eager <= 0.01 * timed.clock.now
    ledger = timed.ledger
    assert ledger.calls == 3000 and ledger.eager_calls == eager
    assert ledger.saved_seconds == pytest.approx((3000 - eager) * 0.001)
    assert timed.hybridized.plans[0].calls == 3000 - eager


def test_calls_that_change_state_are_timed_with_its_effects() -> None:
    class Meter:
        def __init__(self) -> None:
            self.total, self.last = hy.zeros(3), None

    def count(meter: Any, x: Any) -> Any:
        meter.total = meter.total + x
        meter.last = x * 2
        return meter.total.sum()

    mine, other = Meter(), Meter()
    timed = Timed(lambda x: count(mine, x), capture=0.05)
    for i in range(400):
        found = timed.hybridized(X + i)
        assert describe(found) == describe(count(other, X + i))
        assert describe([mine.total, mine.last]) == describe([other.total, other.last])
    assert timed.ledger.eager_calls > 0


def test_functions_that_are_called_by_a_timed_one_are_not_captured_meanwhile() -> None:
    inner = hy.hybridize(lambda x: x * 2, ledger=True)
    outer = Timed(lambda x: inner(x) + 1, capture=0.05)
    for _ in range(400):
        outer.hybridized(X)
    assert outer.ledger.eager_calls > 0
    assert not inner.plans


def test_functions_of_other_bits_have_no_ledger() -> None:
    hybridized = hy.hybridize(lambda x: x * 2, optimize="fast", ledger=True)
    hybridized(X)
    assert hybridized.ledger.state == "off"


def test_a_plan_that_is_slower_than_eager_code_is_not_used_for_ever() -> None:
    timed = Timed(named, capture=0.003, eager=1e-6, plan=4e-6)
    with pytest.warns(UserWarning, match="runs eagerly") as caught:
        for _ in range(60_000):
            timed.hybridized(X, "a")
    assert timed.clock.now <= 1.05 * 60_000 * 1e-6 + CREDIT
    assert timed.ledger.state == "rests"
    assert len(caught) == 1
    assert str(caught[0].message).endswith(
        "A call takes 4 us by its plan, and 1 us eagerly.\n"
        "Fix: hybridize the function that calls it, of which a plan can save more."
    )


def test_a_call_is_not_timed_again_and_again_for_want_of_means() -> None:
    timed = Timed(named, capture=1e-6, eager=3e-4, plan=1e-4)
    runs, count = timed.hybridized._runs, 0
    original = runs.timed

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return original(*given)

    runs.timed = counted
    for _ in range(1000):
        timed.hybridized(X, "a")
    assert count < 60


def test_calls_rest_where_looks_are_in_vain() -> None:
    timed = Timed(named, capture=0.02, eager=1e-4, plan=1e-4)
    runs, looks = timed.hybridized._runs, 0
    now = runs.now

    def looking() -> float:
        nonlocal looks
        looks += 1
        begin = now()
        timed.clock.now += 5e-5
        return begin

    runs.now = looking
    with pytest.warns(UserWarning, match="named runs eagerly"):
        for i in range(4000):
            timed.hybridized(X, f"a{i}")
    assert timed.ledger.state == "rests"
    assert timed.ledger.calls == 4000
    assert looks * 5e-5 <= 0.1 * CREDIT + 0.011 * 4000 * 1e-4


@pytest.mark.parametrize("eager", [1e-5, 1e-3])
def test_few_calls_that_rest_are_timed_and_all_are_counted(eager: float) -> None:
    timed = Timed(named, capture=0.02, eager=eager, plan=eager)
    runs = timed.hybridized._runs
    with pytest.warns(UserWarning, match="named runs eagerly"):
        for i in range(60):
            timed.hybridized(X, f"a{i}")
    runs._rest(300)
    reads, clock = 0, runs.ledger.clock

    def counted() -> float:
        nonlocal reads
        reads += 1
        return clock()

    runs.ledger.clock = counted
    for i in range(300):
        timed.hybridized(X, mode=f"b{i}") if i % 2 else timed.hybridized(X, f"b{i}")
        assert timed.ledger.calls == 61 + i
    assert reads == (0 if eager < 1e-4 else 2 * 5)  # of calls 0, 64, 128 and so on
    timed.hybridized(X, "c")  # is looked for
    assert reads > 10 or eager < 1e-4
    assert timed.ledger.calls == 361


def test_no_call_dozes_that_is_given_an_array() -> None:
    timed = Timed(named, capture=0.02, eager=1e-5, plan=1e-5)
    with pytest.warns(UserWarning, match="named runs eagerly"):
        for i in range(60):
            timed.hybridized(X, f"a{i}")
    timed.hybridized._runs._rest(300)
    timed.hybridized(X, "a")
    assert isinstance(timed.hybridized(np.ones(3, np.float32), "a"), hy.Tensor)
    assert isinstance(timed.hybridized(np.ones(3, np.float32), mode="a"), hy.Tensor)


class Sums:
    """A tensor that has another number of rows each time, in an attribute."""

    def __init__(self, rows: int) -> None:
        self.rows = hy.ones((rows, 2))

    def added(self, x: Any) -> Any:
        return hy.sum(self.rows * x)


def in_turn(timed: Timed, call: Callable[[int], Any], passes: int) -> list[list[str]]:
    """What calls of 40 sizes did, in each of ``passes``."""
    done = []
    for _ in range(passes):
        before = len(timed.ran)
        for n in range(2, 42):
            call(n)
        done.append(timed.ran[before:])
    return done


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
@pytest.mark.parametrize("inside", [False, True], ids=["argument", "attribute"])
def test_sizes_in_turn_are_all_bound_by_and_by(inside: bool) -> None:
    costs = {"capture": 0.015, "bucket": 0.01, "binding": 0.002, "plan": 3e-5, "eager": 6e-5}
    sums = Sums(2)
    timed = Timed(sums.added if inside else squashed, **costs)

    def call(n: int) -> None:
        sums.rows = hy.ones((n, 2)) if inside else sums.rows
        timed.hybridized(hy.ones(2) if inside else hy.ones(n))

    first, *_, last = in_turn(timed, call, 120)
    assert first.count("eager") > 20  # what bindings may cost is used up
    assert last == ["plan"] * 40 or last.count("eager") <= 2  # to be timed
    assert timed.ledger.state == "captures"
    assert timed.ledger.bindings == 38  # and two captures


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_calls_that_wait_are_not_looked_up_each_time() -> None:
    timed = Timed(squashed, capture=0.015, binding=0.02, plan=3e-5, eager=6e-5)
    table, looks = timed.hybridized._table, 0
    find = table.find

    def counted(*given: Any) -> Any:
        nonlocal looks
        looks += 1
        return find(*given)

    table.find = counted
    [done] = in_turn(timed, lambda n: timed.hybridized(hy.ones(n)), 1)
    assert done.count("eager") > 30
    assert looks < 16 and table.unpaid  # not for each size, either
    looks = 0
    in_turn(timed, lambda n: timed.hybridized(hy.ones(n)), 10)
    assert looks < 10
    found = timed.hybridized(hy.ones(5))
    assert describe(found) == describe(squashed(hy.ones(5)))
    timed.hybridized.clear()
    assert not table.unpaid


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_sizes_out_of_a_declared_range_raise_while_others_wait() -> None:
    dims = {"x": {0: hy.Dim("batch", 2, 41)}}
    timed = Timed(squashed, capture=0.015, binding=0.02, plan=3e-5, eager=6e-5, dynamic=dims)
    in_turn(timed, lambda n: timed.hybridized(hy.ones(n)), 3)
    assert timed.hybridized._table.unpaid
    with pytest.raises(hy.errors.ShapeError, match="batch is 42"):
        timed.hybridized(hy.ones(42))


@pytest.mark.filterwarnings("ignore:.*runs eagerly")
def test_calls_that_wait_are_looked_up_where_guards_hold_no_more() -> None:
    global RATE
    RATE = 1
    timed = Timed(lambda x: x * len(str(RATE)), capture=0.015, binding=0.02, plan=3e-5, eager=6e-5)
    in_turn(timed, lambda n: timed(hy.ones(n)), 2)
    assert timed.hybridized._table.unpaid
    RATE = 10
    in_turn(timed, lambda n: timed(hy.ones(n)), 2)  # which compares the results


def alternating(x: Any, n: Any) -> Any:
    """A gradient that a captured function cannot take itself."""

    def loss(x: Any) -> Any:
        h, hs, total = x, [], x * 0
        for _ in range(n):
            h = h if hy.sum(h) > 100 else hy.tanh(h) * x
            hs.append(h)
        for item in hs:
            total = total + item * x
        return hy.sum(total + h * x)

    return hy.grad(loss)(x)


def test_calls_that_no_plan_gives_the_bits_of_rest_too() -> None:
    hybridized = hy.hybridize(alternating, ledger=True)
    count, want = hy.asarray(3), describe(alternating(X, hy.asarray(3)))
    with pytest.warns(UserWarning, match="alternating runs eagerly: this gradient is one"):
        assert describe(hybridized(X, count)) == want
    hybridized._runs.ledger.clock = Steps(0.02)
    for _ in range(60):
        assert describe(hybridized(X, count)) == want
    assert hybridized.ledger.state == "rests" and hybridized.ledger.calls >= 60


def test_a_capture_that_imports_modules_counts_for_nothing() -> None:
    timed = Timed(named, capture=0.3)
    modules = iter(range(100))
    timed.hybridized._runs.ledger.modules = lambda: next(modules)
    assert timed(X, "a") == ["capture", "plan"]
    assert timed.ledger.capture_seconds == pytest.approx(0.3)
    assert timed.hybridized._runs.ledger.unpaid == 0
    timed.hybridized._runs.ledger.modules = lambda: 0
    assert timed(X, "b") == ["capture", "plan"]
    assert timed(X, "c") == ["eager"]


# Reasons ------------------------------------------------------------------------------------------


def warning_of(
    function: Callable[..., Any], calls: Iterator[tuple] | list[tuple], **options
) -> str:
    timed = Timed(function, capture=0.03, eager=1e-6, plan=1e-6, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for args in calls:
            timed.hybridized(*args)
    [warning] = caught
    assert warning.filename == __file__
    assert timed.ledger.reason and timed.ledger.reason in str(warning.message)
    assert str(timed.ledger).endswith(timed.ledger.reason)
    return str(warning.message)


def test_an_argument_that_changes() -> None:
    found = warning_of(named, [(X, f"a{i}") for i in range(20)])
    assert found == (
        "named runs eagerly: 2 captures took 60 ms, and have saved 0 us in 10 calls.\n"
        "What changes: argument mode: 'a0', 'a1', 'a2', 'a3', ...\n"
        "Fix: call with few values of mode, or hybridize what does not depend on it."
    )


def test_a_number_that_cannot_be_an_input() -> None:
    def scaled(x: Any, scale: float) -> Any:
        return x * len(str(scale))

    found = warning_of(scaled, [(X, i / 10) for i in range(1, 20)])
    assert "What changes: argument scale: 0.1, 0.2, 0.3, 0.4, ...\n" in found
    assert "A number cannot become an input: " in found
    assert found.endswith(
        "Fix: pass scale as a tensor, hybrid.asarray(scale): its value is no part of the key."
    )


def test_a_list_of_another_length_each_time() -> None:
    def total(x: Any, items: Any) -> Any:
        for item in items:
            x = x + item
        return x

    found = warning_of(total, [(X, [X] * n) for n in range(3, 20)])
    assert "What changes: len(items): 3, 4, 5, 6, ...\n" in found
    assert found.endswith(
        "Fix: stack what items holds into one tensor, or pad it to a few lengths."
    )


def test_another_size_each_time() -> None:
    sizes = [17, 31, 8, 5, 4, 3, 2, 6, 7, 9, 10, 11]
    found = warning_of(lambda x: x * 2, [(hy.ones(n),) for n in sizes], dynamic=False)
    assert "What changes: shape[0] of x: 17, 31, 8, 5, ...\n" in found
    assert found.endswith("Fix: pad x to a few sizes, and leave out dynamic=False if it is there.")


def test_another_object_each_time() -> None:
    class Config:
        pass

    found = warning_of(lambda x, config: x * 2, [(X, Config()) for _ in range(20)])
    assert "What changes: argument config was another Config object at each call\n" in found
    assert found.endswith("Fix: make that object once, and pass it at each call.")


def test_a_global_that_changes() -> None:
    def rated(x: Any) -> Any:
        return x * len(RATE)

    def calls() -> Iterator[tuple]:
        global RATE
        for i in range(20):
            RATE = f"r{i}"
            yield (X,)

    found = warning_of(rated, calls())
    assert "What changes: global RATE: 'r0', 'r1', 'r2', 'r3', ...\n" in found
    assert found.endswith("Fix: let RATE have few values, or hybridize what does not depend on it.")


def test_two_keys_are_no_reason_to_warn() -> None:
    timed = Timed(named, capture=1.0)
    for i in range(200):
        timed.hybridized(X, "ab"[i % 2])
    assert timed.ledger.reason == ""


def test_explain_says_that_a_call_would_run_eagerly() -> None:
    timed = Timed(named, capture=1.0)
    timed(X, "a")
    assert timed.hybridized.explain(X, "a").verdict.startswith("a call runs plan 1 of 1")
    assert timed.hybridized.explain(X, "b").verdict == (
        "a call runs eagerly, for captures have not paid back: 1 capture took 1 s, and have "
        "saved 0 us in 1 call; a plan would be new: argument mode is 'b' where the cached plan "
        "has 'a'"
    )


def test_the_ledger_prints_what_it_knows() -> None:
    timed = Timed(named, capture=0.03, eager=0.002, plan=0.001)
    assert str(timed.ledger).splitlines()[:2] == [
        "named: new keys are captured",
        "0 calls, 0 of them eager",
    ]
    for i in range(12):
        timed.hybridized(X, f"a{i % 4}")
    assert repr(timed.ledger) == (
        "named: new keys run eagerly, until captures have paid back\n"
        "12 calls, 6 of them eager\n"
        "spent: 2 captures in 60 ms, 0 bindings in 0 us, looks for plans 0 us\n"
        "saved: 0 us\n"
        "a call takes about 1 ms by a plan, 2 ms eagerly"
    )


def test_bindings_are_counted_apart() -> None:
    timed = Timed(squashed, capture=0.001)
    with hy.profile() as p:
        for n in (3, 5, 7):
            timed.hybridized(hy.ones(n))
    assert (timed.ledger.captures, timed.ledger.bindings) == (2, 1)
    calls = {row.name: row.calls for row in p.phases}
    assert (calls["capture squashed"], calls["bind squashed"]) == (2, 1)
    assert {row.name: row.calls for row in p.steps}["run of squashed"] == 3


# What stays as it was -----------------------------------------------------------------------------


def refused(x: Any, mode: str) -> Any:
    if mode == "counts":
        refused.count += 1  # type: ignore[attr-defined]
    return x * len(mode)


refused.count = 0  # type: ignore[attr-defined]


def test_what_cannot_be_captured_raises_at_its_first_call_and_goes_on_to() -> None:
    timed = Timed(refused, capture=0.01)
    timed.hybridized(X, "a")
    for _ in range(3):
        with pytest.raises(CaptureError):
            timed.hybridized(X, "counts")


def test_what_has_run_eagerly_does_not_begin_to_raise() -> None:
    timed = Timed(refused, capture=0.2, eager=0.1, plan=0.01)
    timed.hybridized(X, "a")
    refused.count = 0  # type: ignore[attr-defined]
    timed.hybridized(X, "counts")
    with pytest.warns(UserWarning, match="refused runs eagerly: ") as caught:
        for _ in range(200):
            timed.hybridized(X, "a")
            timed.hybridized(X, "counts")
    assert refused.count == 201  # type: ignore[attr-defined]
    paid, cannot = [str(warning.message) for warning in caught]  # each of them once
    assert "What changes: refused.count: 0, 1, " in paid
    assert cannot.startswith("refused runs eagerly: refused changed refused.count")


def test_errors_of_the_function_are_those_of_eager_code() -> None:
    def fails(x: Any, mode: str) -> Any:
        if mode != "a":
            raise KeyError(mode)
        return x

    timed = Timed(fails, capture=0.02)
    timed.hybridized(X, "a")
    for i in range(20):
        with pytest.raises(KeyError, match=f"m{i}"):
            timed.hybridized(X, f"m{i}")


def test_arrays_are_tensors_in_eager_runs_too() -> None:
    timed = Timed(named, capture=1.0)
    array = np.arange(3, dtype=np.float32)
    timed.hybridized(array, "a")
    assert describe(timed.hybridized(array, "ab")) == describe(named(hy.asarray(array), "ab"))
    assert timed.ran[-1] == "eager"


def test_arrays_that_an_eager_run_writes_to_are_refused() -> None:
    def writes(x: Any, mode: str) -> Any:
        if mode == "w":
            x[0] = 7.0
        return x * 2

    timed = Timed(writes, capture=1.0)
    array = np.ones(3, np.float32)
    timed.hybridized(array, "a")
    with pytest.raises(CaptureError, match="writes writes to its argument x, a NumPy array"):
        timed.hybridized(array, "w")
    assert array.tolist() == [1, 1, 1]


def test_containers_of_arrays_are_captured() -> None:
    timed = Timed(lambda items, mode: items[0] * len(mode), capture=1.0)
    for mode in ("a", "ab", "abc"):
        timed.hybridized([np.ones(3, np.float32)], mode)
    assert timed.ledger.captures == 3


def test_copies_and_pickles_have_a_ledger_of_their_own() -> None:
    hybridized = hy.hybridize(named, ledger=True)
    hybridized(X, "a")
    for other in (copy.deepcopy(hybridized), pickle.loads(pickle.dumps(hybridized))):
        assert other.ledger.captures == 0 and hybridized.ledger.captures == 1
        other(X, "a")
        assert other.ledger.captures == 1
    hybridized.clear()
    assert hybridized.ledger.captures == 0


def test_methods_have_a_ledger_for_each_instance() -> None:
    class Net:
        @hy.hybridize(ledger=True)
        def forward(self, x: Any) -> Any:
            return x * 2

    one, other = Net(), Net()
    one.forward(X)
    assert one.forward.ledger.captures == 1 and other.forward.ledger.captures == 0


def test_modules_have_a_ledger() -> None:
    layer = hy.nn.Linear(3, 2).hybridize(ledger=True)
    layer(X)
    assert layer.ledger.captures == 1


def test_several_threads() -> None:
    hybridized = hy.hybridize(named, ledger=True)
    found: list[Any] = []

    def work(number: int) -> None:
        for i in range(60):
            mode = f"a{(i * number) % 17}"
            found.append(describe(hybridized(X, mode)) == describe(named(X, mode)))

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in (1, 2, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 180 and all(found)


def test_plans_that_had_to_go_stay_on_the_book() -> None:
    timed = Timed(named, capture=0.001, plan=0.001, eager=0.001, max_plans=2)
    for i in range(10):
        timed.hybridized(X, f"a{i}")
    assert timed.ledger.captures == 10 and len(timed.hybridized.plans) == 2
    assert timed.ledger.calls == 10
    assert timed.hybridized._runs.ledger.unpaid == pytest.approx(0.01)


def test_without_a_ledger_each_key_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    for hybridized in (hy.hybridize(named), hy.hybridize(named, ledger=False)):
        for i in range(4):
            hybridized(X, f"a{i}")
        assert len(hybridized.plans) == 4
        assert str(hybridized.ledger) == "named: each new key is captured, whatever that costs"
    monkeypatch.delenv("HYBRID_LEDGER")
    assert hy.hybridize(named).ledger.state == "captures"


def test_a_ledger_is_asked_for_by_a_flag() -> None:
    with pytest.raises(ArgumentError, match="ledger is 'no'"):
        hy.hybridize(named, ledger="no")


def test_streams_are_queued_as_before() -> None:
    timed = Timed(named, capture=1.0)
    results = [timed.hybridized.submit(X, mode) for mode in ("a", "ab", "abc")]
    assert [describe(r) for r in results] == [describe(named(X, m)) for m in ("a", "ab", "abc")]
    assert timed.ledger.eager_calls == 0


@pytest.mark.parametrize(
    "seconds, text", [(0.0, "0 us"), (2e-6, "2 us"), (0.0125, "12.5 ms"), (3.0, "3 s")]
)
def test_times_are_told_in_units_that_suit_them(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
