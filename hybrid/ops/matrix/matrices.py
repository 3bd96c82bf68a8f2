"""What the ops on matrices share: checks, and NumPy's linear algebra with the errors it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.types import TensorType, dtype_of, tensor_type
from hybrid.errors import LinearAlgebraError, ShapeError
from hybrid.ops.shapes.creation import eye
from hybrid.ops.shapes.shape import expand_dims, matrix_transpose
from hybrid.ops.support.operand_checks import listed, require_floating

UNCONVERGED = "The singular values did not converge."
LOOK_FOR_NAN = "look for nan and inf with hybrid.isfinite"


def computed(name: str, why: str, fix: str, function: Callable[..., Any], *arrays: Any) -> Any:
    """What ``function`` of NumPy's gives; LinearAlgebraError tells which matrix it refuses."""
    try:
        return function(*arrays)
    except np.linalg.LinAlgError:
        what = listed([tensor_type(dtype_of(x.dtype), x.shape) for x in arrays])
        place = _first_refused(function, arrays)
        which = f", at {list(place)} of the stack" if place else ""
        raise LinearAlgebraError(f"{name} cannot take {what}{which}", why=why, fix=fix) from None


def _first_refused(function: Callable[..., Any], arrays: tuple[Any, ...]) -> tuple[int, ...]:
    lead = np.broadcast_shapes(*[x.shape[:-2] for x in arrays])
    wide = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in arrays]
    for place in np.ndindex(lead):
        try:
            function(*[x[place] for x in wide])
        except np.linalg.LinAlgError:
            return place
    return ()


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


def column(x: Any) -> Any:
    """``x`` with two axes of size 1 behind."""
    return expand_dims(x, axis=(-2, -1))


def identity_like(x: Any) -> Any:
    """The identity matrix of the size and dtype of the matrices in ``x``."""
    return eye(x.shape[-1], dtype=x.dtype)


def symmetric(x: Any) -> Any:
    """The symmetric part of matrices."""
    return (x + matrix_transpose(x)) * 0.5
