"""Each construct alone: a converted function does what the function does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hybrid.convert import ORDER, convert, converted_source, is_converted
from tests.convert.constructs import CASES, Base, Derived, iterate


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    arguments = copy.deepcopy(arguments)
    try:
        result = ("returned", iterate(function(*arguments)))
    except Exception as error:
        result = (type(error), str(error), error.args)
    if arguments and isinstance(arguments[0], (Base, Derived)):
        arguments = arguments[1:]
    return *result, arguments


@pytest.mark.parametrize(
    ("function", "arguments"),
    CASES,
    ids=[f"{f.__qualname__}-{i}" for i, (f, _) in enumerate(CASES)],
)
def test_same_on_plain_values(function: Any, arguments: tuple[Any, ...]) -> None:
    converted = convert(function)
    assert is_converted(converted)
    assert outcome(converted, arguments) == outcome(function, arguments)


def test_every_run_time_half_is_used() -> None:
    """The table above reaches every construct there is."""
    text = "\n".join(converted_source(function) for function, _ in CASES)
    names = {f.__name__ for kind in ORDER for f in kind.runtime}
    assert {name for name in names if f"hyb__.{name}(" not in text} == set()
