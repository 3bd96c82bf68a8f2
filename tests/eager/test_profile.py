"""profile: captures by phases, plans by steps, and traces of both."""

import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.eager.profile import Profile, Timing, _table
from hybrid.errors import ArgumentError, HybridError, Location, NativeError
from hybrid.memory import native
from hybrid.passes import PIPELINE


@hy.hybridize
def halve(x: Any) -> Any:
    for _ in range(30):
        if x.sum() > 0:
            x = x * 0.5 - 0.1
            continue
        x = x + 1
    return x


def steps_of(p: Profile) -> dict[str, int]:
    """How often steps of each name ran."""
    found: dict[str, int] = {}
    for row in p.steps:
        found[row.name] = found.get(row.name, 0) + row.calls
    return found


def test_steps_are_those_that_ran_and_where_they_are_written() -> None:
    x = hy.asarray(np.linspace(-1, 2, 64, dtype="f4"))
    plain = halve(x)
    with hy.profile() as p:
        profiled = halve(x)
    assert profiled.numpy().tobytes() == plain.numpy().tobytes()
    names = steps_of(p)
    assert (names["run of halve"], names["for"], names["cond"]) == (1, 1, 30)
    assert names["sum"] == names["greater"] == 30 and p.phases == ()
    lines = {row.name: row.at.line for row in p.steps if row.at is not None}
    assert lines["cond"] - lines["for"] == 1 and lines["multiply+subtract"] - lines["cond"] == 1
    [cond] = [row for row in p.steps if row.name == "cond"]
    assert (cond.detail, cond.at.path) == ("bool[] ->", __file__)
    [total] = [row for row in p.steps if row.name == "sum"]
    assert total.detail == "f32[1,64,1] -> f32[1,1]" and total.own == total.seconds > 0


def test_own_times_add_up_to_the_whole() -> None:
    x = hy.ones(8)
    with hy.profile() as p:
        halve(x)
    [run] = [row for row in p.steps if row.name == "run of halve"]
    assert sum(row.own for row in p.steps) == pytest.approx(run.seconds)
    assert sum(row.share for row in p.steps) == pytest.approx(1)
    assert all(0 <= row.own <= row.seconds <= p.seconds for row in p.steps)
    assert [row.own for row in p.steps] == sorted([row.own for row in p.steps], reverse=True)


def test_phases_are_the_parts_of_captures_with_each_pass() -> None:
    parameter = hy.ones(3)
    parameter.requires_grad = True

    @hy.hybridize
    def step(x):
        parameter.grad = None
        loss = ((x * parameter) ** 2).sum()
        loss.backward()
        return loss

    x = hy.ones(3)
    with hy.profile() as p:
        step(x)
        step(x)
    calls = {row.name: row.calls for row in p.phases}
    flat = [run for entry in PIPELINE for run in (entry if isinstance(entry, tuple) else (entry,))]
    assert {run.__name__ for run in flat} <= set(calls)
    names = ["capture step", "import", "convert", "backward", "passes", "place", "write", "bind"]
    assert [calls[name] for name in names] == [1] * len(names)
    times = {row.name: row for row in p.phases}
    assert times["capture step"].seconds == max(row.seconds for row in p.phases)
    whole = times["capture step"].seconds
    assert sum(row.own for row in p.phases) == pytest.approx(whole)
    assert times["trace"].seconds > times["backward"].seconds
    assert steps_of(p)["run of step"] == 2


def test_eager_calls_and_other_threads_are_in_it() -> None:
    x = hy.ones(16)

    def work() -> None:
        for _ in range(5):
            hy.tanh(x)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    with hy.profile() as p:
        work()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert steps_of(p) == {"tanh": 20, "run of tanh": 20}


def test_plans_that_die_meanwhile_are_named_if_they_were_there() -> None:
    before = hy.hybridize(lambda x: hy.sin(x) * 3)
    before(hy.ones(3))
    with hy.profile() as p:
        before(hy.ones(3))
        del before
    assert "sin+multiply" in steps_of(p)


def test_a_trace_has_an_event_for_each_phase_and_step(tmp_path: Path) -> None:
    @hy.hybridize
    def function(x):
        return hy.exp(x) @ x

    with hy.profile() as p:
        function(hy.ones((4, 4)))
    path = tmp_path / "trace.json"
    p.save(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    by_name = {event["name"]: event for event in events}
    run, step = by_name["run of function"], by_name["matmul"]
    assert run["cat"] == "run" and by_name["capture function"]["cat"] == "capture"
    assert run["ts"] <= step["ts"] and step["ts"] + step["dur"] <= run["ts"] + run["dur"] + 1e-3
    assert step["args"]["at"].startswith(f"{__file__}:")
    assert step["args"]["types"].startswith("f32[1,4,4] f32[1,4,4] -> ")
    assert all(0 <= event["ts"] <= p.seconds * 1e6 for event in events)
    p.to_chrome_trace(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_members_are_shown_on_their_threads(tmp_path: Path) -> None:
    """Each with what it moves and computes; a step cut into parts is one call."""
    from hybrid.plan import schedule

    def towers(a, b, u, v, s, t):
        return [a @ u, b @ v, hy.exp(s), hy.exp(t)]

    random = np.random.default_rng(0)
    sizes = [(16, 128)] * 2 + [(128, 400)] * 4
    given = [hy.asarray(random.standard_normal(size).astype("f4")) for size in sizes]
    threads = native.num_threads()
    native.set_num_threads(2)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schedule, "WORTH", -1.0)
            captured = hy.hybridize(towers)
            captured(*given)
        with hy.profile() as p:
            for _ in range(20):
                captured(*given)
    finally:
        native.set_num_threads(threads)
    assert steps_of(p) == {"run of towers": 20, "parallel": 20, "matmul": 40, "exp": 40}
    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    product = next(event for event in events if event["name"] == "matmul")["args"]
    assert product["FLOPs"] == 2 * 16 * 128 * 400
    assert product["bytes"] == 4 * (16 * 128 + 128 * 400 + 16 * 400)
    assert product["types"] == "f32[1,16,128] f32[1,128,400] -> f32[1,16,400]"
    assert f"{__file__}:" in product["at"] and product["thread"] >= 1
    parts = {event["args"].get("part") for event in events if event["name"] == "exp"}
    assert len(parts) > 1 and parts == {f"{i + 1} of {len(parts)}" for i in range(len(parts))}
    group = [event for event in events if event["name"] == "parallel"]
    inner = [event for event in events if event["name"] in ("matmul", "exp")]
    for event in inner:
        around = [g for g in group if g["ts"] <= event["ts"] + 1e-3 <= g["ts"] + g["dur"] + 2e-3]
        assert around and event["ts"] + event["dur"] <= around[0]["ts"] + around[0]["dur"] + 1e-3


def test_no_more_than_the_limit_is_kept() -> None:
    halve(hy.ones(8))
    with hy.profile(limit=10) as p:
        halve(hy.ones(8))
    assert sum(row.calls for row in p.steps) == 10 and p.dropped > 50
    assert f"{p.dropped:,} more steps ran than the limit of 10\n" in str(p)


def test_an_exception_ends_it_and_the_next_one_is_new() -> None:
    with pytest.raises(KeyError), hy.profile():
        raise KeyError
    with hy.profile() as p:
        pass
    assert str(p) == "nothing was captured, and no plan ran\n"


def test_one_that_ends_inside_a_run_that_it_records_does_not_wait_for_it() -> None:
    profiles = []

    def look(x):
        profiles[-1].__exit__(None, None, None)
        profiles.append(hy.profile())
        profiles[-1].__enter__()
        return x

    @hy.hybridize
    def outer(x):
        y = hy.py_call(look, hy.sin(x), result=x.type)
        return hy.cos(y) * 2.0

    profiles.append(hy.profile())
    profiles[-1].__enter__()
    for _ in range(3):
        outer(hy.ones(4))
    profiles[-1].__exit__(None, None, None)
    assert len(profiles) == 4
    names = [[row.name for row in p.steps] for p in profiles]
    assert all("sin" in found for found in names[:3])  # in the last one no run has begun


def test_a_forked_child_has_none() -> None:
    with hy.profile() as p:
        child = os.fork()
        if child == 0:
            hy.ones(3) + 1
            os._exit(0 if native.stop_profile(10)[1] == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        hy.ones(3) + 1
    assert p.steps


def test_what_is_refused() -> None:
    with pytest.raises(ArgumentError, match="limit is 0\nFix: give an int >= 1"):
        hy.profile(limit=0)
    with pytest.raises(ArgumentError, match="limit is True"):
        hy.profile(limit=True)
    with hy.profile() as p, pytest.raises(NativeError, match=r"^a profile is under way already"):
        hy.profile().__enter__()
    with pytest.raises(HybridError, match="a profile has been taken"):
        p.__enter__()
    with hy.profile() as again:  # nothing is left over
        hy.ones(2) + 1
    assert steps_of(again)


ROWS = [
    Timing("matmul+add", "f32[8,4] -> f32[8,8]", 1200, 2.5, 2.5, 0.75, Location("/a/net.py", 7)),
    Timing("for", "i64[] ->", 1, 2.50001, 0.00001234, 0.25),
]


def test_tables_as_text() -> None:
    assert _table("steps of plans", ROWS).text() == (
        "steps of plans\n"
        "what        calls         time          own  share  on                    at\n"
        "matmul+add  1,200  2,500.00 ms  2,500.00 ms  75.0%  f32[8,4] -> f32[8,8]  net.py:7\n"
        "for             1  2,500.01 ms      12.3 us  25.0%  i64[] ->\n"
    )
    many = [Timing(f"row {i}", "", 1, 1e-6, 1e-6, 0.01) for i in range(100)]
    lines = _table("phases", many).text().splitlines()
    assert lines[1] == "what     calls     time      own  share"
    assert lines[-1] == "60 more     60  60.0 us  60.0 us  60.0%" and len(lines) == 43


def test_rich_prints_tables() -> None:
    from rich.console import Console

    with hy.profile() as p:
        halve(hy.ones(8))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(p)
    text = console.export_text()
    assert "steps of plans" in text and "run of halve" in text


def test_batches_are_made_beside_the_steps_that_compute(tmp_path: Path) -> None:
    data = hy.data.TensorDataset(np.ones((400, 20_000), np.float32))
    loader = hy.data.DataLoader(data, 20, shuffle=True)

    @hy.hybridize
    def total() -> Any:
        found = hy.zeros(())
        for (x,) in loader:
            found = found + hy.tanh(hy.sin(x)).sum()
        return found

    total()
    with hy.profile() as p:
        total()
    [made] = [row for row in p.steps if row.name == "batch made ahead"]
    assert made.calls == 20 and made.detail.startswith("queue ")
    p.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    batches = [event for event in events if event["name"] == made.name]
    assert sorted(event["args"]["batch"] for event in batches) == list(range(20))
    [run] = [event for event in events if event["name"] == "run of total"]
    assert {event["tid"] for event in batches}.isdisjoint({run["tid"]})
    asked = sorted(event["ts"] for event in events if event["name"] == "next batch")
    done = {event["args"]["batch"]: event["ts"] + event["dur"] for event in batches}
    # Batch k + 1 was there before the steps of batch k were done; on a busy machine not each.
    assert len(asked) == 20 and sum(asked[k + 1] > done[k + 1] for k in range(19)) >= 10
