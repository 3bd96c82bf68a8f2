"""Numbers that nested functions rebind (`nonlocal`), in loops and branches, call after call."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.helpers import part_of, parts
from tests.staging.harness import describe, f32

PLACES = (
    "{change}",
    "if k > 1:\n    {change}",
    "if hy.sum(x) > 0:\n    {change}",
    "for c in range(n):\n    {change}",
    "for row in hy.stack([x, x + 1]):\n    {change}",
    "c = 0\nwhile c < 3:\n    c += 1\n    for d in range(n):\n        {change}",
    "c = 0\nwhile c < k:\n    c += 1\n    {change}",
    "t = hy.sum(x)\nwhile t < 5:\n    t = hy.abs(t) + 2\n    {change}",
    "t = hy.sum(x)\nwhile t < 5:\n    t = hy.abs(t) + 2\n    if x[0] > s:\n        {change}",
    "try:\n    {change}\nfinally:\n    x = x + 0.5",
    "match k:\n    case 1:\n        {change}\n    case 2 | 3:\n        x = x - s\n    case _:\n"
    "        x = x + s",
    "for c in range(4):\n    if c == k:\n        a = s\n        break\nelse:\n    a = s + 1\n"
    "c = 0\nwhile c < 2:\n    c += 1\n    {change}\n    if c > k + 5:\n        break\nelse:\n"
    "    x = x + a",
)
CHANGES = (
    "s = {value}",
    "def g():\n    nonlocal s\n    s = {value}\ng()",
    "def g(before=s):\n    nonlocal s\n    s = {value}\n    return before\nx = x + g()",
    "def g():\n    nonlocal s, x\n    s = {value}\n    x = x * s\ng()\ng()",
    "def g():\n    def h():\n        nonlocal s\n        s = {value}\n    h()\n"
    "    return lambda: s\nx = x + g()()",
)
VALUES = ("s + s", "-s", "s * 3", "abs(s) + s")  # of the kind of s, which paths must agree on
CALLS = [  # k, n, s
    (1, 2, 1.5), (1, 2, 2.5), (2, 2, 3.5), (1, 3, 4), (2, 3, 5), (3, 0, 2.5), (0, 2, 1.25),
    (2, 2, 3),
]  # fmt: skip
_numbers = itertools.count()


def function_of(place: str, change: str, value: str) -> Callable[..., Any]:
    lines = ["def program(x, k, n, s):"]
    for line in place.split("\n"):
        inside = change.replace("{value}", value) if "{change}" in line else line.lstrip()
        lines += textwrap.indent(inside, " " * (4 + len(line) - len(line.lstrip()))).split("\n")
    text = "\n".join([*lines, "    return x, s"]) + "\n"
    path = f"<numbers {next(_numbers)}>"
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    found: dict[str, Any] = {"hy": hy}
    exec(compile(text, path, "exec"), found)
    return found["program"]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("part", parts(2))
def test_same_as_eager(part: int, place: str, change: str) -> None:
    for value in part_of(VALUES, part, 2, PLACES.index(place) + CHANGES.index(change)):
        function = function_of(place, change, value)
        hybridized = hy.hybridize(function)
        for numbers in CALLS:
            x = f32([1.0, 2.0] if numbers[0] != 2 else [-1.0, 2.0])
            assert describe(hybridized(x, *numbers)) == describe(function(x, *numbers)), numbers


def becomes_an_int_in_the_loop(x, k, s):
    t = hy.sum(x)
    while t < 5:
        t = hy.abs(t) + 2

        def g():
            nonlocal s
            s = k

        g()
    return x, s


def test_a_variable_shared_with_a_nested_function_is_carried_once() -> None:
    """It was carried as a name and as a cell, and a value of an abandoned trace was left."""
    hybridized = hy.hybridize(becomes_an_int_in_the_loop)
    x = f32([1.0, 2.0])
    for k, s in ((1, 2), (1.5, 2.5), (2, 7), (3.5, 0.5), (2, 1.5), (1.5, 2)):
        expected = becomes_an_int_in_the_loop(x, k, s)
        assert describe(hybridized(x, k, s)) == describe(expected)
