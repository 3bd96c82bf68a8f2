"""``hybrid models``: a row for each example, in eighty columns."""

import pytest
from typer.testing import CliRunner

from hybrid.cli.app import build
from hybrid.cli.commands.models import goal, parameters
from hybrid.models.examples import EXAMPLES, find


def test_every_example_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(build(), ["models"])
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == [
        "model", "what", "it", "is", "parameters", "data", "reaches", "epochs",
    ]  # fmt: skip
    rows = [line.split() for line in lines[1:] if not line.startswith(" ")]
    assert [row[0] for row in rows] == list(EXAMPLES)
    for row in rows:
        example = EXAMPLES[row[0]]
        assert f"{parameters(example):,}" in row and str(example.epochs) == row[-1]


def test_what_is_told_of_a_model() -> None:
    assert parameters(find("lenet")) == 61706
    assert goal(find("lenet")) == "accuracy > 97.0%"
    assert goal(find("vae")) == "nats an image < 300.0"
