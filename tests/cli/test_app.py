"""The command line as a whole: what it offers, how it fails, and what it does not load."""

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid.cli import commands
from hybrid.cli.app import build


def hybrid(*args: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "hybrid", *args],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_every_module_is_a_command() -> None:
    listed = CliRunner().invoke(build(), ["--help"])
    assert listed.exit_code == 0
    for module in pkgutil.iter_modules(commands.__path__):
        assert f" {module.name} " in listed.stdout


@pytest.mark.parametrize(
    "command", [module.name for module in pkgutil.iter_modules(commands.__path__)]
)
def test_help_fits_eighty_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(build(), [command, "--help"])
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "Usage" in shown.stdout


def test_no_arguments_show_the_help() -> None:
    shown = CliRunner().invoke(build(), [])
    assert "Usage" in shown.output and "bench" in shown.output


@pytest.mark.parametrize("command", [["--version"], ["--version", "bench"]])
def test_the_version(command: list[str]) -> None:
    shown = CliRunner().invoke(build(), command)
    assert (shown.exit_code, shown.stdout) == (0, f"hybrid {hy.__version__}\n")


@pytest.mark.parametrize("command", [[], ["bench"], ["bench", "run"], ["train"]])
def test_help_has_a_short_name(command: list[str]) -> None:
    short, long = (CliRunner().invoke(build(), [*command, name]) for name in ("-h", "--help"))
    assert short.exit_code == 0 and short.stdout == long.stdout


WRONG = {
    "an unknown workload": (
        ["bench", "run", "digit"],
        "there is no bench named 'digit'; did you mean 'digits'?",
    ),
    "two kinds of weights": (
        ["compress", "lenet", "--int8", "--int4"],
        "--int8 and --int4 exclude each other.",
    ),
    "a script that is not there": (["launch", "-n", "2", "absent.py"], "absent.py is no file."),
    "a job of no ranks": (
        ["launch", "--simulate", "0", __file__],
        "--simulate 0: a job has one rank at least.",
    ),
    "a simulation that starts again": (
        ["launch", "--simulate", "2", "--max-restarts", "1", __file__],
        "--max-restarts and --min-ranks are for jobs, and --simulate starts none.",
    ),
    "two numbers of ranks": (
        ["launch", "--simulate", "4", "-n", "2", __file__],
        "-n 2 beside --simulate 4, which says how many ranks there are.",
    ),
    "ranks that are not": (
        ["launch", "--simulate", "4", "--play", "0,4", __file__],
        "--play 0,4: give ranks from 0 to 3, as in 0,3; or all.",
    ),
    "options of a simulation for a job": (
        ["launch", "-n", "2", "--play", "0", "--no-check", __file__],
        "--play, --check or --no-check: for --simulate alone.",
    ),
    "no cores": (
        ["launch", "--simulate", "4", "--cores-per-host", "0", __file__],
        "--cores-per-host 0: give a number above 0.",
    ),
    "no threads": (["bench", "run", "dispatch", "--threads", "0"], "--threads 0: "),
    "no rounds": (["bench", "run", "dispatch", "--repeat", "0"], "--repeat 0: "),
    "a path that cannot be written": (
        ["bench", "run", "dispatch", "--json", "absent/out.json"],
        "--json absent/out.json cannot be written: No such file or directory.",
    ),
    "a file that is not there": (
        ["graph", "absent.py:f", "-i", "f32[2]"],
        "there is no file absent.py.",
    ),
    "a bad type": (
        ["graph", "math:sqrt", "-i", "f32"],
        "'f32' is not a tensor type. Fix: write a dtype and a shape, as in f32[8,4].",
    ),
    "an op that is not": (["ops", "frobnicate"], "no op's name contains 'frobnicate'."),
}


@pytest.mark.parametrize(("args", "expected"), WRONG.values(), ids=WRONG)
def test_bad_input_is_one_line_and_code_two(args: list[str], expected: str, tmp_path: Path) -> None:
    done = hybrid(*args, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert expected in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_unknown_instruction_set_is_one_line(tmp_path: Path) -> None:
    done = hybrid("info", cwd=tmp_path, HYBRID_ISA="mmx")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
    assert "mmx" in done.stderr and "baseline" in done.stderr


def test_the_instruction_set_can_be_forced(tmp_path: Path) -> None:
    done = hybrid("info", cwd=tmp_path, HYBRID_ISA="baseline")
    assert done.returncode == 0, done.stderr
    assert "instruction set" in done.stdout and "baseline (runs here" in done.stdout


def test_importing_hybrid_loads_no_command_line(tmp_path: Path) -> None:
    program = (
        "import sys, hybrid; print(sorted({'typer', 'rich', 'click', 'hybrid.cli', 'hybrid.bench',"
        " 'hybrid.models', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
