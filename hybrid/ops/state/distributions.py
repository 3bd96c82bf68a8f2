"""Random numbers by rejection, as pure functions of a state and of parameters.

Each element draws from a stretch of Philox's counters of its own until a proposal is accepted, so
that it depends on (seed, draw, its place, its parameters) alone.  No gradient flows through.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import DType, Shape, TensorType, dtype_of, float64, int64
from hybrid.errors import ArgumentError
from hybrid.ir import op
from hybrid.ops.state.random_numbers import random_type, require_drawn
from hybrid.ops.support.operand_checks import (
    require_dtype,
    require_floating,
    require_same_dtype,
    require_shape,
)


class _Draws:
    """The numbers of one element: pairs in (0, 1], of 53 bits each, from block ``2**20 i`` on."""

    def __init__(self, state: np.ndarray, i: int) -> None:
        self.seed, self.draw = (int(n) & (2**64 - 1) for n in state)
        self.block = i << 20

    def pair(self) -> tuple[float, float]:
        low = 2**32 - 1
        key0, key1 = self.seed & low, self.seed >> 32
        a, b, c, d = self.block & low, self.block >> 32, self.draw & low, self.draw >> 32
        self.block += 1
        for _ in range(10):
            p, q = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = (q >> 32) ^ b ^ key0, q & low, (p >> 32) ^ d ^ key1, p & low
            key0, key1 = (key0 + 0x9E3779B9) & low, (key1 + 0xBB67AE85) & low
        return _of_53(a, b), _of_53(c, d)

    def normal(self) -> float:
        """Marsaglia's polar method."""
        while True:
            x, y = (2 * u - 1 for u in self.pair())
            s = x * x + y * y
            if 0 < s < 1:
                return x * math.sqrt(-2 * math.log(s) / s)


def _of_53(high: int, low: int) -> float:
    return ((high >> 5) * 2**26 + (low >> 6) + 1) * 2.0**-53


def _lower_to(kernel: str) -> Any:
    def lowering(emit, state, *parameters, **attrs):
        *given, result = parameters
        flat = [emit.dense(v).reshape((v.size,)) for v in given]
        numbers = [attrs[name] for name in ("low", "high") if name in attrs]
        name = f"{kernel}_{result.dtype.short}"
        emit.kernel(name, [emit.dense(state), *flat], [result.reshape((result.size,))], numbers)

    return lowering


def _require_state(name: str, state: TensorType) -> None:
    require_dtype(name, "state", state, int64)
    require_shape(name, "state", state, (2,))


def _each(state: np.ndarray, draw: Any, *parameters: np.ndarray) -> np.ndarray:
    flat = [p.reshape(-1).tolist() for p in parameters]
    found = [draw(_Draws(state, i), *each) for i, each in enumerate(zip(*flat, strict=True))]
    return np.array(found, parameters[0].dtype).reshape(parameters[0].shape)


# Gamma and beta ----------------------------------------------------------------------------------


@op(differentiable=False)
def random_gamma(state: TensorType, shape: TensorType) -> TensorType:
    """Numbers of the gamma distributions of ``shape`` and scale 1 (Marsaglia and Tsang 2000).

    NaN for a shape below 0, and 0 for 0.
    """
    _require_state("random_gamma", state)
    require_floating("random_gamma", shape=shape)
    return shape


def _gamma(draws: _Draws, a: float) -> float:
    if not a > 0:
        return 0.0 if a == 0 else math.nan
    if a == math.inf:
        return a
    power = math.exp(math.log(draws.pair()[0]) / a) if a < 1 else 1.0
    m = (a + 1 if a < 1 else a) - 1 / 3
    c = 1 / math.sqrt(9 * m)
    while True:
        z = draws.normal()
        v = (1 + c * z) ** 3
        if v <= 0:
            continue
        u = draws.pair()[0]
        if math.log(u) < 0.5 * z * z + m * (1 - v + math.log(v)):
            return m * v * power


@random_gamma.reference
def random_gamma_reference(state, shape):
    return _each(state, _gamma, shape)


@op(differentiable=False)
def random_beta(state: TensorType, a: TensorType, b: TensorType) -> TensorType:
    """Numbers of the beta distributions of ``a`` and ``b``, by Johnk's method or gammas.

    NaN for parameters that are not above 0.
    """
    _require_state("random_beta", state)
    require_floating("random_beta", a=a, b=b)
    require_same_dtype("random_beta", a, b)
    require_shape("random_beta", "b", b, a.shape)
    return a


def _beta(draws: _Draws, a: float, b: float) -> float:
    if not (0 < a < math.inf and 0 < b < math.inf):
        return math.nan
    if a > 1 or b > 1:
        x = _gamma(draws, a)
        return x / (x + _gamma(draws, b))
    while True:
        u, v = draws.pair()
        p, q = math.log(u) / a, math.log(v) / b
        if math.exp(p) + math.exp(q) <= 1:
            small = math.exp(-abs(p - q))
            return 1 / (1 + small) if p > q else small / (1 + small)


@random_beta.reference
def random_beta_reference(state, a, b):
    return _each(state, _beta, a, b)


# Poisson -----------------------------------------------------------------------------------------


@op(differentiable=False)
def random_poisson(state: TensorType, rate: TensorType) -> TensorType:
    """Whole numbers of the Poisson distributions of ``rate``, in float64.

    By products of uniform numbers (Knuth) or by PTRS (Hormann 1993).  NaN unless
    ``0 <= rate < 2**62``.
    """
    _require_state("random_poisson", state)
    require_dtype("random_poisson", "rate", rate, float64)
    return rate


def _poisson(draws: _Draws, rate: float) -> float:
    if not 0 <= rate < 2.0**62:
        return math.nan
    if rate < 10:
        limit, product, k = math.exp(-rate), draws.pair()[0], 0
        while product > limit:
            product *= draws.pair()[0]
            k += 1
        return float(k)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = 0.02483 * b - 0.059
    scale = 1.1239 + 1.1328 / (b - 3.4)
    while True:
        u, v = draws.pair()
        u -= 0.5
        s = 0.5 - abs(u)
        at = (2 * a / s + b) * u + rate + 0.43 if s > 0 else -1.0
        if not 0 <= at < 2.0**62:
            continue
        k = math.floor(at)
        if s >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return float(k)
        if s < 0.013 and v > s:
            continue
        bound = k * math.log(rate) - rate - math.lgamma(k + 1)
        if math.log(v * scale / (a / (s * s) + b)) <= bound:
            return float(k)


@random_poisson.reference
def random_poisson_reference(state, rate):
    return _each(state, _poisson, rate)


# Truncated normal --------------------------------------------------------------------------------


@op(differentiable=False)
def random_truncated_normal(
    state: TensorType, *, low: float, high: float, shape: Shape, dtype: DType
) -> TensorType:
    """Numbers of the standard normal distribution between ``low`` and ``high`` (Robert 1995)."""
    require_drawn("random_truncated_normal", dtype)
    if not low <= high or low == math.inf or high == -math.inf:
        raise ArgumentError(
            f"random_truncated_normal between {low} and {high}",
            why="There is nothing between these bounds.",
            fix="give low <= high",
        )
    _require_state("random_truncated_normal", state)
    return random_type("random_truncated_normal", state, shape, dtype)


def _bounded(draws: _Draws, low: float, high: float) -> float:
    if high < -low:
        return -_bounded(draws, -high, -low)
    nearest = max(low, 0.0)
    while True:
        cost = 0.0
        if low >= 0.5:
            span = math.exp(-low * (high - low))
            x = low - math.log(span + draws.pair()[0] * (1 - span)) / low
            cost = 0.5 * (x - low) * (x - low)
        elif high - low > 1.5:
            x = draws.normal()
            x = abs(x) if low >= 0 else x
        else:
            x = low + draws.pair()[0] * (high - low)
            cost = 0.5 * (x * x - nearest * nearest)
        if low <= x <= high and (cost == 0 or math.log(draws.pair()[0]) <= -cost):
            return x


@random_truncated_normal.reference
def random_truncated_normal_reference(state, *, low, high, shape, dtype):
    found = [_bounded(_Draws(state, i), low, high) for i in range(math.prod(shape))]
    return np.array(found, dtype.numpy).reshape(shape)


for _op in (random_gamma, random_beta, random_poisson, random_truncated_normal):
    _op.lowering(_lower_to(_op.name))


def _state(draw: Any) -> np.ndarray:
    return draw("int64", 2, low=-(2**40), high=2**40)


@random_gamma.samples
def random_gamma_samples(draw):
    for dtype in draw.floats:
        for shape, low, high in [((), 1, 2), ((0,), 1, 2), ((300,), 0, 3), ((3, 50), 0, 200)]:
            yield (_state(draw), draw(dtype, *shape, low=low, high=high)), {}


@random_beta.samples
def random_beta_samples(draw):
    for dtype in draw.floats:
        for shape, high in [((), 2), ((0,), 2), ((300,), 1), ((3, 50), 20)]:
            a, b = (draw(dtype, *shape, low=0, high=high) for _ in range(2))
            yield (_state(draw), a, b), {}


@random_poisson.samples
def random_poisson_samples(draw):
    for shape, high in [((), 2), ((0,), 2), ((300,), 20), ((3, 50), 1e6)]:
        yield (_state(draw), draw("float64", *shape, low=0, high=high)), {}


@random_truncated_normal.samples
def random_truncated_normal_samples(draw):
    bounds = [(-2, 2), (-math.inf, math.inf), (0.1, 0.4), (-0.3, 9), (3, math.inf), (-40, -39)]
    for dtype in draw.floats:
        for shape in [(), (0,), (3, 50)]:
            for low, high in bounds:
                attrs = {"low": float(low), "high": float(high)}
                yield (_state(draw),), {**attrs, "shape": shape, "dtype": dtype_of(dtype)}
