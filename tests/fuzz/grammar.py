"""Random programs: the source text of functions that end, by the productions of ``rules``.

The text is a module.  ``make()`` gives the program, and a function that gives what it keeps between
calls; ``calls(state)`` gives the arguments of some calls in a row, as tuples.  Programs are drawn
swarm style: each has some of the features, so that some have a few much and others all a little.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tests.fuzz.rules import FEATURES, RULES, START, Rule

# Features of arguments and surroundings rather than of what is written.
OF_ARGUMENTS = ("aliases", "given state", "nonfinite", "retyped", "shared", "signals")
LONGER = (0, 1, 4)  # of programs with sizes: by how much vectors are longer, by turns
OF_ITEMS = ("items", "inplace items", "rows")  # only where vectors have some
DTYPES = ("float32",) * 5 + ("float16", "float16", "bfloat16", "bfloat16", "float64")
SHAPES = ("3",) * 6 + ("1", "2", "5", "0", "")
NUMBERS = ("0.5", "-1.0", "2.0", "0.25", "-0.0", "3.0", "-2.5", "0.001", "1.0")
ODD = ("float('nan')", "float('inf')", "-float('inf')")
NEST = 3  # blocks in blocks
DEPTH = 3  # expressions in expressions

FIXED = ("N", "S", "D", "=", "every", "result", "block", "loop", "inner")
_HOLE = re.compile(r"<(=|\w+)>")
_LINES = re.compile(r"^( *)<(block|loop|inner)>$", re.MULTILINE)

IMPORTS = """\
import functools
import math
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import hybrid as hy
"""

# What programs with a feature find in their module.
MODULE = {
    "": """\
class State:
    def __init__(self, **items):
        self.__dict__.update(items)


@dataclass
class Record:
    v: Any
    s: Any
    w: Any
    i: Any
    f: Any
    xs: Any
    d: Any


@dataclass
class Point:
    v: Any
    s: Any

    def moved(self, by):
        return Point(self.v + by, self.s)
""",
    "functions": """\
def keep(v, s):
    if s > 0.25:
        return v
    v = v * 0.5
    return v


def mix(v, s, i):
    if i > 2:
        return v * s
    for j in range(2):
        v = v + s * j
        if hy.sum(v) > i:
            break
    return v


def pick(s, *rest, t=1.0, **more):
    return s if s > t else t * s


def count(i, s):
    while i < 3 and s > 0:
        i = i + 1
    return i


def deep(v, i):
    return v if i <= 0 else deep(v * 0.5, i - 1)
""",
    "closures": """\
def double(v):
    return v + v
""",
    "generators": """\
def steps(v, count):
    for _ in range(count):
        v = v * 0.5
        yield v
    yield v
""",
    "gradients": """\
def scored(v, s):
    if s > 0:
        return hy.sum(hy.sin(v) * s)
    return hy.sum(v * v)
""",
    "try": """\
def checked(v, s):
    if s > 0.5:
        raise ArithmeticError("high")
    return v * s
""",
    "with": """\
class Scope:
    def __init__(self, state, value):
        self.state, self.value = state, value

    def __enter__(self):
        self.before, self.state.v = self.state.v, self.value
        return self.value

    def __exit__(self, *error):
        self.state.v = self.before


@contextmanager
def scope(state, value):
    before = state.s
    state.s = value
    try:
        yield value
    finally:
        state.s = before
""",
    "spelled": """\
level = 0.5
""",
    "classes": """\
class Doubling:
    scale = 2.0

    def go(self, v):
        return v * self.scale


class Halving:
    scale = 0.5

    def go(self, v):
        return v * self.scale - 0.25


unit = Doubling()
""",
    "replaced": """\
cells = {}


@dataclass(eq=False)
class Cell:
    v: Any
    s: Any

    def moved(self, by):
        return Cell(self.v + by, self.s)
""",
    "equals": """\
pairs = [(0.5, 1.0), (0.5, 1.0)]
""",
    "caches": """\
@functools.cache
def halved(i):
    return i * 0.5


@functools.lru_cache(maxsize=2)
def listed(i):
    return hy.full((), float(i), dtype=<D>)


class Lazy:
    def __init__(self, v):
        self.v = v

    @functools.cached_property
    def twice(self):
        return self.v * 2
""",
    "signals": """\
def heard(*_):
    assert hy.sum(hy.sin(hy.zeros(3)) + 2.0).tolist() == 6.0


signal.signal(signal.SIGVTALRM, heard)
signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
""",
    "modules": """\
class Net(hy.nn.Module):
    def __init__(self):
        self.weight = hy.nn.Parameter(<ones> * 0.5)
        self.register_buffer("seen", hy.zeros((), dtype=<D>))
        self.hidden = <ones>
        self.act = hy.nn.Tanh()

    def forward(self, v):
        self.seen = self.seen + hy.sum(v).detach()
        return self.act(v * self.weight)

    def scaled(self, v):
        return v * self.weight if self.seen > 0 else v
""",
}


@dataclass(frozen=True)
class Program:
    """The text of a module, how it came to be, and which rules were used."""

    seed: int
    text: str
    features: frozenset[str]
    rules: frozenset[Rule]


@dataclass(frozen=True)
class Choices:
    """The rules of one kind, as ``random.choices`` wants them; ``leaves`` end an expression."""

    rules: tuple[Rule, ...]
    weights: tuple[int, ...]

    def draw(self, draws: random.Random) -> Rule:
        return draws.choices(self.rules, self.weights)[0]


def _choices(rules: Sequence[Rule]) -> Choices:
    return Choices(tuple(rules), tuple([r.weight for r in rules]))


def _possible(kinds: dict[str, list[Rule]]) -> dict[str, list[Rule]]:
    """Without the rules that need a kind of which there is none."""
    known = {*kinds, *FIXED}
    left = {
        kind: [r for r in rules if known.issuperset(_holes(r.text))]
        for kind, rules in kinds.items()
    }
    left = {kind: rules for kind, rules in left.items() if rules}
    return left if left == kinds else _possible(left)


@cache
def _holes(text: str) -> tuple[str, ...]:
    return tuple([hole for hole in _HOLE.findall(text)])


class Writer:
    """Writes one program; every choice comes from ``draws``."""

    def __init__(self, draws: random.Random, wanted: frozenset[str] = frozenset()) -> None:
        self.draws = draws
        often = draws.choice((0.1, 0.25, 0.4))
        self.features = {f for f in (*FEATURES, *OF_ARGUMENTS) if draws.random() < often} | wanted
        self.size = draws.choice([n for n in SHAPES if n not in ("", "0") or not wanted])
        if self.size in ("", "0"):
            self.features -= {*OF_ITEMS, "sizes"}
        self.dtype = draws.choice(DTYPES)
        self.used: set[Rule] = set()
        self.numbers = 0
        self.budget = draws.choice((3, 6, 10, 16))
        self.of_kind: dict[str, Choices] = {}
        self.leaves: dict[str, Choices] = {}
        kinds: dict[str, list[Rule]] = {}
        for rule in RULES:
            has = not rule.feature or rule.feature in self.features
            if has and (not rule.unless or rule.unless not in self.features):
                kinds.setdefault(rule.kind, []).append(rule)
        kinds = _possible(kinds)
        for kind, rules in kinds.items():
            self.of_kind[kind] = _choices(rules)
            own = [r for r in rules if kind not in _holes(r.text)]
            ends = [r for r in own if not set(_holes(r.text)) - {*FIXED}] or own
            if kind in ("stmt", "jump"):
                ends = [r for r in rules if not _LINES.search(r.text)]
            self.leaves[kind] = _choices(ends)
        self.names = [name for name in START if f"start {name}" in kinds]
        self.result = self.expression("result", 1)

    # What is written

    def expression(self, kind: str, depth: int) -> str:
        found = (self.of_kind if depth > 0 else self.leaves)[kind].draw(self.draws)
        self.used.add(found)
        return self.filled(found.text, depth)

    def filled(self, text: str, depth: int, own: int = 0) -> str:
        """``text`` with what its holes stand for."""
        fixed = {
            "N": self.size or "1",
            "S": self.shape,
            "D": f"hy.{self.dtype}",
            "=": str(own),
            "every": ", ".join(self.names),
        }

        def fill(found: re.Match[str]) -> str:
            kind = found[1]
            if kind == "result":
                return self.result
            return fixed[kind] if kind in fixed else self.expression(kind, depth - 1)

        return _HOLE.sub(fill, text)

    def statement(self, nest: int, in_loop: bool) -> str:
        self.budget -= 1
        simple = nest >= NEST or self.budget < 0
        kind = "jump" if in_loop and self.draws.random() < 0.2 else "stmt"
        rule = (self.leaves if simple else self.of_kind)[kind].draw(self.draws)
        self.used.add(rule)
        self.numbers += 1
        own = self.numbers
        parts: list[str] = []
        end = 0
        for lines in _LINES.finditer(rule.text):
            parts.append(self.filled(rule.text[end : lines.start()], DEPTH, own))
            inside = {"loop": True, "inner": False, "block": in_loop}[lines[2]]
            parts.append(indented(self.block(nest + 1, inside), lines[1]))
            end = lines.end()
        parts.append(self.filled(rule.text[end:], DEPTH, own))
        return "".join(parts)

    def block(self, nest: int, in_loop: bool) -> str:
        count = self.draws.choice((1, 1, 2, 3))
        return "\n".join([self.statement(nest, in_loop) for _ in range(count)])

    # The module

    @property
    def shape(self) -> str:
        return f"({self.size},)" if self.size else "()"

    @property
    def ones(self) -> str:
        return f"hy.ones({self.shape}, dtype=hy.{self.dtype})"

    def number(self) -> str:
        odd = "nonfinite" in self.features and self.draws.random() < 0.15
        return self.draws.choice(ODD if odd else NUMBERS)

    def tensor(self, *shape: int) -> str:
        def nested(sizes: tuple[int, ...]) -> str:
            if not sizes:
                return self.number()
            return "[" + ", ".join([nested(sizes[1:]) for _ in range(sizes[0])]) + "]"

        return f"hy.asarray({nested(shape)}, dtype=hy.{self.dtype})"

    def call(self, number: int, given: dict[str, list[str]]) -> str:
        """The arguments of a call; ``given`` are the lines that make the tensors among them."""
        draws, has = self.draws, self.features.__contains__
        longer = LONGER[number % len(LONGER)] if has("sizes") else 0
        shape = (int(self.size) + longer,) if self.size else ()
        lines = given["lines"]

        def made(name: str, text: str) -> str:
            if has("shared") and number and draws.random() < 0.5:
                return f"{name}{draws.randrange(number)}"
            if has("aliases") and name in "xys" and draws.random() < 0.4:
                text = {"x": "state.v", "y": f"x{number}", "s": "state.s"}[name]
            lines.append(f"{name}{number} = {text}")
            return f"{name}{number}"

        def fresh(name: str, *shape: int) -> str:
            found = made(name, self.tensor(*shape))
            if found != f"{name}{number}":
                lines.append(f"{name}{number} = {found}")
            return found

        whole = draws.choice(given["whole"])
        args = [fresh("x", *shape), fresh("y", *shape), fresh("s")]
        args.append(f"hy.asarray({draws.randrange(4)}, dtype=hy.{whole})")
        args.append(self.tensor(2, *shape))
        args.append(str(draws.choice((0, 1, 1, 2, 3, -1))))
        args.append(
            self.number() if self.number() in ODD else draws.choice(("0.5", "1.5", "-0.25"))
        )
        args.append(draws.choice(("True", "False")))
        if has("retyped"):
            args[-3] = draws.choice((args[-3], "True", "False"))
            args[-2] = draws.choice((args[-2], "True", "1", "2", "0.0"))
        if has("trees"):
            first = draws.choice((args[0], self.tensor(*shape)))
            args.append(
                f'{{"a": {first}, "l": [{args[1]}, {args[0]}], "p": Point({first}, {args[2]})}}'
            )
        if has("given state"):
            args.append("state")
        return f"({', '.join(args)}),"

    def write(self) -> str:
        has = self.features.__contains__
        start = [self.expression(f"start {name}", 1) for name in self.names]
        if has("kept closures"):
            start.insert(0, "nonlocal total")
        body = [self.statement(0, False) for _ in range(max(self.budget // 2, 2))]
        parameters = ["x", "y", "s", "n", "rows", "k", "r", "q"]
        parameters += ["tree"] * has("trees") + ["state"] * has("given state")
        kind = self.draws.choice(("SimpleNamespace", "State", "Record"))
        ones, zero = self.ones, f"hy.zeros((), dtype=hy.{self.dtype})"
        kept = [f"v={ones}", f"s={zero}", f"w={ones} * 0.5", "i=0", "f=0.5"]
        kept += [f"xs=[{ones} * 2, {ones}]", f'd={{"a": {ones} * 3}}']
        watched = ["state", *["net"] * has("modules"), *["total"] * has("kept closures")]
        made = ["hy.random.seed(0)", f"state = {kind}({', '.join(kept)})"]
        if has("replaced"):
            made.append(f"state.p, state.q = Cell({ones}, {zero}), Cell({ones} * 2, {zero} + 1)")
            made.append("state.ps = [state.p]")
        if has("backward") or has("frozen"):
            made.append("state.w.requires_grad = True")
        if has("modules"):
            made.append("net = Net()")
        if has("kept closures"):
            made.append(f"total = {zero}")
        function = "\n".join([*start, *body, f"return {self.result}"])
        made.append(f"def program({', '.join(parameters)}):\n{indented(function)}")
        made.append(f"return program, lambda: ({', '.join(watched)},)")
        number = self.draws.choice((3, 4, 6) if has("sizes") else (2, 3, 3, 4, 5))
        whole = ["int64"] if not has("retyped") else ["int8", "uint8", "int32", "int64", "bool"]
        given = {"lines": [], "whole": [self.draws.choice(whole)]}
        calls = [self.call(n, given) for n in range(number)]
        module = [text for feature, text in MODULE.items() if not feature or has(feature)]
        module = [self.filled(text.replace("<ones>", ones), 0) for text in module]
        listed = "\n".join(["return [", *[f"    {call}" for call in calls], "]"])
        arguments = "\n".join([*given["lines"], listed])
        return "\n\n".join(
            [
                IMPORTS,
                *module,
                "def make():\n" + indented("\n".join(made)) + "\n",
                "def calls(state):\n" + indented(arguments) + "\n",
            ]
        )


def indented(text: str, by: str = "    ") -> str:
    return "\n".join([by + line for line in text.split("\n")])


def program(seed: int, wanted: frozenset[str] = frozenset()) -> Program:
    """The program of ``seed``; what Python itself does not compile is drawn anew.

    It has the features that are ``wanted``, beside others.
    """
    draws = random.Random(seed)
    while True:
        writer = Writer(draws, wanted)
        text = writer.write()
        try:
            compile(text, "<program>", "exec")
        except SyntaxError:  # a name that is assigned where it must not be, and the like
            continue
        return Program(seed, text, frozenset(writer.features), frozenset(writer.used))
