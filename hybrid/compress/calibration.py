"""Calibration: which range of values the integers of a quantized tensor stand for.

A range is chosen for a whole tensor over all its values in all batches; it does not depend on
their order.  The data are gone over twice: first for the extreme values, then for a histogram of
``|x|`` in ``BINS`` bins up to its maximum, so nothing is merged or guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ops.support.operand_checks import listed, plural

BINS = 2048
LEVELS = 128  # of the magnitudes that 8 bits tell apart, as TensorRT counts them
MOST_CLIPPED = 0.01  # the share of values that kl may leave out
ALIKE = 1e-12  # divergences that differ by rounding alone are equal

Threshold = Callable[["RangeObserver", float, int], float]


class RangeObserver:
    """The range of one tensor, from two runs over the batches of its values.

    ``name`` is the layer's: errors say it.  ``bounds`` is called with each batch of the first run,
    ``count`` with each of the second, which ``choose_range`` by "minmax" does not need::

        observer = RangeObserver("conv1")
        for batch in batches:
            observer.bounds(batch)
        for batch in batches:
            observer.count(batch)
        lo, hi = observer.choose_range("kl")

    Batches are tensors or arrays of numbers of any shape.  NaN, infinities, and a second run with
    other values than the first raise ArgumentError.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.lowest, self.highest = np.inf, -np.inf
        self.size = self.zeros = self.counted = 0
        # Bins of -x where x < 0, and of x where x > 0: values that are 0 are in neither.
        self.histogram = np.zeros((2, BINS), np.int64)

    @property
    def _what(self) -> str:
        return f"the values of layer {self.name!r}" if self.name else "these values"

    @property
    def largest(self) -> float:
        """The greatest magnitude."""
        return float(max(-self.lowest, self.highest))

    def _values(self, batch: Any) -> np.ndarray:
        values = np.asarray(batch)
        if values.dtype.kind not in "biuf" and values.dtype.name != "bfloat16":
            raise ArgumentTypeError(
                f"{self._what} cannot be calibrated: a batch has dtype {values.dtype}",
                fix="give tensors or arrays of real numbers",
            )
        values = values.astype(np.float64).ravel()
        if not np.isfinite(values).all():
            found = "NaN" if np.isnan(values).any() else "infinity"
            raise ArgumentError(
                f"{self._what} cannot be calibrated: there is {found} among them",
                why="No range of integers stands for that.",
                fix="look for the batch, or the layer before, that it comes from",
            )
        return values

    def bounds(self, batch: Any) -> None:
        """First run: take the extreme values of a batch into account."""
        values = self._values(batch)
        if values.size:
            self.lowest = min(self.lowest, float(values.min()))
            self.highest = max(self.highest, float(values.max()))
            self.size += values.size
            self.zeros += values.size - int(np.count_nonzero(values))

    def count(self, batch: Any) -> None:
        """Second run: count the values of a batch, which ``bounds`` has seen."""
        values = self._values(batch)
        if values.size and not (self.lowest <= values.min() and values.max() <= self.highest):
            self._refuse_other_data("it has values beyond those of the first")
        self.counted += values.size
        values = values[values != 0]
        if values.size:
            # The quotient is at most 1, and is scaled by a power of two: one rounding.
            bins = (np.abs(values) / self.largest * BINS).astype(np.int64)
            bins = np.minimum(bins, BINS - 1) + BINS * (values > 0)
            self.histogram += np.bincount(bins, minlength=2 * BINS).reshape(2, BINS)

    def _refuse_other_data(self, why: str) -> None:
        raise ArgumentError(
            f"the second run over {self._what} is not like the first: {why}",
            why="The histogram lies between the extreme values that the first run has found.",
            fix="give the same batches twice: a list, or a loader that draws nothing at random",
        )

    def choose_range(
        self, method: str = "minmax", percentile: float = 99.99, *, bits: int = 8
    ) -> tuple[float, float]:
        """The range by a method of ``choose_range``; ArgumentError if there were no values."""
        require_method(method)
        _require_percentile(percentile)
        require_bits(bits)
        if not self.size:
            raise ArgumentError(
                f"{self._what} cannot be calibrated: there are none",
                fix="give at least one batch that is not empty, and that reaches this layer",
            )
        threshold = METHODS[method]
        limit = np.inf
        if threshold is not None and self.largest:
            if self.counted != self.size:
                self._refuse_other_data(
                    f"it has {plural(self.counted, 'value')}, the first has {self.size}"
                )
            limit = threshold(self, percentile, bits)
        return self._within(limit)

    def _within(self, limit: float) -> tuple[float, float]:
        """The range of the values, and 0, whose magnitudes are at most ``limit``."""
        return (
            float(max(min(self.lowest, 0.0), -limit)),
            float(min(max(self.highest, 0.0), limit)),
        )


def choose_range(
    values: Any, method: str = "minmax", percentile: float = 99.99, *, bits: int = 8
) -> tuple[float, float]:
    """``(lo, hi)``, with ``lo <= 0 <= hi``: the range that integers are to stand for.

    ``values`` is a tensor or an array of any shape, or a list of them (batches).  The methods:

    - "minmax": from the least value to the greatest one.
    - "percentile": up to the end of the bin in which ``percentile`` percent of ``|x|`` are reached,
      zeros included.
    - "mse": of limits k/100 of the maximum, k = 20 ... 100, that by which rounding to ``bits`` bits
      and clipping make the least squared error; values are taken as even within a bin.
    - "kl": the limit at which 128 levels tell most of the distribution, by the Kullback-Leibler
      divergence (Migacz, "8-bit Inference with TensorRT", 2017); see ``_kl_limit``.

    Whatever lies beyond a limit is clipped to it.  An unknown method, a percentile outside
    (0, 100], NaN and infinities, or no values at all raise ArgumentError.
    """
    require_method(method)
    batches = values if isinstance(values, (list, tuple)) else [values]
    observer = RangeObserver()
    for batch in batches:
        observer.bounds(batch)
    if METHODS[method] is not None:
        for batch in batches:
            observer.count(batch)
    return observer.choose_range(method, percentile, bits=bits)


def scale_and_zero(
    lo: Any, hi: Any, bits: int = 8, signed: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The float32 scale and the zero point by which integers of ``bits`` bits stand for a range.

    Unsigned (Jacob et al. 2018): ``scale = f32((hi - lo) / (2^bits - 1))`` and ``zero =
    clip(rint(-lo / scale), 0, 2^bits - 1)``, a uint8.  Signed: ``scale = f32(max(-lo, hi) /
    (2^(bits-1) - 1))`` and ``zero = 0``, an int8; the least integer is not used.  The quotients are
    taken in float64.  A scale that is 0 becomes 1.

    ``lo`` and ``hi`` are numbers, or arrays of one shape, which is that of the results; ranges that
    do not include 0 are widened to it.  ``bits`` outside 2 ... 8, ``lo > hi``, and limits that are
    not finite in float32 raise ArgumentError.
    """
    require_bits(bits)
    low, high = np.asarray(lo, np.float64), np.asarray(hi, np.float64)
    if low.shape != high.shape:
        raise ArgumentError(
            f"a range has limits of the shapes {list(low.shape)} and {list(high.shape)}",
            fix="give two numbers, or two arrays of one shape",
        )
    most = np.finfo(np.float32).max
    if (
        not (np.isfinite(low) & np.isfinite(high) & (low <= high)).all()
        or (np.maximum(np.abs(low), np.abs(high)) > most).any()
    ):
        raise ArgumentError(
            f"{lo} to {hi} is no range",
            why="Its limits are finite in float32, and the first one is not the greater one.",
            fix="take the limits from choose_range, or clip them",
        )
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    top = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    width = np.maximum(-low, high) if signed else high - low
    scale = (width / top).astype(np.float32)
    scale = np.where(scale > 0, scale, np.float32(1))
    if signed:
        zero = np.zeros(scale.shape, np.int8)
    else:
        zero = np.clip(np.rint(-low / scale), 0, top).astype(np.uint8)
    return scale[()], zero[()]


# Limits of magnitudes ----------------------------------------------------------------------------


def _percentile_limit(seen: RangeObserver, percentile: float, bits: int) -> float:
    """The end of the bin in which that share of the magnitudes is reached."""
    reached = seen.zeros + np.cumsum(seen.histogram.sum(axis=0))
    at = int(np.searchsorted(reached, seen.size * percentile / 100))
    return seen.largest * (min(at, BINS - 1) + 1) / BINS


def _mse_limit(seen: RangeObserver, percentile: float, bits: int) -> float:
    """The limit of the least squared error; of equal ones the first."""
    limits = seen.largest * np.arange(20, 101) / 100
    errors = [_squared_error(seen, limit, bits) for limit in limits]
    return float(limits[int(np.argmin(errors))])


def _squared_error(seen: RangeObserver, limit: float, bits: int) -> float:
    """Of all values, if the range within ``limit`` is rounded to integers."""
    scale, zero = scale_and_zero(*seen._within(limit), bits)
    step, below = float(scale), float(zero)
    edges = seen.largest * np.arange(BINS + 1) / BINS / step
    error = 0.0
    for counts, last in zip(seen.histogram, (below, 2**bits - 1 - below), strict=True):
        # The integral of (u - rint(u))^2 from 0 to each edge; beyond the last level, to that.
        level = np.minimum(np.rint(edges), last)
        integral = level / 12 + (edges - level) ** 3 / 3
        error += float(counts @ np.diff(integral))
    return error * step**3


def _kl_limit(seen: RangeObserver, percentile: float, bits: int) -> float:
    """The limit of the least divergence: TensorRT's published algorithm, with two guards.

    For i = 128 ... 2048 let P be the first i bins, with all that lies beyond added to the last one,
    and Q the same bins without that, in 128 levels ``[l i // 128, (l + 1) i // 128)``: the sum of a
    level is spread evenly over those of its bins where P is not 0.  The limit is ``i + 0.5`` bins
    for the least KL(P, Q), the first of equals; where only what lies beyond is in the last level,
    Q is 0 there and the divergence infinite.  The guards, without which nets with ReLU are
    destroyed: values that are exactly 0 do not count, and no i clips more than 1 % of the rest.

    As Q is even within a level, with ``h`` the bins, ``U`` the sum of the first i and ``T`` of all,
    KL = (sum P log P - sum over levels of P log(Q / bins that are not 0)) / T + log(U / T).
    So prefix sums are enough, and all i are computed at once.
    """
    bins = seen.histogram.sum(axis=0)
    sums = _from_zero(np.cumsum(bins))
    filled = _from_zero(np.cumsum(bins > 0))
    terms = _from_zero(np.cumsum(_x_log_x(bins)))
    total = sums[-1]
    ends = np.arange(LEVELS, BINS + 1)
    beyond = total - sums[ends]
    few = beyond / total <= MOST_CLIPPED
    ends, beyond = ends[few], beyond[few]

    edges = np.arange(LEVELS + 1) * ends[:, None] // LEVELS
    q = np.diff(sums[edges])
    wide = np.diff(filled[edges])
    wide[:, -1] += (bins[ends - 1] == 0) & (beyond > 0)
    p = q.copy()
    p[:, -1] += beyond
    with np.errstate(divide="ignore"):  # a level may hold nothing but what lies beyond
        each = np.where(q > 0, np.log(q / np.maximum(wide, 1)), -np.inf)
    cross = np.where(p > 0, p, 0) * np.where(p > 0, each, 0.0)
    own = terms[ends - 1] + _x_log_x(bins[ends - 1] + beyond)
    divergence = (own - cross.sum(axis=1)) / total + np.log(sums[ends] / total)
    best = ends[np.flatnonzero(divergence <= divergence.min() + ALIKE)[0]]
    return seen.largest * (best + 0.5) / BINS


def _from_zero(sums: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, sums.dtype), sums])


def _x_log_x(counts: np.ndarray) -> np.ndarray:
    return counts * np.log(np.maximum(counts, 1))


METHODS: dict[str, Threshold | None] = {  # None: the second run over the data is not needed
    "minmax": None,
    "percentile": _percentile_limit,
    "mse": _mse_limit,
    "kl": _kl_limit,
}


# What is asked of arguments ----------------------------------------------------------------------


def require_method(method: Any) -> None:
    if not isinstance(method, str) or method not in METHODS:
        raise ArgumentError(
            f"there is no calibration {method!r}",
            fix=f"give one of {listed([repr(name) for name in METHODS])}",
        )


def require_bits(bits: Any) -> None:
    if isinstance(bits, bool) or not isinstance(bits, (int, np.integer)) or not 2 <= bits <= 8:
        raise ArgumentError(f"integers cannot have {bits!r} bits", fix="give a number from 2 to 8")


def _require_percentile(percentile: Any) -> None:
    number = isinstance(percentile, (int, float)) and not isinstance(percentile, bool)
    if not (number and 0 < percentile <= 100):
        raise ArgumentError(
            f"{percentile!r} is no percentile", fix="give a number above 0 and up to 100"
        )
