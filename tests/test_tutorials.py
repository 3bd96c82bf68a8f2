"""Every tutorial runs from its first line to its last; their asserts are the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).resolve().parents[1] / "tutorials").glob("[0-9]*.py"))


def test_tutorials_are_numbered_without_gaps() -> None:
    assert [path.name[:2] for path in TUTORIALS] == [
        f"{number:02}" for number in range(1, len(TUTORIALS) + 1)
    ]
    assert TUTORIALS


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "assert " in path.read_text(encoding="utf-8"), "a tutorial checks what it says"
