"""What running costs beside the computing, and what it may cost: overheads."""

from collections.abc import Callable
from functools import reduce

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.compare.problems import vectors
from hybrid.bench.registry import BenchError, Case, workload

STEPS = 1000
Function = Callable[[hy.Tensor], hy.Tensor]


def add(x: hy.Tensor) -> hy.Tensor:
    return x + x


def kernels(x: hy.Tensor) -> hy.Tensor:
    """So many kernels in a row, none of which can be part of a map."""
    return reduce(lambda sums, _: hy.cumulative_sum(sums), range(STEPS), x)


def maps(x: hy.Tensor) -> hy.Tensor:
    """So many elementwise kernels in a row, which are one map over one tile."""
    return reduce(lambda value, i: hy.abs(value) if i % 2 else value - x, range(STEPS), x)


# What is measured, of how many parts, eagerly or hybridized, and the seconds that a part may take.
ROWS: tuple[tuple[str, Function, int, str, float], ...] = (
    ("an op", add, 1, "eager", 0.7e-6),
    ("a call", add, 1, "hybridized", 2.5e-6),
    ("a kernel step", kernels, STEPS, "hybridized", 30e-9),
    ("a map kernel", maps, STEPS, "hybridized", 15e-9),
)


@workload("overheads", "an eager op, a hybridized call, a step, a map kernel, with their budgets")
def overheads() -> list[Case]:
    (x,) = vectors(8).inputs
    return [case(hy.asarray(x), *row) for row in ROWS]


def case(
    x: hy.Tensor, label: str, function: Function, parts: int, decides: str, budget: float
) -> Case:
    captured = hy.hybridize(function)

    def check() -> dict[str, str]:
        require_same_bits(label, function(x), captured(x))
        if (count := len(captured.graph(x).nodes)) != parts:
            raise BenchError(f"{label}: the graph has {count} nodes instead of {parts}")
        return {}

    ways = {"eager": lambda: function(x), "hybridized": lambda: captured(x)}
    return Case(label, ways, check, threads=1, parts=parts, budgets={decides: budget})
