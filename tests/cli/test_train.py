"""``hybrid train``: its lines, its bar, its file, what it refuses, and how Ctrl-C ends it."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid.cli.app import build
from hybrid.models.examples import find
from tests.helpers import same

HYBRID = [sys.executable, "-m", "hybrid"]


@pytest.fixture(autouse=True)
def threads_restored() -> Iterator[None]:
    before = hy.num_threads()
    yield
    hy.set_num_threads(before)


def test_lines_when_not_a_terminal() -> None:
    shown = CliRunner().invoke(build(), ["train", "gru", "--epochs", "2", "--threads", "1"])
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.stdout and "\r" not in shown.stdout
    told, data, way, _, heading, *epochs, _, last = shown.stdout.splitlines()
    assert told == "gru: GRU, one step a row; 14,858 parameters"
    assert data == "digits, row by row: 1,408 samples an epoch, 360 held out"
    assert way == "hybridized, threads: 1"
    assert heading.split() == ["epoch", "loss", "accuracy", "samples/s"]
    rows = [line.split() for line in epochs]
    assert [row[0] for row in rows] == ["1", "2"]
    assert float(rows[1][1]) < float(rows[0][1])
    assert rows[1][2].endswith("%") and int(rows[1][3].replace(",", "")) > 0
    assert re.fullmatch(rf"accuracy: {rows[1][2]} after 2 epochs and \d+\.\d s", last)


def test_both_ways_and_any_threads_save_the_same_weights(tmp_path: Path) -> None:
    states = []
    for number, options in enumerate((["--no-hybridize"], ["--threads", "1"], [])):
        path = tmp_path / f"{number}.safetensors"
        args = ["train", "vae", "--epochs", "1", "--seed", "5", "--save", str(path), *options]
        shown = CliRunner().invoke(build(), args)
        assert shown.exit_code == 0, shown.output
        assert ("eager, " if "--no-hybridize" in options else "hybridized, ") in shown.stdout
        assert shown.stdout.splitlines()[-1] == f"the weights are in {path}"
        states.append(hy.load(path))
    for other in states[1:]:
        assert all(same(states[0][name], other[name]) for name in states[0])
    told = dict(states[0].metadata)
    assert (told["model"], told["epochs"], told["seed"]) == ("vae", "1", "5")
    assert 300 < float(told["nats an image"]) < 700
    model = find("vae").make()
    assert model.load_state_dict(tmp_path / "0.safetensors") == ([], [])


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [*HYBRID, "train", "lenet", "--epochs", "2"],
        cwd=tmp_path,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        shown = bytearray()
        while True:
            try:
                part = os.read(controller, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(controller)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "epoch 1 of 2" in text and re.search(r"loss \d\.\d{4}, [\d,]+ samples/s", text)
    assert re.search(r"samples/s accuracy \d+\.\d%", text)  # of the epoch before
    assert re.search(r"[\r\n] +2 +\d\.\d{4} +\d+\.\d% +[\d,]+\r", text)
    assert "accuracy: " in text.splitlines()[-1]


@pytest.mark.usefixtures("heeded_interrupt")
def test_an_interrupt_ends_it_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "never.safetensors"
    with subprocess.Popen(
        [*HYBRID, "train", "lstm", "--epochs", "100000", "--save", str(path)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        while "    3 " not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        begun = time.perf_counter()
        rest, error = process.stdout.read(), process.stderr.read()
        process.wait(30)
    assert time.perf_counter() - begun < 10
    assert process.returncode == 130
    assert "accuracy: " not in rest
    assert re.fullmatch(r"hybrid: interrupted in epoch \d+ of 100000; nothing was saved\.\n", error)
    assert not path.exists()


WRONG = {
    "an unknown model": (
        ["lenett"],
        "there is no model named 'lenett'; did you mean 'lenet'?",
    ),
    "nothing alike": (["qqqq"], "there is no model named 'qqqq'. Fix: see `hybrid models`."),
    "no epochs": (["lenet", "--epochs", "0"], "--epochs 0: at least one is needed."),
    "no threads": (
        ["lenet", "--threads", "0"],
        "--threads 0: 0 is not a number of threads. Fix: give an int >= 1.",
    ),
    "a folder that is not there": (
        ["lenet", "--save", "absent/x.safetensors"],
        "--save absent/x.safetensors cannot be written: No such file or directory.",
    ),
    "a folder": (["lenet", "--save", "."], "--save . cannot be written: Is a directory."),
}


@pytest.mark.parametrize(("args", "expected"), WRONG.values(), ids=WRONG)
def test_bad_input_is_one_line_and_code_two(
    args: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(build(), ["train", *args])
    assert shown.exit_code == 2
    assert shown.stderr == f"hybrid: {expected}\n" and shown.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_told_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    shown = CliRunner().invoke(build(), ["train", "lenet", "--save", "x.safetensors"])
    assert shown.exit_code == 2 and shown.stdout == ""
    assert shown.stderr == (
        "hybrid: --save needs the package safetensors, which is not installed. "
        'Fix: pip install "hybrid[io]".\n'
    )
