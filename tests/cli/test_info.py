"""``hybrid info`` and ``hybrid ops`` show what the library itself says."""

import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid.cli.app import build
from hybrid.cli.commands.ops import (
    computed_by,
    isas,
    kernels_by_name,
    lacks,
    rules,
    signature,
)
from hybrid.eager.frameworks.inspection import FUNCTIONS, LINALG
from hybrid.ir import REGISTRY, get_op
from hybrid.memory import native


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
    kernels = kernels_by_name()
    assert signature(get_op("add")) == "a, b"
    assert signature(get_op("softmax")) == "x; axis"
    assert rules(get_op("softmax")) == ("yes", "yes", "yes")
    assert rules(get_op("inv")) == ("yes", "yes", "yes")
    assert rules(get_op("eigh"))[1] == "by vjp"
    assert rules(get_op("equal")) == ("-", "-", "yes")
    assert computed_by(get_op("sum"), kernels) == "sum: numbers"
    assert computed_by(get_op("equal"), kernels) == "equal: all"
    assert computed_by(get_op("softmax"), kernels) == "softmax: f32 f64"
    assert computed_by(get_op("reshape"), kernels) == "none: a view"
    assert computed_by(get_op("inv"), kernels) == "inv: f32 f64"
    assert computed_by(get_op("true_indices"), kernels) == "none: NumPy's, in a host step"
    assert computed_by(get_op("while"), kernels) == "none: its regions"
    # Some instruction sets add products alone to what another has.
    taken = {"avx_vnni": "avx2", "avx512_dot": "avx512"}
    assert isas(get_op("exp"), kernels) == taken.get(native.isa(), native.isa())


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_an_op_lacks_nothing_without_saying_why(name: str) -> None:
    assert lacks(get_op(name), kernels_by_name()) == []


def test_what_an_op_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    op = get_op("exp")
    for name, value in (("kernel", "exq"), ("vjp_rule", None), ("reference_rule", None)):
        monkeypatch.setattr(op, name, value)
    assert lacks(op, kernels_by_name()) == ["no vjp", "no kernel", "no reference"]
    shown = CliRunner().invoke(build(), ["ops", "--gaps"])
    rows = [line.split()[0] for line in shown.stdout.splitlines()]
    assert shown.exit_code == 0 and "exp" in rows and "add" not in rows


def test_the_namespace_has_every_function_of_the_standard() -> None:
    assert [name for name in sorted(FUNCTIONS) if not hasattr(hy, name)] == []
    assert [name for name in sorted(LINALG) if not hasattr(hy.linalg, name)] == []
