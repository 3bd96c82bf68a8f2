"""Watching which lines run leaves the trace function of others as it was."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from hybrid.explain.watch import Watch
from tests.explain import samples


@pytest.fixture
def tracer() -> Iterator[Callable]:
    """Stands for a debugger or a coverage tool."""
    before = sys.gettrace()

    def trace(frame, event, argument):
        return None

    sys.settrace(trace)
    yield trace
    sys.settrace(before)


@dataclass
class Pair:
    a: int
    b: int


def runs(x):
    pair = Pair(1, 2)
    if pair.a > pair.b:
        x = 0
    return sorted([x], key=lambda v: -v)


def test_lines_and_functions() -> None:
    first = runs.__code__.co_firstlineno
    with Watch() as watch:
        runs(3)
    here = {line - first for path, line in watch.lines if path == __file__}
    assert here == {1, 2, 4}
    names = [(name, line - first) for path, line, name in watch.functions if path == __file__]
    assert names == [("runs", 0), ("<lambda>", 4)]
    callers = {line - first for path, line in watch.calls if path == __file__}
    assert 4 in callers


def test_libraries_and_hybrid_itself_are_not_watched() -> None:
    with Watch() as watch:
        hy.ones(2).sum()
        sorted([Pair(1, 2)], key=lambda pair: pair.a)
    assert {path for path, _ in watch.lines} <= {__file__, "<string>"}


def test_the_trace_function_of_others_comes_back(tracer: Callable) -> None:
    hybridized = hy.hybridize(samples.squash)
    explanation = hybridized.explain(hy.ones(2), hy.ones(()))
    assert sys.gettrace() is tracer
    assert "while %" in str(explanation)


def test_it_comes_back_after_an_error_too(tracer: Callable) -> None:
    with pytest.raises(CaptureError, match="numpy"):
        hy.hybridize(lambda x: x.numpy()).explain(hy.ones(2))
    assert sys.gettrace() is tracer
