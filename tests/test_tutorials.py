"""Every tutorial, and each of the README's examples, runs from its first line to its last."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = sorted((ROOT / "tutorials").glob("[0-9]*.py"))


def test_tutorials_are_numbered_without_gaps() -> None:
    assert [path.name[:2] for path in TUTORIALS] == [
        f"{number:02}" for number in range(1, len(TUTORIALS) + 1)
    ]
    assert TUTORIALS


def run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in ``folder``; a warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(path: Path, tmp_path: Path) -> None:
    done = run(path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout.startswith("not run: "):  # it needs packages that are not there, and says which
        pytest.skip(done.stdout.strip())
    assert "assert " in path.read_text(encoding="utf-8"), "a tutorial checks what it says"


def test_the_readme_examples_run(tmp_path: Path) -> None:
    examples = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    printed = []
    for number, example in enumerate(examples):
        program = tmp_path / f"example_{number}.py"
        program.write_text(example, encoding="utf-8")
        done = run(program, tmp_path)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    learning, settling, accuracy, exported, small = printed
    assert float(learning) < 0.01  # from about 8
    assert int(settling) == 84
    assert float(accuracy) > 0.9
    assert (exported, small) == ("", "(1, 10)\n")


def test_the_readme_is_read_to_its_end() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160
