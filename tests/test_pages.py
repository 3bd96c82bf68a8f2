"""What the pages of the project name is there: files by their paths, tests by their commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md")),
]
FILE = re.compile(r"`([\w./-]+\.(?:py|c|h|md|txt|toml))`")
FOLDER = re.compile(r"`((?:hybrid|tests|csrc|docs|tutorials)(?:/\w+)+)/?`")


def every_file() -> list[str]:
    found = []
    for folder in ("hybrid", "tests", "csrc", "docs", "tutorials"):
        found += [str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob("*") if p.is_file()]
    return [*found, *[p.name for p in ROOT.iterdir() if p.is_file()]]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    files = every_file()
    lost = [
        name
        for name in dict.fromkeys(FILE.findall(text))
        if name not in files and not any(file.endswith(f"/{name}") for file in files)
    ]
    lost += [name for name in dict.fromkeys(FOLDER.findall(text)) if not _is_there(name)]
    assert not lost, f"{page} names what is not there"


def _is_there(name: str) -> bool:
    """Whether there is a folder, a module or a file of this name."""
    path = ROOT / name
    return path.exists() or any(path.parent.glob(f"{path.name}.*"))
