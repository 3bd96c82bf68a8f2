"""Random numbers: a counter-based generator (Philox-4x32-10) whose state is a tensor.

The state is a cell of ``i64[2]``: the seed and the number of draws so far.  A draw is a function
of the state, so the same seed gives the same numbers eagerly, hybridized, and on any number of
threads.  Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core.other_names import RANDOM, missing_member
from hybrid.core.types import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    DType,
    dtype_of,
    float32,
    float64,
    int64,
    shape_of,
)
from hybrid.eager.execution import as_tensor
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir.interpreter import current
from hybrid.ops.support.operand_checks import as_int, normalize_axis, require_floating
from hybrid.ops.support.row_scope import row_scope


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

    def next_state(self, shape: Sequence[int] = ()) -> Tensor:
        """The state, i64[2], of one draw of the random ops; the generator moves on to the next.

        Of a draw of ``shape`` for rows of a batch that processes share it is i64[3]: all of them
        draw for the whole batch, and each has the stretch that belongs to its rows.
        """
        now = self.state.detach()
        self.state.assign(now + _ONE_DRAW)
        scope = row_scope()
        first = None if scope is None else scope.first_element(tuple(shape))
        return now if first is None else ops.concat([now, first])

    def _own_state(self, shape: Sequence[int]) -> Tensor:
        """``next_state`` of ops that draw all they draw: others for each stretch of rows."""
        state = self.next_state(shape)
        if state.shape == (2,):
            return state
        return ops.stack([state[0], state[1] + ops.bitwise_left_shift(state[2] + 1, 32)])

    def uniform(
        self, low: float = 0.0, high: float = 1.0, size: Any = (), *, dtype: Any = None
    ) -> Tensor:
        """Numbers spread evenly over [low, high)."""
        _require_numbers("uniform", low, high)
        if not low <= high:
            raise ArgumentError(
                f"uniform over [{low}, {high})", why="The range is empty.", fix="give low <= high"
            )
        draw = ops.random_uniform(
            self.next_state(shape_of(size)), shape=shape_of(size), dtype=_floating(dtype)
        )
        return draw if (low, high) == (0.0, 1.0) else draw * (high - low) + low

    def normal(
        self, mean: float = 0.0, std: float = 1.0, size: Any = (), *, dtype: Any = None
    ) -> Tensor:
        """Normally distributed numbers."""
        _require_numbers("normal", mean, std)
        if not std >= 0:
            raise ArgumentError(f"a standard deviation of {std}", fix="give one >= 0")
        draw = ops.random_normal(
            self.next_state(shape_of(size)), shape=shape_of(size), dtype=_floating(dtype)
        )
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
        bits = ops.random_bits(self.next_state(shape_of(size)), shape=shape_of(size))
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

    def exponential(self, scale: float = 1.0, size: Any = (), *, dtype: Any = None) -> Tensor:
        """Numbers of the exponential distribution of mean ``scale``."""
        _require_numbers("exponential", scale)
        if not scale >= 0:
            raise ArgumentError(f"exponential of scale {scale}", fix="give a scale >= 0")
        draw = -ops.log1p(-self.uniform(size=size, dtype=dtype))
        return draw if scale == 1 else draw * scale

    def truncated_normal(
        self,
        low: float = -2.0,
        high: float = 2.0,
        size: Any = (),
        *,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: Any = None,
    ) -> Tensor:
        """Normally distributed numbers, of those between ``low`` and ``high`` alone."""
        _require_numbers("truncated_normal", low, high, mean, std)
        if not 0 < std < math.inf or not abs(mean) < math.inf:
            raise ArgumentError(
                f"truncated_normal of mean {mean} and standard deviation {std}",
                fix="give finite numbers and std > 0",
            )
        if not low <= high or low == math.inf or high == -math.inf:
            raise ArgumentError(
                f"truncated_normal between {low} and {high}", fix="give low <= high"
            )
        bounds = {"low": float((low - mean) / std), "high": float((high - mean) / std)}
        draw = ops.random_truncated_normal(
            self._own_state(shape_of(size)), shape=shape_of(size), dtype=_floating(dtype), **bounds
        )
        if (mean, std) == (0.0, 1.0):
            return draw
        return ops.clip(draw * std + mean, float(low), float(high))

    def gamma(
        self, shape: float | Tensor, scale: float = 1.0, size: Any = None, *, dtype: Any = None
    ) -> Tensor:
        """Numbers of the gamma distribution of ``shape`` (a number or tensor) times ``scale``.

        A shape below 0 in a tensor gives NaN; no gradient flows to it.
        """
        _require_numbers("gamma", scale)
        if not scale >= 0:
            raise ArgumentError(f"gamma of scale {scale}", fix="give a scale >= 0")
        (given,) = _parameters("gamma", {"shape": shape}, size, dtype)
        draw = ops.random_gamma(self._own_state(given.shape), given)
        return draw if scale == 1 else draw * scale

    def beta(
        self, a: float | Tensor, b: float | Tensor, size: Any = None, *, dtype: Any = None
    ) -> Tensor:
        """Numbers of the beta distribution of ``a`` and ``b``, numbers or tensors that broadcast.

        Elements of a tensor that are not above 0 give NaN; no gradient flows to them.
        """
        given = _parameters("beta", {"a": a, "b": b}, size, dtype)
        return ops.random_beta(self._own_state(given[0].shape), *given)

    def poisson(self, rate: float | Tensor, size: Any = None, *, dtype: Any = None) -> Tensor:
        """Counts (``int64``) of the Poisson distribution of ``rate``, a number or tensor.

        Where a tensor's rate is not in [0, 2**62) they are -1.
        """
        (given,) = _parameters("poisson", {"rate": rate}, size, float64)
        found = ops.random_poisson(self._own_state(given.shape), ops.stop_gradient(given))
        found = ops.where(ops.isnan(found), -1.0, found)
        return ops.astype(found, DEFAULT_INT if dtype is None else dtype_of(dtype))

    def categorical(self, logits: Any, axis: int = -1, size: Any = ()) -> Tensor:
        """Classes (``int64``), with the probabilities softmax of ``logits`` along ``axis``.

        The result has the other axes of ``logits``, after those of ``size``.
        """
        logits = ops.as_tensor(logits)
        require_floating("categorical", logits=logits.type)
        axis = normalize_axis("categorical", axis, logits.ndim)
        if logits.shape[axis] == 0:
            raise ShapeError(
                f"categorical cannot draw from {logits.type}",
                why=f"There are no classes along axis {axis}.",
                fix="give one class at least",
            )
        rows = ops.moveaxis(logits, axis, -1)
        noise = self._gumbel((*shape_of(size), *rows.shape), logits.dtype)
        return ops.argmax(ops.stop_gradient(rows) + noise, axis=-1)

    def multinomial(self, probs: Any, num_samples: int, replacement: bool = False) -> Tensor:
        """``num_samples`` classes (``int64``) for ``probs``, weights [classes], or for each row of
        weights [n, classes]; without ``replacement`` each at most once.

        Weights need not sum to one.  Those of a traced tensor are not checked.
        """
        weights = ops.as_tensor(probs)
        require_floating("multinomial", probs=weights.type)
        if weights.ndim not in (1, 2):
            raise ShapeError(
                f"multinomial of {weights.type}",
                why="There are weights [classes], or rows of them.",
                fix="reshape them",
            )
        count = as_int("multinomial", "num_samples", num_samples, least=1)
        classes = weights.shape[-1]
        weights = ops.stop_gradient(ops.astype(weights, float64, copy=False))
        if not (current().traces and isinstance(probs, Tensor)):
            _check_rows(weights, 1 if replacement else count)
        if count > classes and not replacement:
            raise ArgumentError(
                f"multinomial of {count} from {classes} classes without replacement",
                why="There are not as many.",
                fix="give a smaller num_samples, or replacement=True",
            )
        if not replacement:  # Efraimidis and Spirakis 2006
            keys = ops.log(weights) + self._gumbel(weights.shape, float64)
            return ops.argsort(keys, axis=-1, descending=True)[..., :count]
        sums = ops.cumulative_sum(weights, axis=-1)
        total = sums[..., -1:]
        drawn = self.uniform(size=(*weights.shape[:-1], count), dtype=float64) * total
        below = ops.minimum(drawn, ops.nextafter(total, ops.zeros_like(total)))
        passed = ops.expand_dims(sums, axis=-2) <= ops.expand_dims(below, axis=-1)
        return ops.sum(passed, axis=-1)

    def _gumbel(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        """Numbers whose largest, over some logits plus them, is at a class drawn by those."""
        uniform = ops.random_uniform(self.next_state(shape), shape=shape, dtype=dtype)
        return -ops.log(-ops.log(ops.maximum(uniform, 2.0**-25)))

    def permutation(self, x: Any, axis: int = 0) -> Tensor:
        """The numbers 0..x-1 (``int64``), or the slices of a tensor ``x`` along ``axis``, in random
        order.
        """
        if not isinstance(x, (Tensor, np.ndarray, list, tuple)):
            if not _is_int(x) or x < 0:
                raise ArgumentError(f"a permutation of {x!r}", fix="give an int >= 0")
            return ops.argsort(ops.random_bits(self.next_state(), shape=shape_of(x)))
        x = ops.as_tensor(x)
        axis = normalize_axis("permutation", axis, x.ndim)
        return ops.take(x, self.permutation(x.shape[axis]), axis=axis)

    def shuffle(self, x: Tensor, axis: int = 0) -> None:
        """Put the slices of ``x`` along ``axis`` in random order, in place."""
        if not isinstance(x, Tensor):
            raise ArgumentTypeError(
                f"shuffle cannot change a {type(x).__name__}",
                fix="pass a Tensor, or use permutation, which returns a new one",
            )
        x.assign(self.permutation(x, axis))

    def choice(self, a: Any, size: Any = (), replace: bool = True, p: Any = None) -> Tensor:
        """Draws from 0..a-1 for an int ``a``, or from the rows of a tensor ``a``.

        ``replace``: a row may be drawn again.  ``p``: weights of the rows, which need not sum to
        one; those of a traced tensor are not checked.
        """
        rows = None if _is_int(a) else ops.as_tensor(a)
        if rows is not None and rows.ndim == 0:
            raise ArgumentError(f"choice from {a!r}", fix="give an int or a tensor with an axis")
        n, shape = int(a) if rows is None else rows.shape[0], shape_of(size)
        count = math.prod(shape)
        weights = None if p is None else _weights(p, n, 1 if replace else count)
        if n < 1 or (count > n and not replace):
            raise ArgumentError(
                f"choice of {count} from {n}{'' if replace else ' without replacement'}",
                why="There are not as many.",
                fix="give more to choose from, or a smaller size",
            )
        if not replace:
            if weights is None:
                order = self.permutation(n)
            else:  # Efraimidis and Spirakis 2006
                keys = ops.log(weights) + self._gumbel((n,), float64)
                order = ops.argsort(keys, descending=True)
            chosen = ops.reshape(order[:count], shape)
        elif weights is None:
            chosen = self.integers(n, size=shape)
        else:
            sums = ops.cumulative_sum(weights, axis=0)
            drawn = self.uniform(size=(count,), dtype=float64) * sums[-1]
            below = ops.minimum(drawn, ops.nextafter(sums[-1], ops.zeros_like(sums[-1])))
            chosen = ops.reshape(ops.searchsorted(sums, below, side="right"), shape)
        return chosen if rows is None else ops.take(rows, chosen, axis=0)

    def split(self, n: int) -> list[Generator]:
        """``n`` generators whose streams are independent of each other and of this one's draws.

        Their seeds are 64 random bits each, one draw of this generator: the same seed gives the
        same streams again.
        """
        if not _is_int(n) or n < 0:
            raise ArgumentError(f"a generator split into {n!r}", fix="give an int >= 0")
        seeds = ops.random_bits(self.next_state(), shape=(int(n),))
        found = []
        for i in range(int(n)):
            child = Generator(0)
            child.state.assign(ops.concat([seeds[i : i + 1], ops.zeros((1,), dtype=int64)]))
            found.append(child)
        return found


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


def _parameters(name: str, given: dict[str, Any], size: Any, dtype: Any) -> list[Tensor]:
    """Numbers, which must be above 0 (a rate: 0 at least), and tensors, all of one floating dtype
    and of the shape ``size`` (None: that which the tensors have in common).
    """
    tensors = [v for v in given.values() if isinstance(v, (Tensor, np.ndarray, list))]
    for label, value in given.items():
        if isinstance(value, (Tensor, np.ndarray, list)):
            continue
        _require_numbers(name, value)
        if not (value > 0 or (label == "rate" and value == 0)) or value >= 2.0**62:
            raise ArgumentError(
                f"{name} of {label} {value}",
                fix=f"give a number {'of at least' if label == 'rate' else 'above'} 0",
            )
    kind = ops.result_type(*map(ops.as_tensor, tensors), 1.0) if tensors and dtype is None else None
    dtype = _floating(kind if dtype is None else dtype)
    found = [ops.astype(ops.as_tensor(v), dtype, copy=False) for v in given.values()]
    if size is None:
        return ops.broadcast_arrays(*found)
    return [ops.broadcast_to(v, shape_of(size)) for v in found]


def _weights(p: Any, n: int, needed: int) -> Tensor:
    """Weights of ``n`` rows in float64, of which ``needed`` are above 0."""
    weights = ops.astype(ops.as_tensor(p), float64, copy=False)
    if weights.shape != (n,):
        raise ShapeError(
            f"choice from {n} with weights {weights.type}",
            why="There is one weight for each.",
            fix=f"give {n} weights",
        )
    if not (current().traces and isinstance(p, Tensor)):
        values = np.asarray(p.numpy() if isinstance(p, Tensor) else p, np.float64)
        if not (values >= 0).all() or not values.sum() < np.inf:
            raise ArgumentError("choice with weights below 0 or not finite", fix="give others")
        if (values > 0).sum() < needed:
            raise ArgumentError(
                f"choice of {needed} with {(values > 0).sum()} weights above 0",
                why="The others are never chosen.",
                fix="give more weights above 0, or a smaller size",
            )
    return weights


def _check_rows(weights: Tensor, needed: int) -> None:
    """Raise unless each row has ``needed`` weights above 0, and none below or without bound."""
    values = weights.numpy()
    if not (values >= 0).all() or not (values < np.inf).all():
        raise ArgumentError("multinomial with weights below 0 or not finite", fix="give others")
    found = (values > 0).sum(-1)
    if found.size and found.min() < needed:
        raise ArgumentError(
            f"multinomial of {needed} with {found.min()} weights above 0",
            why="The others are never drawn.",
            fix="give more weights above 0, a smaller num_samples, or replacement=True",
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


def exponential(scale: float = 1.0, size: int | Sequence[int] = (), *, dtype: Any = None) -> Tensor:
    """Numbers of the exponential distribution of mean ``scale``."""
    return _default.exponential(scale, size, dtype=dtype)


def truncated_normal(
    low: float = -2.0,
    high: float = 2.0,
    size: int | Sequence[int] = (),
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: Any = None,
) -> Tensor:
    """Normally distributed numbers, of those between ``low`` and ``high`` alone."""
    return _default.truncated_normal(low, high, size, mean=mean, std=std, dtype=dtype)


def gamma(
    shape: float | Tensor, scale: float = 1.0, size: Any = None, *, dtype: Any = None
) -> Tensor:
    """Numbers of the gamma distribution of ``shape`` times ``scale``."""
    return _default.gamma(shape, scale, size, dtype=dtype)


def beta(a: float | Tensor, b: float | Tensor, size: Any = None, *, dtype: Any = None) -> Tensor:
    """Numbers of the beta distribution of ``a`` and ``b``."""
    return _default.beta(a, b, size, dtype=dtype)


def poisson(rate: float | Tensor, size: Any = None, *, dtype: Any = None) -> Tensor:
    """Counts of the Poisson distribution of ``rate``."""
    return _default.poisson(rate, size, dtype=dtype)


def categorical(logits: Any, axis: int = -1, size: int | Sequence[int] = ()) -> Tensor:
    """Classes, with the probabilities softmax of ``logits`` along ``axis``."""
    return _default.categorical(logits, axis, size)


def multinomial(probs: Any, num_samples: int, replacement: bool = False) -> Tensor:
    """``num_samples`` classes, with the weights ``probs``, or for each row of them."""
    return _default.multinomial(probs, num_samples, replacement)


def permutation(x: Any, axis: int = 0) -> Tensor:
    """The numbers 0..x-1, or the slices of a tensor along ``axis``, in random order."""
    return _default.permutation(x, axis)


def shuffle(x: Tensor, axis: int = 0) -> None:
    """Put the slices of ``x`` along ``axis`` in random order, in place."""
    _default.shuffle(x, axis)


def choice(a: Any, size: int | Sequence[int] = (), replace: bool = True, p: Any = None) -> Tensor:
    """Draws from 0..a-1 for an int ``a``, or from the rows of a tensor ``a``."""
    return _default.choice(a, size, replace, p)


def split(n: int) -> list[Generator]:
    """``n`` generators with streams of their own."""
    return _default.split(n)


def __getattr__(name: str) -> Any:
    raise missing_member(__name__, name, RANDOM)
