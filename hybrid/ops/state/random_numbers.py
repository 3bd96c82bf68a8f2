"""Random numbers as pure functions of a state: the seed and the number of the draw.

A state may have a third number, that of the first element: the draw is a stretch of a longer one.

Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011):
element ``i`` depends on (seed, draw, i) alone, so threads and order of calls do not matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.types import (
    DType,
    Shape,
    TensorType,
    dtype_of,
    float32,
    float64,
    int64,
    tensor_type,
)
from hybrid.errors import ArgumentError, DTypeError
from hybrid.ir import op
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.support.batching import no_draws
from hybrid.ops.support.dtypes import identity
from hybrid.ops.support.operand_checks import (
    as_tensor,
    require_dtype,
    require_floating,
    require_shape,
)
from hybrid.ops.support.shared_work import SharedWay

_BLOCKS = 16  # counters that one group of words comes from


def random_type(name: str, state: TensorType, shape: Shape, dtype: DType) -> TensorType:
    """The type of draws from ``state``, which must be i64[2], or i64[3] with a first element."""
    require_dtype(name, "state", state, int64)
    if state.shape != (3,):
        require_shape(name, "state", state, (2,))
    return tensor_type(dtype, shape)


def require_drawn(name: str, dtype: DType) -> None:
    """Raise unless numbers of ``dtype`` can be drawn."""
    if not dtype.is_floating:
        raise DTypeError(
            f"{name} cannot draw numbers of dtype {dtype.name}",
            why="They must have a floating dtype.",
            fix="pass dtype=hybrid.float32",
        )


def _words(state: np.ndarray, shape: Shape, elements: int) -> np.ndarray:
    """Philox's words as [group, word of its block, block of the group], uint64 below 2**32.

    They are those of all groups, of so many ``elements``, that a draw of ``shape`` has a part in.
    """
    low32 = np.uint64(0xFFFFFFFF)
    seed, draw = state[:2].astype(np.uint64)
    before, skip = divmod(_first(state), elements)
    groups = -(-(skip + math.prod(shape)) // elements)
    block = np.arange(groups * _BLOCKS, dtype=np.uint64) + np.uint64(before * _BLOCKS)
    fixed = np.ones_like(block)
    a, b = block & low32, block >> np.uint64(32)
    c, d = fixed * (draw & low32), fixed * (draw >> np.uint64(32))
    key0, key1 = seed & low32, seed >> np.uint64(32)
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b = (second >> np.uint64(32)) ^ b ^ key0, second & low32
        c, d = (first >> np.uint64(32)) ^ d ^ key1, first & low32
        key0 = (key0 + np.uint64(0x9E3779B9)) & low32
        key1 = (key1 + np.uint64(0xBB67AE85)) & low32
    return np.stack([a, b, c, d]).reshape(4, groups, _BLOCKS).transpose(1, 0, 2)


def _pairs(words: np.ndarray) -> np.ndarray:
    """Words 0 and 1, then 2 and 3, of every block, as [2 of a pair, element]."""
    return words.reshape(-1, 2, 2, _BLOCKS).transpose(2, 0, 1, 3).reshape(2, -1)


def _first(state: np.ndarray) -> int:
    return int(state[2]) if len(state) == 3 else 0


def _cut(values: np.ndarray, state: np.ndarray, shape: Shape, elements: int) -> np.ndarray:
    skip = _first(state) % elements
    return values.reshape(-1)[skip : skip + math.prod(shape)].reshape(shape)


def _low_high_53(pair: np.ndarray) -> np.ndarray:
    """53 random bits of each pair of words, as floats."""
    return (pair[0] >> np.uint64(5)) * 67108864.0 + (pair[1] >> np.uint64(6)).astype(np.float64)


def _lower_to(kernel: str, typed: bool = True) -> Any:
    def lowering(emit, state, result, *, shape, dtype=None):
        name = f"{kernel}_{dtype.short}" if typed else kernel
        emit.kernel(name, [emit.dense(state)], [result.reshape((result.size,))])

    return lowering


@op(differentiable=False)
def random_uniform(state: TensorType, *, shape: Shape, dtype: DType) -> TensorType:
    """Numbers in [0, 1), all equally likely: multiples of 2**-24 (float32) or 2**-53 (float64)."""
    require_drawn("random_uniform", dtype)
    return random_type("random_uniform", state, shape, dtype)


@random_uniform.reference
def random_uniform_reference(state, *, shape, dtype):
    if dtype is float64:
        pair = _pairs(_words(state, shape, 32))
        return _cut(_low_high_53(pair) * 2.0**-53, state, shape, 32)
    words = (_words(state, shape, 64) >> np.uint64(8)).astype(np.float32)
    return _cut(words * np.float32(2.0**-24), state, shape, 64)


random_uniform.lowering(_lower_to("random_uniform"))


@op(differentiable=False)
def random_normal(state: TensorType, *, shape: Shape, dtype: DType) -> TensorType:
    """Numbers of the standard normal distribution, by Box and Muller's method."""
    require_drawn("random_normal", dtype)
    return random_type("random_normal", state, shape, dtype)


@random_normal.reference
def random_normal_reference(state, *, shape, dtype):
    if dtype is float64:
        words = _words(state, shape, 32).astype(np.float64)
        high = np.floor(words[:, 0] / 32) * 2.0**26 + np.floor(words[:, 1] / 64)
        uniform = (high + 1) * 2.0**-53
        turn = words[:, 2] * 2.0**-32 + np.floor(words[:, 3] / 64) * 2.0**-58
        half = 1  # axis of cosines and sines
    else:
        words = _words(state, shape, 64).reshape(-1, 2, 2, _BLOCKS)
        steps = (words[:, :, 0] >> np.uint64(1)).astype(np.float32) + np.float32(0.5)
        uniform = (steps * np.float32(2.0**-31)).astype(np.float64)
        turn = words[:, :, 1] * 2.0**-32
        half = 2
    radius, angle = np.sqrt(-2 * np.log(uniform)), 2 * np.pi * turn
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=half)
    elements = 32 if dtype is float64 else 64
    return _cut(both, state, shape, elements).astype(dtype.numpy)


random_normal.lowering(_lower_to("random_normal"))


@random_uniform.samples
@random_normal.samples
def random_samples(draw):
    for dtype in draw.floats:
        for shape in [(), (0,), (1,), (63,), (64,), (65,), (3, 50)]:
            for state in _stretches(shape):
                yield (state,), {"shape": shape, "dtype": dtype_of(dtype)}
            state = draw("int64", 2, low=-(2**40), high=2**40)
            yield (state,), {"shape": shape, "dtype": dtype_of(dtype)}


@op(differentiable=False)
def random_bits(state: TensorType, *, shape: Shape) -> TensorType:
    """Integers of 64 random bits."""
    return random_type("random_bits", state, shape, int64)


@random_bits.reference
def random_bits_reference(state, *, shape):
    low, high = _pairs(_words(state, shape, 32))
    return _cut((low | high << np.uint64(32)).astype(np.int64), state, shape, 32)


random_bits.lowering(_lower_to("random_bits", typed=False))


for _op in (random_uniform, random_normal, random_bits):
    _op.batch(no_draws)


@random_bits.samples
def random_bits_samples(draw):
    for shape in [(), (0,), (1,), (31,), (32,), (33,), (3, 50)]:
        if shape in ((31,), (3, 50)):
            yield (np.array([5, 7, shape[0]]),), {"shape": shape}
        yield (draw("int64", 2, low=-(2**40), high=2**40),), {"shape": shape}


def _stretches(shape: Shape) -> list[np.ndarray]:
    """States with a first element, for some shapes."""
    return [np.array([5, 7, first]) for first in (0, 1, 64, 300)] if shape == (65,) else []


# Dropout -----------------------------------------------------------------------------------------


def _dropout_type(name: str, x: TensorType, state: TensorType) -> TensorType:
    require_floating(name, x=x)
    random_type(name, state, x.shape, float32)
    return x


@op(kernel="dropout")
def drop(x: TensorType, state: TensorType, *, rate: float) -> TensorType:
    """``x / (1 - rate)`` where a number drawn from [0, 1) is at least ``rate``, else 0.

    The numbers are the float32 of ``random_uniform`` of ``state``, below 1; none is kept.
    """
    return _dropout_type("drop", x, state)


@op(kernel="dropout")
def drop_again(x: TensorType, state: TensorType, *, rate: float) -> TensorType:
    """``drop`` where it drew before: of tangents and cotangents, by the same numbers."""
    return _dropout_type("drop_again", x, state)


def _scale(rate: float) -> float:
    return 1 / (1 - rate)


@drop.reference
@drop_again.reference
def drop_reference(x, state, *, rate):
    kept = random_uniform_reference(state, shape=x.shape, dtype=float32) >= np.float32(rate)
    return np.where(kept, x * x.dtype.type(_scale(rate)), x.dtype.type(0))


@drop.lowering
@drop_again.lowering
def drop_lowering(emit, x, state, result, *, rate):
    flat = (result.size,)
    views = [emit.dense(x).reshape(flat), emit.dense(state)]
    emit.kernel("dropout", views, [result.reshape(flat)], [float(rate)])


@drop.samples
@drop_again.samples
def drop_samples(draw):
    for dtype in draw.floats:
        for shape in [(), (0,), (1,), (63,), (64,), (65,), (3, 50)]:
            for state in _stretches(shape):
                yield (np.linspace(1, 2, 65, dtype=dtype), state), {"rate": 0.3}
            state = draw("int64", 2, low=-(2**40), high=2**40)
            yield (draw(dtype, *shape), state), {"rate": 0.3}


@drop.vjp
@drop_again.vjp
def drop_vjp(ct, _y, _x, state, *, rate):
    return drop_again(ct, state, rate=rate), None


@drop.jvp
@drop_again.jvp
def drop_jvp(tangents, _y, _x, state, *, rate):
    return None if tangents[0] is None else drop_again(tangents[0], state, rate=rate)


@drop.shares
@drop_again.shares
def drop_shares(cut, operands, results, *, rate):
    split = cut.of(operands[0], 0) if operands[0].rank else None
    return [] if split is None else [SharedWay((split, None), (split,), _drop_rows, alone=True)]


def _drop_rows(work, x, state, **attrs):
    """What is dropped of the rows of one rank: by the stretch that they have of the whole draw."""
    return work.call("drop", x, stretch_state(work, state, x.type.size), **attrs)


def stretch_state(work, state, size):
    """The state of the stretch of one rank, each of which has ``size`` numbers of a draw."""
    first = work.call("full", shape=(1,), value=work.axis.rank * size, dtype=int64)
    if state.type.shape == (2,):
        return work.call("concat", state, first, axis=0)
    zeros = work.call("full", shape=(2,), value=0, dtype=int64)
    return work.call("add", state, work.call("concat", zeros, first, axis=0))


drop.batch(no_draws)


@drop_again.batch
def drop_again_batch(_rows, batched, x, state, *, rate):
    """All rows by the same numbers."""
    if batched != (True, False):
        return NotImplemented
    kept = random_uniform(state, shape=x.shape[1:], dtype=float32) >= rate
    return where(kept, x * _scale(rate), 0.0)


def dropout(x: Any, rate: float, state: Any) -> Any:
    """``x`` with each element zeroed with probability ``rate``, the others scaled to keep the mean.

    ``state`` is the i64[2] (seed, counter) that the draws come from.
    """
    x = as_tensor(x)
    if not 0 <= rate <= 1:
        raise ArgumentError(f"dropout got rate {rate}", fix="give a probability in [0, 1]")
    if rate == 0:
        return identity(x)
    if x.dtype.is_floating and rate < 1:
        return drop(x, as_tensor(state), rate=float(rate))
    kept = random_uniform(state, shape=x.shape, dtype=float32) >= rate
    return where(kept, x * (_scale(rate) if rate < 1 else 0.0), 0.0)
