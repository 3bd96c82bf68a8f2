"""Operands for the tests of every op: what the rules declared with ``@op.samples`` draw from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.core.types import BY_NAME, SUPPORTED, dtype_of, tensor_type
from hybrid.errors import DTypeError
from hybrid.ir import Op

Sample = tuple[tuple[np.ndarray, ...], dict[str, Any]]

UNARY_SHAPES = [(), (0,), (1,), (15,), (16,), (17,), (3, 5), (2, 0, 3)]
BINARY_SHAPES = [
    ((), ()),
    ((0,), (0,)),
    ((1,), (17,)),
    ((15,), (15,)),
    ((16,), (16,)),
    ((17,), (17,)),
    ((3, 5), (5,)),
    ((3, 1), (1, 5)),
    ((), (3, 5)),
    ((2, 1, 3), (4, 1)),
]


class Draw:
    """Calling it draws an array: ``draw("float32", 3, 5, low=-1, high=1)``."""

    bools = ("bool",)
    integers = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    floats = ("float32", "float64")
    numbers = integers + floats
    all = bools + numbers

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)

    def __call__(self, dtype: str, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        """Random elements in [``low``, ``high``], as far as the dtype has them."""
        if dtype == "bool":
            return np.asarray(self.generator.random(shape) < 0.5)
        if dtype in self.integers:
            limits = np.iinfo(dtype)
            first, last = max(math.ceil(low), limits.min), min(math.floor(high), limits.max)
            return np.asarray(self.generator.integers(first, last, shape, endpoint=True), dtype)
        return np.asarray(self.generator.uniform(low, high, shape), dtype)

    def unary(
        self, *, dtypes: Sequence[str] = numbers, low: float = -3.0, high: float = 3.0
    ) -> Iterator[Sample]:
        """One operand of every dtype and of shapes round the number of lanes."""
        for dtype in dtypes:
            for shape in UNARY_SHAPES:
                yield (self(dtype, *shape, low=low, high=high),), {}

    def binary(
        self,
        *,
        dtypes: Sequence[str] = numbers,
        a_low: float = -3.0,
        a_high: float = 3.0,
        b_low: float = -3.0,
        b_high: float = 3.0,
        floating: bool = False,
    ) -> Iterator[Sample]:
        """Two operands of every dtype, with shapes that broadcast."""
        for dtype in self.floats if floating else dtypes:
            for first, second in BINARY_SHAPES:
                a = self(dtype, *first, low=a_low, high=a_high)
                yield (a, self(dtype, *second, low=b_low, high=b_high)), {}


def samples(op: Op, seed: int = 0) -> Iterator[Sample]:
    """What ``op`` declares; for an elementwise op, every dtype that its type rule lets through."""
    draw = Draw(seed)
    if op.sample_rule is not None:
        yield from op.sample_rule(draw)
        return
    if not op.elementwise or op.attr_defaults:
        raise TypeError(f"op {op.name} declares no samples")
    low, high = op.domain or (-3.0, 3.0)
    count = len(op.operand_names)
    dtypes = [d.name for d in SUPPORTED if _takes(op, d.name, count)]
    if count == 1:
        yield from draw.unary(dtypes=dtypes, low=low, high=high)
    else:
        yield from draw.binary(dtypes=dtypes, a_low=low, a_high=high, b_low=low, b_high=high)


def _takes(op: Op, dtype: str, count: int) -> bool:
    try:
        op.infer((tensor_type(BY_NAME[dtype], ()),) * count, ())
    except DTypeError:
        return False
    return True


def types_of(operands: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """The TensorTypes of arrays."""
    return tuple(tensor_type(dtype_of(x.dtype), x.shape) for x in operands)
