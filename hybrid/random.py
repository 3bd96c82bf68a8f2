"""Random numbers: a counter-based generator (Philox-4x32-10) whose state is a tensor.

The state is a cell of ``i64[2]``: the seed and the number of draws so far.  A draw is a function
of the state, so the same seed gives the same numbers eagerly, hybridized, and on any number of
threads.  Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.eager import as_tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, CaptureError, author_location
from hybrid.ir.interpreter import current
from hybrid.tensor import Tensor
from hybrid.types import DEFAULT_FLOAT, DEFAULT_INT, DType, dtype_of, float32, float64, shape_of


class Generator:
    """An independent stream of random numbers; ``seed`` is any int (default: a fresh one)."""

    def __init__(self, seed: int | None = None) -> None:
        self.state = as_tensor(np.array([0, 0], dtype=np.int64).copy())
        self.seed(int.from_bytes(os.urandom(8), "little") >> 2 if seed is None else seed)

    def seed(self, seed: int) -> None:
        """Start the stream of ``seed`` from its beginning."""
        if not _is_int(seed):
            raise ArgumentTypeError(f"the seed {seed!r} is not an int", fix="give any int")
        low = int(seed) & (2**64 - 1)
        signed = low - 2**64 if low >= 2**63 else low
        self.state.assign(as_tensor(np.array([signed, 0], dtype=np.int64)))

    def _next(self) -> Tensor:
        """The state for one draw; the cell moves on to the next."""
        now = self.state.detach()
        self.state.assign(now + _ONE_DRAW)
        return now

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Any = (), *, dtype: Any = None
    ) -> Tensor:
        """Numbers spread evenly over [low, high)."""
        _require_numbers("uniform", low, high)
        if not low <= high:
            raise ArgumentError(
                f"uniform over [{low}, {high})", why="The range is empty.", fix="give low <= high"
            )
        draw = ops.random_uniform(self._next(), shape=shape_of(size), dtype=_floating(dtype))
        return draw if (low, high) == (0.0, 1.0) else draw * (high - low) + low

    def normal(
        self, mean: float = 0.0, std: float = 1.0, size: Any = (), *, dtype: Any = None
    ) -> Tensor:
        """Normally distributed numbers."""
        _require_numbers("normal", mean, std)
        if not std >= 0:
            raise ArgumentError(f"a standard deviation of {std}", fix="give one >= 0")
        draw = ops.random_normal(self._next(), shape=shape_of(size), dtype=_floating(dtype))
        return draw if (mean, std) == (0.0, 1.0) else draw * std + mean

    def integers(
        self, low: int, high: int | None = None, size: Any = (), *, dtype: Any = None
    ) -> Tensor:
        """Whole numbers from [low, high), or [0, low) when only ``low`` is given."""
        if high is None:
            low, high = 0, low
        if not (_is_int(low) and _is_int(high)):
            raise ArgumentTypeError(f"integers over [{low!r}, {high!r})", fix="give ints")
        if not low < high:
            raise ArgumentError(
                f"integers over [{low}, {high})", why="The range is empty.", fix="give low < high"
            )
        if high - low > 2**31:
            raise ArgumentError(
                f"integers over [{low}, {high})",
                why="A draw has 31 bits.",
                fix="give a range of at most 2**31 values",
            )
        bits = ops.random_bits(self._next(), shape=shape_of(size))
        # The top 31 bits times the width, shifted back: no value is more than 2**-31 off fair.
        high_bits = ops.bitwise_and(ops.bitwise_right_shift(bits, 32), 2**31 - 1)
        drawn = ops.bitwise_right_shift(high_bits * (high - low), 31) + low
        return ops.astype(drawn, DEFAULT_INT if dtype is None else dtype_of(dtype))

    def bernoulli(self, p: float | Tensor = 0.5, size: Any = None) -> Tensor:
        """True with probability ``p`` (a number, or a tensor that also gives the shape)."""
        if not isinstance(p, Tensor):
            _require_numbers("bernoulli", p)
            if not 0 <= p <= 1:
                raise ArgumentError(f"a probability of {p}", fix="give one from 0 to 1")
        if size is None:
            size = p.shape if isinstance(p, Tensor) else ()
        return self.uniform(size=size) < p

    def permutation(self, n: int) -> Tensor:
        """The numbers 0..n-1 in random order (``int64``)."""
        if not _is_int(n) or n < 0:
            raise ArgumentError(f"a permutation of {n!r}", fix="give an int >= 0")
        if current().traces:
            raise CaptureError(
                "a permutation was drawn inside a hybridized function",
                at=author_location(),
                why="Its order is computed in Python, which a plan does not run.",
                fix="draw it outside and pass it as an argument",
            )
        keys = ops.random_bits(self._next(), shape=(int(n),))
        return as_tensor(np.argsort(keys.numpy(), kind="stable"))


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _require_numbers(name: str, *values: Any) -> None:
    for value in values:
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise ArgumentTypeError(
                f"hybrid.random.{name} does not take {type(value).__name__}",
                why="The parameters of a distribution are plain numbers.",
                fix="scale the draws instead: low + draw * (high - low), mean + draw * std",
            )


def _floating(dtype: Any) -> DType:
    found = DEFAULT_FLOAT if dtype is None else dtype_of(dtype)
    if found not in (float32, float64):
        raise ArgumentTypeError(f"random {found.name} numbers", fix="use float32 or float64")
    return found


_ONE_DRAW = as_tensor(np.array([0, 1], dtype=np.int64))
_default = Generator(0)


def default_generator() -> Generator:
    """The generator behind this module's functions."""
    return _default


def seed(n: int) -> None:
    """Seed the default generator."""
    _default.seed(n)


def uniform(
    low: float = 0.0, high: float = 1.0, size: int | Sequence[int] = (), *, dtype: Any = None
) -> Tensor:
    """Numbers spread evenly over [low, high)."""
    return _default.uniform(low, high, size, dtype=dtype)


def normal(
    mean: float = 0.0, std: float = 1.0, size: int | Sequence[int] = (), *, dtype: Any = None
) -> Tensor:
    """Normally distributed numbers."""
    return _default.normal(mean, std, size, dtype=dtype)


def integers(
    low: int, high: int | None = None, size: int | Sequence[int] = (), *, dtype: Any = None
) -> Tensor:
    """Whole numbers from [low, high), or [0, low) when only ``low`` is given."""
    return _default.integers(low, high, size, dtype=dtype)


def bernoulli(p: float | Tensor = 0.5, size: int | Sequence[int] | None = None) -> Tensor:
    """True with probability ``p``."""
    return _default.bernoulli(p, size)


def permutation(n: int) -> Tensor:
    """The numbers 0..n-1 in random order."""
    return _default.permutation(n)
