"""Verified calls: eager and planned runs are compared, and what differs is told and kept."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ArgumentError, VerificationError
from hybrid.ir.interpreter import current
from tests.staging.harness import describe

X = hy.asarray([[1.0, -2.0], [3.0, 0.5]])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYBRID_VERIFY_FOLDER", str(tmp_path / "found"))
    return tmp_path / "found"


def traced() -> bool:
    """Whether a capture is under way: what no program should ask."""
    return bool(current().traces)


def trained(**options: Any) -> tuple[Any, ...]:
    """What some steps of training leave, with draws, running statistics and a list that grows."""
    hy.random.seed(3)
    layers = (nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
    net = nn.Sequential(*layers)
    optimizer = hy.optim.Adam(net.parameters(), lr=0.1)
    scheduler = hy.optim.lr_scheduler.StepLR(optimizer, 2)
    losses: list[Any] = []

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
        return loss

    function = hy.hybridize(step, **options)
    found = []
    for _ in range(5):
        found.append(function(X).item())
        scheduler.step()
    state = [v.numpy().tobytes() for v in net.state_dict().values()]
    return found, state, [loss.item() for loss in losses], optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
def test_training_goes_on_as_without(share: float) -> None:
    assert trained(verify=share) == trained()


class Model:
    """State of every kind that a call may change."""

    def __init__(self) -> None:
        self.count, self.rows = hy.zeros(()), [hy.zeros(2)]
        self.table: dict[str, Any] = {"a": [hy.ones(())]}
        self.last = deque([hy.zeros(())], maxlen=3)

    def __call__(self, x: Any) -> Any:
        self.count += 1.0
        self.rows.append(x[0])
        self.rows[0] += 1.0
        self.table["a"].append(self.count * 2.0)
        self.table["b"] = x
        self.last.append(self.count * 3.0)
        self.made = x * self.count
        return self.made, self.rows


def used(**options: Any) -> Any:
    model = Model()
    function: Any = hy.hybridize(model.__call__, **options)
    found: list[Any] = []
    for _ in range(4):
        y, rows = function(X)
        assert rows is model.rows and y is model.made
        found.append(y)
    return describe([found, model.count, model.rows, model.table, list(model.last), model.made])


def test_all_that_a_call_changes_is_put_back() -> None:
    assert used(verify=1.0) == used()


GIVEN: list[Any] = []


def test_globals_variables_and_classes() -> None:
    class Counted:
        made: ClassVar[list[Any]] = []

    seen: list[Any] = []

    def function(x: Any) -> Any:
        for rows in (GIVEN, seen, Counted.made):
            rows.append(x * 2.0)
        return rows[-1]

    hybridized = hy.hybridize(function, verify=1.0)
    GIVEN.clear()
    for count in (1, 2, 3):
        assert hybridized(X) is Counted.made[-1]
        assert len(GIVEN) == len(seen) == len(Counted.made) == count


def odd(x: Any) -> Any:
    return x + (1.0 if traced() else 0.0)


def test_a_difference_raises_and_is_kept(folder: Path) -> None:
    weight = nn.Parameter(hy.ones(2))

    def function(x: Any) -> Any:
        weight.assign(odd(weight) * 2.0)
        return x * weight

    with pytest.raises(VerificationError) as caught:
        hy.hybridize(function, verify=1.0)(X)
    assert weight.tolist() == [1.0, 1.0]  # as before the call
    error = caught.value
    assert error.what == "function gave something else in a plan than eagerly"
    assert "result: 4 of 4 elements, the first at [0, 0]: 2.0 and 4.0" in error.why
    assert "function.weight: 2 of 2 elements, the first at [0]: 2.0 and 4.0" in error.why
    made = folder / "function-1"
    assert error.fix == f"send {made} with a report, and run `hybrid reproduce {made}`"
    about = json.loads((made / "environment.json").read_text())
    assert about["hybrid"] == hy.__version__ and about["threads"] == hy.num_threads()
    assert (made / "difference.txt").read_text().split("\n")[0] in error.why


def test_a_difference_warns_and_goes_on_as_eager_code() -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        kept.append(odd(x))
        return kept[-1]

    hybridized = hy.hybridize(function, verify=1.0, on_difference="warn")
    with pytest.warns(UserWarning, match="gave something else in a plan"):
        found = hybridized(X)
    assert found is kept[0] and len(kept) == 1 and found.tolist() == X.tolist()


DIFFERENT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "type": (lambda x: (x * 2).astype("f64" if traced() else "f16"), "f16[2,2] and f64[2,2]"),
    "an exception": (
        lambda x: x if traced() else {}["k"],
        "raised: KeyError: 'k' eagerly, nothing in the plan",
    ),
    "number": (lambda x: (x, 2 if traced() else 1), "what is returned: tuple"),
    "structure": (lambda x: [x] if traced() else (x,), "result"),
    "one object": (lambda x: x * 1.0 if traced() else x, "result: "),
    "a zero's sign": (lambda x: x * 0.0 if traced() else x * -0.0, "elements, the first at"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_counts_as_different(name: str) -> None:
    function, text = DIFFERENT[name]
    with pytest.raises(VerificationError) as caught:
        hy.hybridize(function, verify=1.0)(X)
    assert text in caught.value.why


def test_gradients_are_compared() -> None:
    @hy.custom_vjp
    def twice(x: Any) -> Any:
        return x * 2.0

    twice.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct * (3.0 if traced() else 2.0),))
    w = nn.Parameter(hy.ones(2))
    with pytest.raises(VerificationError, match=r"the gradient of result by <lambda>\.w: 2 of 2"):
        hy.hybridize(lambda x: twice(w) * x, verify=1.0, name="function")(X)


@pytest.mark.parametrize(("share", "count"), [(0.1, 10), (0.01, 1), (0.0, 0), (1.0, 100)])
def test_the_share_of_calls(share: float, count: int) -> None:
    hybridized = hy.hybridize(lambda x: x * 2.0, verify=share)
    runs = []
    original = hybridized._shadow.run
    hybridized._shadow.run = lambda *given: (runs.append(1), original(*given))[1]
    for _ in range(100):
        hybridized(X)
    assert len(runs) == count


def test_what_would_run_twice_is_not_verified() -> None:
    said: list[float] = []

    def function(x: Any) -> Any:
        hy.py_call(lambda v: said.append(1.0), x)
        return x * 2.0

    hybridized = hy.hybridize(function, verify=1.0)
    with pytest.warns(UserWarning, match="not verified: it prints or calls Python"):
        hybridized(X)
    hybridized(X)
    assert len(said) == 2


def test_what_is_printed_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        print(hy.sum(x))
        return x * 2.0

    hybridized = hy.hybridize(function, verify=1.0)
    with pytest.warns(UserWarning, match="not verified: it prints or calls Python"):
        hybridized(X)
    hybridized(X)
    assert capsys.readouterr().out == "tensor(2.5, dtype=float32)\n" * 2


def test_modules_methods_and_copies() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).hybridize(verify=1.0)
    assert net(X).tolist() == nn.Sequential(*net)(X).tolist()

    class Scaled:
        by = 3.0

        @hy.hybridize(verify=1.0)
        def scaled(self, x: Any) -> Any:
            return x * self.by

    assert Scaled().scaled(X).tolist() == (X * 3.0).tolist()
    copied = __import__("copy").copy(hy.hybridize(odd, verify=1.0))
    with pytest.raises(VerificationError):
        copied(X)


def test_threads_and_calls_inside() -> None:
    inner = hy.hybridize(lambda x: x * 2.0, verify=1.0)
    outer = hy.hybridize(lambda x: inner(x) + 1.0, verify=1.0)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(outer(X).tolist()), daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(X * 2.0 + 1.0).tolist()] * 4


def test_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_VERIFY_CALLS", "1")
    with pytest.warns(UserWarning, match="gave something else in a plan"):
        assert hy.hybridize(odd)(X).tolist() == X.tolist()
    for text in ("2", "often"):
        monkeypatch.setenv("HYBRID_VERIFY_CALLS", text)
        with pytest.raises(ArgumentError, match=f"HYBRID_VERIFY_CALLS is '{text}'"):
            hy.hybridize(odd)


@pytest.mark.parametrize("share", [-0.1, 1.5, True, "all"])
def test_shares_that_are_none(share: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        hy.hybridize(odd, verify=share)
    assert caught.value.fix == "give the share of calls to compare: from 0 to 1"
    with pytest.raises(ArgumentError, match="on_difference='stop' is unknown"):
        hy.hybridize(odd, verify=1.0, on_difference="stop")


# Folders ------------------------------------------------------------------------------------------

PROGRAM = """
import hybrid as hy
from hybrid import nn
from hybrid.ir.interpreter import current
import helpers

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        if hy.sum(x) > 0:
            x = helpers.moved(x)
        return self.fc(x * nn.functional.dropout(x, 0.5))

net = Net()
hy.hybridize(net, verify=1.0)
net(hy.ones((2, 2)))
"""
HELPERS = """
from hybrid.ir.interpreter import current

def moved(x):
    return x + (1.0 if current().traces else 0.0)
"""


def test_a_folder_runs_anywhere(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "helpers.py").write_text(textwrap.dedent(HELPERS))
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], cwd=tmp_path,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert "VerificationError" in done.stderr
    (made,) = folder.iterdir()
    moved = made.rename(tmp_path / "elsewhere")
    (tmp_path / "program.py").unlink()
    (tmp_path / "helpers.py").unlink()
    command = [sys.executable, "-m", "hybrid", "reproduce", str(moved)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.split("\n")
    assert lines[0] == f"{moved}: not the same eagerly and in a plan"
    assert lines[1].startswith("result: ") and lines[1] in (moved / "difference.txt").read_text()


def test_a_folder_whose_fault_is_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hybrid.verification.reproduction import differences_in

    with pytest.raises(VerificationError):
        hy.hybridize(odd, verify=1.0)(X)
    assert differences_in(folder / "odd-1") != []
    monkeypatch.setattr("tests.verification.test_verified_calls.traced", lambda: False)
    with pytest.raises(ArgumentError) as caught:
        differences_in(folder / "none")
    assert caught.value.fix == "give a folder that a verified call has written"
    (folder / "odd-1" / "call.pickle").write_bytes(b"nothing")
    with pytest.raises(ArgumentError, match=r"call\.pickle cannot be read"):
        differences_in(folder / "odd-1")
