"""Matrix products and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.dataclass import replace
from hybrid.core.types import Shape, TensorType, bfloat16, float32, tensor_type
from hybrid.errors import ArgumentError, ShapeError
from hybrid.ir import Emit, View, op
from hybrid.ops.axes import reduction
from hybrid.ops.shapes.shape import matrix_transpose, permute, reshape_to
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import aligned
from hybrid.ops.support.call_cache import remembered_of_any, remembered_of_two
from hybrid.ops.support.derivatives import reshaped, unbroadcast
from hybrid.ops.support.dtypes import common
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    broadcast_shapes,
    normalize_axis,
    require_numeric,
    require_sequence,
    type_of,
)


@op(name="matmul", promotes=True, narrow=bfloat16)
def product(a: TensorType, b: TensorType) -> TensorType:
    """Matrix products of ``a`` [..., M, K] and ``b`` [..., K, N]; leading axes broadcast.

    Those of bfloat16 are summed in float32 and rounded once.
    """
    require_numeric("matmul", a=a, b=b)
    return tensor_type(a.dtype, product_shape("matmul", a, b))


def product_shape(name: str, a: TensorType, b: TensorType) -> Shape:
    """The shape of the products of two stacks of matrices."""
    if a.rank < 2 or b.rank < 2 or a.shape[-1] != b.shape[-2]:
        why = "Both need at least two dimensions."
        if a.rank >= 2 and b.rank >= 2:
            why = (
                f"The last axis of the first ({a.shape[-1]}) must be as long as the last but one "
                f"of the second ({b.shape[-2]})."
            )
        raise ShapeError(
            f"{name} cannot take {a} and {b}",
            why=why,
            fix="transpose one with matrix_transpose, or change a shape",
        )
    return (*batch_shape(name, a, b), a.shape[-2], b.shape[-1])


def batch_shape(name: str, a: TensorType, b: TensorType) -> Shape:
    """What the leading axes of two stacks of matrices broadcast to."""
    try:
        return broadcast_shapes(name, *[tensor_type(t.dtype, t.shape[:-2]) for t in (a, b)])
    except ShapeError:
        raise ShapeError(
            f"{name} cannot take {a} and {b}",
            why=f"Their leading axes {list(a.shape[:-2])} and {list(b.shape[:-2])} must agree or "
            "be 1.",
            fix="change a shape with reshape or expand_dims",
        ) from None


product.couples(axis_ties.product((-2, -1), (-2, -1)))
product.shares(
    shared_work.tied(axis_ties.product((-2, -1), (-2, -1)), linear=[(0,), (1,)], sums=True)
)


@product.reference
def matmul_reference(a, b):
    if a.dtype.kind == "f":
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    return np.matmul(a, b)


def _readable(view: View) -> View | None:
    """``view`` with strides as the kernel reads them; None when it cannot.

    One of the two steps by elements, the other by at least as much as that spans.
    """
    rows, columns = view.shape[-2:]
    row, column = view.strides[-2:]
    if column == 1 or columns == 1:
        row, column = (row if rows != 1 else columns), 1
        fits = row >= columns
    else:
        row, column = 1, column
        fits = (view.strides[-2] == 1 or rows == 1) and column >= rows
    return replace(view, strides=(*view.strides[:-2], row, column)) if fits else None


def _batched(emit: Emit, view: View, batch: Shape) -> View:
    """``view`` as [batch, rows, columns] for the kernel; a copy when strides forbid it."""
    rows, columns = view.shape[-2:]
    matrix = _readable(view)
    if matrix is None:
        matrix = emit.dense(view)
    if math.prod(matrix.shape[:-2]) == 1:  # one matrix for all
        return replace(
            matrix,
            shape=(math.prod(batch), rows, columns),
            strides=(0, *matrix.strides[-2:]),
        )
    wide = matrix.broadcast((*batch, rows, columns))
    stride, step = None, None
    for n, s in zip(reversed(batch), reversed(wide.strides[:-2]), strict=True):
        if n == 1:
            continue
        stride = s if stride is None else stride
        if s < 0 or (step is not None and s != step):
            return emit.dense(wide).reshape((math.prod(batch), rows, columns))
        step = s * n
    return replace(
        wide,
        shape=(math.prod(batch), rows, columns),
        strides=(stride or 0, *wide.strides[-2:]),
    )


def _tall_view(emit: Emit, view: View, batch: Shape) -> View:
    """The matrices of ``view`` below each other; it is dense, or they have one row each."""
    rows, inner = view.shape[-2:]
    shape = (math.prod(batch) * rows, inner)
    if not view.dense:
        stack = _batched(emit, view, batch)
        step, _, column = stack.strides
        if column == 1 or step == 1 or shape[0] == 1:
            return replace(stack, shape=shape, strides=(step, column))
        view = emit.dense(view)
    return view.reshape(shape)


@product.lowering
def matmul_lowering(emit, a, b, result):
    if result.dtype is not bfloat16 or emit.offers("matmul", bfloat16):
        lower_product(emit, "matmul", a, b, result)
        return
    wide = [emit.temporary(float32, view.shape) for view in (a, b, result)]
    for view, place in zip((a, b), wide[:2], strict=True):
        emit.kernel("cast_f32", [view], [place])
    lower_product(emit, "matmul", *wide)
    emit.kernel("cast_bf16", [wide[2]], [result])


def lower_product(emit: Emit, kernel: str, a: View, b: View, result: View) -> None:
    """The products of ``a`` and ``b`` by ``kernel``, which reads matrices as they lie."""
    batch = result.shape[:-2]
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    if result.size == 0:
        return
    if inner == 0:
        zero = emit.constant(result.dtype, 0).broadcast(result.shape)
        emit.kernel("copy", [zero], [result])
        return
    count = math.prod(batch)
    if math.prod(b.shape[:-2]) == 1 and (a.dense or rows == 1):
        # One matrix on the right: all rows on the left are one tall matrix.  Where each has one row
        # they have to be, however they lie: kernels sum a single row in an order of its own.
        a, b = _tall_view(emit, a, batch), b.squeeze(range(b.rank - 2))
        rows, count, batch = count * rows, 1, ()
    emit.kernel(
        kernel,
        [_batched(emit, a, batch), _batched(emit, b, batch)],
        [result.reshape((count, rows, columns))],
    )


@product.vjp
def matmul_vjp(ct, _y, a, b):
    def by_a():
        return unbroadcast(product_nt(ct, b), a)

    def by_b():
        if len(b.shape) == 2 < len(a.shape):  # one product instead of a batch of them to add up
            return product_tn(_tall(a), _tall(ct))
        return unbroadcast(product_tn(a, ct), b)

    return by_a, by_b


def _tall(x: Any) -> Any:
    """The matrices of ``x`` below each other."""
    return reshape_to(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


@product.jvp
def matmul_jvp(tangents, _y, a, b):
    of_a, of_b = tangents
    left = None if of_a is None else product(of_a, b)
    right = None if of_b is None else product(a, of_b)
    if left is None or right is None:
        return right if left is None else left
    return left + right


@product.samples
def matmul_samples(draw):
    for dtype in ["int32", "int64", "float32", "float64"]:
        for a, b in [
            ((1, 1), (1, 1)),
            ((3, 4), (4, 5)),
            ((17, 33), (33, 18)),
            ((2, 3, 4), (4, 5)),
            ((3, 4), (2, 4, 5)),
            ((2, 3, 4), (2, 4, 5)),
            ((2, 1, 3, 4), (5, 4, 2)),
            ((3, 0), (0, 4)),
            ((0, 3), (3, 4)),
            ((1, 64), (64, 1)),
        ]:
            yield (draw(dtype, *a), draw(dtype, *b)), {}


def _transposed(x: TensorType) -> TensorType:
    if x.rank < 2:
        raise ShapeError(
            f"the transpose of {x} was asked for",
            why="It needs at least two dimensions.",
            fix="reshape it",
        )
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


@op(name="matmul_nt", promotes=True, narrow=bfloat16)
def product_nt(a: TensorType, b: TensorType) -> TensorType:
    """``a @ b.mT``: eagerly it reads ``b`` as it lies, without a transposed copy."""
    return product.rule(a, _transposed(b))


product_nt.couples(axis_ties.product((-2, -1), (-1, -2)))
product_nt.shares(
    shared_work.tied(axis_ties.product((-2, -1), (-1, -2)), linear=[(0,), (1,)], sums=True)
)


@product_nt.reference
def matmul_nt_reference(a, b):
    return matmul_reference(a, np.swapaxes(b, -1, -2))


@product_nt.lowering
def matmul_nt_lowering(emit, a, b, result):
    matmul_lowering(emit, a, b.swap(-1, -2), result)


@product_nt.vjp
def matmul_nt_vjp(ct, _y, a, b):
    def by_a():
        return unbroadcast(product(ct, b), a)

    def by_b():
        if len(b.shape) == 2 < len(a.shape):
            return product_tn(_tall(ct), _tall(a))
        return unbroadcast(product_tn(ct, a), b)

    return by_a, by_b


@product_nt.samples
def matmul_nt_samples(draw):
    for dtype in ["int32", "int64", "float32", "float64"]:
        for a, b in [
            ((3, 4), (5, 4)),
            ((17, 33), (18, 33)),
            ((2, 3, 4), (5, 4)),
            ((1, 64), (9, 64)),
        ]:
            yield (draw(dtype, *a), draw(dtype, *b)), {}


@op(name="matmul_tn", promotes=True, narrow=bfloat16)
def product_tn(a: TensorType, b: TensorType) -> TensorType:
    """``a.mT @ b``: eagerly it reads ``a`` as it lies, without a transposed copy."""
    return product.rule(_transposed(a), b)


product_tn.couples(axis_ties.product((-1, -2), (-2, -1)))
product_tn.shares(
    shared_work.tied(axis_ties.product((-1, -2), (-2, -1)), linear=[(0,), (1,)], sums=True)
)


@product_tn.reference
def matmul_tn_reference(a, b):
    return matmul_reference(np.swapaxes(a, -1, -2), b)


@product_tn.lowering
def matmul_tn_lowering(emit, a, b, result):
    matmul_lowering(emit, a.swap(-1, -2), b, result)


@product_tn.vjp
def matmul_tn_vjp(ct, _y, a, b):
    def by_a():
        return unbroadcast(product_nt(b, ct), a)

    def by_b():
        return unbroadcast(product(a, ct), b)

    return by_a, by_b


@product_tn.samples
def matmul_tn_samples(draw):
    for dtype in ["int32", "int64", "float32", "float64"]:
        for a, b in [
            ((4, 3), (4, 5)),
            ((33, 17), (33, 18)),
            ((2, 4, 3), (2, 4, 5)),
            ((64, 1), (64, 9)),
        ]:
            yield (draw(dtype, *a), draw(dtype, *b)), {}


for _op in (product, product_nt, product_tn):
    _op.batch(aligned(_op))


# Functions ---------------------------------------------------------------------------------------


@remembered_of_two
def matmul(a: Any, b: Any, /) -> Any:
    """The matrix product; a 1-d operand is a row on the left, a column on the right."""
    if getattr(a, "ndim", 0) > 1 and getattr(b, "ndim", 0) > 1:
        return product(a, b)
    a, b = as_tensor(a), as_tensor(b)
    left, right = len(a.shape), len(b.shape)
    if left == 0 or right == 0:
        raise ShapeError(
            f"matmul cannot take {type_of(a)} and {type_of(b)}",
            why="Both need at least one dimension.",
            fix="multiply by a number with *",
        )
    if left > 1 and right > 1:
        return product(a, b)
    wide_a = reshape_to(a, shape=(1, *a.shape)) if left == 1 else a
    wide_b = reshape_to(b, shape=(*b.shape, 1)) if right == 1 else b
    try:
        y = product(wide_a, wide_b)
    except ShapeError:  # the author's operands have fewer axes
        size, other = a.shape[-1], b.shape[-1 if right == 1 else -2]
        axis = "the second" if right == 1 else "the last axis but one of the second"
        raise ShapeError(
            f"matmul cannot take {type_of(a)} and {type_of(b)}",
            why=f"The last axis of the first ({size}) must be as long as {axis} ({other}).",
            fix="change a shape" if left == right else "transpose the matrix, or change a shape",
        ) from None
    rows = () if left == 1 else y.shape[-2:-1]
    columns = () if right == 1 else y.shape[-1:]
    return reshape_to(y, shape=(*y.shape[:-2], *rows, *columns))


@remembered_of_any
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias`` for ``weight`` [out, in] and ``bias`` [out]."""
    x, weight = as_tensor(x), as_tensor(weight)
    y = product_nt(x, weight) if len(x.shape) > 1 else matmul(x, matrix_transpose(weight))
    return y if bias is None else y + bias


@remembered_of_two
def vecdot(a: Any, b: Any, /, *, axis: int = -1) -> Any:
    """The sums of ``a * b`` along ``axis``, in which both are of one size; others broadcast."""
    a, b = common(a, b)
    require_numeric("vecdot", a=type_of(a), b=type_of(b))
    rank = max(len(a.shape), len(b.shape))
    axis = normalize_axis("vecdot", axis, rank) - rank  # from the end, of both
    if min(len(a.shape), len(b.shape)) < -axis or a.shape[axis] != b.shape[axis]:
        raise ShapeError(
            f"vecdot cannot take {type_of(a)} and {type_of(b)}",
            why="Both must have as many elements along the axis.",
            fix="choose the axis of the vectors",
        )
    if len(a.shape) == len(b.shape) == 1 and a.dtype.is_floating:
        return matmul(a, b)  # in one pass
    return reduction.sum(a * b, axis=axis, dtype=a.dtype)


@remembered_of_two
def outer(a: Any, b: Any, /) -> Any:
    """All products of an element of 1-d ``a`` with one of 1-d ``b``: [M, N]."""
    a, b = common(a, b)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise ShapeError(
            f"outer cannot take {type_of(a)} and {type_of(b)}",
            why="Both must have one dimension.",
            fix="call flatten first",
        )
    return reshape_to(a, shape=(a.shape[0], 1)) * b


@remembered_of_two
def tensordot(a: Any, b: Any, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    """The products of ``a`` and ``b`` summed over pairs of axes.

    ``axes`` gives the axes of each, or how many of the last of ``a`` meet the first of ``b``.
    """
    a, b = common(a, b)
    if hasattr(axes, "__index__"):
        count = as_int("tensordot", "axes", axes, least=0)
        pairs = (range(len(a.shape) - count, len(a.shape)), range(count))
    else:
        require_sequence("tensordot", "axes", axes)
        pairs = tuple(axes)
        for own in pairs:
            require_sequence("tensordot", "axes", own)
        if len(pairs) != 2:
            raise ArgumentError(f"tensordot got axes {axes!r}", fix="give those of each tensor")
    of_a = [normalize_axis("tensordot", i, len(a.shape)) for i in pairs[0]]
    of_b = [normalize_axis("tensordot", i, len(b.shape)) for i in pairs[1]]
    if [a.shape[i] for i in of_a] != [b.shape[i] for i in of_b]:
        raise ShapeError(
            f"tensordot cannot sum over axes {of_a} of {type_of(a)} and {of_b} of {type_of(b)}",
            why="Their sizes must agree.",
            fix="pair axes of equal size",
        )
    free_a = [i for i in range(len(a.shape)) if i not in of_a]
    free_b = [i for i in range(len(b.shape)) if i not in of_b]
    inner = math.prod(a.shape[i] for i in of_a)
    rows = [a.shape[i] for i in free_a]
    columns = [b.shape[i] for i in free_b]
    left = reshape_to(permute(a, axes=(*free_a, *of_a)), shape=(math.prod(rows), inner))
    right = reshape_to(permute(b, axes=(*of_b, *free_b)), shape=(inner, math.prod(columns)))
    return reshaped(product(left, right), (*rows, *columns))
