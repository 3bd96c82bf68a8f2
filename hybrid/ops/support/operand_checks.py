"""Checks that several ops share, and the errors they raise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.core.open_numbers import as_size
from hybrid.core.size_functions import SizeValue
from hybrid.core.sizes import SizeHolder
from hybrid.core.types import DType, Shape, TensorType, dtype_of, tensor_type
from hybrid.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, ShapeError
from hybrid.ir import interpreter


def as_tensor(obj: Any) -> Any:
    """``obj`` (a tensor, number, array or nested list) as an operand of the current interpreter."""
    return interpreter.current().lift(obj)


def type_of(x: Any) -> TensorType:
    """The type of an operand."""
    if isinstance(x, TensorType):
        return x
    type_ = getattr(x, "type", None)
    return type_ if isinstance(type_, TensorType) else tensor_type(x.dtype, x.shape)


def is_number(obj: Any) -> bool:
    """A Python number: weak, it takes the dtype of the tensor it meets."""
    return isinstance(obj, (bool, int, float))


def is_traced_number(obj: Any) -> bool:
    """A Python number that is only known at run time: of another class than it says."""
    other = is_number(obj) and type(obj) is not obj.__class__
    return other and not isinstance(obj, (SizeValue, SizeHolder))


def plural(count: int, noun: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(types: Sequence[Any]) -> str:
    """``f32[3], f32[4] and i64[]``."""
    words = [str(t) for t in types]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


# Dtypes ------------------------------------------------------------------------------------------

_KINDS = {
    "floating": (("float",), "a floating dtype", "convert it with astype, to float32 for example"),
    "numeric": (
        ("int", "uint", "float"),
        "an integer or floating dtype",
        "convert it with astype, to int64 for example",
    ),
    "integer": (
        ("int", "uint"),
        "an integer dtype",
        "convert it with astype, to int64 for example",
    ),
    "integral": (
        ("bool", "int", "uint"),
        "a bool or integer dtype",
        "convert it with astype, to int64 for example",
    ),
    "bool": (("bool",), "dtype bool", "compare it with something, or convert it with astype"),
}


def _require_kind(name: str, kind: str, operands: dict[str, TensorType]) -> None:
    kinds, words, fix = _KINDS[kind]
    for label, type in operands.items():
        if type.dtype.kind not in kinds:
            raise DTypeError(
                f"{name} cannot take {listed(list(operands.values()))}",
                why=f"Its operand {label} must have {words}; it has {type.dtype.name}.",
                fix=fix,
            )


def require_floating(name: str, **operands: TensorType) -> None:
    _require_kind(name, "floating", operands)


def require_matrices(name: str, x: TensorType) -> None:
    """Raise unless ``x`` holds matrices of floats."""
    require_floating(name, x=x)
    if x.rank < 2:
        raise ShapeError(
            f"{name} cannot take {x}",
            why="Matrices have two dimensions, stacks of them more.",
            fix="add axes with expand_dims",
        )


def require_square(name: str, x: TensorType) -> None:
    """Raise unless ``x`` holds square matrices of floats."""
    require_matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name} cannot take {x}",
            why="The last two axes must be of one size: the matrices are square.",
            fix="take a square part of it",
        )


def require_numeric(name: str, **operands: TensorType) -> None:
    _require_kind(name, "numeric", operands)


def require_integer(name: str, **operands: TensorType) -> None:
    _require_kind(name, "integer", operands)


def require_integral(name: str, **operands: TensorType) -> None:
    _require_kind(name, "integral", operands)


def require_bool(name: str, **operands: TensorType) -> None:
    _require_kind(name, "bool", operands)


def require_same_dtype(name: str, *types: TensorType) -> None:
    if any(t.dtype is not types[0].dtype for t in types):
        raise DTypeError(
            f"{name} cannot take {listed(types)}",
            why="These operands must share one dtype.",
            fix="convert them with astype",
        )


def require_dtype(name: str, label: str, type: TensorType, dtype: DType) -> None:
    if type.dtype is not dtype:
        raise DTypeError(
            f"{name} cannot take {type} as {label}",
            why=f"It must have dtype {dtype.name}.",
            fix=f"convert it with astype(hybrid.{dtype.name})",
        )


def optional_dtype(dtype: Any, default: DType) -> DType:
    return default if dtype is None else dtype_of(dtype)


# Shapes ------------------------------------------------------------------------------------------


def broadcast_shapes(name: str, *types: TensorType) -> Shape:
    """The shape that operands of ``types`` have in common; ShapeError when there is none."""
    first, rank = types[0].shape, max(t.rank for t in types)
    if all(t.rank == rank and t.shape == first for t in types):
        return first
    shape = [1] * rank
    for t in types:
        for i, n in enumerate(t.shape, rank - t.rank):
            if type(shape[i]) is int and shape[i] == 1:  # whatever n is, which may be open
                shape[i] = n
                continue
            if n == shape[i] or n == 1:
                continue
            if shape[i] != 1:
                raise ShapeError(
                    f"{name} cannot take {listed(types)}",
                    why=f"Aligned at the last axis, sizes must agree or be 1; "
                    f"{shape[i]} and {n} do not.",
                    fix="change one shape with reshape or expand_dims",
                )
            shape[i] = n
    return tuple(shape)


def broadcast_type(name: str, *types: TensorType) -> TensorType:
    """The result type of an elementwise op on ``types``, which share their dtype."""
    return tensor_type(types[0].dtype, broadcast_shapes(name, *types))


def require_rank(name: str, label: str, type: TensorType, rank: int) -> None:
    if type.rank != rank:
        raise ShapeError(
            f"{name} cannot take {type} as {label}",
            why=f"It must have {plural(rank, 'dimension')}, not {type.rank}.",
            fix="change its shape with reshape or expand_dims",
        )


def require_shape(name: str, label: str, type: TensorType, shape: Shape) -> None:
    if type.shape != shape:
        raise ShapeError(
            f"{name} cannot take {type} as {label}",
            why=f"Its shape must be {list(shape)}.",
            fix="change its shape with reshape or broadcast_to",
        )


# Numbers and sequences ---------------------------------------------------------------------------


def as_int(name: str, label: str, value: Any, least: int | None = None) -> int:
    """``value`` as an int, of at least ``least``; ArgumentTypeError when it is none."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or _has_axes(value):
        shown = type_of(value) if isinstance(getattr(value, "dtype", None), DType) else repr(value)
        raise ArgumentTypeError(f"{name} got {label} {shown}", fix=f"give the {label} as an int")
    number = as_size(value)
    if least is not None and number < least:
        raise ArgumentError(f"{name} got {label} {number}", fix=f"give an int of at least {least}")
    return number


def require_real(name: str, label: str, value: Any) -> None:
    """Raise unless ``value`` is a number that is not complex."""
    if not (hasattr(value, "__float__") or hasattr(value, "__index__")) or _has_axes(value):
        raise ArgumentTypeError(f"{name} got {label} {value!r}", fix="give a number")


def _has_axes(value: Any) -> bool:
    return bool(getattr(value, "shape", ()))


def require_sequence(name: str, label: str, value: Any) -> None:
    """Raise unless ``value`` is a list, a tuple or something else to go through, but no text."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        what = f"{name} got {label} {value!r}"
        raise ArgumentTypeError(what, fix=f"give the {label} as a list or a tuple")
    if getattr(value, "shape", None) == ():
        raise ArgumentTypeError(f"{name} got one tensor for the {label}", fix="give a list of them")


def require_own_order(name: str, indices: Any, axis: Any, behind: str = "") -> None:
    """Raise when an axis stands where the indices go: PyTorch's order of arguments."""
    if hasattr(indices, "__index__") and not _has_axes(indices) and _is_array(axis):
        shown = type_of(axis) if hasattr(axis, "dtype") else f"a {type(axis).__name__}"
        raise ArgumentTypeError(
            f"{name} got {indices.__index__()} for the indices, and {shown} for what comes behind",
            why=f"PyTorch's order is (x, dim, indices{behind}), the order here is "
            f"(x, indices{behind}, axis).",
            fix=f"write {name}(x, indices{behind}, axis={indices.__index__()})",
        )


def _is_array(value: Any) -> bool:
    return bool(getattr(value, "shape", ())) or isinstance(value, (list, tuple))


# Axes --------------------------------------------------------------------------------------------


def normalize_axis(name: str, axis: Any, rank: int) -> int:
    """``axis`` counted from the front; AxisError when there is no such axis."""
    number = as_int(name, "axis", axis)
    if not -rank <= number < rank:
        why = (
            f"A tensor of {plural(rank, 'dimension')} has axes {-rank} to {rank - 1}."
            if rank
            else "A tensor without dimensions has no axes."
        )
        raise AxisError(f"{name} got axis {number}", why=why, fix="give an axis in that range")
    return number % rank


def normalize_axes(name: str, axis: Any, rank: int) -> tuple[int, ...]:
    """``axis`` (None for all, an int, or a sequence) as sorted axes counted from the front."""
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(name, axis, rank),)
    axes = tuple(sorted(normalize_axis(name, a, rank) for a in axis))
    if len(set(axes)) != len(axes):
        raise AxisError(f"{name} got axis {tuple(axis)}", why="An axis is given twice.")
    return axes


def require_axis(name: str, axis: int, rank: int) -> None:
    """An op's attribute is canonical: an int in [0, rank)."""
    if not 0 <= axis < rank:
        normalize_axis(name, axis, rank)
        raise AxisError(
            f"{name} got axis {axis}",
            why="The attribute of an op counts from the front.",
            fix=f"use {axis % rank}",
        )


def require_axes(name: str, axes: tuple[int, ...], rank: int) -> None:
    """An op's attribute is canonical: sorted ints in [0, rank), each once."""
    for axis in axes:
        require_axis(name, axis, rank)
    if list(axes) != sorted(set(axes)):
        raise AxisError(f"{name} got axes {axes}", why="They must be sorted and without repeats.")


def require_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raise unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        words = " or ".join(f'"{word}"' for word in allowed)
        raise ArgumentError(f"{name}={value!r} is unknown", fix=f"use {words}")


def require_number(name: str, value: Any, low: float = 0.0, below: float = math.inf) -> None:
    """Raise unless ``value`` is a number in [``low``, ``below``)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise ArgumentTypeError(f"{name} is {value!r}, not a number")
    if not (low <= value < below and math.isfinite(value)):
        limits = " and ".join(
            ([f"at least {low:g}"] if math.isfinite(low) else [])
            + ([f"below {below:g}"] if math.isfinite(below) else [])
        )
        fix = f"give a number that is {limits or 'finite'}"
        raise ArgumentError(f"{name} is {value}", fix=fix)


def require_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{name} is {value!r}, not a bool", fix="give True or False")
