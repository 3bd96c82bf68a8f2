"""Kept open captures: a process that reads the file serves any size without capturing."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import config, nn, optim
from hybrid.calls.files import store
from hybrid.calls.hybridized import Hybridized
from hybrid.errors import BudgetError
from tests.calls.files.test_store import entry_of
from tests.calls.test_open_families import captures, conditions
from tests.staging.harness import describe

KEPT, LOADED = "kept in a file", "loaded from a file"
FIRST, LATER = (5, 9, 12, 33, 40), (7, 21, 11, 64, 5, 9)


def draw(*shape: int) -> hy.Tensor:
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return hy.asarray(values.astype(np.float32))


def attention(q: Any, k: Any) -> Any:
    scores = hy.softmax(q @ k.mT / q.shape[-1] ** 0.5, axis=-1)
    return (scores @ k).reshape(-1), q.shape[0] > 16


def padded(q: Any, k: Any) -> Any:
    missing = -q.shape[0] % 8
    return hy.pad(q, ((0, missing), (0, 0))).reshape(-1, 8, 4).sum(axis=1), k.sum()


def control(q: Any, k: Any) -> Any:
    total = q.sum(axis=0)
    while hy.sum(total) < 50:
        total = total * 2 + hy.abs(k).sum(axis=0) + 1
    return total * q.shape[0]


@pytest.mark.parametrize("function", [attention, padded, control])
def test_a_file_serves_all_sizes(
    function: Callable[..., Any], folder: Path, traces: list[Hybridized]
) -> None:
    first, later = hy.hybridize(function), hy.hybridize(function)
    for call, sizes in ((first, FIRST), (later, LATER)):
        for n in sizes:
            given = draw(n, 4), draw(n, 4)
            assert describe(call(*given)) == describe(function(*given)), n
        if call is first:
            found = len(traces)
            assert {plan.filed for plan in call.plans} == {KEPT}
    assert len(traces) == found == 2 + (function is attention)
    assert {plan.filed for plan in later.plans} == {LOADED}
    assert sorted(map(sorted, conditions(later))) == sorted(map(sorted, conditions(first)))


def test_steps_of_training(folder: Path, traces: list[Hybridized]) -> None:
    """Gradients by turns there and not, state of the optimizer, random draws."""
    outcomes = []
    for hybridize in (lambda f: f, hy.hybridize, hy.hybridize):
        hy.random.seed(0)
        net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.2), nn.BatchNorm1d(6), nn.Linear(6, 3))
        optimizer = optim.Adam(net.parameters())

        def step(x: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (net(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        score = hybridize(lambda x, net=net: net(x).sum())
        call, found = hybridize(step), []
        traces.clear()
        for n in FIRST:
            found.append(call(draw(n, 4)))
            score(draw(n + 1, 4)).backward()
            found.append([net.state_dict(), [p.grad for p in net.parameters()]])
        outcomes.append(describe(found))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert traces == []
    assert {plan.filed for plan in (*call.plans, *score.plans)} == {LOADED}


def test_what_cannot_be_kept_says_so(folder: Path) -> None:
    def function(x: Any) -> Any:
        (x * x).sum().backward()
        return x.grad

    call = hy.hybridize(function)
    for n in (5, 9, 9, 12):
        x = draw(n)
        x.requires_grad = True
        for _ in range(2):
            function(x)
            call(x)
    told = {plan.filed for plan in call.plans}
    assert f"not {KEPT}: it adds to the gradient of an argument with open axes" in told

    numbered = {"last": 0.0}
    call = hy.hybridize(lambda x: (numbered.update(last=x.sum()), x * 2)[1])
    for n in (5, 9):
        call(draw(n))
    assert captures(call) == 1
    assert call.plans[-1].filed.startswith(f"not {KEPT}: it ")


def only_open(folder: Path, function: Callable[..., Any]) -> Path:
    """The file of the open capture of ``function``, alone in its folder."""
    call = hy.hybridize(function)
    for n in (5, 9):
        call(draw(n, 4))
    found = {path.stem[-2:] == "-0": path for path in folder.iterdir()}
    found[False].unlink()
    return found[True]


def ratio(x: Any) -> Any:
    return x.sum(axis=0) if x.shape[0] % 2 else x.mean(axis=0)


Rows = dict[str, Any]


def _changed(entry: Any, change: Callable[[Any, Rows], None]) -> Any:
    entry = {**entry, "parts": list(entry["parts"])}
    rows = json.loads(entry["parts"][entry["rows"]])
    change(entry, rows)
    entry["parts"][entry["rows"]] = json.dumps(rows).encode()
    return entry


def _opposite(_entry: Any, rows: Rows) -> None:
    rows["sizes"]["conditions"][0][2] = not rows["sizes"]["conditions"][0][2]


WRONG: dict[str, Callable[[Any, Rows], None]] = {
    "conditions that are not so": _opposite,
    "a condition of another kind": lambda e, r: r["sizes"]["conditions"].append([7, "==", True]),
    "a relation that there is not": lambda e, r: r["sizes"]["conditions"][0].__setitem__(1, "!="),
    "no symbols": lambda e, r: r.pop("sizes"),
    "a symbol too many": lambda e, r: r["sizes"]["symbols"].append(["m", 5, 2, 9]),
    "a symbol out of its range": lambda e, r: r["sizes"]["symbols"][0].__setitem__(1, 1),
    "a range below nothing": lambda e, r: r["sizes"]["symbols"][0].__setitem__(2, -1),
    "a name that is none": lambda e, r: r["sizes"]["symbols"][0].__setitem__(0, "a b"),
    "another axis": lambda e, r: e["open"].update(places=[[0, 1]]),
    "an axis that there is not": lambda e, r: e["open"].update(places=[[0, 2]]),
    "another argument": lambda e, r: e["open"].update(places=[[1, 0]]),
    "an argument too few": lambda e, r: e["open"].update(types=[]),
    "an argument of another type": lambda e, r: e["open"].update(types=[[0, e["outputs"][0]]]),
    "types of no symbol": lambda e, r: e["types"].append(["type", "f32", [["size", [1, 7]]]]),
    "a quotient by nothing": lambda e, r: e["types"].append(
        ["type", "f32", [["size", [1, ["//", ["size", [1, 0]], 0]]]]]
    ),
    "no places": lambda e, r: e["open"].pop("places"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_captured_anew_with_one_warning(
    change: Callable[[Any, Rows], None], folder: Path
) -> None:
    path = only_open(folder, ratio)
    path.write_bytes(store.packed(_changed(entry_of(path), change)))
    store._warned.clear()
    call = hy.hybridize(ratio)
    with pytest.warns(RuntimeWarning, match=r"-0\.plan cannot be used, it is captured anew"):
        found = call(draw(11, 4))
    assert describe(found) == describe(ratio(draw(11, 4)))
    assert call.plans[0].filed == KEPT


def test_conditions_that_are_left_out_are_asked_by_the_ops(folder: Path) -> None:
    """Who signs files may leave out what the author's code has asked, not what types need."""
    path = only_open(folder, lambda x: x.reshape(-1, 3, 4) if x.shape[0] % 3 == 0 else x * 2)
    entry = entry_of(path)
    path.write_bytes(store.packed(_changed(entry, lambda e, r: r["sizes"]["conditions"].clear())))
    call = hy.hybridize(lambda x: x.reshape(-1, 3, 4) if x.shape[0] % 3 == 0 else x * 2)
    assert call(draw(12, 4)).shape == (4, 3, 4)
    assert call(draw(8, 4)).shape == (8, 4)


def slow(x: Any) -> Any:
    total = x.sum(axis=0) * 0
    while hy.sum(total) < 100 * 4:
        total = total + 1
    return total


def test_loaded_captures_have_a_budget(folder: Path) -> None:
    only_open(folder, slow)
    try:
        hy.cache_plans(folder, budget=99)
        with pytest.raises(BudgetError, match="go round more than 99 times"):
            hy.hybridize(slow)(draw(7, 4))
        hy.cache_plans(folder, budget=100)
        assert hy.hybridize(slow)(draw(7, 4)).tolist() == [100.0] * 4
    finally:
        config._budget.clear()


NET = nn.Linear(4, 2)


def attacked(x: Any) -> Any:
    total = x.reshape(-1) * x.shape[0]
    while hy.sum(total) < 5.0:
        total = hy.abs(total) * 2.0 + 1.0
    return total, NET(x)[1:].sum()


HOSTILE = r"""
import json, random, signal, sys, warnings
from pathlib import Path
sys.path.append(sys.argv[3])  # for the tests: the package may be an installed one
import hybrid as hy
from hybrid.calls.files.store import packed
from tests.calls.files.test_open_captures import NET, attacked, draw, only_open
from tests.calls.files.test_store import entry_of, spoilt
from tests.ir.test_rows import changed

folder = Path(sys.argv[1])
hy.cache_plans(folder)
def late(*_):
    raise TimeoutError  # a loop that never ends is a plan, too

def unraisable(found):  # it may come while something dies
    if found.exc_type is not TimeoutError:
        sys.__unraisablehook__(found)

signal.signal(signal.SIGPROF, late)
sys.unraisablehook = unraisable
warnings.simplefilter("ignore")
draws, seen = random.Random(int(sys.argv[2])), {}
path = only_open(folder, attacked)
entry = entry_of(path)
rows = json.loads(entry["parts"][entry["rows"]])
call = hy.hybridize(attacked)
for number in range(int(sys.argv[4])):
    odd = {**entry, "parts": list(entry["parts"])}
    if number % 3:
        odd["parts"][entry["rows"]] = json.dumps(changed(rows, draws)).encode()
    else:
        odd = changed(entry, draws)
    odd = {**odd, "digest": entry["digest"], "parts": odd.get("parts", [])}
    for file in folder.iterdir():
        file.unlink()
    try:
        path.write_bytes(packed(odd))
    except TypeError:  # parts that are no bytes
        continue
    call.clear()
    NET.weight.grad = NET.bias.grad = None
    signal.setitimer(signal.ITIMER_PROF, 0.4)  # of processor time
    try:
        for n in (11, 4):
            found, loss = call(draw(n, 4))
            found.numpy(), loss.backward()
        outcome = call.plans[0].filed
    except hy.HybridError as error:  # of a graph that is right, and another
        outcome = type(error).__name__
    except Exception as error:
        outcome = type(error).__name__
        if outcome != "TimeoutError":
            print(repr(error)[:300], file=sys.stderr)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    seen[outcome] = seen.get(outcome, 0) + 1
print(json.dumps(seen))
"""


@pytest.mark.parametrize(
    ("files", "seed"), [(25, 0), pytest.param(600, 1, marks=pytest.mark.nightly)]
)
def test_hostile_files_end_no_process(files: int, seed: int) -> None:
    root = str(Path(__file__).parents[3])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", HOSTILE, str(Path(folder) / "plans"), str(seed), root]
        done = subprocess.run([*command, str(files)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    seen = json.loads(done.stdout)
    assert seen.get(KEPT, 0) > files / 3 and seen.get(LOADED, 0) > files / 20
