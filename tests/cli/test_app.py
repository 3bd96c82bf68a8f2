"""The command line as a whole: what it offers, how it fails, and what it does not load."""

import os
import pkgutil
import signal
import subprocess
import sys
import time
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


# How commands end ---------------------------------------------------------------------------------

FAILING = """
def called(x):
    return inner(x)

def inner(x):
    return {}["missing"]
"""


def test_what_the_user_s_code_raises_has_the_user_s_frames(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FAILING)
    command = ["graph", "mine.py:called", "-i", "f32[2]"]
    done = hybrid(*command, cwd=tmp_path, HYBRID_TRACEBACK="")
    files = [line.split(", line")[0] for line in done.stderr.splitlines() if "  File " in line]
    assert (done.returncode, done.stdout) == (1, "")
    assert files == [f'  File "{tmp_path / "mine.py"}"'] * 2
    assert done.stderr.endswith("KeyError: 'missing'\n")
    done = hybrid(*command, cwd=tmp_path, HYBRID_TRACEBACK="full")
    assert done.returncode == 1 and done.stderr.count("  File ") > 10


def test_a_pipe_that_is_closed_ends_it_without_a_word(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "hybrid", "ops"], cwd=tmp_path, bufsize=0,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 128 + signal.SIGPIPE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["ops", "info", "--help"])
def test_a_full_disk_is_told_in_a_line(command: str, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hybrid", command], cwd=tmp_path, stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    line = "hybrid: standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.usefixtures("heeded_interrupt")
def test_control_c_has_the_code_of_other_programs(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nopen('begun', 'w').close()\ntime.sleep(60)\ndef f(x): return x\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "hybrid", "graph", "slow.py:f"], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        while not (tmp_path / "begun").exists() and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.communicate() == (b"", b"")
        assert running.returncode == 130


def test_completion_can_be_installed() -> None:
    shown = CliRunner().invoke(build(), ["--help"])
    assert "--install-completion" in shown.stdout and "--show-completion" in shown.stdout
