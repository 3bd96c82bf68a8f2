"""check_grads: derivatives of a function compared with differences and with each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from hybrid import ops
from hybrid.autodiff.function_gradients import grad, jvp, vjp
from hybrid.core.tree import flatten
from hybrid.core.types import float64
from hybrid.eager.tensor import Tensor
from hybrid.errors import GradientError
from hybrid.ir.interpreter import current


def check_grads(
    function: Callable[..., Any],
    *args: Any,
    order: int = 1,
    eps: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
) -> None:
    """Raise GradientError unless the derivatives of ``function`` at ``args`` are right.

    ``function`` may return any tree of tensors.  In float64, along random directions: the vjp and
    the jvp agree (``<u, J v> == <J^T u, v>``) and both agree with central differences of width
    ``eps``.  With ``order=2`` the gradient's own derivatives are checked too.
    """
    primals = tuple(ops.astype(current().lift(a), float64) for a in args)
    random = np.random.default_rng(seed)
    weights = [
        current().lift(random.standard_normal(out.shape)) for out in flatten(function(*primals))[0]
    ]

    def scalar(*xs: Tensor) -> Tensor:
        terms = zip(flatten(function(*xs))[0], weights, strict=True)
        return reduce(add, [ops.sum(out * weight) for out, weight in terms])

    directions = tuple(current().lift(random.standard_normal(x.shape)) for x in primals)
    _check_once(scalar, primals, directions, eps, rtol, atol, "first")
    if order > 1:
        numbers = tuple(range(len(primals)))

        def slope(*xs: Tensor) -> Tensor:
            pairs = zip(grad(scalar, numbers)(*xs), directions, strict=True)
            return reduce(add, [ops.sum(g * v) for g, v in pairs])

        _check_once(slope, primals, directions, eps, rtol, atol, "second")


def _check_once(
    function: Callable[..., Tensor],
    primals: tuple[Tensor, ...],
    directions: tuple[Tensor, ...],
    eps: float,
    rtol: float,
    atol: float,
    which: str,
) -> None:
    forward = jvp(function, primals, directions)[1].item()
    value, pullback = vjp(function, *primals)
    cts = pullback(ops.ones((), dtype=value.dtype))
    reverse = sum(
        float(np.sum(c.numpy() * v.numpy())) for c, v in zip(cts, directions, strict=True)
    )
    ahead = function(*[x + eps * v for x, v in zip(primals, directions, strict=True)]).item()
    behind = function(*[x - eps * v for x, v in zip(primals, directions, strict=True)]).item()
    difference = (ahead - behind) / (2 * eps)
    for name, found in (("vjp", reverse), ("jvp", forward)):
        if not np.isclose(found, difference, rtol=rtol, atol=atol):
            raise GradientError(
                f"the {which} derivative is wrong: the {name} gives {found!r}, "
                f"differences give {difference!r}"
            )
    if not np.isclose(forward, reverse, rtol=1e-9, atol=1e-12):
        raise GradientError(f"jvp and vjp disagree: {forward!r} and {reverse!r}")
