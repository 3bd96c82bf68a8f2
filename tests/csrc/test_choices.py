"""How work is cut up: by the caches, by a tuning file, and never by a file that is not sound."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybrid.memory import native

LOOK = """
import hashlib, json, sys
import numpy as np
from hybrid.memory import native
print(json.dumps([native.choices(), native.tuning()]))
"""
COMPUTE = """
import hashlib
import numpy as np
import hybrid as hy

draw = np.random.RandomState(0)
seen = hashlib.sha256()
for m, k, n in [(1, 700, 300), (3, 50, 40), (12, 400, 700), (130, 900, 260), (300, 33, 64)]:
    a, b = (hy.asarray(draw.randn(*shape).astype(np.float32)) for shape in ((m, k), (k, n)))
    products = [a @ b, b.T @ a.T, hy.tanh(a @ b) * 2.0, hy.sum(a, axis=0), hy.softmax(b, axis=-1)]
    for value in products:
        seen.update(value.numpy().tobytes())
print(seen.hexdigest())
"""


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``script`` in a process that has ``environment`` and no other tuning file."""
    told = {"HYBRID_TUNING": "", **os.environ, **environment}
    if told["HYBRID_TUNING"] == "unset":
        del told["HYBRID_TUNING"]
    return subprocess.run(
        [sys.executable, "-c", script], env=told, cwd="/", capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


def look(**environment: str) -> tuple[dict[str, list[int]], list[str]]:
    done = run(LOOK, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_a_file_all_is_as_usual() -> None:
    choices, (path, fault, machine) = look()
    assert path == fault == "" and machine == native.tuning()[2]
    assert list(choices) == [
        "slice_bytes", "near_bytes", "waking_work", "task_work", "chunk_work", "spin_ns",
    ]  # fmt: skip
    assert all(value == usual > 0 for value, usual in choices.values())


def test_a_file_is_read_where_it_is_usual(tmp_path: Path) -> None:
    machine = native.tuning()[2]
    for folder, variable in ((tmp_path / ".cache", "HOME"), (tmp_path / "x", "XDG_CACHE_HOME")):
        path = folder / "hybrid" / "tuning"
        path.parent.mkdir(parents=True)
        path.write_text(
            f"# of two machines\n\n{machine} spin_ns 7\nanother spin_ns 8\n"
            f"another no_such_choice 1\n"
        )
        root = folder if variable.startswith("XDG") else tmp_path
        rest = {"HOME": "", "XDG_CACHE_HOME": "", "HYBRID_TUNING": "unset"}
        choices, told = look(**{**rest, variable: str(root)})
        assert choices["spin_ns"] == [7, 30000]
        assert told[:2] == [str(path), ""]


@pytest.mark.parametrize(
    "line", ["* task_work 12345\n", "  *   task_work\t12345", "{machine} task_work 12345"]
)
def test_a_file_that_is_asked_for(line: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(line.format(machine=native.tuning()[2]))
    choices, _ = look(HYBRID_TUNING=str(path))
    assert choices["task_work"][0] == 12345


UNSOUND = {
    "a word": ("* spin_ns x\n", "line 1 of it is no choice: * spin_ns x"),
    "no value": ("* spin_ns 1\n* spin_ns\n", "line 2 of it is no choice: * spin_ns"),
    "an unknown choice": ("* spin 1\n", "line 1 of it is no choice: * spin 1"),
    "too little": ("* slice_bytes 131071\n", "line 1 of it is no choice: * slice_bytes 131071"),
    "too much": ("* spin_ns 10000001\n", "line 1 of it is no choice: * spin_ns 10000001"),
    "beyond all": ("* spin_ns 99999999999999999999\n", "line 1 of it is no choice: "),
    "something behind": ("* spin_ns 1 2\n", "line 1 of it is no choice: * spin_ns 1 2"),
    "a line without an end": ("* spin_ns 1" + "0" * 5000, "line 1 of it is no choice: "),
    "bytes": ("\x01\xff\x00* spin_ns", "line 1 of it is no choice: "),
    "a large file": ("#\n" * (1 << 19) + "#", "it is no file of at most 1048576 bytes"),
}


@pytest.mark.parametrize("text_and_fault", UNSOUND.values(), ids=UNSOUND)
def test_of_an_unsound_file_nothing_is_taken(
    text_and_fault: tuple[str, str], tmp_path: Path
) -> None:
    text, fault = text_and_fault
    path = tmp_path / "hybrid" / "tuning"
    path.parent.mkdir()
    path.write_bytes(b"* near_bytes 4096\n" * (text == "bytes") + text.encode("latin-1"))
    choices, told = look(HYBRID_TUNING="unset", XDG_CACHE_HOME=str(tmp_path))
    assert all(value == usual for value, usual in choices.values())
    assert told[0] == str(path) and told[1].startswith(fault)
    done = run("import hybrid as hy; hy.ones(3) + 1", HYBRID_TUNING=str(path))
    assert done.returncode == 1
    assert f"ArgumentError: HYBRID_TUNING={str(path)[:200]}: {fault}"[:200] in done.stderr


def test_what_is_no_file_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, fault in (
        (tmp_path / "pipe", "it is no file of at most 1048576 bytes"),
        (tmp_path, "it is no file of at most 1048576 bytes"),
        (Path("/dev/zero"), "it is no file of at most 1048576 bytes"),
        (tmp_path / "none", "it cannot be read: No such file or directory"),
    ):
        done = run("import hybrid as hy; hy.ones(3) + 1", HYBRID_TUNING=str(path))
        assert f"HYBRID_TUNING={path}: {fault}" in done.stderr


@pytest.mark.parametrize("extreme", ["least", "most"])
def test_no_choice_changes_a_bit(extreme: str, tmp_path: Path) -> None:
    values = {
        "slice_bytes": (128 << 10, 64 << 20), "near_bytes": (1 << 10, 16 << 20),
        "waking_work": (1 << 10, 1 << 30), "task_work": (1 << 10, 1 << 30),
        "chunk_work": (4 << 10, 64 << 20), "spin_ns": (0, 10_000_000),
    }  # fmt: skip
    path = tmp_path / "file"
    path.write_text(
        "".join(f"* {name} {pair[extreme == 'most']}\n" for name, pair in values.items())
    )
    assert set(values) == set(native.choices())
    usual, cut = run(COMPUTE), run(COMPUTE, HYBRID_TUNING=str(path))
    assert usual.returncode == cut.returncode == 0, cut.stderr
    assert usual.stdout == cut.stdout
