"""Files of plans: damaged, foreign and hostile ones, many processes, no room, no folder."""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hybrid as hy
from hybrid.calls.files import store
from tests.staging.harness import describe, f32

KEPT, LOADED = "kept in a file", "loaded from a file"
X = f32([0.5, -1.0, 2.0])


def function(x):
    while hy.sum(x) < 20.0:
        x = x * 2.0 + 1.0
    return x, {"sum": hy.sum(x)}


def kept(call: Callable[..., Any]) -> str:
    """What is said of the only plan, once it has given what it should."""
    assert describe(call(X)) == describe(function(X))
    (plan,) = call.plans
    return plan.filed


@pytest.fixture
def path(folder: Path) -> Path:
    """The file of a plan for ``function``."""
    assert kept(hy.hybridize(function)) == KEPT
    (found,) = folder.iterdir()
    return found


def entry_of(path: Path) -> Any:
    return store.unpacked(path.read_bytes())


def with_digest(content: bytes) -> bytes:
    return store.packed({**store.unpacked(content), "digest": "0" * 40})


def with_lengths(content: bytes, change: Callable[[list[int]], Any]) -> bytes:
    """Of which the entry tells of other parts than there are."""
    line, _, rest = content.partition(b"\n")[2].partition(b"\n")
    entry = json.loads(line)
    entry["parts"] = change(entry["parts"])
    return store.signed(json.dumps(entry).encode() + b"\n" + rest)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda content: b"",
    "a part": lambda content: content[: len(content) // 2],
    "all but a byte": lambda content: content[:-1],
    "more": lambda content: content + b" ",
    "zeros": lambda content: bytes(len(content)),
    "one bit": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "another version": lambda content: content.replace(b"hybrid-plan 5", b"hybrid-plan 1", 1),
    "an image": lambda content: b"\x89PNG\r\n\x1a\n" + content,
    "of something else": with_digest,
    "no JSON": lambda content: store.signed(b"[1,"),
    "deep": lambda content: store.signed(b"[" * 100_000),
    "a list": lambda content: store.signed(b"[1]"),
    "an empty entry": lambda content: store.packed(
        {"digest": store.unpacked(content)["digest"], "parts": []}
    ),
    "a part too many": lambda content: with_lengths(content, lambda found: [*found, 1]),
    "a part less": lambda content: with_lengths(content, lambda found: found[:-1]),
    "a part that begins before": lambda content: with_lengths(content, lambda found: [-8, *found]),
    "parts that are none": lambda content: with_lengths(content, lambda found: None),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_anew_with_one_warning(damage: str, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(DAMAGE[damage](content))
    text = f"the plan kept in {path} cannot be used, it is captured anew: "
    with pytest.warns(RuntimeWarning) as caught:
        assert kept(hy.hybridize(function)) == KEPT
    assert [str(w.message).startswith(text) for w in caught] == [True]
    assert caught[0].filename == __file__
    assert path.read_bytes() == content
    assert kept(hy.hybridize(function)) == LOADED
    path.write_bytes(DAMAGE[damage](content))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of one file only once
        assert kept(hy.hybridize(function)) == KEPT


def test_what_is_no_file(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)  # opening one waits for a writer
    with pytest.warns(RuntimeWarning) as caught:
        text = kept(hy.hybridize(function))
    assert text == "not kept in a file: it is a FIFO, not a regular file" and path.is_fifo()
    assert "it is no file" in str(caught[0].message)


def test_a_folder_in_the_place_of_a_file(path: Path) -> None:
    path.unlink()
    path.mkdir()
    with pytest.warns(RuntimeWarning):
        assert kept(hy.hybridize(function)).startswith("not kept in a file: ")


HOSTILE = """
import json, random, signal, sys, warnings
from pathlib import Path
sys.path.append(sys.argv[3])  # for the tests: the package may be an installed one
import hybrid as hy
from tests.calls.files import test_store
from tests.ir.test_rows import changed
from hybrid.calls.files.store import packed
from tests.calls.files.test_store import X, entry_of, function, spoilt

folder = Path(sys.argv[1])
hy.cache_plans(folder)
net = hy.nn.Linear(3, 2)
optimizer = hy.optim.SGD(net.parameters(), lr=0.1)

def train(x):
    optimizer.zero_grad()
    loss = hy.sum(net(x) ** 2)
    loss.backward()
    optimizer.step()
    return loss

def gradient(x):
    return hy.sum(net(x) ** 2)

def late(*_):
    raise TimeoutError  # a loop that never ends is a plan, too

signal.signal(signal.SIGALRM, late)
warnings.simplefilter("ignore")
draw, seen, asked = random.Random(int(sys.argv[2])), {}, {}
for make in (function, train, gradient):
    for file in folder.glob("*.plan"):
        file.unlink()
    call = hy.hybridize(make)
    call(X)
    (path,) = folder.iterdir()
    entry = entry_of(path)
    for number in range(int(sys.argv[4])):
        odd = changed(entry, draw) if number % 2 else spoilt(entry, draw)
        odd = {**odd, "digest": entry["digest"], "parts": odd.get("parts", [])}
        try:
            path.write_bytes(packed(odd))
        except TypeError:  # parts that are no bytes
            continue
        call.clear()
        for p in net.parameters():
            p.grad = None
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        try:
            result = call(X)
            if make is gradient:
                result.backward()
            outcome = call.plans[0].filed
        except hy.HybridError as error:  # of a graph that is right, and another
            outcome = type(error).__name__
        except Exception as error:
            outcome = type(error).__name__
            if outcome not in ("KeyError", "TimeoutError"):
                print(make.__name__, repr(error)[:300], file=sys.stderr)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        seen[outcome] = seen.get(outcome, 0) + 1
        if outcome == "loaded from a file":  # by now somebody asks for what was not read
            (planned,) = call._table.all()
            for ask in (lambda: planned.plan.steps, lambda: str(planned.capture.graph)):
                try:
                    ask()
                    outcome = "read"
                except hy.HybridError as error:
                    outcome = type(error).__name__
                asked[outcome] = asked.get(outcome, 0) + 1
print(json.dumps([seen, asked]))
"""


def spoilt(entry: Any, draw: random.Random) -> Any:
    """``entry`` with other bytes in one of its parts: most often a number of a plan's arrays."""
    parts = list(entry["parts"])
    number = draw.choice([i for i, part in enumerate(parts) if part])
    part = bytearray(parts[number])
    for _ in range(draw.randint(1, 3)):
        width = draw.choice([1, 4, 8])
        at = draw.randrange(len(part)) // width * width
        odd = draw.choice([-1, 0, 1, 2, 3, 7, 64, 1 << 20, (1 << 31) - 1, draw.getrandbits(31)])
        part[at : at + width] = (odd % (1 << 8 * width)).to_bytes(width, sys.byteorder)
    parts[number] = bytes(part)
    return {**entry, "parts": parts}


@pytest.mark.parametrize(
    ("files", "seed"), [(120, 0), pytest.param(400, 1, marks=pytest.mark.nightly)]
)
def test_hostile_files_run_no_code_and_end_no_process(
    files: int, seed: int, tmp_path: Path
) -> None:
    """Well-signed files with anything in them: at worst they are other plans."""
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path / "plans"), str(seed),
         str(Path(__file__).resolve().parents[3]), str(files)],
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen, asked = json.loads(done.stdout)
    print(seen, asked, done.stderr)
    assert seen[KEPT] > 0.75 * files and seen[LOADED] > 0.75 * files
    assert seen.keys() <= {KEPT, LOADED, "TimeoutError"}, done.stderr
    assert asked.keys() == {"read", "GraphError"}, asked


def test_names_in_files_are_those_of_the_program(folder: Path) -> None:
    """A place to write to is one that code of the program names; it becomes a line of code."""
    net = hy.nn.Module()
    net.state = hy.zeros(3)

    def remember(x):
        net.state = x + 1.0
        return x

    hy.hybridize(remember)(X)
    (path,) = folder.iterdir()
    entry = entry_of(path)
    ((where, made, exists),) = entry["place_writes"]
    for name in ("state = __import__('os').abort() or leaves", "__class__", "other", "", 3, None):
        slot = [[where[0], name, where[2]], made, exists]
        path.write_bytes(store.packed({**entry, "place_writes": [slot]}))
        store._warned.clear()
        call = hy.hybridize(remember)
        with pytest.warns(RuntimeWarning, match="cannot be used"):
            call(X)
        assert call.plans[0].filed == KEPT


def test_items_in_files_are_of_containers(folder: Path) -> None:
    """Where the place that is written holds a tensor, no item of it is written."""
    net = hy.nn.Module()
    net.state = hy.zeros(3)

    def remember(x):
        net.state = x + 1.0
        return x

    hy.hybridize(remember)(X)
    (path,) = folder.iterdir()
    entry = entry_of(path)
    ((where, made, exists),) = entry["place_writes"]
    slot = [[where[0], where[1], [0]], made, exists]
    path.write_bytes(store.packed({**entry, "place_writes": [slot]}))
    with pytest.warns(RuntimeWarning, match="state holds nothing that has items"):
        hy.hybridize(remember)(X)
    assert net.state.tolist() == (X + 1.0).tolist()


# Many processes, and little room -----------------------------------------------------------------

PROGRAM = """
import json, os, sys, time, warnings
import hybrid as hy
import resource
{first}

def function(x):
    while hy.sum(x) < 20.0:
        x = x * 2.0 + 1.0
    return x

call = hy.hybridize(function)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        call.clear()
        found = call(hy.ones(3))
    other = hy.hybridize(lambda x: x + 1)
    other(hy.ones(3))
assert found.numpy().tolist() == function(hy.ones(3)).numpy().tolist()
print(json.dumps([call.plans[0].filed, [str(w.message) for w in caught]]))
"""


def started(folder: Path, plans: Path, first: str = "") -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    program, text = folder / "program.py", PROGRAM.format(first=first)
    if not program.exists() or program.read_text() != text:  # others may be reading it
        program.write_text(text)
    environment = {**os.environ, "HYBRID_PLAN_CACHE": str(plans)}
    return subprocess.Popen(
        [sys.executable, "program.py"], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def told(process: subprocess.Popen[str]) -> Any:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return json.loads(output)


def test_processes_at_once(tmp_path: Path) -> None:
    plans, go = tmp_path / "plans", tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.001)"
    processes = [started(tmp_path / "program", plans, wait) for _ in range(4)]
    time.sleep(3.0)
    go.touch()
    assert [told(process) for process in processes] == [[LOADED, []]] * 4
    assert len(list(plans.iterdir())) == 2  # and nothing unfinished
    assert told(started(tmp_path / "program", plans, wait)) == [LOADED, []]


NOBODY = 65534
NO_ROOM = {
    "a full disk": (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))",
        "no plans are kept in {}: File too large",
    ),
    "a folder that may only be read": (
        "def early(x):\n    while hy.sum(x) < 9:\n        x = x + 1\n    return x\n"
        "hy.hybridize(early)(hy.ones(3))\n"  # imports what others may not read
        "os.chmod(os.environ['HYBRID_PLAN_CACHE'], 0o555)\n"
        f"os.getuid() or os.seteuid({NOBODY})",
        "no plans are kept in {}: Permission denied",
    ),
    "a folder that cannot be made": (
        "os.environ['HYBRID_PLAN_CACHE'] = '/proc/none/plans'",
        "no plans are kept in /proc/none/plans: No such file or directory",
    ),
    "a file in its place": (
        "open(os.environ['HYBRID_PLAN_CACHE'], 'w').close()",
        "no plans are kept in {}: ",
    ),
    "no room at all": (
        "hy.cache_plans(os.environ['HYBRID_PLAN_CACHE'], limit=100)",
        "no plans are kept in {}: ",
    ),
}


@pytest.mark.parametrize("what", NO_ROOM)
def test_where_nothing_can_be_kept(what: str, tmp_path: Path) -> None:
    first, text = NO_ROOM[what]
    with tempfile.TemporaryDirectory() as open_to_all:  # what pytest makes is its user's alone
        os.chmod(open_to_all, 0o755)
        plans = Path(open_to_all, "plans")
        kept, warned = told(started(tmp_path / "program", plans, first))
        assert kept.startswith("not kept in a file: ")
        assert len(warned) == 1 and warned[0].startswith(text.format(plans))
        if plans.is_dir():
            plans.chmod(0o755)
            assert len(list(plans.iterdir())) == ("early" in first)


def test_a_folder_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    told(started(tmp_path / "program", plans))
    before = {path: path.stat().st_mtime for path in plans.iterdir()}
    for path in before:
        os.utime(path, (1, 1))
    plans.chmod(0o555)
    kept, warned = told(started(tmp_path / "program", plans))
    assert (kept, warned) == (LOADED, [])
    plans.chmod(0o755)


def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path / "plans")
    entry = {"text": "x" * 500, "parts": [b"x" * 500]}
    for number in range(6):
        store.save(folder, f"{number:040}", entry, 5000)
        os.utime(store.path_of(folder, f"{number:040}"), (number, number))
        assert store.load(folder, f"{0:040}") is not None  # in use
        os.utime(store.path_of(folder, f"{0:040}"), (10, 10))
    left = {os.path.basename(path).strip("0.plan") or "0" for _, _, path in store.entries(folder)}
    assert left == {"0", "3", "4", "5"}
    assert sum(size for _, size, _ in store.entries(folder)) <= 5000


def test_what_was_left_unfinished_goes(tmp_path: Path) -> None:
    """Of other entries, too, but not what another process is writing."""
    gone, held = tmp_path / "a.plan.0123abcd.tmp", tmp_path / "b.plan.0123abcd.tmp"
    for path in (gone, held):
        path.write_text("half")
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        store.save(str(tmp_path), "0" * 40, {"parts": []}, 5000)
    assert not gone.exists() and held.exists()
