"""Conversion between dtypes, and the ops that return their operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import (
    DType,
    TensorType,
    bool_,
    dtype_of,
    float32,
    int64,
    promote,
    promote_scalar,
)
from hybrid.errors import DTypeError, GradientError
from hybrid.ir import interpreter, op
from hybrid.ops.support import axis_ties, shared_work
from hybrid.ops.support.batching import leading, with_rows
from hybrid.ops.support.call_cache import remembered
from hybrid.ops.support.derivatives import linear
from hybrid.ops.support.operand_checks import as_tensor, is_number

# Conversion --------------------------------------------------------------------------------------


@op(
    kernel=lambda _types, attrs: f"cast_{attrs['dtype'].short}",
    elementwise=True,
    moves=True,
)
def cast(x: TensorType, *, dtype: DType) -> TensorType:
    """``x`` in another dtype.

    Floats are truncated to integers; what does not fit becomes the nearest integer that does, and
    NaN becomes 0.  Integers wrap.  Anything but 0 is True as a bool.  float16 and bfloat16 are cast
    from and to float32 alone.
    """
    if not casts_at_once(x.dtype, dtype):
        what = f"cast cannot take {x} to {dtype.name}"
        raise DTypeError(what, fix="cast it to float32 first")
    return x.with_dtype(dtype)


def casts_at_once(source: DType, target: DType) -> bool:
    """Whether one cast takes ``source`` to ``target``: float16 and bfloat16 go through float32."""
    stored = source.is_stored or target.is_stored
    return not stored or source is target or float32 in (source, target)


@cast.reference
def cast_reference(x, *, dtype):
    if x.dtype.kind != "f" or dtype.kind == "float":
        return x.astype(dtype.numpy)
    if dtype.kind == "bool":
        return x != 0
    limits = np.iinfo(dtype.numpy)
    known = np.where(np.isnan(x), 0, x)
    with np.errstate(invalid="ignore"):
        inside = known.astype(dtype.numpy)
    low = np.where(known <= float(limits.min), limits.min, inside)
    return np.where(known >= float(limits.max), limits.max, low).astype(dtype.numpy)


@cast.samples
def cast_samples(draw):
    for source in draw.all:
        for target in draw.all:
            for shape in [(), (0,), (17,), (3, 5)]:
                yield (draw(source, *shape, low=-300, high=300),), {"dtype": dtype_of(target)}


@cast.vjp
def cast_vjp(ct, _y, _x, *, dtype):
    return (cast(ct, dtype=_x.dtype) if _x.dtype.is_floating and dtype.is_floating else None,)


@cast.jvp
def cast_jvp(tangents, _y, _x, *, dtype):
    return cast(tangents[0], dtype=dtype) if dtype.is_floating else None


@remembered
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """``x`` in ``dtype``.

    Tensors are values, so ``copy`` decides only whether the result is another cell than ``x`` when
    ``x`` has that dtype already.
    """
    x, dtype = as_tensor(x), dtype_of(dtype)
    if x.dtype is not dtype:
        return converted(x, dtype)
    return identity(x) if copy else x


def converted(x: Any, dtype: DType) -> Any:
    """``x`` in ``dtype``: itself when it has it."""
    if x.dtype is dtype:
        return x
    if (x.dtype.is_stored or dtype.is_stored) and float32 not in (x.dtype, dtype):
        x = cast(x, dtype=float32)
    return cast(x, dtype=dtype)


# Promotion ---------------------------------------------------------------------------------------


def result_type(*operands: Any) -> DType:
    """The dtype of an expression of tensors, dtypes and Python numbers (which are weak)."""
    found: DType | None = None
    numbers = [x for x in operands if is_number(x)]
    for x in operands:
        if not is_number(x):
            dtype = x if isinstance(x, DType) else as_tensor(x).dtype
            found = dtype if found is None else promote(found, dtype)
    if found is None:
        kinds = {bool: bool_, int: int64, float: float32}
        found = bool_
        for x in numbers:
            found = promote(found, kinds[x.__class__])
        return found
    for x in numbers:
        found = promote_scalar(found, x)
    return found


def common(*operands: Any) -> list[Any]:
    """``operands`` as tensors of the dtype that they have in common."""
    dtypes = {getattr(x, "dtype", None) for x in operands}
    if len(dtypes) == 1 and isinstance(next(iter(dtypes)), DType):
        return list(operands)
    kept = [x if is_number(x) else as_tensor(x) for x in operands]
    dtype = result_type(*kept)
    return [
        interpreter.current().lift(x, dtype) if is_number(x) else converted(x, dtype) for x in kept
    ]


def can_cast(source: Any, target: Any, /) -> bool:
    """Whether promotion can take ``source`` (a tensor or dtype) to ``target``."""
    given = source.dtype if hasattr(source, "dtype") else dtype_of(source)
    wanted = dtype_of(target)
    try:
        return promote(given, wanted) is wanted
    except DTypeError:  # there is none that holds both
        return False


KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": (),
    "numeric": ("int", "uint", "float"),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether ``dtype`` is, or is of, ``kind``: a dtype, a kind's name, or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in KINDS:
        return dtype_of(dtype).kind in KINDS[kind]
    return dtype_of(dtype) is dtype_of(kind)


# The operand itself ------------------------------------------------------------------------------


@op
def identity(x: TensorType) -> TensorType:
    """``x``."""
    return x


@op
def fresh_variable(x: TensorType) -> TensorType:
    """``x``, as the value of a variable that a graph makes anew in each run."""
    return x


@op(differentiable=False)
def stop_gradient(x: TensorType) -> TensorType:
    """``x``, through which no gradient flows."""
    return x


@identity.reference
@fresh_variable.reference
@stop_gradient.reference
def identity_reference(x):
    return x


@identity.view
@fresh_variable.view
@stop_gradient.view
def identity_view(x):
    return x


@linear(identity)
@linear(fresh_variable)
def identity_vjp(ct, _y, _x):
    return (ct,)


for _op in (identity, fresh_variable, stop_gradient):
    _op.batch(leading(_op))
    _op.couples(axis_ties.everywhere)
    _op.shares(shared_work.tied(axis_ties.everywhere, linear=[(0,)]))


@identity.samples
@fresh_variable.samples
@stop_gradient.samples
def identity_samples(draw):
    for dtype in draw.all:
        for shape in [(), (0,), (17,), (3, 5)]:
            yield (draw(dtype, *shape),), {}


@op(differentiable=False)
def as_variable(value: TensorType, variable: TensorType) -> TensorType:
    """``value``, which to gradients is the value of ``variable``: what a leaf is assigned."""
    if value is not variable:
        raise DTypeError(f"{value} cannot stand for {variable}", fix="give both one type")
    return value


as_variable.record_of = 1


@as_variable.reference
def as_variable_reference(value, _variable):
    return value


@as_variable.view
def as_variable_view(value):
    return value


as_variable.couples(axis_ties.everywhere)
as_variable.shares(shared_work.tied(axis_ties.everywhere))


@as_variable.batch
def as_variable_batch(rows, batched, value, variable):
    return as_variable(with_rows(value, rows, batched[0]), with_rows(variable, rows, batched[1]))


@as_variable.samples
def as_variable_samples(draw):
    for dtype in draw.all:
        yield (draw(dtype, 3, 2), draw(dtype, 3, 2)), {}


@op
def made_of_integers(value: TensorType, source: TensorType) -> TensorType:
    """``value``, made of integers that ``source`` was rounded to: it has no derivative by it."""
    return value


@made_of_integers.vjp
def made_of_integers_vjp(_ct, _y, _value, _source):
    raise GradientError(
        "a quantized layer has no derivative by what goes into it",
        why="It computes with integers, which small changes do not move.",
        fix="train the model of floats, or prepare_qat(model), and then quantize or convert() it",
    )


@made_of_integers.reference
def made_of_integers_reference(value, _source):
    return value


@made_of_integers.view
def made_of_integers_view(value):
    return value


@made_of_integers.couples
def made_of_integers_couples(operands, results):
    return axis_ties.aligned(operands[:1], results)


@made_of_integers.batch
def made_of_integers_batch(rows, batched, value, source):
    return made_of_integers(with_rows(value, rows, batched[0]), source)


@made_of_integers.samples
def made_of_integers_samples(draw):
    for dtype in draw.all:
        yield (draw(dtype, 3, 2), draw("float64", 3, 4)), {}


def real(x: Any, /) -> Any:
    """The real part: ``x``, since no tensor is complex."""
    return identity(as_tensor(x))


def conj(x: Any, /) -> Any:
    """The complex conjugate: ``x``, since no tensor is complex."""
    return identity(as_tensor(x))
