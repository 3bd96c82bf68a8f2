"""Each construct alone: a converted function does what the function does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from hybrid.convert import convert, converted_source, is_converted
from hybrid.convert.runtime import hyb__
from hybrid.staging.table import CONVERTED
from tests.convert.constructs import CASES, iterate
from tests.convert.constructs_stores import Base
from tests.convert.programs import compiled


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    arguments = copy.deepcopy(arguments)
    try:
        result = ("returned", iterate(function(*arguments)))
    except Exception as error:
        result = (type(error), str(error), error.args)
    if arguments and isinstance(arguments[0], Base):
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


def test_every_function_that_converted_code_calls_is_called() -> None:
    """The table above reaches every construct there is."""
    text = "\n".join(converted_source(function) for function, _ in CASES)
    assert {name for name in CONVERTED if f"hyb__.{name}(" not in text} == set()


def test_every_function_is_where_the_table_says() -> None:
    for name in hyb__.modules:
        assert getattr(hyb__, name) is not None


def test_a_name_that_nothing_provides() -> None:
    with pytest.raises(AttributeError, match="asked for nothing, which nothing provides"):
        hyb__.nothing  # noqa: B018  it raises


@pytest.mark.parametrize("branches", [5, 25, 60])
def test_long_chains(branches: int) -> None:
    """The compiler lets 20 blocks nest: beyond, an ``elif`` stays as it is."""
    lines = ["def program(x):", "    if x == 0:", "        y = 0"]
    for number in range(1, branches):
        lines += [f"    elif x == {number}:", f"        y = {number}"]
    function = compiled("\n".join([*lines, "    else:", "        y = -1", "    return y", ""]))
    converted = convert(function)
    assert is_converted(converted)
    for x in range(branches + 1):
        assert converted(x) == function(x)


@pytest.mark.parametrize("returns", [5, 25, 60])
def test_many_early_returns(returns: int) -> None:
    lines = ["def program(x):", "    for i in range(x):"]
    for number in range(returns):
        lines += [
            f"        if i == {number} and x == {number} + 2:",
            f"            return {number}",
        ]
    function = compiled("\n".join([*lines, "    return x", ""]))
    converted = convert(function)
    assert is_converted(converted)
    for x in range(returns + 4):
        assert converted(x) == function(x)


def test_early_returns_nest_up_to_some_levels() -> None:
    """What follows one runs within a guard, which graphs like; beyond, guards follow each other."""

    def levels(returns: int) -> int:
        lines = ["def program(x):"]
        for number in range(returns):
            lines += [f"    if x == {number}:", f"        if x > {number - 1}:"]
            lines += ["            return x", "        x = x - 1"]
        text = converted_source(compiled("\n".join([*lines, "    return x", ""])))
        return max(len(line) - len(line.lstrip()) for line in text.splitlines()) // 4

    found = [levels(returns) for returns in (2, 4, 6, 20, 60)]
    assert found[0] < found[1] < found[2] <= found[3] == found[4]


@pytest.mark.parametrize("depth", [3, 9, 15])
def test_deep_nests(depth: int) -> None:
    lines = ["def program(x):", "    n = 0"]
    for level in range(depth):
        lines += ["    " * (level + 1) + f"for i{level} in range(2):"]
    indent = "    " * (depth + 1)
    lines += [f"{indent}n += 1", f"{indent}if n == x:", f"{indent}    return n"]
    function = compiled("\n".join([*lines, "    return -n", ""]))
    converted = convert(function)
    assert is_converted(converted)
    for x in (0, 1, 5, 100):
        assert converted(x) == function(x)
