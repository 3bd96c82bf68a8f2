"""Reductions of elementwise results, float32: a loss, rows, columns, channels, a variance.

Hybridized, what is reduced is made part by part and never stored; eagerly and in NumPy it is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.registry import Case, workload
from hybrid.bench.workloads.small import compare


def squared_error(x: Any, y: Any) -> Any:
    return ((x - y) * (x - y)).mean()


def product_along(axis: int | tuple[int, ...]) -> Callable[[Any, Any], Any]:
    """The sums of ``x * y`` along ``axis``."""
    return lambda x, y: (x * y).sum(axis=axis)


def variance(x: Any, y: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return (centred * centred).mean(axis=-1) * y[:, 0]


CASES: tuple[tuple[str, Callable[[Any, Any], Any], tuple[int, ...]], ...] = (
    ("squared error, 1e3", squared_error, (1000,)),
    ("squared error, 1e6", squared_error, (1_000_000,)),
    ("rows of 64", product_along(-1), (1024, 64)),
    ("rows of 1024", product_along(-1), (1024, 1024)),
    ("columns", product_along(0), (1024, 256)),
    ("channels", product_along((0, 2, 3)), (32, 16, 32, 32)),
    ("variance of rows", variance, (1024, 1024)),
)


@workload("reductions", "sums and means of products and squares, float32")
def reductions() -> list[Case]:
    cases = []
    for label, function, shape in CASES:
        draw = np.random.RandomState(0)
        arrays = [draw.randn(*shape).astype(np.float32) for _ in range(2)]
        cases.append(compare(label, function, hy.hybridize(function), function, arrays))
    return cases
