"""Long files: an alarm.  Files are cut where their subject ends: most are far below the limit."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 700
FOLDERS = ("hybrid", "csrc", "tests", "tutorials")
SUFFIXES = {".py", ".c", ".h"}

FILES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES
)


def test_there_are_files() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(FOLDERS)


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    faults = [
        f"{path.relative_to(ROOT)} has {lines} lines; is it two subjects?"
        for path, lines in lengths.items()
        if lines > LIMIT
    ]
    assert not faults, "\n".join(faults)
