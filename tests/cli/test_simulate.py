"""``hybrid launch --simulate``: what it prints, and when it prints nothing of many ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hybrid.cli import simulate as command
from hybrid.cli.app import build
from hybrid.simulation.simulated_job import ModelCheck
from tests.cli.test_app import hybrid

SCRIPT = Path(__file__).parents[1] / "simulation/trained.py"
LEVEL = {"alpha": 1e-6, "rates": [[1, 1e9]], "message": 1e-4, "compare": 1e-5, "source": "here"}
NETWORK = {"core": LEVEL, "socket": LEVEL, "host": LEVEL | {"alpha": 4e-6, "source": "a sheet"}}


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(NETWORK))
    return str(path)


def checked(ratio: float, *, same: bool = True) -> Any:
    """What checks find, in place of real jobs."""

    def check(_command: Any, _network: Any, ranks: int) -> ModelCheck:
        return ModelCheck(
            ranks=ranks,
            tries=1,
            modelled=ratio * 2e-3,
            measured=2e-3,
            same_transfers=same,
            modelled_bytes=1 << 20,
            measured_bytes=1 << 21,
        )

    return check


def test_tables_of_a_job_that_is_not_there(tmp_path: Path, network: str) -> None:
    options = ["--simulate", "512", "--no-check", "--network", network, "--cores-per-host", "16"]
    done = hybrid(
        "launch", *options, "--beta", "2.5e10", str(SCRIPT), "data", cwd=tmp_path, COLUMNS="140"
    )
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert text.startswith("A step of 512 ranks: ")
    for part in (
        "Traffic of rank 0 in a step",
        "parts_total by all_gather",
        "trained.py:",
        "32 with 16 cores, 16 ranks on each; 1 thread a rank",
        "alpha 4.0 us, beta 25 GB/s, as given",
        "alpha 1.0 us, beta 1 GB/s, here",
        "0 was run; the other 511 are never late",
        "not checked against measurement",
    ):
        assert part in text, (part, text)


@pytest.mark.parametrize(("ratio", "same"), [(1.3, True), (0.7, True), (1.0, False)])
def test_nothing_is_said_where_the_model_is_off(
    ratio: float, same: bool, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "check", checked(ratio, same=same))
    options = ["launch", "--simulate", "512", "--network", network, str(SCRIPT)]
    done = CliRunner().invoke(build(), options)
    assert done.exit_code == 1
    assert f"{ratio:.2f}" in done.output and ("others" in done.output) == (not same)
    assert "A step of" not in done.output
    assert (
        "hybrid: the model is not within 20% of jobs on this machine, so nothing is said of 512 "
        "ranks. Fix: measure where nothing else runs; let the script make more steps; or let "
        "--no-check print it anyway."
    ) in done.stderr


def test_ratios_are_shown_where_it_holds(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "check", checked(1.15))
    options = ["launch", "--simulate", "2", "--network", network, str(SCRIPT), "data"]
    done = CliRunner().invoke(build(), options, env={"COLUMNS": "140"})
    assert done.exit_code == 0, done.stderr
    assert "A step of 2 ranks: " in done.output
    assert "within 20% of jobs on this machine: 1.15 of 1, 1.15 of 2, 1.15 of 4" in done.output


def test_commands_need_no_mpi(tmp_path: Path) -> None:
    """Only jobs load it, in processes of their own."""
    program = (
        "import sys, hybrid.cli.app as app; app.build(); "
        "print({'hybrid.distributed', 'mpi4py'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout == "set()\n", done.stderr


def test_a_network_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text("[]")
    done = hybrid("launch", "--simulate", "2", "--network", str(path), str(SCRIPT), cwd=tmp_path)
    assert done.returncode == 2 and f"{path} has no network: it is no JSON" in done.stderr
    path.write_text("{}")
    done = hybrid(
        "launch", "--simulate", "2", "--network", str(path), "--beta", "0", str(SCRIPT),
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr == (
        "hybrid: --alpha is in seconds, --beta in bytes per second: give numbers above 0.\n"
    )
