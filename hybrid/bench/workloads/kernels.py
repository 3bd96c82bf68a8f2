"""Kernels by themselves: matrix products (matmul), reductions, and factorizations.

The products are of the sizes that layers have, in GFLOP/s.  Square ones have NumPy's beside them;
``x w.T`` is what a linear layer computes, with few rows of ``x`` (a batch) or many (tokens).

The reductions are a loss, rows, columns, channels, a variance.  Hybridized, what is reduced is made
part by part and never stored; eagerly and in NumPy it is.

The factorizations are of stacks of matrices, beside NumPy's LAPACK, which uses as many threads.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.peers import Peer
from hybrid.bench.registry import Case, Way, workload
from hybrid.bench.workloads.call_costs import compare

SQUARES = tuple((size, size, size) for size in (256, 512, 1024, 2048))
LARGEST = (32, 768, 3072)
LAYERS = ((64, 64, 64), (32, 64, 512), (32, 128, 512), (64, 400, 120), (128, 256, 768), LARGEST)


def multiply(a: Any, b: Any) -> Any:
    return a @ b


def multiply_turned(a: Any, b: Any) -> Any:
    return a @ b.T


@workload(
    "matmul",
    "square products and those of linear layers, float32, in GFLOP/s",
    first_look=("1024x1024", "1024x1024, 2 threads"),
)
def matmul() -> list[Case]:
    cases = [product(*sizes) for sizes in (*SQUARES, *LAYERS)]
    cases += [product(*sizes, turned=True) for sizes in LAYERS]
    return cases + [product(*sizes, threads=2) for sizes in (*SQUARES, LARGEST)]


def product(m: int, k: int, n: int, *, threads: int = 1, turned: bool = False) -> Case:
    """The case of [m, k] times [k, n]; the second is the transpose of [n, k] if ``turned``."""
    draw = np.random.RandomState(0)
    if square := (m, k, n) in SQUARES:
        arrays = tuple(draw.randn(2, m, m).astype(np.float32))
    else:
        arrays = tuple(
            draw.randn(*sizes).astype(np.float32)
            for sizes in ((m, k), (n, k) if turned else (k, n))
        )
    a, b = (hy.asarray(array) for array in arrays)
    function = multiply_turned if turned else multiply
    captured = hy.hybridize(function)

    def check() -> dict[str, str]:
        result = function(a, b)
        require_same_bits("matmul", result, captured(a, b))
        require_close("matmul", result, function(*arrays), tolerance=1e-3)
        return {}

    ways: dict[str, Way] = {
        "eager": lambda: function(a, b),
        "hybridized": lambda: captured(a, b),
    }
    if square and threads == 1:
        ways["numpy"] = Peer("numpy", "gemm", f"{m}x{k}x{n}")
    label = f"{m}x{m}" if square else f"{m}x{k}x{n}"
    label += " turned" * turned + f", {threads} threads" * (threads > 1)
    return Case(label=label, ways=ways, check=check, flops=2.0 * m * k * n, threads=threads)


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


STACKS = ((1000, 4), (16, 64), (1, 256))  # how many matrices, of how many rows

# Of NumPy's ``linalg`` or ours; what is free in the results is left out.
FACTORIZATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda linalg, x: linalg.cholesky(x),
    "solve": lambda linalg, x: linalg.solve(x, x[..., :1]),
    "qr": lambda linalg, x: linalg.qr(x)[1],
    "eigh": lambda linalg, x: linalg.eigh(x)[0],
    "svd": lambda linalg, x: linalg.svd(x)[1],
}


@workload("factorizations", "Cholesky, LU, QR, eigenvalues and singular values, float32")
def factorizations() -> list[Case]:
    return [
        factorization(name, of, count, rows)
        for name, of in FACTORIZATIONS.items()
        for count, rows in STACKS
    ]


def factorization(name: str, of: Callable[[Any, Any], Any], count: int, rows: int) -> Case:
    """``name`` of positive definite matrices whose condition is about 5."""
    drawn = np.random.RandomState(0).randn(count, rows, rows).astype(np.float32)
    x = drawn @ drawn.swapaxes(-1, -2) / rows + np.eye(rows, dtype=np.float32)

    def ours(x: Any) -> Any:
        return of(hy.linalg, x)

    label = f"{name}, {count} of {rows}x{rows}"
    return compare(label, ours, hy.hybridize(ours), lambda x: of(np.linalg, x), [x])
