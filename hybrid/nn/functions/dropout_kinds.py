"""Dropout in all its kinds, as functions."""

from __future__ import annotations

import math
from typing import Any

from hybrid import random
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ops import dropout as drop
from hybrid.ops import where
from hybrid.ops.support.operand_checks import as_tensor, require_floating

_SELU_FLOOR = -1.7580993408473766  # what selu tends to far below zero: -scale * alpha


def require_probability(p: Any) -> None:
    """Raise unless ``p`` is a number in [0, 1]."""
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        raise ArgumentTypeError(f"the probability {p!r} is not a number")
    if not 0 <= p <= 1:
        raise ArgumentError(f"a probability of {p}", fix="give a number from 0 to 1")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p``, and scale the others by ``1 / (1 - p)``.

    Draws come from the default generator of ``hybrid.random``; unless ``training``, ``input`` is
    returned as it is.  ``inplace`` writes the result to ``input``, too (Srivastava et al. 2014).
    """
    require_probability(p)
    if not training or p == 0:
        return input
    return _placed(input, _dropped(input, input.shape, p), inplace)


def _dropped(x: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """One draw for each element of ``shape``, which broadcasts to ``x``."""
    if p == 1:
        return x * 0.0
    if shape == x.shape:
        return drop(x, p, random.default_generator().next_state(shape))
    return where(random.uniform(size=shape) >= p, x * (1 / (1 - p)), 0.0)


def _placed(x: Tensor, y: Tensor, inplace: bool) -> Tensor:
    return x.write_in_place(y) if inplace else y


def _channels(name: str, x: Any, batched: int, alone: int | None) -> tuple[int, ...]:
    """One draw for each channel of ``x``: [N, C, ...] of rank ``batched``, or without N."""
    if x.ndim not in (batched, alone):
        ranks = batched if alone is None else f"{batched}, or {alone} without a batch"
        raise ShapeError(
            f"{name} cannot take {x.type}",
            why=f"It must have {ranks} dimensions.",
            fix="change its shape with reshape or expand_dims",
        )
    lead = 2 if x.ndim == batched else 1
    return (*x.shape[:lead], *(1,) * (x.ndim - lead))


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels of [N, C, L] or [C, L] (Tompson et al. 2015)."""
    return _dropout_channels("dropout1d", input, 3, 2, p, training, inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels of [N, C, H, W]; three dimensions are [N, C, L], as PyTorch
    has it.
    """
    rank = 3 if as_tensor(input).ndim == 3 else 4
    return _dropout_channels("dropout2d", input, rank, None, p, training, inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``dropout`` of whole channels of [N, C, D, H, W] or [C, D, H, W]."""
    return _dropout_channels("dropout3d", input, 5, 4, p, training, inplace)


def _dropout_channels(
    name: str, x: Any, batched: int, alone: int | None, p: float, training: bool, inplace: bool
) -> Tensor:
    require_probability(p)
    x = as_tensor(x)
    shape = _channels(name, x, batched, alone)
    if not training or p == 0:
        return x
    return _placed(x, _dropped(x, shape, p), inplace)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 of what SELU activations are (Klambauer et al.
    2017): elements become the limit of SELU with probability ``p``, and all are scaled and shifted.
    """
    return _alpha_dropped("alpha_dropout", input, input.shape, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """``alpha_dropout`` of whole channels of [N, C, ...]."""
    if input.ndim < 2:
        raise ShapeError(
            f"feature_alpha_dropout cannot take {input.type}",
            why="It takes [N, C, ...].",
            fix="add axes with expand_dims",
        )
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _alpha_dropped("feature_alpha_dropout", input, shape, p, training, inplace)


def _alpha_dropped(
    name: str, x: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Tensor:
    require_probability(p)
    require_floating(name, x=x.type)
    if not training or p == 0:
        return x
    if p == 1:
        return _placed(x, x * 0.0, inplace)
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SELU_FLOOR**2))
    kept = random.uniform(size=shape) >= p
    y = where(kept, x, _SELU_FLOOR) * scale - scale * p * _SELU_FLOOR
    return _placed(x, y, inplace)
