"""The workloads by name: what is measured, in which ways, and what must hold.

A workload is a function without arguments that builds its cases::

    @workload("chain20", "a chain of 20 small elementwise ops")
    def chain20() -> list[Case]: ...

Files in ``hybrid/bench/workloads`` are imported when the workloads are first asked for, so a new
one needs no line elsewhere.
"""

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Protocol

from hybrid.errors import ArgumentError, HybridError


class BenchError(HybridError, RuntimeError):
    """A workload came to a wrong result, or to other bits in another way of running it."""


class TimedWay(Protocol):
    """A way of running that keeps time itself, as another process must."""

    def sample(self, count: int) -> float:
        """Run ``count`` times; the seconds it took."""


Way = Callable[[], Any] | TimedWay


@dataclass(frozen=True)
class Target:
    """The time that a way may take: ``share`` of that of another, and ``more`` seconds."""

    share: float
    more: float = 0.0
    beside: str = ""  # the other way; else the first


@dataclass(frozen=True)
class Case:
    """One computation run in several ways; the first way is what the others are compared with.

    ``check`` is called when every way has run exactly once.  It raises BenchError for a wrong
    result and returns facts worth showing, such as an accuracy.
    """

    label: str
    ways: Mapping[str, Way]
    check: Callable[[], Mapping[str, str]]
    flops: float | None = None  # floating-point operations of one run
    threads: int | None = None  # run with so many; None leaves the setting alone
    parts: int = 1  # a run is so many equal parts, the iterations of a loop: times are of one
    budgets: Mapping[str, float] = field(
        default_factory=dict
    )  # seconds that a part may take, by way
    targets: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)  # by way
    clock: str = "wall"  # or "cpu", for a machine that others use, too


@dataclass(frozen=True)
class Workload:
    """A named family of cases; ``build`` makes fresh ones, nothing captured yet."""

    name: str
    description: str
    build: Callable[[], list[Case]]
    lasts: bool = False  # for minutes: it is measured where it is named
    ledgers: bool = False  # whether calls may run eagerly, as those of users; plans are timed else
    first_look: tuple[str, ...] = ()  # the labels of the cases that are part of it

    def of_cases(self, labels: Collection[str]) -> "Workload":
        """The workload with no cases but those of ``labels``."""
        return replace(self, build=lambda: [c for c in self.build() if c.label in labels])


_workloads: dict[str, Workload] = {}


def workload(
    name: str,
    description: str,
    *,
    lasts: bool = False,
    ledgers: bool = False,
    first_look: tuple[str, ...] = (),
) -> Callable[[Callable[[], list[Case]]], Callable[[], list[Case]]]:
    """Register the decorated function as the build function of a workload."""

    def register(build: Callable[[], list[Case]]) -> Callable[[], list[Case]]:
        if name in _workloads:
            raise ValueError(f"workload {name} is declared twice")
        _workloads[name] = Workload(
            name=name,
            description=description,
            build=build,
            lasts=lasts,
            ledgers=ledgers,
            first_look=first_look,
        )
        return build

    return register


def workloads() -> dict[str, Workload]:
    """Every workload by name, in alphabetical order."""
    package = importlib.import_module("hybrid.bench.workloads")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_workloads.items()))


def first_look() -> list[Workload]:
    """What `hybrid bench` alone measures: a few cases, in a quarter of a minute."""
    return [one.of_cases(one.first_look) for one in workloads().values() if one.first_look]


def quick() -> list[Workload]:
    """The workloads that `hybrid bench run` measures where none is named."""
    return [workload for workload in workloads().values() if not workload.lasts]


def find(name: str) -> Workload:
    """The workload called ``name``; ArgumentError, with the nearest name, when there is none."""
    known = workloads()
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1, cutoff=0.4)
    if near:
        raise ArgumentError(f"there is no bench named {name!r}; did you mean {near[0]!r}?")
    raise ArgumentError(f"there is no bench named {name!r}", fix="see `hybrid bench list`")
