"""The folders of the C runtime: what a file calls lies in its own folder or in one below."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_layering import circles

RUNTIME = Path(__file__).resolve().parents[2] / "csrc/runtime"
FOLDERS = [
    "async",
    "program",
    "build",
    "run",
    "base",
]  # from above; async and build do not call each other
RECURSION = [["run/control", "run/parallel", "run/step"]]  # a step owns blocks of steps

DEFINITION = re.compile(
    r"^(?!static|typedef|extern)[A-Za-z_][\w \*]*?\b(hyb_\w+)\([^;{}]*\)\s*\{", re.M
)
INCLUDE = re.compile(r'^#include "runtime/([\w/]+)\.h"$', re.M)


def texts() -> dict[str, str]:
    """The files, without comments, by folder and name."""
    return {
        str(path.relative_to(RUNTIME).with_suffix("")): re.sub(
            r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S
        )
        for path in sorted(RUNTIME.rglob("*.c"))
    }


def calls() -> dict[str, set[str]]:
    """The other files that each file calls functions of."""
    files = texts()
    home = {name: file for file, text in files.items() for name in DEFINITION.findall(text)}
    return {
        file: {home[name] for name in set(re.findall(r"\bhyb_\w+", text)) & home.keys()} - {file}
        for file, text in files.items()
    }


def folder_of(file: str) -> str:
    return file.partition("/")[0]


def test_calls_run_downwards() -> None:
    found = calls()
    assert {folder_of(file) for file in found} == set(FOLDERS)
    for file, others in found.items():
        own = FOLDERS.index(folder_of(file))
        for other in others:
            assert FOLDERS.index(folder_of(other)) >= own, f"{file}.c calls {other}.c"
            assert (folder_of(file), folder_of(other)) != ("async", "build"), (file, other)


def test_the_interpreter_alone_calls_itself() -> None:
    assert circles(calls()) == RECURSION


@pytest.mark.parametrize("header", sorted(RUNTIME.rglob("*.h")), ids=lambda path: path.name)
def test_headers_include_what_is_below(header: Path) -> None:
    own = FOLDERS.index(header.parent.name)
    for included in INCLUDE.findall(header.read_text(encoding="utf-8")):
        assert FOLDERS.index(folder_of(included)) > own, included


def test_only_init_makes_the_base_ready() -> None:
    found = calls()
    callers = {file for file, others in found.items() if "base/init" in others}
    assert not any(folder_of(file) in ("base", "run") for file in callers), callers
