"""Reductions along axes, running sums, and places of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.core import types
from hybrid.onnx.known_values import axes_of, axis_of, number_of, numbers_of
from hybrid.onnx.node_table import handles


def _axes(x: Any, axes: list[Any] | None, noop: int) -> tuple[int, ...] | None:
    """Axes from the front; none where nothing is reduced."""
    if not axes:
        return () if noop and axes is not None else tuple(range(x.ndim))
    return tuple(axes_of(axes, x.ndim))


def _l1(x: Any, axes: Any, keep: bool) -> Any:
    return ops.sum(ops.abs(x), axis=axes, keepdims=keep, dtype=x.dtype)


def _l2(x: Any, axes: Any, keep: bool) -> Any:
    wide = x if x.dtype.is_floating else ops.astype(x, types.float64)
    root = ops.sqrt(ops.sum(ops.square(wide), axis=axes, keepdims=keep))
    return root if x.dtype.is_floating else ops.astype(root, x.dtype)


def _sum(x: Any, axes: Any, keep: bool) -> Any:
    return ops.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _log_sum(x: Any, axes: Any, keep: bool) -> Any:
    return ops.log(_sum(x, axes, keep))


def _log_sum_exp(x: Any, axes: Any, keep: bool) -> Any:
    if 0 in [x.shape[axis] for axis in axes]:
        return _log_sum(ops.exp(x), axes, keep)
    return ops.logsumexp(x, axis=axes, keepdims=keep)


def _mean(x: Any, axes: Any, keep: bool) -> Any:
    if x.dtype.is_floating:
        return ops.mean(x, axis=axes, keepdims=keep)
    return ops.astype(ops.mean(ops.astype(x, types.float64), axis=axes, keepdims=keep), x.dtype)


def _prod(x: Any, axes: Any, keep: bool) -> Any:
    return ops.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _sum_square(x: Any, axes: Any, keep: bool) -> Any:
    return _sum(ops.multiply(x, x), axes, keep)


def _extreme(function: Callable[..., Any], any_: Callable[..., Any], greatest: bool) -> Any:
    """Max or min; of bools whether any or all hold, of nothing the least or greatest number."""

    def reduce(x: Any, axes: Any, keep: bool) -> Any:
        if x.dtype is types.bool_:
            return any_(x, axis=axes, keepdims=keep)
        empty = [axis for axis in axes if type(x.shape[axis]) is int and x.shape[axis] == 0]
        if not empty:
            return function(x, axis=axes, keepdims=keep)
        shape = [
            (1 if axis in axes else n) for axis, n in enumerate(x.shape) if keep or axis not in axes
        ]
        if x.dtype.is_floating:
            number: float = float("-inf") if greatest else float("inf")
        else:
            limits = np.iinfo(x.dtype.numpy)
            number = limits.min if greatest else limits.max
        return ops.full(tuple(shape), number, dtype=x.dtype)

    return reduce


_REDUCE: dict[str, tuple[Callable[..., Any], Any, tuple[int, ...], tuple[int, ...]]] = {
    # op: function, that of known values, versions with axes as attributes, and as an input
    "L1": (_l1, None, (1, 11, 13), (18,)),
    "L2": (_l2, None, (1, 11, 13), (18,)),
    "LogSum": (_log_sum, None, (1, 11, 13), (18, 28)),
    "LogSumExp": (_log_sum_exp, None, (1, 11, 13), (18, 28)),
    "Max": (_extreme(ops.max, ops.any, True), np.max, (1, 11, 12, 13), (18, 20)),
    "Mean": (_mean, None, (1, 11, 13), (18,)),
    "Min": (_extreme(ops.min, ops.all, False), np.min, (1, 11, 12, 13), (18, 20)),
    "Prod": (_prod, np.prod, (1, 11, 13), (18,)),
    "Sum": (_sum, np.sum, (1, 11), (13,)),
    "SumSquare": (_sum_square, None, (1, 11, 13), (18,)),
}


def _register(op: str) -> None:
    function, numpy_function, before, since = _REDUCE[op]
    word = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in op)

    def known(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        given = None if axes is None else numbers_of(axes)
        found = _axes(x, given, noop_with_empty_axes)
        return numpy_function(x, axis=found, keepdims=bool(keepdims))

    def reduce(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        given = None if axes is None else numbers_of(axes)
        if noop_with_empty_axes and not given:
            return x if op not in _OF_ONE else _OF_ONE[op](x)
        return function(x, _axes(x, given, 0), bool(keepdims))

    def reduce_axes(x, *, axes=None, keepdims=1):
        return function(x, _axes(x, axes, 0), bool(keepdims))

    reduce.__name__, reduce_axes.__name__ = f"reduce{word}", f"reduce{word}_axes"
    reduce.__doc__ = f"Reduce{op}: over the axes, over all if there are none."
    reduce_axes.__doc__ = f"Reduce{op} with its axes as an attribute."
    of_known = None if numpy_function is None else known
    globals()[reduce.__name__] = handles(f"Reduce{op}", *since, values=(1,), known=of_known)(reduce)
    globals()[reduce_axes.__name__] = handles(f"Reduce{op}", *before)(reduce_axes)


# What a reduction over no axes does to each element.
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "L1": ops.abs,
    "L2": ops.abs,
    "LogSum": ops.log,
    "SumSquare": lambda x: ops.multiply(x, x),
}

for _op in _REDUCE:
    _register(_op)


def _place(function: Any, x: Any, axis: int, keepdims: int, last: int) -> Any:
    if not last:
        return function(x, axis=axis, keepdims=bool(keepdims))
    found = function(ops.flip(x, axis=axis), axis=axis, keepdims=bool(keepdims))
    return ops.subtract(x.shape[axis] - 1, found)


@handles("ArgMax", 12, 13)
def arg_max(x, *, axis=0, keepdims=1, select_last_index=0):
    """ArgMax: where the largest is, the first or last of equal ones."""
    return _place(ops.argmax, x, axis, keepdims, select_last_index)


@handles("ArgMax", 1, 11)
def arg_max_first(x, *, axis=0, keepdims=1):
    """ArgMax: the first of equal ones, opsets 1 to 11."""
    return _place(ops.argmax, x, axis, keepdims, 0)


@handles("ArgMin", 12, 13)
def arg_min(x, *, axis=0, keepdims=1, select_last_index=0):
    """ArgMin: where the smallest is, the first or last of equal ones."""
    return _place(ops.argmin, x, axis, keepdims, select_last_index)


@handles("ArgMin", 1, 11)
def arg_min_first(x, *, axis=0, keepdims=1):
    """ArgMin: the first of equal ones, opsets 1 to 11."""
    return _place(ops.argmin, x, axis, keepdims, 0)


def _running(function: Any, x: Any, axis: int, exclusive: int, reverse: int) -> Any:
    if reverse:
        x = ops.flip(x, axis=axis)
    y = function(x, axis=axis, dtype=x.dtype, include_initial=bool(exclusive))
    if exclusive:
        key = [slice(None)] * x.ndim
        key[axis] = slice(0, x.shape[axis])
        y = ops.getitem(y, tuple(key))
    return ops.flip(y, axis=axis) if reverse else y


@handles("CumSum", 11, 14, values=(1,))
def cum_sum(x, axis, *, exclusive=0, reverse=0):
    """CumSum: running sums along ``axis``."""
    return _running(ops.cumulative_sum, x, axis_of(number_of(axis), x.ndim), exclusive, reverse)


@handles("CumProd", 26, values=(1,))
def cum_prod(x, axis, *, exclusive=0, reverse=0):
    """CumProd: running products along ``axis``."""
    return _running(ops.cumulative_prod, x, axis_of(number_of(axis), x.ndim), exclusive, reverse)
