"""Steps of RMSprop, Adagrad, Adadelta and Lion; ``ops.optimizer`` says what operands are."""

from __future__ import annotations

import numpy as np

from hybrid.core.types import TensorType
from hybrid.ir import op
from hybrid.ops.state.optimizer_steps import (
    BETA,
    DECAYED,
    LR,
    descent,
    in_float64,
    require_step,
    samples_of,
)

_MOMENTUM = {"momentum": (0.8, 0.9)}
_ATTRS = (DECAYED, DECAYED | {"maximize": True})


@op(kernel="rmsprop", elementwise=True, differentiable=False)
def rmsprop(
    p: TensorType,
    g: TensorType,
    s: TensorType,
    lr: TensorType,
    *,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType]:
    """Parameter and mean square after a step of RMSprop (Tieleman and Hinton 2012).

    ``s' = alpha * s + (1 - alpha) * d * d``; ``p - lr * d / (sqrt(s') + eps)``.
    """
    require_step("rmsprop", p, {"g": g, "s": s}, {"lr": lr})
    return p, p


@op(kernel="rmsprop_momentum", elementwise=True, differentiable=False)
def rmsprop_momentum(
    p: TensorType,
    g: TensorType,
    s: TensorType,
    b: TensorType,
    lr: TensorType,
    momentum: TensorType,
    *,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """``rmsprop`` along ``b' = momentum * b + d / (sqrt(s') + eps)``, which is the last result."""
    numbers = {"lr": lr, "momentum": momentum}
    require_step("rmsprop_momentum", p, {"g": g, "s": s, "b": b}, numbers)
    return p, p, p


@op(kernel="rmsprop_centered", elementwise=True, differentiable=False)
def rmsprop_centered(
    p: TensorType,
    g: TensorType,
    s: TensorType,
    a: TensorType,
    lr: TensorType,
    *,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """``rmsprop`` that divides by the root of the variance ``s' - a' * a'`` (Graves 2013).

    ``a' = alpha * a + (1 - alpha) * d`` is the last result.
    """
    require_step("rmsprop_centered", p, {"g": g, "s": s, "a": a}, {"lr": lr})
    return p, p, p


@op(kernel="rmsprop_centered_momentum", elementwise=True, differentiable=False)
def rmsprop_centered_momentum(
    p: TensorType,
    g: TensorType,
    s: TensorType,
    b: TensorType,
    a: TensorType,
    lr: TensorType,
    momentum: TensorType,
    *,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    """``rmsprop_momentum`` that divides as ``rmsprop_centered`` does."""
    like = {"g": g, "s": s, "b": b, "a": a}
    require_step("rmsprop_centered_momentum", p, like, {"lr": lr, "momentum": momentum})
    return p, p, p, p


def _rmsprop(p, g, s, b, a, lr, momentum, *, alpha, eps, weight_decay, maximize):
    """The results of all variants: parameter, ``s``, ``b`` and ``a``; those not kept are None."""
    kind = p.dtype
    p, g, s, lr = in_float64(p, g, s, lr)
    d = descent(p, g, weight_decay, maximize)
    s = variance = alpha * s + (1 - alpha) * d * d
    if a is not None:
        a = alpha * a.astype(np.float64) + (1 - alpha) * d
        variance = np.maximum(s - a * a, 0.0)  # rounded, it may be below
    step = d / (np.sqrt(variance) + eps)
    if b is not None:
        step = b = float(momentum) * b.astype(np.float64) + step
    return tuple([x.astype(kind) for x in (p - lr * step, s, b, a) if x is not None])


@rmsprop.reference
def rmsprop_reference(p, g, s, lr, **given):
    return _rmsprop(p, g, s, None, None, lr, None, **given)


@rmsprop_momentum.reference
def rmsprop_momentum_reference(p, g, s, b, lr, momentum, **given):
    return _rmsprop(p, g, s, b, None, lr, momentum, **given)


@rmsprop_centered.reference
def rmsprop_centered_reference(p, g, s, a, lr, **given):
    return _rmsprop(p, g, s, None, a, lr, None, **given)


@rmsprop_centered_momentum.reference
def rmsprop_centered_momentum_reference(p, g, s, b, a, lr, momentum, **given):
    return _rmsprop(p, g, s, b, a, lr, momentum, **given)


def _rmsprop_samples(moments: list[str], scalars: dict) -> object:
    """The mean square exceeds the square of the mean, as it does in training."""

    def samples(draw):
        ranges = {"s": (1.5, 2.0), "b": (-1.0, 1.0), "a": (-1.0, 1.0)}
        for dtype in draw.floats:
            for shape in [(0,), (1,), (17,), (3, 5)]:
                for attrs in _ATTRS:
                    like = [draw(dtype, *shape, low=-1.0, high=1.0) for _ in range(2)]
                    for name in moments:
                        low, high = ranges[name]
                        like.append(draw(dtype, *shape, low=low, high=high))
                    numbers = [draw(dtype, low=low, high=high) for low, high in scalars.values()]
                    yield (*like, *numbers), attrs

    return samples


rmsprop.samples(_rmsprop_samples(["s"], LR))
rmsprop_momentum.samples(_rmsprop_samples(["s", "b"], LR | _MOMENTUM))
rmsprop_centered.samples(_rmsprop_samples(["s", "a"], LR))
rmsprop_centered_momentum.samples(_rmsprop_samples(["s", "b", "a"], LR | _MOMENTUM))


@op(kernel="adagrad", elementwise=True, differentiable=False)
def adagrad(
    p: TensorType,
    g: TensorType,
    s: TensorType,
    lr: TensorType,
    t: TensorType,
    *,
    lr_decay: float = 0.0,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType]:
    """Parameter and sum of squares after step ``t`` of Adagrad (Duchi et al. 2011).

    ``s' = s + d * d``; ``p - lr / (1 + (t - 1) * lr_decay) * d / (sqrt(s') + eps)``.
    """
    require_step("adagrad", p, {"g": g, "s": s}, {"lr": lr, "t": t})
    return p, p


@adagrad.reference
def adagrad_reference(p, g, s, lr, t, *, lr_decay, eps, weight_decay, maximize):
    kind = p.dtype
    p, g, s, lr, t = in_float64(p, g, s, lr, t)
    d = descent(p, g, weight_decay, maximize)
    s = s + d * d
    p = p - lr / (1 + (t - 1) * lr_decay) * d / (np.sqrt(s) + eps)
    return p.astype(kind), s.astype(kind)


@adagrad.samples
def adagrad_samples(draw):
    for dtype in draw.floats:
        for shape in [(0,), (1,), (17,), (3, 5)]:
            for attrs in _ATTRS:
                like = [draw(dtype, *shape), draw(dtype, *shape)]
                like.append(draw(dtype, *shape, low=0.5, high=1.0))
                numbers = draw(dtype, low=0.01, high=0.1), draw(dtype, low=1, high=9)
                yield (*like, *numbers), attrs | {"lr_decay": 0.1}


@op(kernel="adadelta", elementwise=True, differentiable=False)
def adadelta(
    p: TensorType,
    g: TensorType,
    s: TensorType,
    a: TensorType,
    lr: TensorType,
    *,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Parameter and mean squares of gradients and of steps after a step of Adadelta (Zeiler 2012).

    ``s' = rho * s + (1 - rho) * d * d``; ``e = sqrt(a + eps) / sqrt(s' + eps) * d``;
    ``p - lr * e``; ``a' = rho * a + (1 - rho) * e * e``.
    """
    require_step("adadelta", p, {"g": g, "s": s, "a": a}, {"lr": lr})
    return p, p, p


@adadelta.reference
def adadelta_reference(p, g, s, a, lr, *, rho, eps, weight_decay, maximize):
    kind = p.dtype
    p, g, s, a, lr = in_float64(p, g, s, a, lr)
    d = descent(p, g, weight_decay, maximize)
    s = rho * s + (1 - rho) * d * d
    step = np.sqrt(a + eps) / np.sqrt(s + eps) * d
    a = rho * a + (1 - rho) * step * step
    return (p - lr * step).astype(kind), s.astype(kind), a.astype(kind)


@adadelta.samples
def adadelta_samples(draw):
    for dtype in draw.floats:
        for shape in [(0,), (1,), (17,), (3, 5)]:
            for attrs in _ATTRS:
                like = [draw(dtype, *shape), draw(dtype, *shape)]
                like += [draw(dtype, *shape, low=0.5, high=1.0) for _ in range(2)]
                yield (*like, draw(dtype, low=0.01, high=0.1)), attrs


@op(kernel="lion", elementwise=True, differentiable=False)
def lion(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    lr: TensorType,
    beta1: TensorType,
    *,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType]:
    """Parameter and momentum after a step of Lion (Chen et al. 2023), its weight decay decoupled.

    ``p * (1 - lr * weight_decay) - lr * sign(beta1 * m + (1 - beta1) * g)``;
    ``m' = beta2 * m + (1 - beta2) * g``.
    """
    require_step("lion", p, {"g": g, "m": m}, {"lr": lr, "beta1": beta1})
    return p, p


@lion.reference
def lion_reference(p, g, m, lr, beta1, *, beta2, weight_decay, maximize):
    kind = p.dtype
    p, g, m, lr, beta1 = in_float64(p, g, m, lr, beta1)
    d = -g if maximize else g
    p = p * (1 - lr * weight_decay) - lr * np.sign(beta1 * m + (1 - beta1) * d)
    return p.astype(kind), (beta2 * m + (1 - beta2) * d).astype(kind)


samples_of(lion, 1, LR | BETA, *_ATTRS)
