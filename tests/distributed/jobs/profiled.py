"""Each rank: profiles of what ranks do together, and the one that they are merged into."""

from __future__ import annotations

import inspect
import json
import sys
import tempfile
import time
from pathlib import Path

import hybrid as hy
import hybrid.distributed as dist
from hybrid.errors import ArgumentError, ArgumentTypeError, CheckpointError

dist.init(timeout=30)
RANK, SIZE = dist.rank(), dist.size()
LATE = 0.05  # seconds by which the last rank comes later


def raised(run) -> Exception:
    """What ``run`` raises."""
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing is raised")


@hy.hybridize
def work(x: hy.Tensor, part: hy.Tensor) -> hy.Tensor:
    total = dist.all_reduce(x @ x)
    return total.sum() + dist.all_gather(part).sum() + dist.broadcast(part, root=SIZE - 1).sum()


def profiled() -> hy.Tensor:
    x, part = hy.ones((128, 128)), hy.ones(16)
    work(x, part)
    dist.barrier()
    with hy.profile() as p:
        for _ in range(3):
            if RANK == SIZE - 1:
                time.sleep(LATE)
            work(x, part)
        dist.barrier()
    return p


def rows_of_one_rank() -> None:
    """What was asked for, how it was done, and the bytes that came from others."""
    p = profiled()
    found = {(row.name, row.kind): (row.calls, row.nbytes) for row in p.communication}
    if SIZE == 1:
        assert found == {} and p.communicating == 0 and p.computing > 0
        assert "communication" not in p.table()
        return
    whole = 3 * 128 * 128 * 4
    assert [found.pop(("compare", kind))[1] for kind in ("agree", "compare")] == [0, 0]
    assert found == {
        ("all_reduce", "all_to_all"): (3, whole * (SIZE - 1) // SIZE),
        ("all_reduce", "all_gather"): (3, whole * (SIZE - 1) // SIZE),
        ("all_gather", "all_gather"): (3, 3 * 64 * (SIZE - 1)),
        ("broadcast", "broadcast"): (3, 3 * 64),
        ("barrier", "barrier"): (1, 0),
    }
    seconds = sum(row.seconds for row in p.communication)
    assert abs(seconds - p.communicating) < 1e-9 and 0 < p.computing < p.seconds
    assert all(row.waiting is None and row.ranks == SIZE for row in p.communication)
    lines = {row.at.line for row in p.communication if row.name == "all_reduce"}
    assert lines == {inspect.getsourcelines(work.__wrapped__)[1] + 2}
    assert "communication: " in p.table() and " beside " in p.table()


def merged() -> None:
    """All ranks on one clock; those that came early have waited for the last."""
    found = dist.merged_profile(profiled())
    assert [row.rank for row in found.ranks] == list(range(SIZE))
    for row in found.ranks:
        assert row.waiting is not None and row.waiting <= row.communicating < row.seconds
        assert abs(row.clock_ahead) <= row.clock_error + 1e-6 or RANK == 0  # they have one clock
        assert row.clock_error < 0.02
    if SIZE > 1:
        first, last = found.ranks[0], found.ranks[-1]
        assert first.waiting > 2.5 * LATE > 3 * last.waiting
        [row] = [r for r in first.communication if (r.name, r.kind) == ("all_reduce", "all_to_all")]
        assert row.last == SIZE - 1 and row.seconds > row.waiting > 2.5 * LATE
        assert row.rate == row.nbytes / (row.seconds + row.beside - row.waiting)
        calls = sum(row.calls for row in found.communication if row.name == "all_gather")
        assert calls == 3 * SIZE
        assert f"rank {SIZE - 1}" in found.table()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        found.save(path)
        if RANK == 0:
            look_at(json.loads(path.read_text())["traceEvents"])
    error = raised(lambda: found.save("/nowhere/trace.json"))
    assert isinstance(error, (CheckpointError, FileNotFoundError)), error


def look_at(events: list[dict]) -> None:
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert set(names) == set(range(SIZE))
    assert all(name.startswith(f"rank {rank} of ") for rank, name in names.items())
    timed = [e for e in events if e["ph"] == "X"]
    assert min(e["ts"] for e in timed) >= 0
    for rank in range(SIZE):
        own = [e for e in timed if e["pid"] == rank]
        products = [e for e in own if e["name"] == "matmul"]
        sums = [e for e in own if e["name"] == "all_reduce by all_to_all"]
        assert len(products) == 3 and len(sums) == (3 if SIZE > 1 else 0)
        for product, total in zip(products, sums, strict=False):
            assert product["ts"] < total["ts"] and total["tid"] == product["tid"]
            assert total["cat"] == "communication" and total["args"]["bytes"] > 0
        waits = [e for e in own if e["cat"] == "waiting" and e["dur"] > LATE * 5e5]
        assert len(waits) == (3 if rank < SIZE - 1 else 0)
        assert {e["name"] for e in waits} <= {f"waiting for rank {SIZE - 1}"}
        for wait in waits:
            around = [e for e in own if e["cat"] == "communication" and e["ts"] == wait["ts"]]
            assert any(wait["dur"] <= e["dur"] for e in around)
    if SIZE > 1:  # the last rank begins when the waiting of the others ends
        begun = [e["ts"] for e in timed if e["pid"] == SIZE - 1 and e["name"].endswith("_to_all")]
        ends = [e["ts"] + e["dur"] for e in timed if e["pid"] == 0 and e["dur"] > LATE * 5e5]
        assert all(min(abs(end - at) for end in ends) < 1e3 for at in begun)


def messages() -> None:
    """The receiver waits until its message has been sent, the sender for nobody."""
    if SIZE == 1:
        return
    x = hy.ones(1000)
    dist.barrier()
    with hy.profile() as p:
        if RANK == 0:
            time.sleep(LATE)
            dist.send(x, to=1)
        elif RANK == 1:
            dist.recv(x, source=0)
    found = dist.merged_profile(p)
    [sent] = [row for row in found.ranks[0].communication if row.kind == "send"]
    [got] = [row for row in found.ranks[1].communication if row.kind == "recv"]
    assert (sent.nbytes, got.nbytes) == (4000, 4000) and sent.waiting == 0 and got.last == 0
    assert got.waiting > LATE / 2


def profiles_that_differ() -> None:
    """Where ranks have not recorded the same, nobody knows who waited."""
    if SIZE == 1:
        return
    dist.barrier()
    if RANK == 0:
        with hy.profile() as p:
            dist.barrier()
            dist.barrier()
    else:
        dist.barrier()
        with hy.profile() as p:
            dist.barrier()
    found = dist.merged_profile(p)
    assert [row.waiting for row in found.ranks] == [None] * SIZE
    with hy.profile() as p:
        pass
    assert dist.merged_profile(p).ranks[0].waiting == 0


def refused() -> None:
    error = raised(lambda: dist.merged_profile("p"))
    assert isinstance(error, ArgumentTypeError)
    assert str(error) == "merged_profile of a str\nFix: give what hybrid.profile() gave."
    with hy.profile() as p:
        error = raised(lambda: dist.merged_profile(p))
    assert isinstance(error, ArgumentError)
    assert str(error) == (
        "merged_profile of a profile whose block has not ended\n"
        "Fix: call it behind the block of hybrid.profile()."
    )


TESTS = (rows_of_one_rank, merged, messages, profiles_that_differ, refused)
for test in TESTS:
    if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
        test()
dist.barrier()
print(f"rank {RANK} of {SIZE}: all is well")
