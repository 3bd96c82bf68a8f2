"""Hybridized functions whose captures and runs take a time that a test says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hybrid as hy
from hybrid.calls.ledger import BINDING, BUCKET
from tests.staging.harness import describe

X = hy.asarray([1.0, -2.0, 3.0])
WIDE = hy.ones((64, 64))


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Steps:
    """A clock that goes on by ``seconds`` each time that it is read."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


class Timed:
    """A hybridized function whose captures, plans and eager runs take what is said, in seconds."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        capture: float = 0.01,
        plan: float = 0.001,
        eager: float = 0.002,
        bucket: float | None = None,
        binding: float | None = None,
        **options: Any,
    ) -> None:
        self.clock, self.plan, self.eager, self.capture = Clock(), plan, eager, capture
        self.costs = {BUCKET: bucket, BINDING: binding}  # if they are others than of captures
        self.ran: list[str] = []
        self.hybridized = hy.hybridize(function, ledger=True, **options)
        self.patch()

    def patch(self) -> None:
        """Let time pass in the parts of ``hybridized``."""
        runs = self.hybridized._runs
        runs.ledger.clock = self.clock
        runs.ledger.modules = lambda: 0
        as_is, paid = type(runs).as_is, type(runs).paid

        def eagerly(*given: Any) -> Any:
            self.clock.now += self.eager
            self.ran.append("eager")
            return as_is(runs, *given)

        def making(make: Callable[[Any], Any], request: Any) -> Any:
            kind = request.need.kind
            cost = self.costs.get(kind)
            self.clock.now += self.capture if cost is None else cost
            planned = make(request)
            run = planned.run

            def by_plan(*given: Any) -> Any:
                self.clock.now += self.plan
                self.ran.append("plan")
                return run(*given)

            planned.run = by_plan
            self.ran.append("capture" if cost is None else kind)
            return planned

        def at_a_price(request: Any, make: Callable[[Any], Any], begin: float) -> Any:
            return paid(runs, request, functools.partial(making, make), begin)

        runs.as_is, runs.paid = eagerly, at_a_price

    @property
    def ledger(self) -> Any:
        return self.hybridized.ledger

    def __call__(self, *args: Any, **kwargs: Any) -> list[str]:
        """What a call did; its result is that of eager code."""
        before = len(self.ran)
        result = self.hybridized(*args, **kwargs)
        assert describe(result) == describe(self.hybridized.function(*args, **kwargs))
        return self.ran[before:]


def named(x: Any, mode: str) -> Any:
    return x * len(mode) if mode.startswith("a") else x - len(mode)


def squashed(x: Any) -> Any:
    return hy.tanh(x) * 2
