"""Sizes and Python numbers that change together: both are open in one capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from tests.calls.test_open_attributes import t
from tests.calls.test_open_families import captures, check
from tests.staging.harness import describe

ROWS = (5, 6, 7, 9, 5, 12)

Number = Callable[[int], Any]


def mean(x: Any, n: Any) -> Any:
    return x.sum(axis=0) / n, x * n


def shape(x: Any, n: int) -> Any:
    return hy.zeros((n, 3)) + x, n, hy.arange(n).sum()


def branch(x: Any, n: int) -> Any:
    return x * n if n == len(x) else x.sum(axis=0)


def loop(x: Any, n: int) -> Any:
    total = hy.zeros(3)
    for i in range(n):
        total = total + x[i] * i
    return total


TOGETHER: dict[str, tuple[Callable[..., Any], Number]] = {
    "the size": (mean, lambda n: n),
    "an int": (mean, lambda n: 2 * n + 1),
    "a float": (mean, lambda n: n * 0.5),
    "as a shape": (shape, lambda n: n),
    "compared": (branch, lambda n: n),
    "in a loop": (loop, lambda n: n),
}


def calls(number: Number, rows: Sequence[int] = ROWS) -> list[tuple[Any, ...]]:
    return [(t(n, 3), number(n)) for n in rows]


@pytest.mark.parametrize("name", TOGETHER)
def test_one_capture_serves_sizes_and_numbers(name: str) -> None:
    function, number = TOGETHER[name]
    hybridized = check(function, calls(number))
    assert captures(hybridized) == 1
    assert len(hybridized.plans) == 2


def test_a_number_that_was_a_size_by_chance() -> None:
    pairs = ((5, 5), (6, 6), (7, 2), (8, 3), (9, 9), (10, 1), (1, 1), (0, 0))
    hybridized = check(mean, [(t(n, 3), k) for n, k in pairs if n])
    arguments = [plan.arguments for plan in hybridized.plans]
    assert arguments[:3] == [("f32[5,3]", "5"), ("f32[n,3]", "n"), ("f32[n,3]", "any int")]
    rows = list(hybridized.explain(t(20, 3), 20).sizes)
    assert rows == ["open: x f32[n,3], n n", "open: x f32[n,3]"]


def test_a_number_that_decides_has_captures_of_its_own() -> None:
    def heads(x: Any, h: int) -> Any:
        return x.reshape(-1, h, 12 // h).sum(axis=1)

    pairs = ((5, 2), (6, 2), (7, 3), (8, 3), (9, 2), (10, 3), (11, 2), (12, 4), (13, 4), (14, 4))
    hybridized = check(heads, [(t(n, 12), h) for n, h in pairs])
    plans = hybridized.plans
    assert [plan.arguments[1] for plan in plans] == ["2", "2", "3", "4"]
    assert [len(plan.bindings) for plan in plans] == [0, 3, 3, 3]
    assert (
        "argument h is 3 where the cached plans have 2; it cannot become an input" in plans[2].why
    )


def test_numbers_that_choose_a_path() -> None:
    def chosen(x: Any, k: int) -> Any:
        if k == 1:
            return x.sum(axis=0)
        return x.mean(axis=0) if k == 2 else x * k

    pairs = ((5, 2), (6, 1), (7, 2), (8, 3), (9, 1), (10, 2), (11, 3), (12, 4), (13, 5), (14, 1))
    check(chosen, [(t(n, 3), k) for n, k in pairs])


def test_a_number_outside_the_arguments() -> None:
    state = SimpleNamespace(scale=1.0, k=None)

    def scaled() -> Any:
        return state.k * state.scale

    hybridized = hy.hybridize(scaled)
    for n in ROWS:
        state.scale, state.k = n * 0.25, t(n, 3)
        assert describe(hybridized()) == describe(scaled())
    assert captures(hybridized) == 1
    assert "SimpleNamespace.scale is an input of this plan" in hybridized.plans[1].why


def test_a_step_whose_learning_rate_changes() -> None:
    found = []
    for hybridizes in (False, True):
        w = t(3, 1)
        w.requires_grad = True

        def step(x: Any, rate: float, w: Any = w) -> Any:
            w.grad = None
            loss = ((x @ w) ** 2).mean()
            loss.backward()
            with hy.no_grad():
                w.assign(w - rate * w.grad)
            return loss

        call = hy.hybridize(step) if hybridizes else step
        losses = [call(t(n, 3, seed=i), 0.1 / (i + 1)) for i, n in enumerate((8, 8, 5) * 3)]
        found.append(describe((losses, w.detach())))
        assert not hybridizes or captures(call) == 1
    assert found[0] == found[1]


def test_what_is_not_kept_in_files(tmp_path: Any) -> None:
    hy.cache_plans(tmp_path)
    try:
        size, number = (check(mean, calls(TOGETHER[name][1])) for name in ("the size", "an int"))
    finally:
        hy.cache_plans(None)
    reasons = [hybridized.plans[1].filed for hybridized in (size, number)]
    assert reasons == [
        "not kept in a file: numbers among its arguments are sizes of open axes",
        "not kept in a file: axes are open, and numbers are inputs",
    ]
