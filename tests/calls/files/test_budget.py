"""Loops of plans from files: how often they may go round, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hybrid as hy
from hybrid import config
from hybrid.errors import ArgumentError, BudgetError
from tests.staging.harness import f32, i64

X = f32([1.0, 2.0])


def rounds(x, n):
    while n > 0:
        x = hy.sin(x)
        n = n - 1
    return x


def nested(x, n):
    while n > 0:
        for _ in range(10):
            x = hy.sin(x) if x[0] > 0 else x + 1
        n = n - 1
    return x


def loaded(function: Any, n: int) -> Any:
    """``function`` with a plan from a file."""
    hy.hybridize(function)(X, i64(1))
    call = hy.hybridize(function)
    call(X, i64(1))
    assert call.plans[0].filed == "loaded from a file"
    return lambda: call(X, i64(n))


@pytest.fixture
def budget(folder: Path) -> Iterator[Path]:
    yield folder
    config._budget.clear()


@pytest.mark.parametrize("budget_of", [11, 100, 1000, 100_000])
def test_it_counts_every_round(budget: Path, budget_of: int) -> None:
    hy.cache_plans(budget, budget=budget_of)
    loaded(rounds, budget_of)()
    with pytest.raises(BudgetError, match=f"go round more than {budget_of} times"):
        loaded(rounds, budget_of + 1)()


def test_loops_inside_loops_count(budget: Path) -> None:
    hy.cache_plans(budget, budget=110)
    loaded(nested, 10)()
    with pytest.raises(BudgetError):
        loaded(nested, 11)()


def test_an_endless_loop_ends(budget: Path) -> None:
    hy.cache_plans(budget, budget=1_000_000)
    with pytest.raises(BudgetError) as caught:
        loaded(rounds, 1 << 60)()
    line = "    while n > 0:"
    number = Path(__file__).read_text().splitlines().index(line) + 1
    assert str(caught.value) == (
        "a plan that was loaded from a file was ended: its loops go round more than 1000000 times "
        f"({__file__}:{number})\n    {number} | while n > 0:\n"
        "That is the budget of a call of such a plan: one that was forged has to end.\n"
        "Fix: if the call needs more, pass budget= to hybrid.cache_plans, or set "
        "HYBRID_PLAN_CACHE_BUDGET."
    )


def test_what_was_captured_here_has_none(budget: Path) -> None:
    hy.cache_plans(budget, budget=11)
    hy.hybridize(rounds)(X, i64(5000))


@pytest.mark.usefixtures("heeded_interrupt")
def test_ctrl_c(budget: Path) -> None:
    call, begun = loaded(nested, 1 << 60), time.monotonic()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    timer.join()
    assert time.monotonic() - begun < 5


def test_by_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_PLAN_CACHE_BUDGET", "50")
    with pytest.raises(BudgetError, match="more than 50 times"):
        loaded(rounds, 51)()
    for wrong in ("many", "0", "-3"):
        monkeypatch.setenv("HYBRID_PLAN_CACHE_BUDGET", wrong)
        with pytest.raises(ArgumentError, match=f"HYBRID_PLAN_CACHE_BUDGET is .?{wrong}"):
            config.plan_budget()


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "10"])
def test_what_is_no_budget(budget: Path, wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"budget is .*\n?Fix: give a number of iterations"):
        hy.cache_plans(budget, budget=wrong)
