"""``hybrid explain`` prints or writes what became of each line of a function."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybrid.cli.app import build

SOURCE = """
import hybrid as hy

def halve(x):
    while x.sum() > 1:
        x = x * 0.5
    return x

@hy.hybridize
def double(x):
    return x * 2

tally = {"calls": 0}

def count(x):
    tally["calls"] += 1
    return x

network = hy.nn.Sequential(hy.nn.Linear(4, 3), hy.nn.ReLU())
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "model_for_explain.py"
    path.write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return path


def lines_of(*args: str) -> list[str]:
    """What the command prints when all goes well."""
    done = CliRunner().invoke(build(), ["explain", *args])
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in done.stdout.splitlines()]


def failure(*args: str) -> str:
    """The one line that the command prints when it cannot do what was asked."""
    done = CliRunner().invoke(build(), ["explain", *args])
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.splitlines()
    return line


def test_a_function(model: Path) -> None:
    assert lines_of(f"{model}:halve", "-i", "f32[4]") == [
        "halve(f32[4]): 11 nodes, 5 of them in regions",
        "a call builds a new plan: first call",
        "",
        "halve  model_for_explain.py:4",
        "4               def halve(x):",
        "5  7  while %4      while x.sum() > 1:",
        "                    ^ 1 value carried",
        "6  2  graph             x = x * 0.5",
        "7  2  graph         return x",
        "",
        "Inputs",
        "%0  f32[4]  argument x",
    ]


def test_what_is_hybridized_already(model: Path) -> None:
    assert lines_of(f"{model}:double", "-i", "f32[4]")[0] == "double(f32[4]): 2 nodes"
    assert lines_of(f"{model}:network", "-i", "f32[8,4]")[0].startswith("Sequential(f32[8,4]): ")


def test_a_page(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "halve.html"
    assert lines_of(f"{model}:halve", "-i", "f32[4]", "--html", str(path)) == [
        f"{path} explains halve."
    ]
    assert "while %4" in path.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "absent" / "page.html"
    assert failure(f"{model}:halve", "-i", "f32[4]", "--html", str(path)) == (
        f"hybrid: --html: {path} cannot be written: No such file or directory. "
        "Fix: give a path in a folder that exists and may be written to."
    )


def test_what_cannot_be_captured(model: Path) -> None:
    assert failure(f"{model}:count", "-i", "f32[4]") == (
        f"hybrid: {model}:count: count changed global tally while it was captured ({model}:16). "
        '16 | tally["calls"] += 1. A side effect on a Python value happens once, at capture, and '
        "could "
        "not be repeated by the plan. Fix: keep the value in a tensor (x.assign, +=), return it, "
        "or change it outside."
    )


def test_another_number_of_inputs(model: Path) -> None:
    assert failure(f"{model}:halve") == (
        f"hybrid: {model}:halve: halve() missing 1 required positional argument: 'x'."
    )
