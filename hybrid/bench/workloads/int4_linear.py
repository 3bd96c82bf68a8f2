"""Linear layers with weights of 4 bits beside those of floats: one row, and a few.

One row reads each weight once: float32 runs at the pace of memory, 4 bits at that of unpacking.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.registry import Case, Way, workload
from hybrid.compress.integer_products import rows_quantized
from hybrid.ops.matrix.grouped_products import (
    grouped_weights,
    matmul_grouped,
    matmul_grouped_integer,
)

SIZE, GROUP = 4096, 32
CHECKED = 64  # outputs


@functools.cache
def weights() -> tuple[hy.Tensor, hy.Tensor]:
    """Bytes of two weights each, and the scales of groups."""
    draw = np.random.RandomState(0)
    packed = draw.randint(0, 256, (SIZE, SIZE // 2)).astype(np.uint8)
    scale = draw.uniform(0.001, 0.003, (SIZE, SIZE // GROUP)).astype(np.float32)
    return hy.asarray(packed), hy.asarray(scale)


@functools.cache
def floats(outputs: int = SIZE, table: bool = False) -> hy.Tensor:
    """What the bytes of the first outputs stand for."""
    packed, scale = weights()
    return grouped_weights(
        packed[:outputs], scale[:outputs], None, SIZE, group_size=GROUP, table=table
    )


def of_floats(x: Any, weight: Any) -> Any:
    return x @ weight.T


def of_halves(x: Any, packed: Any, scale: Any) -> Any:
    return matmul_grouped(x, packed, scale, group_size=GROUP)


def of_quantiles(x: Any, packed: Any, scale: Any) -> Any:
    return matmul_grouped(x, packed, scale, group_size=GROUP, table=True)


def of_integers(x: Any, packed: Any, scale: Any) -> Any:
    steps, s_x = rows_quantized(x, (-1,))
    return matmul_grouped_integer(steps, packed, scale, group_size=GROUP) * s_x


WAYS: dict[str, Callable[..., Any]] = {
    "int4": of_halves,
    "nf4": of_quantiles,
    "W4A8": of_integers,
}


@workload("int4_linear", "products with weights of 4 bits in groups of 32, beside float32")
def int4_linear() -> list[Case]:
    return [rows_times_weights(rows) for rows in (1, 32)]


def rows_times_weights(rows: int) -> Case:
    """The case of [rows, SIZE] times [SIZE, SIZE], hybridized in all ways."""
    x = hy.asarray(np.random.RandomState(1).randn(rows, SIZE).astype(np.float32))
    plain = hy.hybridize(of_floats)
    planned = {name: hy.hybridize(function) for name, function in WAYS.items()}

    def check() -> dict[str, str]:
        for name, function in WAYS.items():
            found = planned[name](x, *weights())
            require_same_bits("int4_linear", function(x, *weights()), found)
            want = np.asarray(of_floats(x, floats(CHECKED, name == "nf4")))
            # Of 8 bits: each of SIZE activations is off by up to half a step, of about 1 / 40.
            require_close(
                "int4_linear", found[:, :CHECKED], want, tolerance=5e-2 if name == "W4A8" else 1e-4
            )
        return {}

    ways: dict[str, Way] = {"float32": lambda: plain(x, floats())}
    for name in WAYS:
        ways[name] = lambda name=name: planned[name](x, *weights())
    return Case(label=f"{rows}x{SIZE}x{SIZE}", ways=ways, check=check, threads=1)
