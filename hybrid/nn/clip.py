"""Gradients kept within bounds, between ``backward()`` and ``step()``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from hybrid import ops
from hybrid.calls.auto_plan import Often
from hybrid.core.types import DType, float32, float64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentTypeError, GradientError
from hybrid.ir.interpreter import ACTIVE, current
from hybrid.ir.record import recording
from hybrid.nn.modules.parameter import (
    SLICED,
    in_dtype,
    present,
    put_gradient,
    whole_gradients,
    working_dtype,
)
from hybrid.number import check
from hybrid.ops.support.operand_checks import require_number

SMALL = 1e-6  # what PyTorch adds to the norm that it divides by


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients of ``parameters`` so that their norm is at most ``max_norm``.

    Gives that norm (of rank 0) as it was before: the ``norm_type`` norm of the norms of the
    gradients; ``inf`` is the greatest absolute value.  Gradients are multiplied by
    ``min(1, max_norm / (norm + 1e-6))``, as PyTorch does (Pascanu et al. 2013).

    With ``error_if_nonfinite``, a norm that is infinite or nan raises GradientError.
    """
    require_number("max_norm", max_norm, 0.0)
    listed = [p for p in _listed(parameters) if p.grad is not None]
    if SLICED:
        with recording(False):
            grads = whole_gradients(listed)
    else:
        grads = tuple([present(p.grad) for p in listed])
    if not grads or error_if_nonfinite or SLICED:
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(listed, max_norm, total)
        return total
    _require_order(norm_type)
    with recording(False):
        total, *scaled = _norm_and_scaled(float(norm_type))(grads, _bound(max_norm, _dtype(grads)))
        for p, grad in zip(listed, scaled, strict=True):
            put_gradient(p, grad)
    return total


def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """The ``norm_type`` norm of the norms of ``tensors``, of rank 0; 0 of none."""
    _require_order(norm_type)
    listed = tuple(_listed(tensors))
    if not listed:
        return ops.zeros(())
    with recording(False):
        total = _norm(float(norm_type))(listed)
    if error_if_nonfinite:
        refuse = functools.partial(_refuse, float(norm_type))
        if current().traces:
            check(ops.isfinite(total), refuse, (total,), (GradientError,))
        elif not math.isfinite(total.item()):
            refuse(total.item())
    return total


def _refuse(norm_type: float, norm: float) -> NoReturn:
    raise GradientError(
        f"the norm of order {norm_type:g} of the gradients is {norm}",
        why="No factor makes it finite.",
        fix="skip this step, or pass error_if_nonfinite=False",
    )


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor
) -> None:
    """Multiply the gradients of ``parameters`` by ``min(1, max_norm / (total_norm + 1e-6))``."""
    require_number("max_norm", max_norm, 0.0)
    listed = [p for p in _listed(parameters) if p.grad is not None]
    grads, bound = tuple([present(p.grad) for p in listed]), _bound(max_norm, total_norm.dtype)
    with recording(False):
        for p, grad in zip(listed, _SCALED(grads, bound, total_norm), strict=True):
            put_gradient(p, grad)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip each element of the gradients of ``parameters`` to [-``clip_value``, ``clip_value``]."""
    require_number("clip_value", clip_value, 0.0)
    bound = float(clip_value)
    with recording(False):
        for p in _listed(parameters):
            if p.grad is not None:
                put_gradient(p, ops.clip(present(p.grad), -bound, bound))


clip_grad_norm, clip_grad_value = clip_grad_norm_, clip_grad_value_


# What is computed, of all gradients in one plan -------------------------------------------------


def _total(tensors: tuple[Tensor, ...], norm_type: float) -> Tensor:
    dtype = _dtype(tensors)
    norms = [
        in_dtype(ops.vector_norm(in_dtype(t, working_dtype(t.dtype)), ord=norm_type), dtype)
        for t in tensors
    ]
    return _norm_of_norms(ops.stack(norms), norm_type)


def _norm_of_norms(norms: Tensor, norm_type: float) -> Tensor:
    """Summed up one behind the other: what counts for nothing changes no bit, wherever it stands.

    So plans in which some gradients are there on some paths alone do what eager code does.
    """
    if norm_type in (0.0, math.inf):
        return ops.vector_norm(norms, ord=norm_type)
    powers = ops.square(norms) if norm_type == 2 else norms**norm_type
    total = ops.cumulative_sum(powers)[-1]
    return ops.sqrt(total) if norm_type == 2 else total ** (1 / norm_type)


def _scaled(grads: tuple[Tensor, ...], bound: Any, total: Tensor) -> tuple[Tensor, ...]:
    factor = ops.minimum(bound / (total + SMALL), 1.0)
    factors = {factor.dtype: factor}
    scaled = []
    for grad in grads:
        dtype = working_dtype(grad.dtype)
        if dtype not in factors:
            factors[dtype] = in_dtype(factor, dtype)
        scaled.append(in_dtype(in_dtype(grad, dtype) * factors[dtype], grad.dtype))
    return tuple(scaled)


_SCALED = Often(_scaled)


@functools.lru_cache(16)
def _norm(norm_type: float) -> Often:
    return Often(lambda tensors: _total(tensors, norm_type))


@functools.lru_cache(16)
def _norm_and_scaled(norm_type: float) -> Often:
    def both(grads: tuple[Tensor, ...], bound: Any) -> tuple[Tensor, ...]:
        total = _total(grads, norm_type)
        return total, *_scaled(grads, bound, total)

    return Often(both)


def _bound(max_norm: float, dtype: DType) -> Any:
    """``max_norm``, eagerly as a tensor, so that a plan serves all."""
    return float(max_norm) if ACTIVE else ops.full((), float(max_norm), dtype=dtype)


def _dtype(tensors: tuple[Tensor, ...]) -> DType:
    return float64 if any(t.dtype is float64 for t in tensors) else float32


def _require_order(norm_type: Any) -> None:
    if norm_type != math.inf:
        require_number("norm_type", norm_type)


def _listed(tensors: Any) -> Sequence[Tensor]:
    if isinstance(tensors, Tensor):
        return (tensors,)
    found = list(tensors)
    for number, tensor in enumerate(found):
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(
                f"parameter {number} is a {type(tensor).__name__}, not a tensor",
                fix="pass model.parameters(), a list of tensors, or one",
            )
    return found
