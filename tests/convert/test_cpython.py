"""Conversion is the identity on plain Python: CPython's own tests pass as they do unconverted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("cpython_suite.py")
QUICK = ("grammar", "scope", "unpack", "augassign", "listcomps", "with")
NIGHTLY = (
    "iter", "generators", "exceptions", "patma", "named_expressions", "compare", "call", "super",
    "class", "contextlib", "functools", "raise", "dictcomps", "setcomps", "genexps",
    "keywordonlyarg", "positional_only_arg", "decorators", "enum", "dataclasses", "weakref",
)  # fmt: skip
# Tests that look at what conversion cannot hide: in which versions of Python they differ, and why.
EXPLAINED = {
    "test.test_patma.TestTracing.test_unreachable_code": (
        {11, 12, 13},
        "counts line events: a function whose returns became flags returns from its first line",
    ),
    **{
        f"test.test_patma.TestTracing.test_{name}": (
            {10, 11, 12, 13},
            "counts line events: where cases have guards, what follows begins on the first line",
        )
        for name in ("no_default", "default_wildcard", "default_capture")
    },
    "test.test_listcomps.ListComprehensionTest.test_exception_locations": (
        {13},
        "looks for columns: what is gone over is an argument of a call of the run-time half",
    ),
    "test.test_positional_only_arg.PositionalOnlyTestCase.test_annotations_constant_fold": (
        {10, 11, 12, 13},
        "looks for an instruction: `not a is b` is a call of the run-time half",
    ),
    "test.test_exceptions.ExceptionTests.test_recursion_in_except_handler": (
        {10, 12, 13},
        "lowers the recursion limit until the calls of the run-time halves find no room",
    ),
}
# Functions that are not converted, and why.
REFUSED = {
    "GeneratorTest.test_name": (
        {10},
        "spells out the qualified name of a function in it: Python 3.10 keeps both as one constant",
    ),
}


def here(table: dict[str, tuple[set[int], str]]) -> set[str]:
    return {name for name, (versions, _) in table.items() if sys.version_info.minor in versions}


def outcomes(name: str, how: str) -> dict[str, Any]:
    """What the tests of a module come to, in an interpreter of their own."""
    command = [sys.executable, str(PROGRAM), f"test.test_{name}", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def check(name: str) -> None:
    plain, converted = outcomes(name, "plain"), outcomes(name, "converted")
    assert converted["refused"].keys() <= here(REFUSED)
    assert converted["converted"] > 0
    differing = {
        test: converted["outcomes"].get(test)
        for test, outcome in plain["outcomes"].items()
        if converted["outcomes"].get(test) != outcome
    }
    assert differing.keys() == here(EXPLAINED) & plain["outcomes"].keys(), differing
    assert converted["run"] == plain["run"]
    passed = [list(found["outcomes"].values()).count("passed") for found in (plain, converted)]
    assert passed[0] > 0
    assert passed[1] == passed[0] - len(differing)


@pytest.mark.parametrize("name", QUICK)
def test_same_outcomes(name: str) -> None:
    check(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
def test_same_outcomes_nightly(name: str) -> None:
    check(name)
