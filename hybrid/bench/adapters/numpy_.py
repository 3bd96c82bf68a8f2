"""Workloads in NumPy."""

import numpy as np

from hybrid.bench.adapters.serve import Program, serve
from hybrid.bench.problems import SMALL, STEP, newton_start


def matmul(size: int) -> Program:
    """The product of two square matrices."""
    a, b = np.random.RandomState(0).randn(2, size, size).astype(np.float32)
    return Program(lambda: a @ b, lambda product: product.ravel()[:: size + 1].tolist())


def while_loop() -> Program:
    start = newton_start()

    def run() -> np.ndarray:
        x = start
        while np.max(np.abs(x)) > SMALL:
            x = x - STEP * np.sin(x)
        return x

    return Program(run, lambda x: x / SMALL)


PROGRAMS = {"matmul": matmul, "while_loop": while_loop}

if __name__ == "__main__":
    serve(PROGRAMS)
