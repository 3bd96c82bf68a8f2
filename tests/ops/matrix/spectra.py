"""Matrices that are hard to factor: graded, degenerate, of low rank, of extreme sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

SIZES = (1, 2, 3, 5, 8, 15, 16, 17, 32, 33, 40, 65, 97)
DTYPES = ("float32", "float64")


def drawn(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def of_values(values: np.ndarray, dtype: str, *, symmetric: bool = False) -> np.ndarray:
    """A matrix with these singular values, or eigenvalues."""
    n = len(values)
    left = np.linalg.qr(drawn(n, n, seed=1))[0]
    right = left if symmetric else np.linalg.qr(drawn(n, n, seed=2))[0]
    return ((left * values) @ right.T).astype(dtype)


def matrices(dtype: str, *, symmetric: bool = False) -> Iterator[tuple[str, np.ndarray]]:
    """Square matrices by name; stacks of two where they are random."""
    for n in SIZES:
        x = drawn(2, n, n, dtype=dtype)
        yield f"random {n}", x + np.swapaxes(x, -1, -2) if symmetric else x
    deep = 150 if dtype == "float64" else 30
    for name, values in [
        ("graded", np.logspace(0, -15, 36)),
        ("all equal", np.ones(36)),
        ("half zero", np.repeat([1.0, 0.0], 18)),
        ("deeply graded", np.logspace(0, -deep, 36)),
        ("two clusters", np.repeat([1.0, 1.0 + 1e-9], 18)),
    ]:
        yield name, of_values(values, dtype, symmetric=symmetric)
        yield f"{name}, diagonal", np.diag(values[::-1]).astype(dtype)
        if not symmetric:
            yield f"{name}, triangular", (np.tri(36) * values).astype(dtype)
            yield f"{name}, upper", (values[:, None] * np.tri(36).T).astype(dtype)
    yield "Hilbert", (1 / (1 + np.add.outer(np.arange(24), np.arange(24)))).astype(dtype)
    yield "zero", np.zeros((20, 20), dtype)
    yield "ones", np.ones((33, 33), dtype)
    wilkinson = np.diag(np.abs(np.arange(21) - 10.0)) + np.eye(21, k=1) + np.eye(21, k=-1)
    yield "Wilkinson's", wilkinson.astype(dtype)
    largest, least = (1e307, 1e-300) if dtype == "float64" else (1e37, 1e-36)
    for size in (largest, least):
        x = np.clip(drawn(20, 20), -1, 1)
        yield f"of size {size}", ((x + x.T) / 2 * size if symmetric else x * size).astype(dtype)


def norm(x: np.ndarray) -> float:
    """The largest norm of Frobenius among the matrices of a stack."""
    return float(np.linalg.norm(x, axis=(-2, -1)).max(initial=0))


def unit(x: np.ndarray) -> tuple[np.ndarray, float]:
    """``x`` in float64, divided by its largest element, and that."""
    size = float(np.abs(x.astype("float64")).max(initial=0)) or 1.0
    return x.astype("float64") / size, size


def bound(x: np.ndarray, times: float = 4) -> float:
    """``times`` n epsilon, for n the longer side of ``x``."""
    return times * max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
