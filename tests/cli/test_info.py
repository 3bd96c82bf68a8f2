"""``hybrid info`` and ``hybrid ops`` show what the library itself says."""

import pytest
from typer.testing import CliRunner

from hybrid import native
from hybrid.cli.app import build
from hybrid.cli.commands.ops import kernel_dtypes, rules, signature
from hybrid.ir import REGISTRY, get_op


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_info() -> None:
    shown = CliRunner().invoke(build(), ["info"])
    assert shown.exit_code == 0
    lines = {line[:17].strip(): line[17:].strip() for line in shown.stdout.splitlines()}
    assert lines["instruction set"].startswith(f"{native.isa()} (runs here: ")
    assert lines["threads"] == str(native.num_threads())
    assert lines["kernels"] == str(len(native.kernel_table()))
    assert native.compiler() in lines["compiler"]


def test_ops_lists_every_op() -> None:
    shown = CliRunner().invoke(build(), ["ops"])
    assert shown.exit_code == 0
    names = {line.split()[0] for line in shown.stdout.splitlines() if line[:1].strip()}
    assert set(REGISTRY) <= names
    assert "missing" not in shown.stdout  # every kernel that an op names is in the table


def test_ops_can_be_filtered() -> None:
    shown = CliRunner().invoke(build(), ["ops", "softmax"])
    names = {line.split()[0] for line in shown.stdout.splitlines()}
    assert {"softmax", "log_softmax"} <= names and "add" not in names


def test_what_is_said_of_an_op() -> None:
    assert signature(get_op("add")) == "a, b"
    assert signature(get_op("softmax")) == "x; axis"
    assert rules(get_op("softmax"))[0] == "yes"
    assert rules(get_op("equal")) == ("-", "-")
    assert kernel_dtypes()["sum"] == [
        "i8",
        "i16",
        "i32",
        "i64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f32",
        "f64",
    ]
