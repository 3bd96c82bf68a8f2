"""Square float32 matrix products on one thread, in GFLOP/s, beside NumPy's: matmul."""

import os
import subprocess
import sys
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.registry import Case, workload

SIZES = (512, 1024)
# What the libraries behind NumPy read when they are loaded, and only then.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
SERVER = """
import itertools, sys, time
import numpy
size = int(sys.argv[1])
a, b = numpy.random.RandomState(0).randn(2, size, size).astype(numpy.float32)
for line in sys.stdin:
    start = time.perf_counter()
    for _ in itertools.repeat(None, int(line)):
        a @ b
    print(time.perf_counter() - start, flush=True)
"""


class NumpyMatmul:
    """NumPy's product on one thread.

    How many threads NumPy's BLAS uses is settled when it is loaded, so it is loaded in a process of
    its own, which runs as often as it is told and keeps the time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.process: subprocess.Popen[str] | None = None

    def sample(self, count: int) -> float:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, str(self.size)],
                env=os.environ | dict.fromkeys(THREAD_VARIABLES, "1"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        asked, answered = self.process.stdin, self.process.stdout
        assert asked is not None and answered is not None
        print(count, file=asked, flush=True)
        return float(answered.readline())

    def __del__(self) -> None:
        if self.process is not None:
            self.process.communicate()  # the end of its input ends it


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
        "numpy": NumpyMatmul(size),
    }
    return Case(f"{size}x{size}", ways, check, flops=2.0 * size**3, threads=1)
