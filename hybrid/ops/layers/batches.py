"""Normalisation over batches: each channel shifted to mean 0 and scaled to variance 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.open_numbers import size_of
from hybrid.core.sizes import Size
from hybrid.core.types import TensorType, float64
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir import op
from hybrid.ir.interpreter import current
from hybrid.ops.axes.reduction import reduce_mean, reduce_sum
from hybrid.ops.elementwise.powers import rsqrt, square
from hybrid.ops.layers.normalization import (
    affine,
    along_channels,
    normal_rows,
    plain_rows,
    require_channels,
    require_eps,
    with_channels,
)
from hybrid.ops.shapes.creation import ones, zeros
from hybrid.ops.shapes.shape import permute, reshape_to
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.derivatives import reshaped, widened
from hybrid.ops.support.dtypes import converted, stop_gradient
from hybrid.ops.support.operand_checks import (
    as_tensor,
    is_number,
    require_floating,
    require_rank,
    require_same_dtype,
    require_shape,
    type_of,
)
from hybrid.ops.support.row_scope import row_scope

# Channels of [count, channels, n] ----------------------------------------------------------------


def _require_type(name: str, x: TensorType, eps: float, **columns: TensorType) -> None:
    require_floating(name, x=x)
    require_rank(name, "x", x, 3)
    require_same_dtype(name, x, *columns.values())
    for label, type in columns.items():
        require_shape(name, label, type, x.shape[1:2])
    require_eps(name, eps)
    if not x.shape[0] or not x.shape[2]:
        raise ShapeError(
            f"{name} cannot take {x}",
            why="A channel without elements has no mean.",
            fix="give one element at least",
        )


def _moments(x: Any) -> tuple[np.ndarray, np.ndarray]:
    mean = np.mean(x, (0, 2), keepdims=True, dtype=np.float64)
    return mean, np.mean(np.square(x - mean), (0, 2), keepdims=True)


@op
def channel_norm(
    x: TensorType, weight: TensorType, bias: TensorType, *, eps: float = 1e-5
) -> TensorType:
    """Channels of ``x`` [count, channels, n] with mean 0 and variance 1, times ``weight``, plus
    ``bias``.

    ``eps`` is added to the variance (Ioffe and Szegedy 2015).
    """
    _require_type("channel_norm", x, eps, weight=weight, bias=bias)
    return x


@channel_norm.couples
def channel_norm_couples(operands, results, **_):
    return [axis_ties.along(operands, results, [(0, 1), (1, 0), (2, 0), (~0, 1)])]


channel_norm.shares(shared_work.tied(channel_norm_couples))


@channel_norm.reference
def channel_norm_reference(x, weight, bias, *, eps):
    mean, variance = _moments(x)
    normal = (x - mean) / np.sqrt(variance + eps)
    return (normal * weight[:, None] + bias[:, None]).astype(x.dtype)


@channel_norm.vjp
def channel_norm_vjp(ct, _y, x, weight, _bias, *, eps):
    found: list[Any] = []  # one kernel gives all three

    def part(i):
        if not found:
            found.extend(channel_norm_pull(ct, x, weight, eps=eps))
        return found[i]

    return (lambda: part(0)), (lambda: part(1)), (lambda: part(2))


@channel_norm.jvp
def channel_norm_jvp(tangents, _y, x, weight, _bias, *, eps):
    of_x, of_weight, of_bias = tangents
    terms = []
    if of_x is not None:
        terms.append(_pulled(of_x, x, eps) * along_channels(weight, 3))
    if of_weight is not None:
        terms.append(_plain(x, eps) * along_channels(of_weight, 3))
    if of_bias is not None:
        terms.append(widened(along_channels(of_bias, 3), x.shape))
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _plain(x: Any, eps: float) -> Any:
    shape = x.shape[1:2]
    return channel_norm(x, ones(shape, dtype=x.dtype), zeros(shape, dtype=x.dtype), eps=eps)


def _sum_of_channels(x: Any) -> Any:
    """What lies together first: other axes would be copied."""
    return reduce_sum(reduce_sum(x, axis=(2,), keepdims=False), axis=(0,), keepdims=False)


@op
def channel_norm_pull(
    g: TensorType, x: TensorType, weight: TensorType, *, eps: float = 1e-5
) -> tuple[TensorType, TensorType, TensorType]:
    """The gradients of ``channel_norm`` by ``x``, ``weight`` and bias from ``g``, its result's.

    That by ``x`` is [count, channels, n], the others [channels].
    """
    _require_type("channel_norm_pull", x, eps, weight=weight)
    require_same_dtype("channel_norm_pull", g, x)
    require_shape("channel_norm_pull", "g", g, x.shape)
    return x, weight, weight


@channel_norm_pull.reference
def channel_norm_pull_reference(g, x, weight, *, eps):
    mean, variance = _moments(x)
    scale = 1 / np.sqrt(variance + eps)
    normal = (x - mean) * scale
    level, along = _moments(g)[0], _moments(g * normal)[0]
    by_x = (g - level - normal * along) * scale * weight[:, None]
    sums = [np.sum(v, (0, 2), dtype=np.float64) for v in (g * normal, g)]
    return tuple(v.astype(x.dtype) for v in (by_x, *sums))


@channel_norm_pull.vjp
def channel_norm_pull_vjp(cts, results, g, x, weight, *, eps):
    """With J the Jacobian of the normalised channels h, which is symmetric, the results are
    ``J (w g)`` and the sums of ``g h`` and of ``g``; their cotangents are a, b and c.
    """
    a, b, c = cts
    w, along_b = along_channels(weight, 3), along_channels(b, 3)

    def mean(v):
        return along_channels(_sum_of_channels(v) / (x.shape[0] * x.shape[2]), 3)

    def by_x():
        """As ``layer_norm_pull`` by ``x``, with the means over channels; and that of ``g h``."""
        away = x - mean(x)
        scale = rsqrt(mean(square(away)) + eps)
        normal = away * scale
        terms = mean(a * results[0]) * normal + mean(w * g * normal) * _pulled(a, x, eps)
        return _pulled(g * along_b, x, eps) - scale * (terms + mean(a * normal) * results[0])

    return (
        lambda: w * _pulled(a, x, eps) + _plain(x, eps) * along_b + along_channels(c, 3),
        by_x,
        lambda: _sum_of_channels(g * _pulled(a, x, eps)),
    )


def _pulled(g: Any, x: Any, eps: float) -> Any:
    """The Jacobian of the normalised channels at ``x``, applied to ``g``."""
    return channel_norm_pull(g, x, ones(x.shape[1:2], dtype=x.dtype), eps=eps)[0]


@op(differentiable=False)
def channel_moments(x: TensorType) -> tuple[TensorType, TensorType]:
    """The mean and the variance of each channel of ``x`` [count, channels, n]."""
    _require_type("channel_moments", x, 0.0)
    return x.with_shape(x.shape[1:2]), x.with_shape(x.shape[1:2])


@channel_moments.couples
def channel_moments_couples(operands, results):
    return [axis_ties.along(operands, results, [(0, 1), (~0, 0), (~1, 0)])]


@channel_moments.reference
def channel_moments_reference(x):
    mean, variance = _moments(x)
    return mean.reshape(-1).astype(x.dtype), variance.reshape(-1).astype(x.dtype)


@channel_norm.lowering
def channel_norm_lowering(emit, x, weight, bias, result, *, eps):
    given = [emit.dense(v) for v in (x, weight, bias)]
    emit.kernel("channel_norm", given, [result], [float(eps)])


@channel_norm_pull.lowering
def channel_norm_pull_lowering(emit, g, x, weight, *results, eps):
    given = [emit.dense(v) for v in (g, x, weight)]
    emit.kernel("channel_norm_pull", given, results, [float(eps)])


@channel_moments.lowering
def channel_moments_lowering(emit, x, mean, variance):
    emit.kernel("channel_moments", [emit.dense(x)], [mean, variance])


def _samples(whole: int, columns: int, *, eps: tuple[float, ...] = (1e-5, 0.5)) -> Any:
    def samples(draw):
        for dtype in draw.floats:
            for shape in [
                (1, 1, 1),
                (3, 2, 1),
                (2, 3, 17),
                (1, 2, 300),
                (5, 1, 4),
                (2, 0, 3),
                (2, 2, 3000),
                (90, 1, 40),
            ]:
                shapes = [shape] * whole + [shape[1:2]] * columns
                for number in eps:
                    yield tuple(draw(dtype, *each) for each in shapes), {"eps": number}

    return samples


channel_norm.samples(_samples(1, 2))
channel_norm_pull.samples(_samples(2, 1))


@channel_moments.samples
def channel_moments_samples(draw):
    for operands, _ in _samples(1, 0, eps=(0.0,))(draw):
        yield operands, {}


_SHORT = 16  # pieces below that many elements are gathered into rows first


def _normal_channels(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """``x`` normalised over all axes but 1, and the mean and variance, without history."""
    count, channels, n = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    flat = reshape_to(x, shape=(count, channels, n))
    if n < _SHORT:
        rows = reshape_to(permute(flat, axes=(1, 0, 2)), shape=(1, channels, count * n))
    else:
        rows = flat
    mean, variance = channel_moments(stop_gradient(rows))
    weight = ones((channels,), dtype=x.dtype) if weight is None else weight
    bias = zeros((channels,), dtype=x.dtype) if bias is None else bias
    found = channel_norm(rows, weight, bias, eps=eps)
    if n < _SHORT:
        found = permute(reshape_to(found, shape=(channels, count, n)), axes=(1, 0, 2))
    return reshape_to(found, shape=x.shape), mean, variance


# Functions ---------------------------------------------------------------------------------------


def _updated(name: str, label: str, cell: Any, new: Any, momentum: float) -> None:
    if not hasattr(cell, "assign"):
        raise ArgumentTypeError(
            f"{name} cannot update {label}, a {type(cell).__name__}",
            why="Running statistics are tensors, which are assigned to.",
            fix="pass a hybrid.Tensor, a buffer of a module for example",
        )
    cell.assign(converted(stop_gradient((1 - momentum) * cell + momentum * new), cell.dtype))


def _unbiased(variance: Any, count: int) -> Any:
    """The variance of ``count`` numbers as that of what they were drawn from."""
    factor: Any
    if type(size_of(count)) is Size and not variance.dtype.is_stored:  # for the run to compute
        factor = current().lift(count, float64) / current().lift(count - 1, float64)
        factor = converted(factor, variance.dtype)
    elif not isinstance(count, int):  # a scalar, of the rows of all processes
        factor = converted(count / (count - 1), variance.dtype)
    else:
        factor = count / (count - 1)
    return variance * factor


def _require_momentum(name: str, momentum: Any) -> None:
    if getattr(momentum, "shape", None) == ():  # a tensor, whose value a plan may not know
        return
    if not is_number(momentum) or isinstance(momentum, bool):
        raise ArgumentTypeError(f"{name} got momentum {momentum!r}", fix="give a number in [0, 1]")
    if not 0 <= momentum <= 1:
        raise ArgumentError(f"{name} got momentum {momentum}", fix="give a number in [0, 1]")


def _require_several(name: str, x: Any, count: int) -> None:
    if count < 2:
        raise ShapeError(
            f"{name} got {count if count else 'no'} value per channel in {type_of(x)}",
            why="One value has no variance.",
            fix="give a larger batch, or use the running statistics",
        )


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """``x`` [batch, channels, ...] with mean 0 and variance 1 per channel (Ioffe, Szegedy 2015).

    ``training``: by the statistics of ``x``; ``running_mean`` and ``running_var`` [channels] (they
    may be None then) are assigned ``1 - momentum`` times themselves plus ``momentum`` times its
    mean and unbiased variance.  Otherwise by those two.  ``eps`` is added to the variance;
    ``weight`` and ``bias`` are [channels].
    """
    x = as_tensor(x)
    require_channels("batch_norm", x, 2)
    require_eps("batch_norm", eps)
    _require_momentum("batch_norm", momentum)
    running = {"running_mean": running_mean, "running_var": running_var}
    rank, channels = len(x.shape), x.shape[1]
    for label, cell in running.items():
        if cell is None and not training:
            raise ArgumentError(
                f"batch_norm got no {label}", fix="pass one, or the batch's own with training=True"
            )
    parts = {"weight": weight, "bias": bias} | running
    x, weight, bias, mean, variance = affine("batch_norm", x, parts, (channels,))
    if not training:
        scale = rsqrt(variance + eps)
        away = x - along_channels(mean, rank)
        return with_channels(away, scale if weight is None else scale * weight, bias)
    count = x.shape[0] * math.prod(x.shape[2:])
    scope = row_scope()
    if scope is None:
        _require_several("batch_norm", x, count)
        found, mean, variance = _normal_channels(x, weight, bias, eps)
    else:  # by the rows of other processes, too
        found, mean, variance, count = scope.batch_norm(x, weight, bias, eps)
    if running_mean is not None:
        _updated("batch_norm", "running_mean", running_mean, mean, momentum)
    if running_var is not None:
        unbiased = _unbiased(variance, count)
        _updated("batch_norm", "running_var", running_var, unbiased, momentum)
    return found


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """``x`` [batch, channels, size, ...] with mean 0 and variance 1 per channel of each element.

    As ``batch_norm`` for each element of the batch alone; running statistics, if given, take the
    mean over the batch.  Unless ``use_input_stats``, those are used (Ulyanov et al. 2016).
    """
    x = as_tensor(x)
    require_channels("instance_norm", x, 3)
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    require_eps("instance_norm", eps)
    _require_momentum("instance_norm", momentum)
    channels, size = x.shape[1], math.prod(x.shape[2:])
    _require_several("instance_norm", x, size)
    cells = {"running_mean": running_mean, "running_var": running_var}
    parts = {"weight": weight, "bias": bias} | cells
    x, weight, bias, *_ = affine("instance_norm", x, parts, (channels,))
    rows = reshape_to(x, shape=(*x.shape[:2], size))
    if running_mean is not None or running_var is not None:
        fixed = stop_gradient(rows)
        mean = reduce_mean(fixed, axis=(2,), keepdims=True)
        if running_mean is not None:
            new = reduce_mean(mean, axis=(0, 2), keepdims=False)
            _updated("instance_norm", "running_mean", running_mean, new, momentum)
        if running_var is not None:
            squares = reduce_mean(square(fixed - mean), axis=(0, 2), keepdims=False)
            new = _unbiased(squares, size)
            _updated("instance_norm", "running_var", running_var, new, momentum)
    return with_channels(reshaped(plain_rows(normal_rows, rows, eps), x.shape), weight, bias)
