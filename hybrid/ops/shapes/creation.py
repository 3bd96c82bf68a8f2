"""Creation: constants, ranges, identities, and what is like another tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.open_numbers import any_open, as_size, open_array
from hybrid.core.size_functions import FUNCTIONS, size_function
from hybrid.core.types import (
    DEFAULT_FLOAT,
    DEFAULT_INT,
    DType,
    Shape,
    TensorType,
    bool_,
    dtype_of,
    require_device,
    shape_of,
    tensor_type,
)
from hybrid.errors import ArgumentError, OutOfMemoryError, ShapeError
from hybrid.ir import interpreter, op
from hybrid.ops.elementwise.comparison import where
from hybrid.ops.shapes.shape import broadcast
from hybrid.ops.support import axis_ties
from hybrid.ops.support.call_cache import remembered, remembered_of_none
from hybrid.ops.support.dtypes import converted
from hybrid.ops.support.operand_checks import (
    as_int,
    as_tensor,
    is_traced_number,
    optional_dtype,
    require_real,
)

# Ops ---------------------------------------------------------------------------------------------


@op(name="full", differentiable=False, moves=True)
def fill(*, shape: Shape, value: float, dtype: DType) -> TensorType:
    """Every element is ``value``."""
    return tensor_type(dtype, shape)


@fill.couples
def full_couples(_operands, results, **_):
    return [axis_ties.along((), results, [(~0, axis)]) for axis in range(results[0].rank)]


@fill.reference
def full_reference(*, shape, value, dtype):
    return np.full(shape, value, dtype.numpy)


@fill.lowering
def full_lowering(emit, result, *, shape, value, dtype):
    emit.kernel("copy", [emit.constant(dtype, value).broadcast(shape)], [result])


@fill.samples
def full_samples(draw):
    for dtype in draw.all:
        for shape in [(), (0,), (17,), (2, 3)]:
            yield (), {"shape": shape, "value": 1, "dtype": dtype_of(dtype)}


@op(differentiable=False, moves=True)
def literal(*, shape: Shape, dtype: DType, data: bytes) -> TensorType:
    """A constant: ``data`` holds its elements in row-major order, little end first."""
    type = tensor_type(dtype, shape)
    if isinstance(data, bytes) and len(data) != type.nbytes:  # else it is made for each size
        raise ArgumentError(f"a literal of {type} has {type.nbytes} bytes, not {len(data)}")
    return type


@literal.reference
def literal_reference(*, shape, dtype, data):
    return np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy).reshape(shape)


@literal.samples
def literal_samples(draw):
    for dtype in draw.all:
        for shape in [(), (0,), (17,), (2, 3)]:
            data = draw(dtype, *shape).tobytes()
            yield (), {"shape": shape, "dtype": dtype_of(dtype), "data": data}


# Constants ---------------------------------------------------------------------------------------


@remembered_of_none
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ``shape`` with every element ``fill_value``, a number or a rank-0 tensor.

    A scalar of NumPy's, whose float64 is a float of Python's as well, has its own dtype.
    """
    require_device(device)
    shape = shape_of(shape)
    kinds = {bool: bool_, int: DEFAULT_INT, float: DEFAULT_FLOAT}
    if fill_value.__class__ in kinds:
        dtype = optional_dtype(dtype, kinds[fill_value.__class__])
        if is_traced_number(fill_value):
            return broadcast(interpreter.current().lift(fill_value, dtype), shape=shape)
        return fill(shape=shape, value=fill_value, dtype=dtype)
    value = as_tensor(fill_value)
    return broadcast(converted(value, optional_dtype(dtype, value.dtype)), shape=shape)


@remembered_of_none
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of zeros; float32 by default."""
    require_device(device)
    return fill(shape=shape_of(shape), value=0, dtype=optional_dtype(dtype, DEFAULT_FLOAT))


@remembered_of_none
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of ones; float32 by default."""
    require_device(device)
    return fill(shape=shape_of(shape), value=1, dtype=optional_dtype(dtype, DEFAULT_FLOAT))


@remembered_of_none
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor whose elements nobody should rely on; they are zeros, so that runs repeat."""
    return zeros(shape, dtype=dtype, device=device)


@remembered
def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of the shape (and by default dtype) of ``x`` with every element ``fill_value``."""
    x = as_tensor(x)
    return full(x.shape, fill_value, dtype=optional_dtype(dtype, x.dtype), device=device)


@remembered
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of the shape (and by default dtype) of ``x``."""
    return full_like(x, 0, dtype=dtype, device=device)


@remembered
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones of the shape (and by default dtype) of ``x``."""
    return full_like(x, 1, dtype=dtype, device=device)


@remembered
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """As ``empty``, of the shape (and by default dtype) of ``x``."""
    return full_like(x, 0, dtype=dtype, device=device)


# Ranges ------------------------------------------------------------------------------------------


@remembered_of_none
def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """``start``, ``start + step`` ... below ``stop``; int64 for ints, float32 otherwise."""
    require_device(device)
    if stop is None:
        start, stop = 0, start
    for label, value in (("start", start), ("stop", stop), ("step", step)):
        require_real("arange", label, value)
    if step == 0:
        raise ArgumentError("arange got step 0", fix="give another step")
    start, stop, step = map(_in_size, (start, stop, step))
    whole = all(isinstance(n, (int, np.integer)) for n in (start, stop, step))
    dtype = optional_dtype(dtype, DEFAULT_INT if whole else DEFAULT_FLOAT)
    return _lifted("arange", dtype, lambda: (_steps(start, stop, step),), start, stop, step)


@remembered_of_none
def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    """``num`` numbers from ``start`` to ``stop`` (inclusive unless ``endpoint`` is False)."""
    require_device(device)
    dtype = optional_dtype(dtype, DEFAULT_FLOAT)
    require_real("linspace", "start", start)
    require_real("linspace", "stop", stop)
    num = as_int("linspace", "num", num, least=0)
    with np.errstate(all="ignore"):
        return _lifted("linspace", dtype, lambda: (num,), start, stop, num, bool(endpoint))


def _in_size(number: Any) -> Any:
    """A number that tells how many there are; an int that only a run knows is a size of that."""
    dtype = getattr(number, "dtype", None)
    whole = isinstance(number, int) or (isinstance(dtype, DType) and dtype.is_integer)
    return as_size(number) if whole and hasattr(number, "_as_size") else number


def _steps(start: Any, stop: Any, step: Any) -> Any:
    """How many numbers ``arange`` gives."""
    if any(isinstance(n, float) for n in (start, stop, step)):
        found = math.ceil((stop - start) / step)
    else:
        found = -((start - stop) // step)
    return found if found > 0 else 0


def _linspace(start: float, stop: float, num: int, endpoint: bool) -> np.ndarray:
    return np.linspace(start, stop, num, endpoint)


def _lower(rows: int, columns: int, k: int) -> np.ndarray:
    return np.tri(rows, columns, k, dtype=bool)


def _upper(rows: int, columns: int, k: int) -> np.ndarray:
    return ~np.tri(rows, columns, k, dtype=bool)


for _name, _make in {
    "arange": np.arange, "linspace": _linspace, "eye": np.eye, "lower": _lower, "upper": _upper,
}.items():  # fmt: skip
    size_function(_name, _make, raises=False)


def _lifted(name: str, dtype: DType | None, shape: Callable[[], Shape], *args: Any) -> Any:
    """The tensor of what a function of the table gives, of ``shape()`` where sizes are open."""
    try:
        if any_open(*args):
            made = open_array(name, shape(), *args)
        else:
            made = FUNCTIONS[name].compute(*args)
    except (MemoryError, ValueError, OverflowError) as error:
        kind = OutOfMemoryError if isinstance(error, MemoryError) else ArgumentError
        given = ", ".join(map(str, args[:3]))
        raise kind(f"{name}({given}) cannot be made", why=f"NumPy says: {error}.") from None
    return interpreter.current().lift(made, dtype)


# Matrices ----------------------------------------------------------------------------------------


@remembered_of_none
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Ones on the ``k``-th diagonal, zeros elsewhere."""
    require_device(device)
    dtype = optional_dtype(dtype, DEFAULT_FLOAT)
    rows = as_int("eye", "n_rows", n_rows, least=0)
    columns = rows if n_cols is None else as_int("eye", "n_cols", n_cols, least=0)
    k = as_int("eye", "k", k)
    tensor_type(dtype, (rows, columns))  # which refuses sizes that no memory has
    return _lifted("eye", dtype, lambda: (rows, columns), rows, columns, k)


def _triangle(name: str, x: Any, k: int, *, lower: bool) -> Any:
    k = as_int(name, "k", k)
    if len(x.shape) < 2:
        raise ShapeError(
            f"{name} cannot take shape {list(x.shape)}",
            why="It needs at least two dimensions.",
            fix="add axes with expand_dims",
        )
    side, zero = "lower" if lower else "upper", False if x.dtype is bool_ else 0
    rows = x.shape[-2:]
    return where(_lifted(side, None, lambda: rows, *rows, k if lower else k - 1), x, zero)


@remembered
def tril(x: Any, /, *, k: int = 0) -> Any:
    """``x`` with what lies above the ``k``-th diagonal of its matrices set to zero."""
    return _triangle("tril", as_tensor(x), k, lower=True)


@remembered
def triu(x: Any, /, *, k: int = 0) -> Any:
    """``x`` with what lies below the ``k``-th diagonal of its matrices set to zero."""
    return _triangle("triu", as_tensor(x), k, lower=False)
