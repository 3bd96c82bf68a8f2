"""One step of an optimizer, element by element; the step is not differentiable."""

from __future__ import annotations

import numpy as np

from hybrid.ir import op
from hybrid.ops.checks import require_floating, require_same_dtype, require_shape
from hybrid.types import TensorType


def _require_step(
    name: str, p: TensorType, like: dict[str, TensorType], scalars: dict[str, TensorType]
) -> None:
    """``like`` have the type of the parameter, ``scalars`` its dtype and rank 0."""
    require_floating(name, p=p)
    require_same_dtype(name, p, *like.values(), *scalars.values())
    for label, type in like.items():
        require_shape(name, label, type, p.shape)
    for label, type in scalars.items():
        require_shape(name, label, type, ())


@op(kernel="sgd", elementwise=True, differentiable=False)
def sgd(
    p: TensorType,
    g: TensorType,
    lr: TensorType,
    *,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> TensorType:
    """The parameter ``p`` after a step: ``p - lr * (g + weight_decay * p)``.

    ``maximize`` takes the gradient with the other sign.
    """
    _require_step("sgd", p, {"g": g}, {"lr": lr})
    return p


@sgd.reference
def sgd_reference(p, g, lr, *, weight_decay, maximize):
    return p - lr * (_directed(g, maximize) + weight_decay * p).astype(p.dtype)


def _directed(g: np.ndarray, maximize: bool) -> np.ndarray:
    return -g if maximize else g


@op(kernel="sgd_momentum", elementwise=True, differentiable=False)
def sgd_momentum(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    lr: TensorType,
    *,
    momentum: float,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> tuple[TensorType, TensorType]:
    """Parameter and momentum after a step (Sutskever et al. 2013).

    ``m' = momentum * m + (1 - dampening) * d`` with ``d = g + weight_decay * p``; then
    ``p - lr * m'``, or with Nesterov's momentum ``p - lr * (d + momentum * m')``.
    """
    _require_step("sgd_momentum", p, {"g": g, "m": m}, {"lr": lr})
    return p, p


@sgd_momentum.reference
def sgd_momentum_reference(p, g, m, lr, *, momentum, dampening, weight_decay, nesterov, maximize):
    d = _directed(g, maximize) + weight_decay * p
    moved = momentum * m + (1 - dampening) * d
    along = d + momentum * moved if nesterov else moved
    return (p - lr * along).astype(p.dtype), moved.astype(p.dtype)


@op(kernel="adam", elementwise=True, differentiable=False)
def adam(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    v: TensorType,
    lr: TensorType,
    t: TensorType,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Parameter and both moments after step ``t`` (from 1) of Adam (Kingma and Ba 2015).

    ``decoupled`` decays the weights apart from the gradient: AdamW (Loshchilov and Hutter 2019).
    """
    _require_step("adam", p, {"g": g, "m": m, "v": v}, {"lr": lr, "t": t})
    return p, p, p


@adam.reference
def adam_reference(p, g, m, v, lr, t, *, beta1, beta2, eps, weight_decay, decoupled):
    kind = p.dtype
    p, g, m, v = (a.astype(np.float64) for a in (p, g, m, v))
    lr, t = float(lr), float(t)
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    first, second = m / (1 - beta1**t), v / (1 - beta2**t)
    p = p - lr * first / (np.sqrt(second) + eps)
    return p.astype(kind), m.astype(kind), v.astype(kind)


def _cells(draw, count, dtype, shape):
    return [draw(dtype, *shape) for _ in range(count)]


@sgd.samples
def sgd_samples(draw):
    for dtype in draw.floats:
        for shape in [(0,), (1,), (17,), (3, 5)]:
            for maximize in (False, True):
                lr = draw(dtype, low=0.01, high=0.1)
                attrs = {"weight_decay": 0.01, "maximize": maximize}
                yield (*_cells(draw, 2, dtype, shape), lr), attrs


@sgd_momentum.samples
def sgd_momentum_samples(draw):
    for dtype in draw.floats:
        for shape in [(0,), (1,), (17,), (3, 5)]:
            for nesterov in (False, True):
                lr = draw(dtype, low=0.01, high=0.1)
                attrs = {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}
                attrs |= {"nesterov": nesterov, "maximize": nesterov}
                yield (*_cells(draw, 3, dtype, shape), lr), attrs


@adam.samples
def adam_samples(draw):
    for dtype in draw.floats:
        for shape in [(0,), (1,), (17,), (3, 5)]:
            for decoupled in (False, True):
                lr, t = draw(dtype, low=0.01, high=0.1), draw(dtype, low=1, high=1)
                v = draw(dtype, *shape, low=0.1, high=1.0)
                attrs = {"weight_decay": 0.01, "decoupled": decoupled}
                yield (*_cells(draw, 3, dtype, shape), v, lr, t), attrs
