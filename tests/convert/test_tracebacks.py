"""Tracebacks, tracing and breakpoints show the author's file and lines."""

from __future__ import annotations

import bdb
import pdb
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pytest
from _pytest.debugging import pytestPDB

import hybrid
import hybrid as hy
from hybrid.convert import convert, is_converted

PACKAGE = str(Path(hybrid.__file__).parent)


def nested(xs):
    total = 0
    for x in xs:
        while x > 0:
            x -= 1
            if x == 2:
                with open(__file__):
                    total += [1, 2][x]
    return total


def in_operands(x):
    a = x and (x - 1)
    return a if a else (1 / a)


def in_a_handler(x):
    try:
        if x:
            raise KeyError(x)
    except KeyError as error:
        if x > 1:
            raise ValueError("inner") from error
        raise
    finally:
        if x == 3:
            x.nothing  # noqa: B018


def in_called(x):
    def inner(y):
        for _ in range(y):
            if y:
                [z for z in [0] if 1 / z]

    return inner(x)


CASES = [
    (nested, ([3],)),
    (in_operands, (1,)),
    (in_a_handler, (1,)),
    (in_a_handler, (2,)),
    (in_a_handler, (3,)),
    (in_called, (1,)),
]


def is_authors(entry: traceback.FrameSummary) -> bool:
    return PACKAGE not in entry.filename and entry.name != "places"


def places(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[list[Any]]:
    """Where an exception and those behind it come from: the lines of the author's, each once."""
    try:
        function(*arguments)
    except Exception as raised:
        error: BaseException | None = raised
    found = []
    while error is not None:
        entries = traceback.extract_tb(error.__traceback__)
        mine = [(e.filename, e.lineno, e.line) for e in entries if is_authors(e)]
        found.append([type(error), str(error), *dict.fromkeys(mine)])
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_tracebacks(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    converted = convert(function)
    assert is_converted(converted)
    expected, found = places(function, arguments), places(converted, arguments)
    assert len(expected[0]) > 2
    assert [error[:2] for error in found] == [error[:2] for error in expected]
    for mine, theirs in zip(found, expected, strict=True):
        # An operand that is deferred has a frame of its own, inside that of its expression.
        assert [place for place in mine if place in theirs] == theirs
        assert mine[-1] == theirs[-1]
        assert {place[0] for place in mine[2:]} == {__file__}


def executed(function: Callable[..., Any], *arguments: Any) -> set[int]:
    """The lines of this file that a call runs, as a coverage tool sees them."""
    lines: set[int] = set()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and frame.f_code.co_filename == __file__:
            lines.add(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return lines


def covered(x):
    if x > 3:
        return "large"
    for i in range(x):
        if i == 1:
            break
        x += 1
    else:
        x = 0
    return x if x else (-1)


@pytest.mark.parametrize("x", [0, 1, 2, 5])
def test_coverage(x: int) -> None:
    assert executed(convert(covered), x) == executed(covered, x)


class Debugger(bdb.Bdb):
    """Stops at breakpoints and notes where, with a variable."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: list[tuple[str, int, Any]] = []

    def user_line(self, frame: FrameType) -> None:
        if self.break_here(frame):
            found = frame.f_locals.get("i")
            self.stops.append((frame.f_code.co_name, frame.f_lineno, found))
        self.set_continue()


@pytest.mark.parametrize("convert_it", [False, True])
def test_breakpoints(convert_it: bool) -> None:
    function = convert(covered) if convert_it else covered
    line = covered.__code__.co_firstlineno + 4  # if i == 1
    debugger = Debugger()
    debugger.set_break(__file__, line)
    before = sys.gettrace()
    try:
        debugger.runcall(function, 3)
    finally:
        debugger.clear_all_breaks()
        sys.settrace(before)
    assert list(dict.fromkeys(debugger.stops)) == [("covered", line, 0), ("covered", line, 1)]


class Prompt(pdb.Pdb):
    """Notes where it stops, in place of asking what to do."""

    stops: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__(readrc=False)

    def interaction(self, frame: FrameType | None, *_: Any) -> None:
        assert frame is not None
        self.stops.append((frame.f_code.co_filename, frame.f_code.co_name))
        self.set_continue()


def stops_here(x: Any) -> Any:
    y = x * 2 if hy.sum(x) > 0 else x
    breakpoint()
    return y + 1


def stops_by_name(x: Any) -> Any:
    y = x * 2 if hy.sum(x) > 0 else x
    pdb.set_trace()
    return y + 1


@pytest.mark.parametrize("function", [stops_here, stops_by_name])
def test_a_breakpoint_in_a_captured_function_stops_in_its_frame(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sys.gettrace()
    monkeypatch.setattr(Prompt, "stops", [])
    own = pytestPDB._saved[0][0] if pytestPDB._saved else pdb.set_trace  # pytest has replaced it
    monkeypatch.setattr(pdb, "set_trace", own)
    monkeypatch.setattr(pdb, "Pdb", Prompt)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    try:
        assert hy.hybridize(function)(hy.ones(2)).tolist() == [3.0, 3.0]
    finally:
        sys.settrace(before)
    assert Prompt.stops == [(__file__, function.__name__)]
