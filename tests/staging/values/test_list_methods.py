"""Every method, slice and way round of a list of known length, in each place of control flow."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.helpers import part_of, parts
from tests.staging.harness import ITEMS_APART, f32, same

# Keeping the length of the list as it is.
KEEPING = (
    "xs[0] = x",
    "xs[-1] = x * 2",
    "xs[0], xs[1] = xs[1], xs[0]",
    "xs[0] += 1",
    "xs[1:2] = [x]",
    "xs[::2] = [x, x * 2]",
    "xs[:] = [v * 2 for v in xs]",
    "xs.reverse()",
    "xs = xs[::-1]",
    "xs = list(reversed(xs))",
    "for v in reversed(xs):\n    y = y * 0.5 + v",
    "for i, v in enumerate(reversed(xs)):\n    y = y * i + v",
    "for a, b in zip(xs, reversed(xs)):\n    y = y + a * b",
    "y = y + sum(reversed(xs))",
    "y = y + sum(xs[1:3]) + xs[-2:][0]",
    "y = y + tuple(xs)[1:][0]",
    "y = y + xs.index(xs[1])",
    "y = y + ks.index(2) + ks.count(2) + (2 in ks)",
    "xs.append(xs.pop(0))",
    "xs.insert(0, xs.pop())",
    "xs.insert(1, x)\ny = y + xs.pop(-2)",
    "xs.append(x)\ndel xs[0]",
    "xs = xs[1:] + [x]",
    "a, *xs = xs\nxs.append(a * 2)",
    "xs.clear()\nxs.extend([x, x, x, x])",
)
# Changing it, by as much as only a run knows where an `if` in a loop or a `while` decides.
CHANGING = (
    "xs.insert(0, x)",
    "xs.insert(len(xs), x)",
    "xs.insert(-1, x)",
    "xs.insert(1, x * 2)",
    "y = xs.pop()",
    "y = xs.pop(0)",
    "y = xs.pop(1)",
    "y = xs.pop(-2)",
    "xs.extend([x, x + 1])",
    "xs.extend((x, x + 1))",
    "xs.extend(v * 2 for v in xs[:2])",
    "xs.extend(hy.stack([x, x * 2]))",
    "xs.extend(xs)",
    "xs.extend(reversed(xs))",
    "xs += [x]",
    "xs = xs * 2",
    "xs = [x] + xs",
    "xs = xs.copy()\nxs.append(x)",
    "xs = xs[1:]",
    "xs = xs[:-1]",
    "xs = xs[::2]",
    "xs[1:2] = [x, x * 3]",
    "xs[:0] = [x]",
    "xs[2:] = []",
    "del xs[1:2]",
    "del xs[::2]",
    "del xs[0]",
    "del xs[-1]",
    "ks.remove(2)",
    "ks.append(2)\ny = y + ks.count(2)",
    "y = y + ks.pop(0)",
    "ks.insert(0, 7)\ny = y + ks[0]",
    "ks[1:] = [4, 5]\ny = y + ks[2]",
    "ks.sort()\nks.reverse()",
)
KNOWN = (
    "{change}",
    "if hy.sum(x) > 0:\n    {change}",
    "if hy.sum(x) > 0:\n    {change}\nelse:\n    x = x * 2\n    {change}",
    "for j in range(2):\n    x = x * 0.5 + j\n    {change}",
    "for j in range(2):\n    x = x * 0.5 + j\n    if j == 0:\n        {change}",
    "for row in hy.stack([x, x * 2]):\n    x = x * 0.5 + row\n    {change}",
)
UNKNOWN = (
    "for row in hy.stack([x, x * 2]):\n    if hy.sum(row) > 0:\n        x = x + row\n"
    "        {change}",
    "n = hy.sum(x)\nwhile n < 10:\n    n = hy.abs(n) + 4\n    x = x + 1\n    {change}",
)
CALLS = [f32(v) for v in ([1.0, 2.0], [-1.0, -2.0], [0.5, 3.0], [20.0, 3.0])]
_numbers = itertools.count()


def function_of(place: str, change: str) -> Callable[..., Any]:
    lines = ["def program(xs, x):", "    ks, y = [1, 2, 3, 2, 2], hy.zeros(2)"]
    for line in place.split("\n"):
        inside = change if "{change}" in line else line.lstrip()
        lines += textwrap.indent(inside, " " * (4 + len(line) - len(line.lstrip()))).split("\n")
    lines.append("    return xs, ks, y, x")
    text = "\n".join(lines) + "\n"
    path = f"<list {next(_numbers)}>"
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    found: dict[str, Any] = {"hy": hy}
    exec(compile(text, path, "exec"), found)
    return found["program"]


def local(function: Callable[..., Any]) -> Callable[..., Any]:
    """The program on a list that the call makes."""
    return lambda x: function([x * 1, x * 2 + 1, x * 3, x - 1], x)


def check(place: str, change: str, may_refuse: bool, identity: bool | str = True) -> None:
    function = function_of(place, change)
    plans = 2 if may_refuse else 1  # each length of a list may be captured by itself
    same(local(function), calls=CALLS, plans=plans, may_refuse=may_refuse, identity=identity)
    lists = [([x * k for k in range(4)], x) for x in CALLS]
    same(function, calls=lists, plans=plans, grad=False, may_refuse=may_refuse, identity=identity)


@pytest.mark.parametrize("change", [*KEEPING, *CHANGING])
@pytest.mark.parametrize("part", parts(2))
def test_lists_of_known_length(part: int, change: str) -> None:
    for place in part_of(KNOWN, part, 2, (*KEEPING, *CHANGING).index(change)):
        check(place, change, may_refuse=False)


@pytest.mark.parametrize("change", KEEPING)
@pytest.mark.parametrize("part", parts(2))
def test_lists_that_keep_their_length(part: int, change: str) -> None:
    for place in part_of(UNKNOWN, part, 2, KEEPING.index(change)):
        check(place, change, may_refuse=False)


@pytest.mark.parametrize("change", CHANGING)
def test_lists_whose_length_only_a_run_knows(change: str) -> None:
    for place in UNKNOWN:
        check(place, change, may_refuse=True, identity=ITEMS_APART)
