"""Softmax, its logarithm, and the cross-entropy of class targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.layouts import Split
from hybrid.core.types import TensorType, int64
from hybrid.errors import ShapeError
from hybrid.ir import op
from hybrid.ops.axes.reduction import reduce_max, reduce_sum
from hybrid.ops.elementwise.arithmetic import divide, multiply, subtract
from hybrid.ops.elementwise.comparison import select as where_
from hybrid.ops.elementwise.exponential import exp, log
from hybrid.ops.index.indexing import scatter_along_add, take_along
from hybrid.ops.shapes.creation import fill, zeros
from hybrid.ops.shapes.shape import reshape_to
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import along_axes, with_rows
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import linear, reshaped
from hybrid.ops.support.operand_checks import (
    as_tensor,
    normalize_axis,
    require_axis,
    require_dtype,
    require_floating,
    require_rank,
    require_shape,
)


def _sum_along(x: Any, axis: int) -> Any:
    return reduce_sum(x, axis=(axis,), keepdims=True)


def _lower_to(kernel: str) -> Any:
    """The kernels work on rows; another axis is moved last by copies."""

    def lowering(emit, x, result, *, axis):
        last = x.rank - 1
        source = emit.dense(x.swap(axis, last))
        rows = (x.size // max(source.shape[-1], 1), source.shape[-1])
        if axis == last:
            emit.kernel(kernel, [source.reshape(rows)], [result.reshape(rows)])
            return
        moved = emit.temporary(x.dtype, source.shape)
        emit.kernel(kernel, [source.reshape(rows)], [moved.reshape(rows)])
        emit.kernel("copy", [moved.swap(axis, last)], [result])

    return lowering


@op(name="softmax")
def soft_maximum(x: TensorType, *, axis: int) -> TensorType:
    """Exponentials of ``x`` along ``axis``, scaled to sum to one.

    The maximum is subtracted first, so no input overflows; a row of ``-inf`` gives NaN.
    """
    require_floating("softmax", x=x)
    require_axis("softmax", axis, x.rank)
    return x


@soft_maximum.reference
def softmax_reference(x, *, axis):
    if x.size == 0:
        return x
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=axis, keepdims=True))
    return (e / e.sum(axis=axis, keepdims=True)).astype(x.dtype)


@soft_maximum.vjp
def softmax_vjp(ct, y, _x, *, axis):
    """The Jacobian ``diag(y) - y yᵀ`` is symmetric; apply it without forming it."""
    return (y * (ct - _sum_along(ct * y, axis)),)


@soft_maximum.jvp
def softmax_jvp(tangents, y, _x, *, axis):
    return softmax_vjp(tangents[0], y, _x, axis=axis)[0]


@op(name="log_softmax")
def log_soft_maximum(x: TensorType, *, axis: int) -> TensorType:
    """``x`` less the logarithm of the sum of its exponentials along ``axis``."""
    require_floating("log_softmax", x=x)
    require_axis("log_softmax", axis, x.rank)
    return x


@log_soft_maximum.reference
def log_softmax_reference(x, *, axis):
    if x.size == 0:
        return x
    wide = x.astype(np.float64)
    below = wide - wide.max(axis=axis, keepdims=True)
    return (below - np.log(np.exp(below).sum(axis=axis, keepdims=True))).astype(x.dtype)


@log_soft_maximum.vjp
def log_softmax_vjp(ct, y, _x, *, axis):
    return (ct - exp(y) * _sum_along(ct, axis),)


@log_soft_maximum.jvp
def log_softmax_jvp(tangents, y, _x, *, axis):
    return tangents[0] - _sum_along(exp(y) * tangents[0], axis)


for _op in (soft_maximum, log_soft_maximum):
    _op.lowering(_lower_to(_op.name))


def parts_of_softmax(work: Any, x: Any, axis: int) -> tuple[Any, Any, Any]:
    """``x`` less the maximum, the exponentials of that, and their sum, along an axis of which each
    rank has a part.
    """
    top = work.joined(reduce_max, reduce_max(x, axis=(axis,), keepdims=True))
    below = subtract(x, top)
    powers = exp(below)
    return below, powers, work.sum(_sum_along(powers, axis))


def _by_parts(work, x, *, axis):
    _, powers, total = parts_of_softmax(work, x, axis)
    return divide(powers, total)


def _logs_by_parts(work, x, *, axis):
    below, _, total = parts_of_softmax(work, x, axis)
    return subtract(below, log(total))


def _sharing(compute: Any) -> shared_work.Rule:
    rows = shared_work.tied(axis_ties.along_axis)

    def rule(cut, operands, results, *, axis):
        ways = rows(cut, operands, results, axis=axis)
        split = cut.of(operands[0], axis % operands[0].rank)
        if split:
            ways.append(shared_work.SharedWay((split,), (split,), compute))
        return ways

    return rule


soft_maximum.shares(_sharing(_by_parts))
log_soft_maximum.shares(_sharing(_logs_by_parts))

for _op in (soft_maximum, log_soft_maximum):
    _op.batch(along_axes(_op))
    _op.couples(axis_ties.along_axis)


@soft_maximum.samples
@log_soft_maximum.samples
def softmax_samples(draw):
    for dtype in draw.floats:
        for shape, axis in [((1,), 0), ((17,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 300, 3), 1)]:
            yield (draw(dtype, *shape, low=-5, high=5),), {"axis": axis}
        yield (draw(dtype, 0, 3),), {"axis": 1}


@op(kernel="cross_entropy", name="cross_entropy", raises=True)
def class_entropy(logits: TensorType, targets: TensorType) -> TensorType:
    """``logsumexp(logits[i]) - logits[i, targets[i]]`` for logits [n, classes] and targets [n]."""
    return _targeted("cross_entropy", logits, targets)


def _targeted(name: str, logits: TensorType, targets: TensorType) -> TensorType:
    require_floating(name, logits=logits)
    require_rank(name, "logits", logits, 2)
    require_dtype(name, "targets", targets, int64)
    if targets.shape != logits.shape[:1]:
        raise ShapeError(
            f"{name} cannot take {logits} and {targets}",
            why="There must be one target for each row of logits.",
            fix="change the shape of the targets",
        )
    return logits.with_shape(targets.shape)


@class_entropy.reference
def cross_entropy_reference(logits, targets):
    logs = log_softmax_reference(logits.astype(np.float64), axis=1)
    return -logs[np.arange(len(targets)), targets].astype(logits.dtype)


@class_entropy.vjp
def cross_entropy_vjp(ct, _y, logits, targets):
    """``(softmax - one_hot) * ct``."""
    return entropy_pull(logits, targets, ct), None


@class_entropy.jvp
def cross_entropy_jvp(tangents, y, logits, targets):
    mean = _sum_along(soft_maximum(logits, axis=1) * tangents[0], 1)
    at_target = take_along(tangents[0], reshaped(targets, (*targets.shape, 1)))
    return reshaped(mean - at_target, y.shape)


@class_entropy.batch
def cross_entropy_batch(rows, batched, logits, targets):
    logits, targets = with_rows(logits, rows, batched[0]), with_rows(targets, rows, batched[1])
    count, classes = logits.shape[1:]
    flat = reshaped(logits, (rows * count, classes)), reshaped(targets, (rows * count,))
    return reshaped(class_entropy(*flat), (rows, count))


@op(kernel="cross_entropy_pull", name="cross_entropy_pull", raises=True)
def entropy_pull(logits: TensorType, targets: TensorType, ct: TensorType) -> TensorType:
    """``(softmax(logits[i]) - one_hot(targets[i])) * ct[i]`` for each row i.

    It is the gradient of ``cross_entropy`` by the logits [n, classes], for the cotangent ct [n].
    """
    expected = _targeted("cross_entropy_pull", logits, targets)
    require_dtype("cross_entropy_pull", "ct", ct, expected.dtype)
    require_shape("cross_entropy_pull", "ct", ct, expected.shape)
    return logits


@entropy_pull.reference
def entropy_pull_reference(logits, targets, ct):
    slopes = softmax_reference(logits.astype(np.float64), axis=1)
    slopes[np.arange(len(targets)), targets] -= 1
    return (slopes * ct.astype(np.float64)[:, None]).astype(logits.dtype)


@entropy_pull.vjp
def entropy_pull_vjp(g, _y, logits, targets, ct):
    """Of ``(s - one_hot) ct`` with s of slopes ``diag(s) - s s^T``."""
    shares = soft_maximum(logits, axis=1)
    weighted, column = shares * g, reshaped(ct, (*ct.shape, 1))
    mean = _sum_along(weighted, 1)
    at_target = take_along(g, reshaped(targets, (*targets.shape, 1)))
    slopes = (weighted - shares * mean) * column
    return slopes, None, reshaped(mean - at_target, ct.shape)


@entropy_pull.batch
def entropy_pull_batch(rows, batched, *operands):
    logits, targets, ct = map(lambda x, b: with_rows(x, rows, b), operands, batched)
    count, classes = logits.shape[1:]
    flat = [reshaped(logits, (rows * count, classes))]
    flat += [reshaped(x, (rows * count,)) for x in (targets, ct)]
    return reshaped(entropy_pull(*flat), (rows, count, classes))


@entropy_pull.samples
def entropy_pull_samples(draw):
    for dtype in draw.floats:
        for rows, classes in [(1, 1), (5, 3), (17, 33), (0, 3)]:
            targets = draw("int64", rows, low=0, high=classes - 1)
            logits = draw(dtype, rows, classes, low=-5, high=5)
            yield (logits, targets, draw(dtype, rows, low=-2, high=2)), {}


@op(kernel="class_at", raises=True)
def class_at(logits: TensorType, targets: TensorType) -> TensorType:
    """``logits[i, targets[i]]`` for logits [n, classes] and targets [n], which count from 0."""
    return _targeted("class_at", logits, targets)


@class_at.reference
def class_at_reference(logits, targets):
    return logits[np.arange(len(targets)), targets]


@linear(class_at)
def class_at_vjp(ct, _y, _logits, targets):
    column = (*ct.shape, 1)
    places, share = reshaped(targets, column), reshaped(ct, column)
    return scatter_along_add(zeros(_logits.shape, dtype=ct.dtype), places, share), None


@class_entropy.samples
@class_at.samples
def cross_entropy_samples(draw):
    for dtype in draw.floats:
        for rows, classes in [(1, 1), (5, 3), (17, 33), (0, 3)]:
            targets = draw("int64", rows, low=0, high=classes - 1)
            yield (draw(dtype, rows, classes, low=-5, high=5), targets), {}


# By ranks that have some of the classes ----------------------------------------------------------


def _rows_of(operands: Any, results: Any) -> list[axis_ties.Tie]:
    places = [(place, 0) for place in range(len(operands))]
    return [axis_ties.along(operands, results, [*places, (~0, 0)])]


def _at_target(work: Any, logits: Any, targets: Any) -> Any:
    """The logits of the targets; zero where another rank has that class."""
    inside, own = work.own_indices(targets, logits.type.shape[1])
    found = class_at(logits, own)
    return work.sum(where_(inside, found, work.number(0.0, found)))


def _entropy_by_parts(work, logits, targets):
    work.check_indices(targets, logits.type.shape[1])
    below, _, total = parts_of_softmax(work, logits, 1)
    rows = targets.type.shape
    return subtract(reshape_to(log(total), shape=rows), _at_target(work, below, targets))


def _pull_by_parts(work, logits, targets, ct):
    work.check_indices(targets, logits.type.shape[1])
    _, powers, total = parts_of_softmax(work, logits, 1)
    shares = divide(powers, total)
    inside, own = work.own_indices(targets, logits.type.shape[1])
    column = (*targets.type.shape, 1)
    one = where_(inside, work.number(1.0, shares), work.number(0.0, shares))
    zeros_ = fill(shape=shares.type.shape, value=0.0, dtype=shares.type.dtype)
    chosen = scatter_along_add(zeros_, reshape_to(own, shape=column), reshape_to(one, shape=column))
    return multiply(subtract(shares, chosen), reshape_to(ct, shape=column))


def _class_by_parts(work, logits, targets):
    work.check_indices(targets, logits.type.shape[1])
    return _at_target(work, logits, targets)


def _by_classes(compute: Any, ends: Any) -> shared_work.Rule:
    rows = shared_work.tied(_rows_of)

    def rule(cut, operands, results):
        ways, classes = rows(cut, operands, results), cut.of(operands[0], 1)
        if classes:
            places = (classes, *[None] * (len(operands) - 1))
            ways.append(shared_work.SharedWay(places, (ends,), compute))
        return ways

    return rule


class_entropy.shares(_by_classes(_entropy_by_parts, None))
entropy_pull.shares(_by_classes(_pull_by_parts, Split(1)))
class_at.shares(_by_classes(_class_by_parts, None))

# Functions ---------------------------------------------------------------------------------------


@remembered
def softmax(x: Any, /, axis: int = -1) -> Any:
    """Exponentials of ``x`` along ``axis``, scaled to sum to one."""
    x = as_tensor(x)
    return soft_maximum(x, axis=normalize_axis("softmax", axis, len(x.shape)))


@remembered
def log_softmax(x: Any, /, axis: int = -1) -> Any:
    """The logarithm of softmax, accurate where that is nearly 0."""
    x = as_tensor(x)
    return log_soft_maximum(x, axis=normalize_axis("log_softmax", axis, len(x.shape)))
