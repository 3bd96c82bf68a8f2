"""Normalisation over rows: values shifted to mean 0 and scaled to variance 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybrid.core.layouts import Split
from hybrid.core.types import Shape, TensorType, shape_of
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir import Op, op
from hybrid.ops.axes.reduction import reduce_mean
from hybrid.ops.elementwise.arithmetic import add, multiply, subtract
from hybrid.ops.elementwise.powers import rsqrt, square
from hybrid.ops.index.indexing import to_rows
from hybrid.ops.shapes.creation import ones, zeros
from hybrid.ops.shapes.shape import reshape_to
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.call_cache import remembered_of_any
from hybrid.ops.support.derivatives import reshaped, unbroadcast, widened
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import (
    as_tensor,
    is_number,
    require_axis,
    require_floating,
    require_same_dtype,
    require_shape,
    type_of,
)

# Rows --------------------------------------------------------------------------------------------


def _require_rows(name: str, x: TensorType, eps: float, **columns: TensorType) -> None:
    require_floating(name, x=x)
    require_axis(name, max(x.rank - 1, 0), x.rank)
    require_same_dtype(name, x, *columns.values())
    for label, type in columns.items():
        require_shape(name, label, type, x.shape[-1:])
    require_eps(name, eps)


def _scale(x: Any, eps: float, centered: bool) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each row (0 unless ``centered``), and 1 over its deviation."""
    with np.errstate(all="ignore"):
        mean = _mean(x) if centered else np.zeros((*x.shape[:-1], 1))
        return mean, 1 / np.sqrt(_mean(np.square(x - mean)) + eps)


def _mean(x: Any) -> np.ndarray:
    return np.sum(x, -1, keepdims=True, dtype=np.float64) / max(x.shape[-1], 1)


def _lower_to(kernel: str, rows: int) -> Any:
    """The first ``rows`` operands and the result are rows, the others columns."""

    def lowering(emit, *views, eps):
        *operands, result = views
        given = [to_rows(emit, v) for v in operands[:rows]]
        given += [emit.dense(v) for v in operands[rows:]]
        emit.kernel(kernel, given, [to_rows(emit, result)], [float(eps)])

    return lowering


def _samples(rows: int, columns: int) -> Any:
    def samples(draw):
        for dtype in draw.floats:
            for shape in [(1,), (5,), (17,), (3, 5), (2, 3, 16), (2, 300), (0, 3), (2, 0)]:
                for eps in (1e-5, 0.5):
                    shapes = [shape] * rows + [shape[-1:]] * columns
                    yield tuple(draw(dtype, *each) for each in shapes), {"eps": eps}

    return samples


@op(name="layer_norm")
def normal_rows(
    x: TensorType, weight: TensorType, bias: TensorType, *, eps: float = 1e-5
) -> TensorType:
    """Rows (last axis) of ``x`` with mean 0 and variance 1, times ``weight``, plus ``bias``.

    ``eps`` is added to the variance (Ba et al. 2016).
    """
    _require_rows("layer_norm", x, eps, weight=weight, bias=bias)
    return x


normal_rows.couples(axis_ties.along_last)


@normal_rows.reference
def layer_norm_reference(x, weight, bias, *, eps):
    mean, scale = _scale(x, eps, True)
    return ((x - mean) * scale * weight + bias).astype(x.dtype)


@normal_rows.vjp
def layer_norm_vjp(ct, _y, x, weight, _bias, *, eps):
    return (
        lambda: layer_norm_pull(ct * weight, x, eps=eps),
        lambda: unbroadcast(ct * plain_rows(normal_rows, x, eps), weight),
        lambda: unbroadcast(ct, _bias),
    )


@normal_rows.jvp
def layer_norm_jvp(tangents, _y, x, weight, _bias, *, eps):
    return _tangent(normal_rows, layer_norm_pull, tangents, x, weight, eps)


@op(name="rms_norm")
def scaled_rows(x: TensorType, weight: TensorType, *, eps: float = 1e-5) -> TensorType:
    """Rows (last axis) of ``x`` over their root mean square, times ``weight``.

    ``eps`` is added to the mean square (Zhang and Sennrich 2019).
    """
    _require_rows("rms_norm", x, eps, weight=weight)
    return x


scaled_rows.couples(axis_ties.along_last)


@scaled_rows.reference
def rms_norm_reference(x, weight, *, eps):
    return (x * _scale(x, eps, False)[1] * weight).astype(x.dtype)


@scaled_rows.vjp
def rms_norm_vjp(ct, _y, x, weight, *, eps):
    return (
        lambda: rms_norm_pull(ct * weight, x, eps=eps),
        lambda: unbroadcast(ct * plain_rows(scaled_rows, x, eps), weight),
    )


@scaled_rows.jvp
def rms_norm_jvp(tangents, _y, x, weight, *, eps):
    return _tangent(scaled_rows, rms_norm_pull, tangents, x, weight, eps)


def plain_rows(rows: Op, x: Any, eps: float) -> Any:
    """``x`` normalised, with weight 1 and bias 0."""
    shape = x.shape[-1:]
    bias = (zeros(shape, dtype=x.dtype),) if rows is normal_rows else ()
    return rows(x, ones(shape, dtype=x.dtype), *bias, eps=eps)


def _tangent(rows: Op, pull: Op, tangents: Any, x: Any, weight: Any, eps: float) -> Any:
    of_x, of_weight, *rest = tangents
    total = None if of_x is None else pull(of_x, x, eps=eps) * weight
    terms = [] if of_weight is None else [plain_rows(rows, x, eps) * of_weight]
    terms += [t for t in rest if t is not None]
    for term in terms:
        total = term if total is None else total + term
    return None if total is None else widened(total, x.shape)


# The Jacobian of a normalised row is symmetric: pulling cotangents back, and pushing tangents on,
# are the same.


def _pulled(g: Any, x: Any, eps: float, centered: bool) -> Any:
    mean, scale = _scale(x, eps, centered)
    normal = (x - mean) * scale
    level = _mean(g) if centered else 0.0
    return ((g - level - normal * _mean(g * normal)) * scale).astype(x.dtype)


def _pulled_by_x(pull: Op, ct: Any, y: Any, g: Any, x: Any, eps: float, centered: bool) -> Any:
    """With scale ``s``, normal row ``h`` and the Jacobian ``J = s (1 - 1/n - h hᵀ/n)``:

    the gradient of ``ct·J g`` by ``x`` is ``-s/n ((ct·y) h + (g·h) J ct + (ct·h) y)``, ``y = J g``.
    """

    def mean(v):
        return reduce_mean(v, axis=(len(x.shape) - 1,), keepdims=True)

    away = x - mean(x) if centered else x
    scale = rsqrt(mean(square(away)) + eps)
    normal = away * scale
    terms = mean(ct * y) * normal + mean(g * normal) * pull(ct, x, eps=eps)
    return -scale * (terms + mean(ct * normal) * y)


@op
def layer_norm_pull(g: TensorType, x: TensorType, *, eps: float = 1e-5) -> TensorType:
    """The Jacobian of ``layer_norm`` (of weight 1 and bias 0) at ``x``, applied to ``g``."""
    return _pull_type("layer_norm_pull", g, x, eps)


@layer_norm_pull.reference
def layer_norm_pull_reference(g, x, *, eps):
    return _pulled(g, x, eps, True)


@layer_norm_pull.vjp
def layer_norm_pull_vjp(ct, y, g, x, *, eps):
    by_g = layer_norm_pull(ct, x, eps=eps)
    return by_g, lambda: _pulled_by_x(layer_norm_pull, ct, y, g, x, eps, True)


@op
def rms_norm_pull(g: TensorType, x: TensorType, *, eps: float = 1e-5) -> TensorType:
    """The Jacobian of ``rms_norm`` (of weight 1) at ``x``, applied to ``g``."""
    return _pull_type("rms_norm_pull", g, x, eps)


@rms_norm_pull.reference
def rms_norm_pull_reference(g, x, *, eps):
    return _pulled(g, x, eps, False)


@rms_norm_pull.vjp
def rms_norm_pull_vjp(ct, y, g, x, *, eps):
    by_g = rms_norm_pull(ct, x, eps=eps)
    return by_g, lambda: _pulled_by_x(rms_norm_pull, ct, y, g, x, eps, False)


def _pull_type(name: str, g: TensorType, x: TensorType, eps: float) -> TensorType:
    _require_rows(name, x, eps)
    require_same_dtype(name, g, x)
    require_shape(name, "g", g, x.shape)
    return x


for _op, _rows, _columns in [
    (normal_rows, 1, 2),
    (scaled_rows, 1, 1),
    (layer_norm_pull, 2, 0),
    (rms_norm_pull, 2, 0),
]:
    _op.lowering(_lower_to(_op.name, _rows))
    _op.samples(_samples(_rows, _columns))

# By ranks that have parts of the rows ------------------------------------------------------------


def _sharing(centered: bool, columns: int) -> shared_work.Rule:
    """Each rank has some rows, or some columns of all: then their means are made of all ranks'."""

    def mean(work, v):
        axis = len(v.type.shape) - 1
        return work.mean(reduce_mean(v, axis=(axis,), keepdims=True))

    def scaled(work, x, eps):
        away = subtract(x, mean(work, x)) if centered else x
        level = mean(work, multiply(away, away))
        return away, rsqrt(add(level, work.number(eps, level)))

    def normal(work, x, weight, *bias, eps):
        away, scale = scaled(work, x, eps)
        found = multiply(multiply(away, scale), weight)
        return add(found, bias[0]) if bias else found

    def pulled(work, g, x, *, eps):
        away, scale = scaled(work, x, eps)
        row = multiply(away, scale)
        level = subtract(g, mean(work, g)) if centered else g
        return multiply(subtract(level, multiply(row, mean(work, multiply(g, row)))), scale)

    rows = shared_work.tied(axis_ties.along_last)

    def rule(cut, operands, results, **attrs):
        last = cut.of(operands[0], operands[0].rank - 1)
        if last is None:
            return rows(cut, operands, results, **attrs)
        places = (last,) * (len(operands) - columns) + (Split(0),) * columns
        way = shared_work.SharedWay(places, (last,), normal if columns else pulled)
        return [*rows(cut, operands, results, **attrs), way]

    return rule


normal_rows.shares(_sharing(True, 2))
scaled_rows.shares(_sharing(False, 1))
layer_norm_pull.shares(_sharing(True, 0))
rms_norm_pull.shares(_sharing(False, 0))

# Functions ---------------------------------------------------------------------------------------


def require_eps(name: str, eps: Any) -> None:
    """Raise unless ``eps`` is a number that may be added to a variance."""
    if not is_number(eps) or isinstance(eps, bool):
        raise ArgumentTypeError(f"{name} got eps {eps!r}", fix="give a small number")
    if not 0 <= eps < math.inf:
        raise ArgumentError(f"{name} got eps {eps}", fix="give a number of at least 0")


def affine(name: str, x: Any, parts: dict[str, Any], shape: Shape) -> list[Any]:
    """``x`` and the given ``parts`` in their common dtype; each of those must have ``shape``."""
    given = {label: part for label, part in parts.items() if part is not None}
    x, *found = common(x, *given.values())
    require_floating(name, x=type_of(x))
    for label, part in zip(given, found, strict=True):
        require_shape(name, label, type_of(part), shape)
    known = dict(zip(given, found, strict=True))
    return [x, *[known.get(label) for label in parts]]


def _merged(name: str, x: Any, normalized_shape: Any) -> tuple[Shape, Shape]:
    """``normalized_shape``, and the shape of ``x`` with its axes merged into one."""
    shape = shape_of(normalized_shape)
    rank = len(x.shape) - len(shape)
    if not shape or rank < 0 or x.shape[rank:] != shape:
        raise ShapeError(
            f"{name} cannot normalise {type_of(x)} over {list(shape)}",
            why="The normalised shape is that of the last axes, of one at least.",
            fix=f"give {x.shape[-1]}, the size of the last axis" if len(x.shape) else "",
        )
    return shape, (*x.shape[:rank], math.prod(shape))


@remembered_of_any
def layer_norm(
    x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """``x`` with mean 0 and variance 1 over its last axes, which have ``normalized_shape``.

    The result is multiplied by ``weight`` and added to ``bias``, which have that shape; ``eps`` is
    added to the variance (Ba et al. 2016).
    """
    x = as_tensor(x)
    shape, merged = _merged("layer_norm", x, normalized_shape)
    parts = {"weight": weight, "bias": bias}
    x, weight, bias = affine("layer_norm", x, parts, shape)
    column = merged[-1:]
    weight = ones(column, dtype=x.dtype) if weight is None else reshaped(weight, column)
    bias = zeros(column, dtype=x.dtype) if bias is None else reshaped(bias, column)
    return reshaped(normal_rows(reshaped(x, merged), weight, bias, eps=eps), x.shape)


@remembered_of_any
def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """``x`` over its root mean square over its last axes, which have ``normalized_shape``.

    The result is multiplied by ``weight`` of that shape; ``eps`` (by default that of the dtype) is
    added to the mean square (Zhang and Sennrich 2019).
    """
    x = as_tensor(x)
    shape, merged = _merged("rms_norm", x, normalized_shape)
    x, weight = affine("rms_norm", x, {"weight": weight}, shape)
    column = merged[-1:]
    weight = ones(column, dtype=x.dtype) if weight is None else reshaped(weight, column)
    eps = float(np.finfo(x.dtype.numpy).eps) if eps is None else eps
    return reshaped(scaled_rows(reshaped(x, merged), weight, eps=eps), x.shape)


def along_channels(v: Any, rank: int) -> Any:
    """A vector [channels] so that it broadcasts along axis 1 of ``rank``."""
    return reshaped(v, (*v.shape, *(1,) * (rank - 2)))


def with_channels(y: Any, weight: Any, bias: Any) -> Any:
    """``y`` times ``weight`` plus ``bias``, vectors along axis 1 or None."""
    rank = len(y.shape)
    if weight is not None:
        y = y * along_channels(weight, rank)
    return y if bias is None else y + along_channels(bias, rank)


def require_channels(name: str, x: Any, rank: int) -> None:
    """Raise unless ``x`` has a batch, channels, and with ``rank`` 3 more axes."""
    if len(x.shape) < rank:
        raise ShapeError(
            f"{name} cannot take {type_of(x)}",
            why=f"It takes [batch, channels{', ...' if rank < 3 else ', size, ...'}].",
            fix="add axes with expand_dims",
        )


@remembered_of_any
def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """``x`` [batch, channels, ...] with mean 0 and variance 1 over each of ``num_groups`` groups.

    A group is as many channels that follow each other, of one element of the batch; ``weight`` and
    ``bias`` are [channels] (Wu and He 2018).
    """
    x = as_tensor(x)
    require_channels("group_norm", x, 2)
    count, channels = x.shape[:2]
    if isinstance(num_groups, bool) or not isinstance(num_groups, int):
        raise ArgumentTypeError(f"group_norm got num_groups {num_groups!r}", fix="give an int")
    if num_groups < 1 or channels % num_groups:
        raise ArgumentError(
            f"group_norm cannot make {num_groups} groups of {channels} channels",
            why="All groups have as many channels.",
            fix="give a divisor of the number of channels",
        )
    x, weight, bias = affine("group_norm", x, {"weight": weight, "bias": bias}, (channels,))
    size = channels // num_groups * math.prod(x.shape[2:])
    rows = reshape_to(x, shape=(count, num_groups, size))
    return with_channels(reshaped(plain_rows(normal_rows, rows, eps), x.shape), weight, bias)
