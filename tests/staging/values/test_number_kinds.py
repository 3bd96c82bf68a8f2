"""Numbers that are an int on one path and a float or a bool on another keep the kind they have."""

from __future__ import annotations

import itertools
import linecache
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import describe, f32, watched

PAIRS = {  # what n is on two paths; a is a float, and b an int of the run
    "int or float": ("1", "2.5"),
    "bool or int": ("True", "3"),
    "float or bool": ("0.5", "False"),
    "traced float or int": ("a", "2"),
    "traced int or float": ("b", "a"),
    "alike": ("1", "1.0"),
}
PLACES = {  # how n comes to be the one or the other
    "if": "if s > 0:\n    n = {0}\nelse:\n    n = {1}",
    "ternary": "n = {0} if s > 0 else {1}",
    "early return": "def g():\n    if s > 0:\n        return {0}\n    return {1}\nn = g()",
    "nonlocal": "n = {0}\ndef g():\n    nonlocal n\n    n = {1}\nif s > 0:\n    g()",
    "while": "n = {0}\nt = s\nwhile t > 0:\n    t = t - 1\n    n = {1}",
    "turns": "n, m = {0}, {1}\nt = s\nwhile t > 0:\n    t = t - 1\n    n, m = m, n",
    "for": "n = {0}\nfor v in x:\n    if v > s:\n        n = {1}",
    "range": "n = {0}\nfor i in range(7):\n    n = {1} if s > i else n",
    "attribute": "o = SimpleNamespace(n={0})\nif s > 0:\n    o.n = {1}\nn = o.n",
    "list": "ns = [{0}]\nif s > 0:\n    ns[0] = {1}\nn = ns[0]",
    "dict": "d = {{'n': {0}}}\nwhile s > 0:\n    s = s - 1\n    d['n'] = {1}\nn = d['n']",
    "tuple": "p = ({0}, {1})\nwhile s > 0:\n    s = s - 1\n    p = (p[1], p[0])\nn = p[0]",
}
USES = (
    "n", "n + 1", "1 - n", "n * 0.5", "n / 3", "n // 2", "n % 2", "n ** 2", "2 ** n",
    "divmod(n, 2)",
    "-n", "+n", "abs(n)", "round(n)", "int(n)", "float(n)", "bool(n)", "not n", "n == 1", "n < 1.5",
    "n + n", "n is True", "n is None", "n and 5", "n or 7", "9 if n else 8", "max(n, 1)",
    "min(1.5, n)", "sum([n, 1])", "n in (1, 2.5)", "isinstance(n, int)",
    "isinstance(n, (float, str))",
    "str(n)", "repr([n])", "f'{n} {n!r} {n:>8}'", "'%s %.2f' % (n, n)", "'{}'.format(n)",
    "math.sqrt(n)", "math.floor(n)", "math.fsum([n, 0.5])", "math.isnan(n)", "pow(n, 2)",
    "{'n': n, 'm': [n, (n, x)]}", "n.real", "n.imag", "x * n", "n - x", "x / n", "hy.maximum(x, n)",
    "hy.where(x > 0, x, n)", "[i * n for i in range(2)]", "list(map(abs, [n, -n]))",
    "print(n, [n])",
)  # fmt: skip
ONLY = {  # what Python does with numbers of some kinds only
    "bool or int": ("n & 1", "n | 6", "n << 2", "~n", "n + True", "[1] * n",
                    "n.bit_length()", "[4, 5, 6, 7][n]", "hy.arange(3) * n"),
    "int or float": ("n << 1", "~n", "{1: 3, 2.5: 4}[n] * x", "[4, 5, 6][n]", "n.is_integer()"),
    "float or bool": ("1 / n", "n % n", "math.log(n)"),
}  # fmt: skip
CALLS = (f32(-1.0), f32(1.0), f32(2.0), f32(5.5), f32(-1.0))
_numbers = itertools.count()


def function_of(place: str, pair: tuple[str, str], *uses: str) -> Callable[..., Any]:
    text = "def program(s, x):\n    a, b = x[2].item(), int(x[2])\n"
    text += textwrap.indent(place.format(*pair), "    ")
    text += "\n    return " + ", ".join(uses) + "\n"
    path = f"<kinds {next(_numbers)}>"
    linecache.cache[path] = len(text), None, text.splitlines(True), path
    found: dict[str, Any] = {"hy": hy}
    exec("import math\nfrom types import SimpleNamespace", found)
    exec(compile(text, path, "exec"), found)
    return found["program"]


def outcome(function: Callable[..., Any], s: hy.Tensor) -> Any:
    """All that there is to be noticed of a call."""
    events: list[Any] = []
    with watched(events):
        try:
            return describe(function(s, f32([2.0, -3.0, 1.75]))), events
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            return type(error), str(error), events


def check(function: Callable[..., Any]) -> None:
    hybridized = hy.hybridize(function)
    for s in CALLS:
        assert outcome(hybridized, s) == outcome(function, s), s


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("place", PLACES)
def test_results(place: str, pair: str) -> None:
    check(function_of(PLACES[place], PAIRS[pair], "n", "n + 1", "[n, x * n]", "f'{n}'"))


@pytest.mark.parametrize("pair", PAIRS)
def test_uses(pair: str) -> None:
    for use in USES:
        check(function_of(PLACES["if"], PAIRS[pair], use))


@pytest.mark.parametrize("pair", ONLY)
def test_what_some_kinds_refuse(pair: str) -> None:
    for use in ONLY[pair]:
        if use == "~n" and sys.version_info >= (3, 12):
            continue  # of a bool it is deprecated: that is warned of for each that there may be
        check(function_of(PLACES["if"], PAIRS[pair], use))


ROWS = """\
def rows(n, s):
    ns = []
    while s < 4:
        s = s + 1
        ns.append(n)
    return ns
"""
REFUSED = {  # a use, what is said of it, and what to write instead
    "type(n)": (
        "a number that is an int or a float is asked for its type",
        "Fix: ask with isinstance(k, int)",
        "isinstance(n, int)",
    ),
    "f'{n:x}'": (
        "a number that is an int or a float is formatted with 'x'",
        "Fix: give it one kind on all paths, or convert it: int(k)",
        "f'{int(n)}'",
    ),
    "'%x' % n": (
        "a number that is an int or a float is formatted with %",
        "Fix: give it one kind on all paths, or convert it: int(k)",
        "'%d' % int(n)",
    ),
    "hash(n)": (
        "a dict key or set item needs the value of a traced int or a float",
        "Fix: keep it in arithmetic, comparisons, indexing of tensors and range()",
        "n * 2",
    ),
    "rows(n, s)": (
        "a number that is an int or a float is kept as a row of a tensor",
        "Fix: give it one kind on all paths, or convert it: float(k)",
        "rows(float(n), s)",
    ),
}


@pytest.mark.parametrize("use", REFUSED)
def test_refused(use: str) -> None:
    what, fix, instead = REFUSED[use]
    function = function_of(ROWS + PLACES["if"], PAIRS["int or float"], use)
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(CALLS[0], f32([2.0, -3.0, 1.75]))
    assert what in str(caught.value)
    assert fix in str(caught.value)
    check(function_of(ROWS + PLACES["if"], PAIRS["int or float"], instead))
