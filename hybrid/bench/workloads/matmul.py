"""Square float32 matrix products on one thread, in GFLOP/s, beside NumPy's: matmul."""

from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.peers import Peer
from hybrid.bench.registry import Case, workload

SIZES = (512, 1024)


def multiply(a: Any, b: Any) -> Any:
    return a @ b


@workload("matmul", "products of 512x512 and 1024x1024 float32 on one thread, in GFLOP/s")
def matmul() -> list[Case]:
    return [product(size) for size in SIZES]


def product(size: int) -> Case:
    """The case of two ``size`` x ``size`` matrices."""
    arrays = np.random.RandomState(0).randn(2, size, size).astype(np.float32)
    a, b = (hy.asarray(array) for array in arrays)
    captured = hy.hybridize(multiply)

    def check() -> dict[str, str]:
        result = a @ b
        require_same_bits("matmul", result, captured(a, b))
        require_close("matmul", result, arrays[0] @ arrays[1], tolerance=1e-3)
        return {}

    ways = {
        "eager": lambda: a @ b,
        "hybridized": lambda: captured(a, b),
        "numpy": Peer("numpy", "gemm", f"{size}x{size}x{size}"),
    }
    return Case(f"{size}x{size}", ways, check, flops=2.0 * size**3, threads=1)
