"""Sizes that no call has had: eager ops, plans of open axes, and calls for which no capture pays.

Ways are timed by the processor's clock, on one thread.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import hybrid as hy
from hybrid import nn
from hybrid.bench.bits import require_same_bits
from hybrid.bench.registry import Case, Target, workload

PER_RUN = 20  # sizes that one run meets
BEFORE = (16, 17, 18, 63)  # sizes that are met before, the last with what is lowered alike


class Fresh:
    """Times calls of a function at sizes that come once."""

    def __init__(self, call: Callable[..., Any], sizes: Iterator[int]) -> None:
        self.call, self.sizes = call, sizes

    def some(self, count: int) -> list[int]:
        """The sizes of ``count`` calls."""
        return list(itertools.islice(self.sizes, count))

    def sample(self, count: int) -> float:
        """The seconds that ``count`` runs of ``PER_RUN`` calls take."""
        given = [(hy.ones((n, 2)), hy.zeros((n, 2))) for n in self.some(count * PER_RUN)]
        start = time.process_time()
        for x, y in given:
            self.call(x, y)
        return time.process_time() - start


class Known(Fresh):
    """Times calls at one of the sizes, met before: what is larger takes longer for itself."""

    def some(self, count: int) -> list[int]:
        n = next(self.sizes)
        for _ in range(32):
            self.call(hy.ones((n, 2)), hy.zeros((n, 2)))
        return [n] * count


def network() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The loss of a small network, and a step of its training."""
    hy.random.seed(0)
    layers = (nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 2))
    net = nn.Sequential(*layers)
    rule = hy.optim.Adam(net.parameters(), lr=1e-3)

    def loss(x: Any, y: Any) -> Any:
        return ((net(x) - y) ** 2).mean()

    def step(x: Any, y: Any) -> Any:
        rule.zero_grad()
        found = loss(x, y)
        found.backward()
        rule.step()
        return found

    return loss, step


def new_sizes() -> Iterator[int]:
    return itertools.count(64)


def eager() -> Case:
    loss, _ = network()
    for n in (*BEFORE, *[64] * 32):
        loss(hy.ones((n, 2)), hy.zeros((n, 2)))
    sizes = new_sizes()
    return Case(
        label="eager loss",
        ways={"known": Known(loss, sizes), "new": Fresh(loss, sizes)},
        check=dict,
        targets={"new": (Target(1.3),)},
        parts=PER_RUN,
        threads=1,
        clock="cpu",
    )


def bound(label: str, which: int, budget: float) -> Case:
    """A function at sizes that its open plan is bound to."""
    plain, captured = network()[which], hy.hybridize(network()[which], ledger=False)
    for n in BEFORE:
        captured(hy.ones((n, 2)), hy.zeros((n, 2)))

    def check() -> dict[str, str]:
        other, opened = network()[which], hy.hybridize(network()[which], ledger=False)
        for n in (5, 6, 7):
            x, y = hy.ones((n, 2)), hy.zeros((n, 2))
            require_same_bits(label, other(x, y), opened(x, y))
        return {}

    sizes = new_sizes()
    return Case(
        label=label,
        ways={"eager": Known(plain, sizes), "bound": Fresh(captured, sizes)},
        check=check,
        budgets={"bound": budget},
        parts=PER_RUN,
        threads=1,
        clock="cpu",
    )


def resting(label: str, *layers: nn.Module) -> Case:
    """A function of texts, each of which is another key: its calls rest."""
    net = nn.Sequential(*layers)

    def named(x: Any, name: str) -> Any:
        return net(x).sum() * len(name)

    captured, x = hy.hybridize(named), hy.ones((4, 8))
    names = map(str, itertools.count())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that its calls run eagerly
        for name in itertools.islice(names, 300):
            captured(x, name)
    return Case(
        label=label,
        ways={"eager": lambda: named(x, next(names)), "rests": lambda: captured(x, next(names))},
        check=dict,
        targets={"rests": (Target(1.02),)},
        threads=1,
        clock="cpu",
    )


@workload(
    "new_sizes",
    "eager ops and open plans at sizes met first, and calls for which no capture pays",
    lasts=True,
    ledgers=True,
)
def sizes_met_first() -> list[Case]:
    return [
        eager(),
        bound("open loss", 0, 0.3e-3),
        bound("open training step", 1, 1e-3),
        resting("a layer that rests", nn.Linear(8, 4)),
        resting("a network that rests", *[nn.Linear(8, 8) for _ in range(16)]),
    ]
