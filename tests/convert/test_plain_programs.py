"""Random programs on plain values: converted, they give, raise and log the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hybrid.convert import convert, is_converted
from tests.convert.programs import Program, compiled, run

ARGUMENTS = ((0, 1), (3, 0), (2, 5))


def outcome(function: Any, arguments: tuple[int, int]) -> list[Any]:
    """What a run comes to; a line counts once however many frames an expression takes."""
    found = list(run(function, *arguments))
    if isinstance(found[2], list) and len(found) == 5:
        found[2] = list(dict.fromkeys(found[2]))
    return found


def check(seed: int) -> None:
    source = Program(random.Random(seed)).write()
    try:
        function = compiled(source)
    except SyntaxError:  # a name that is a parameter and captured, and the like
        return
    converted = convert(function)
    assert is_converted(converted)
    for arguments in ARGUMENTS:
        assert outcome(converted, arguments) == outcome(function, arguments), source


def test_programs() -> None:
    for seed in range(100):
        check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(100, 5100, 500))
def test_programs_nightly(start: int) -> None:
    for seed in range(start, start + 500):
        check(seed)
