"""Kept plans in real processes: what is as it was is loaded, and any change is captured anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybrid.memory import native

HELPER = """
import hybrid as hy

FACTOR = 2.0
OTHER = "unused"


class Scale:
    power = 2

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return helped(x) ** self.power * self.by


def helped(x, shift=1.0):
    return x * FACTOR + shift


def unused():
    return 1
"""

PROGRAM = """
import json
import sys
import warnings

import numpy as np

import helper
import hybrid as hy

LIMIT = 3
MOMENTUM = 0.9  # that no captured function reads by itself
TABLE = {"rate": 0.5, "names": ["a", "b"]}


class Net(hy.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first, self.second = hy.nn.Linear(3, width), hy.nn.Linear(width, 2)
        self.scale = helper.Scale(0.25)
        self.slope = 0.1

    def forward(self, x):
        return self.second(hy.nn.functional.leaky_relu(self.scale(self.first(x)), self.slope))


def make(bias):
    def closed(x):
        assert x.ndim == 2, "rows and columns"
        return x + bias

    return closed


def control(x, n=LIMIT):
    total = closed(x)
    while hy.max(hy.abs(total)) < n:
        total = total * 2.0
    if hy.sum(total) > LIMIT:
        total = total - TABLE["rate"]
    return total


closed = make(0.75)
hy.random.seed(0)
net = Net()
optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=MOMENTUM)
hy.random.seed(1)
x = hy.asarray(np.float32([[0.5, -1.0, 2.0], [1.0, 0.0, -0.5]]))


def train(x):
    optimizer.zero_grad()
    loss = hy.mean(control(net(x)) ** 2)
    loss.backward()
    optimizer.step()
    return loss


def bits(tree):
    return [np.asarray(t.detach()).tobytes().hex() for t in tree]


def run(train, control, infer):
    hy.random.seed(0)
    found = [train(x), train(x), control(x), infer(x)]
    return bits(found) + bits(net.state_dict().values())


state = {name: hy.asarray(np.asarray(t), copy=True) for name, t in net.state_dict().items()}
eager = run(train, control, net)
net.load_state_dict(state)
optimizer = hy.optim.SGD(net.parameters(), lr=0.1, momentum=MOMENTUM)
for p in net.parameters():
    p.grad = None
calls = [hy.hybridize(f) for f in (train, control, lambda x: net(x))]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    hybridized = run(*calls)
print(json.dumps({
    "same": eager == hybridized,
    "bits": hybridized,
    "kept": [plan.filed for call in calls for plan in call.plans],
    "warned": [str(w.message) for w in caught],
    "converted": "hybrid.convert.conversion" in sys.modules,
}))
"""

KEPT, LOADED = "kept in a file", "loaded from a file"


class Project:
    """A program in files, and a folder of plans."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.plans = folder, folder / "plans"
        self.files = {"helper.py": HELPER, "program.py": PROGRAM}

    def run(
        self, edit: tuple[str, str, str] | None = None, *flags: str, first: str = "", **env: str
    ) -> dict[str, Any]:
        """What the program tells, with ``edit`` (file, old, new) made, and run after ``first``."""
        for name, text in self.files.items():
            if edit is not None and edit[0] == name:
                assert text.count(edit[1]) == 1, edit
                text = text.replace(edit[1], edit[2])
            (self.folder / name).write_text(text)
        (self.folder / "main.py").write_text(f"{first}\nimport program\n")
        done = subprocess.run(
            [sys.executable, *flags, "main.py"], cwd=self.folder, capture_output=True, text=True,
            env={**os.environ, "HYBRID_PLAN_CACHE": str(self.plans), "PYTHONDONTWRITEBYTECODE": "1",
                 **env}, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["same"]
        return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One that was run once."""
    made = Project(tmp_path_factory.mktemp("project"))
    assert made.run()["kept"] == [KEPT] * 3
    yield made


def test_a_later_process_loads_all_and_converts_nothing(project: Project) -> None:
    found = project.run()
    assert found["kept"] == [LOADED] * 3
    assert not found["converted"] and not found["warned"]
    assert project.run(PYTHONHASHSEED="1")["kept"] == [LOADED] * 3
    assert project.run(HYBRID_NUM_THREADS="1")["bits"] == found["bits"]


EDITS = {  # what is edited: (file, old, new), and which of the three captures depend on it
    "a function": ("program.py", "total = total * 2.0", "total = total * 4.0", "110"),
    "a helper in another file": ("helper.py", "x * FACTOR + shift", "x * FACTOR - shift", "101"),
    "a global": ("program.py", "LIMIT = 3", "LIMIT = 5", "110"),
    "an item of a dict": ("program.py", '"rate": 0.5', '"rate": 0.625', "110"),
    "a closure": ("program.py", "make(0.75)", "make(0.875)", "110"),
    "a default": ("helper.py", "shift=1.0", "shift=1.5", "101"),
    "a module's attribute": ("helper.py", "FACTOR = 2.0", "FACTOR = 3.0", "101"),
    "a class's attribute": ("helper.py", "power = 2", "power = 3", "101"),
    "an object's attribute": ("program.py", "Scale(0.25)", "Scale(0.5)", "101"),
    "a setting of a layer": ("program.py", "self.slope = 0.1", "self.slope = 0.3", "101"),
    "a method": ("helper.py", "** self.power * self.by", "** self.power + self.by", "101"),
    "a setting of an optimizer": ("program.py", "MOMENTUM = 0.9", "MOMENTUM = 0.8", "100"),
    "the shape of a parameter": ("program.py", "width=4", "width=5", "101"),
    "the dtype of an argument": ("program.py", "np.float32([[", "np.float64([[", "111"),
    "the shape of an argument": ("program.py", "[1.0, 0.0, -0.5]", "[1.0, 0, 1], [1, 2, 3]", "111"),
    "whether gradients flow": ("program.py", "hy.random.seed(1)",
                               "net.first.weight.requires_grad = False", "101"),
    "a line above": ("program.py", "\n\nclass Net", "\n\n# a comment\n\n\nclass Net", "111"),
    "what is not used": ("helper.py", "return 1\n", "return 2\n", "000"),
    "a name that is not used": ("helper.py", 'OTHER = "unused"', 'OTHER = "still unused"', "000"),
}  # fmt: skip


@pytest.mark.parametrize("what", EDITS)
def test_what_was_edited_is_captured_anew(what: str, project: Project) -> None:
    *edit, depends = EDITS[what]
    found = project.run(tuple(edit))
    assert found["kept"] == [KEPT if flag == "1" else LOADED for flag in depends]
    assert not found["warned"]


OTHERS: dict[str, dict[str, Any]] = {
    "another version of hybrid": {
        "first": "import hybrid.core.package as package\npackage.__version__ = '0.0.0'"
    },
    "another build of hybrid": {
        "first": "import hybrid.calls.files.lookup as lookup\nlookup.build = lambda: 'other'"
    },
    "another version of Python": {"first": "import sys\nsys.version += '+'"},
    "another version of NumPy": {"first": "import numpy\nnumpy.__version__ += '+'"},
    "a method of a layer that was replaced": {
        "first": "import hybrid as hy\nplain = hy.nn.Linear.forward\n"
        "def forward(self, x):\n    return plain(self, x) * 2\nhy.nn.Linear.forward = forward"
    },
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_world(what: str, project: Project) -> None:
    kept = project.run(**OTHERS[what])["kept"]
    assert LOADED not in (kept if "layer" not in what else [kept[0], kept[2]])


def test_another_instruction_set(project: Project) -> None:
    for isa in native.isas():
        kept = project.run(HYBRID_ISA=isa)["kept"]
        assert kept == [LOADED if isa == native.isa() else KEPT] * 3
        assert project.run(HYBRID_ISA=isa)["kept"] == [LOADED] * 3


def test_python_without_asserts(project: Project) -> None:
    assert project.run(None, "-O")["kept"] == [KEPT] * 3
