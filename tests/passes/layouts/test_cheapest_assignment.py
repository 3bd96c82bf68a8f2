"""The cheapest assignment is that of trying all, and a beam finds it where tables are too large."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from hybrid.passes.layouts.cheapest_assignment import CostTerm, cheapest_assignment, term_of


def problem(seed: int) -> tuple[list[int], list[CostTerm]]:
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 4, size=7)]
    scopes = [tuple(sorted(rng.choice(7, size=n, replace=False))) for n in (1, 2, 2, 2, 3, 3, 2, 4)]
    return sizes, [
        CostTerm(tuple(map(int, scope)), rng.random([sizes[v] for v in scope])) for scope in scopes
    ]


def least(sizes: Sequence[int], terms: Sequence[CostTerm]) -> float:
    return min(
        sum(float(t.costs[tuple([values[v] for v in t.variables])]) for t in terms)
        for values in itertools.product(*map(range, sizes))
    )


@pytest.mark.parametrize("seed", range(12))
def test_elimination_finds_what_trying_all_finds(seed: int) -> None:
    sizes, terms = problem(seed)
    found = cheapest_assignment(sizes, terms)
    assert found.exact and found.cost == pytest.approx(least(sizes, terms), rel=1e-12)
    assert all(0 <= value < n for value, n in zip(found.values, sizes, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_a_beam_that_keeps_all_finds_it_too(seed: int) -> None:
    sizes, terms = problem(seed)
    found = cheapest_assignment(sizes, terms, most=4, beam=10_000)
    assert found.cost == pytest.approx(least(sizes, terms), rel=1e-12)
    narrow = cheapest_assignment(sizes, terms, most=4, beam=2)
    assert narrow.cost >= found.cost - 1e-12


def test_a_chain_of_many_variables_takes_small_tables_only() -> None:
    rng = np.random.default_rng(0)
    terms = [CostTerm((i, i + 1), rng.random((5, 5))) for i in range(199)]
    found = cheapest_assignment([5] * 200, terms, most=25)
    row = np.zeros(5)
    for term in terms:  # Viterbi's algorithm
        row = (row[:, None] + term.costs).min(axis=0)
    assert found.exact and found.cost == pytest.approx(row.min())


def test_the_axes_of_a_term_come_in_any_order() -> None:
    costs = np.arange(6.0).reshape(2, 3)
    assert term_of((4, 2), costs).variables == (2, 4)
    assert (term_of((4, 2), costs).costs == costs.T).all()
    twice = term_of((1, 0, 1), np.arange(18.0).reshape(3, 2, 3))
    assert twice.variables == (0, 1)
    assert (twice.costs == [[0, 7, 14], [3, 10, 17]]).all()
