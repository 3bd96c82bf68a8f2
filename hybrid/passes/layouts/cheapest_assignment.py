"""The cheapest values of variables whose cost is a sum of terms, each of a few of them.

By elimination, as OptCNN does it for nodes and edges of a graph (Jia, Lin, Qi and Aiken, 2018): a
variable goes by a table of its best value for each combination of those that it shares a term
with, and terms of the same variables become one.  Chains, trees and series-parallel graphs come to
an end so, with the least cost.  Where a table would be too large, what is left is searched by a
beam, which goes by the cost so far and the least that terms can come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

MOST = 1 << 21  # entries of a table
BEAM = 256  # assignments that are kept where tables would be too large
NEVER = 1e15  # the cost of what is not allowed; finite, so that differences are numbers


class CostTerm(NamedTuple):
    """A cost by the values of ``variables``, in ascending order, which are the axes of a table."""

    variables: tuple[int, ...]
    costs: np.ndarray


class Assignment(NamedTuple):
    """The value of each variable, what it costs, and whether that is the least there is."""

    values: tuple[int, ...]
    cost: float
    exact: bool


def term_of(variables: Sequence[int], costs: np.ndarray) -> CostTerm:
    """A term whose axes are ``variables`` in any order; one that comes twice is taken once."""
    for at in range(len(variables)):
        for other in range(at + 1, len(variables)):
            if variables[at] == variables[other]:
                costs = np.moveaxis(np.diagonal(costs, axis1=at, axis2=other), -1, at)
                left = [v for i, v in enumerate(variables) if i != other]
                return term_of(left, costs)
    order = sorted(range(len(variables)), key=variables.__getitem__)
    return CostTerm(tuple([variables[i] for i in order]), np.transpose(costs, order))


def cheapest_assignment(
    sizes: Sequence[int], terms: Iterable[CostTerm], *, most: int = MOST, beam: int = BEAM
) -> Assignment:
    """The values, from 0 up to ``sizes`` of each variable, with the least sum of ``terms``."""
    return _Elimination(sizes, terms, most).run(beam)


class _Elimination:
    def __init__(self, sizes: Sequence[int], terms: Iterable[CostTerm], most: int) -> None:
        self.sizes, self.most = sizes, most
        self.constant = 0.0
        self.terms: dict[tuple[int, ...], np.ndarray] = {}
        self.of: dict[int, set[tuple[int, ...]]] = {v: set() for v in range(len(sizes))}
        self.given = [CostTerm(variables, np.asarray(costs, float)) for variables, costs in terms]
        for term in self.given:
            self._add(term)
        self.gone: list[tuple[int, tuple[int, ...], np.ndarray]] = []

    def _add(self, term: CostTerm) -> None:
        """Add a term; of variables that have one value there is nothing to choose."""
        kept = tuple([v for v in term.variables if self.sizes[v] > 1])
        costs = term.costs.reshape([self.sizes[v] for v in kept])
        if not kept:
            self.constant += float(costs)
            return
        before = self.terms.get(kept)
        self.terms[kept] = costs if before is None else before + costs
        for v in kept:
            self.of[v].add(kept)

    def _around(self, variable: int) -> tuple[int, ...]:
        return tuple(sorted({v for scope in self.of[variable] for v in scope} - {variable}))

    def _entries(self, variable: int) -> int:
        found = self.sizes[variable]
        for v in self._around(variable):
            found *= self.sizes[v]
        return found

    def run(self, beam: int) -> Assignment:
        left = {v for v, n in enumerate(self.sizes) if n > 1}
        entries = {v: self._entries(v) for v in left}
        while left:
            variable = min(left, key=lambda v: (entries[v], v))
            if entries[variable] > self.most:
                break
            around = self._around(variable)
            self._eliminate(variable, around)
            left.remove(variable)
            del entries[variable]
            entries.update({v: self._entries(v) for v in around})
        values = [0] * len(self.sizes)
        if left:
            values = self._by_beam(sorted(left), beam, values)
        for variable, around, best in reversed(self.gone):
            values[variable] = int(best[tuple([values[v] for v in around])])
        cost = sum([float(t.costs[tuple([values[v] for v in t.variables])]) for t in self.given])
        return Assignment(tuple(values), cost, not left)

    def _eliminate(self, variable: int, around: tuple[int, ...]) -> None:
        axes = (*around, variable)
        total = np.zeros([self.sizes[v] for v in axes])
        for scope in sorted(self.of[variable]):
            costs = self.terms.pop(scope)
            for v in scope:
                self.of[v].discard(scope)
            order = sorted(range(len(scope)), key=lambda i, s=scope: axes.index(s[i]))
            shape = [self.sizes[v] if v in scope else 1 for v in axes]
            total += np.transpose(costs, order).reshape(shape)
        self.gone.append((variable, around, np.argmin(total, axis=-1)))
        self._add(CostTerm(around, np.min(total, axis=-1)))

    def _by_beam(self, left: Sequence[int], beam: int, values: list[int]) -> list[int]:
        """Values of the variables that are left, one after the other in their order."""
        bounds: dict[int, list[tuple[tuple[int, ...], np.ndarray, np.ndarray]]] = {}
        for scope, costs in self.terms.items():
            for at, v in enumerate(scope):  # the least by those before it, and with it
                behind = tuple(range(at + 1, len(scope)))
                now = costs.min(axis=behind) if behind else costs
                bounds.setdefault(v, []).append((scope[:at], now.min(axis=-1), now))
        states: list[tuple[float, dict[int, int]]] = [(0.0, {})]
        for v in left:
            following = []
            for cost, known in states:
                found = np.full(self.sizes[v], cost)
                for before, least, now in bounds.get(v, ()):
                    at = tuple([known[u] for u in before])
                    found += now[at] - least[at]
                following += [(float(c), known, value) for value, c in enumerate(found)]
            following.sort(key=lambda row: row[0])
            states = [(cost, known | {v: value}) for cost, known, value in following[:beam]]
        for v, value in states[0][1].items():
            values[v] = value
        return values
