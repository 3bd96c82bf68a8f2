"""Advice: rows of a refused program, what the refusal says to do, and programs that do it."""

from __future__ import annotations

import dataclasses
import os
import queue
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import HybridError
from tests.helpers import leaf
from tests.staging.harness import describe, f32

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
S = types.SimpleNamespace()  # what outlives the calls of the programs
POINTS = [[1.0, 2.0, 3.0], [-1.0, -2.0, 0.5], [7.0, 0.25, 1.5]]


@dataclasses.dataclass
class P:
    a: Any
    b: Any = None


@dataclasses.dataclass(frozen=True)
class Row:
    refused: Callable[..., Any]
    fix: str  # the advice, or a part of it
    advised: tuple[Callable[..., Any], ...]
    raises: type[Exception] | tuple[type[Exception], ...] = HybridError


def around(program: Callable[[Wrap, Any], Any]) -> Callable[[Wrap, Any], Any]:
    """Marks a program that itself hybridizes something: it gets what does that, or does not."""
    program.is_around = True  # type: ignore[attr-defined]
    return program


def in_one_graph(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The export of a function, each path of which is captured by itself where plans run."""

    @around
    def export(_, x):
        hy.export(function, os.devnull, x)

    export.__name__ = function.__name__
    return export


def fresh() -> None:
    """Let all that the programs find outside be as at the beginning."""
    hy.random.seed(0)
    S.__dict__.clear()
    S.n, S.seen, S.t, S.items, S.table = 0, None, hy.zeros(3), [], {}
    S.o = P(hy.zeros(3), hy.zeros(3))
    S.w, S.history = leaf(3, seed=1), leaf(3, seed=1) * 2
    S.net, S.stack = hy.nn.Linear(3, 3), hy.nn.Sequential(hy.nn.Linear(3, 3))
    S.array, S.queue = np.zeros(3, np.float32), queue.Queue()


def called(program: Callable[..., Any], wrap: Wrap) -> Callable[[Any], Any]:
    if hasattr(program, "is_around"):
        return lambda x: program(wrap, x)
    return wrap(program)


def outcome(program: Callable[..., Any], wrap: Wrap) -> list[Any]:
    """All that shows of some calls of ``program``."""
    fresh()
    call, found = called(program, wrap), []
    for point in POINTS:
        x = f32(point)
        result = call(x)
        state = {n: v for n, v in vars(S).items() if n not in ("queue", "history")}
        grads = [None if t.grad is None else describe(t.grad) for t in (x, S.w)]
        found.append((describe(result), describe(x), describe(state), grads))
    return found


def refusal(row: Row) -> HybridError:
    """What is said of the program that is refused, at the first call of which it is."""
    fresh()
    call = called(row.refused, hy.hybridize)
    with pytest.raises(row.raises) as caught:
        for point in POINTS:
            call(f32(point))
    assert isinstance(caught.value, HybridError)
    return caught.value


def check(row: Row) -> None:
    """The refusal gives that advice, and what follows it runs with the bits that it has eagerly."""
    assert row.fix in refusal(row).fix
    for program in row.advised:
        expected = outcome(program, lambda function: function)
        assert outcome(program, hy.hybridize) == expected, program.__name__


def named(rows: list[Row]) -> Any:
    """The rows as parameters of a test."""
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.refused.__name__)
