"""Random programs of plain Python: nested control flow that ends, and a log of what it did."""

from __future__ import annotations

import itertools
import linecache
import random
from collections.abc import Callable
from typing import Any

NAMES = ("a", "b", "c", "d")
_numbers = itertools.count()


class Program:
    """Writes one function; every choice comes from ``choices``."""

    def __init__(self, choices: random.Random) -> None:
        self.choices = choices
        self.lines: list[str] = []
        self.budget = choices.randint(5, 60)
        self.loops = 0
        self.generator = choices.random() < 0.15

    def write(self) -> str:
        self.lines = ["def program(a, b, log):", "    steps = 0"]
        for name in NAMES[2:]:
            if self.choices.random() < 0.9:
                self.line(1, f"{name} = {self.choices.randint(0, 3)}")
        self.block(1, in_loop=False, in_final=False)
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, in_loop: bool, in_final: bool) -> None:
        for _ in range(self.choices.randint(1, 4)):
            self.budget -= 1
            self.statement(depth, in_loop, in_final)
            if self.budget < 0:
                break

    def statement(self, depth: int, in_loop: bool, in_final: bool) -> None:
        pick = self.choices.random
        compound = depth < 7 and self.budget > 0
        kinds = ["assign", "log", "augment", "delete", "jump", "raise", "walrus"]
        weights = [6, 4, 2, 0.2, 3, 0.7, 1]
        if compound:
            kinds += ["if", "while", "for", "try", "with", "match", "nested"]
            weights += [7, 2, 3, 2.5, 1, 1, 0.5]
        kind = self.choices.choices(kinds, weights)[0]
        name = self.choices.choice(NAMES)
        if kind == "assign":
            self.line(depth, f"{name} = {self.value()}")
        elif kind == "log":
            self.line(depth, f"log.append(({len(self.lines)}, {self.value()}))")
        elif kind == "augment":
            self.line(depth, f"{name} += {self.value()}")
        elif kind == "delete":
            self.line(depth, f"del {name}")
        elif kind == "walrus":
            self.line(depth, f"log.append(({name} := {self.value()}) and {self.value()})")
        elif kind == "raise":
            error = self.choices.choice(["ValueError", "KeyError"])
            self.line(depth, f"if {self.test()}: raise {error}({len(self.lines)})")
        elif kind == "jump":
            self.jump(depth, in_loop)
        elif kind == "if":
            self.line(depth, f"if {self.test()}:")
            self.block(depth + 1, in_loop, in_final)
            while pick() < 0.3:
                self.line(depth, f"elif {self.test()}:")
                self.block(depth + 1, in_loop, in_final)
            if pick() < 0.5:
                self.line(depth, "else:")
                self.block(depth + 1, in_loop, in_final)
        elif kind in ("while", "for"):
            self.loop(depth, kind, in_loop, in_final)
        elif kind == "try":
            self.attempt(depth, in_loop, in_final)
        elif kind == "with":
            self.line(depth, f"with scope(log, {len(self.lines)}, {pick() < 0.3}):")
            self.block(depth + 1, in_loop, in_final)
        elif kind == "match":
            self.line(depth, f"match {self.value()} % 4:")
            self.line(depth + 1, f"case 0 if {self.test()}:")
            self.block(depth + 2, in_loop, in_final)
            self.line(depth + 1, f"case {name}:")
            self.block(depth + 2, in_loop, in_final)
        else:
            self.line(depth, f"def nested({self.choices.choice(NAMES)}=1):")
            self.line(depth + 1, f"return {self.value()}")
            self.line(depth, "log.append(nested())")

    def jump(self, depth: int, in_loop: bool) -> None:
        kinds = ["return", "return", "break", "continue", "break"] if in_loop else ["return"]
        kind = self.choices.choice(kinds)
        text = f"return {self.value()}" if kind == "return" else kind
        if self.generator and self.choices.random() < 0.5:
            text = f"log.append((yield {self.value()}))"
        if self.choices.random() < 0.8:
            text = f"if {self.test()}: {text}"
        self.line(depth, text)

    def loop(self, depth: int, kind: str, in_loop: bool, in_final: bool) -> None:
        self.loops += 1
        if kind == "while":
            self.line(depth, f"while {self.test()}:")
        else:
            target = self.choices.choice([*NAMES, f"log.last[{self.loops}]", "a, b", "c, *d"])
            source = f"range({self.choices.randint(0, 4)})"
            if "," in target:
                source = f"[(1, 2), (3, 4), (5, 6)][:{self.choices.randint(0, 3)}]"
            self.line(depth, f"for {target} in {source}:")
        self.line(depth + 1, "steps += 1")
        self.line(depth + 1, "if steps > 40: raise RuntimeError('too long')")
        self.block(depth + 1, True, in_final)
        if self.choices.random() < 0.3:
            self.line(depth, "else:")
            self.block(depth + 1, in_loop, in_final)

    def attempt(self, depth: int, in_loop: bool, in_final: bool) -> None:
        self.line(depth, "try:")
        self.block(depth + 1, in_loop, in_final)
        handled = self.choices.random() < 0.7
        if handled:
            error = self.choices.choice(["ValueError", "KeyError", "Exception", "NameError"])
            self.line(depth, f"except {error} as e:")
            self.line(depth + 1, "log.append(repr(e))")
            self.block(depth + 1, in_loop, in_final)
            if self.choices.random() < 0.3:
                self.line(depth, "else:")
                self.block(depth + 1, in_loop, in_final)
        if not handled or self.choices.random() < 0.4:
            self.line(depth, "finally:")
            self.block(depth + 1, in_loop, True)

    def value(self) -> str:
        name = self.choices.choice(NAMES)
        number = self.choices.randint(0, 5)
        return self.choices.choice(
            [
                str(number), name, f"{name} + {number}", f"({name} if {self.test()} else {number})",
                f"({name} or {number})", f"(steps and {name})", f"sum([{name} for _ in range(2)])",
                f"(lambda: {name})()", f"max({name}, steps)", "len(log)", f"(a is not {name}) + 1",
            ]
        )  # fmt: skip

    def test(self) -> str:
        name = self.choices.choice(NAMES)
        number = self.choices.randint(0, 6)
        return self.choices.choice(
            [
                f"steps % {number + 1} == 0", f"{name} > {number}", f"not {name}",
                f"0 < {name} < {number}", f"steps < {number} and {name}",
                f"{name} == 1 or len(log) % 2", f"{number} in (1, 2, {name})", "True", "a",
                f"(b := {number}) > 2",
            ]
        )  # fmt: skip


def compiled(source: str) -> Callable[..., Any]:
    """The function in ``source``, whose text is to be had as if it were in a file."""
    path = f"<program {next(_numbers)}>"
    linecache.cache[path] = len(source), None, source.splitlines(True), path
    namespace: dict[str, Any] = {"scope": Scope}
    exec(compile(source, path, "exec"), namespace)
    return namespace["program"]


class Log(list):
    """A list with a place to store to."""

    def __init__(self) -> None:
        self.last: dict[int, Any] = {}


class Scope:
    """A context manager that logs, and may swallow exceptions."""

    def __init__(self, log: list, number: int, swallows: bool) -> None:
        self.log, self.number, self.swallows = log, number, swallows

    def __enter__(self) -> None:
        self.log.append(("enter", self.number))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.log.append(("exit", self.number, repr(error)))
        return self.swallows


def run(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What a program gives or raises, the lines it raised from, and its log."""
    log = Log()
    try:
        result = function(*args, log)
        if hasattr(result, "send"):
            result = list(itertools.islice(result, 60))
        outcome: tuple[Any, ...] = ("returned", result)
    except Exception as error:
        lines, trace = [], error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename.startswith("<program"):
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        outcome = type(error), str(error), lines
    return *outcome, list(log), log.last
