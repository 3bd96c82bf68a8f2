"""One step of an optimizer, element by element; the step is not differentiable.

Operands are the parameter ``p``, its gradient ``g``, moments of its shape, then numbers of rank 0:
``lr``, ``momentum`` or ``beta1``, and ``t``, which counts steps from 1.  Results are the parameter
and the moments after the step.  ``d`` is the gradient (with the other sign if ``maximize``) plus
``weight_decay * p``; where ``decoupled``, ``p`` shrinks by ``lr * weight_decay * p`` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hybrid.core.types import TensorType
from hybrid.ir import op
from hybrid.ops.support.operand_checks import require_floating, require_same_dtype, require_shape


def require_step(
    name: str, p: TensorType, like: dict[str, TensorType], scalars: dict[str, TensorType]
) -> None:
    """``like`` have the type of the parameter, ``scalars`` its dtype and rank 0."""
    require_floating(name, p=p)
    require_same_dtype(name, p, *like.values(), *scalars.values())
    for label, type in like.items():
        require_shape(name, label, type, p.shape)
    for label, type in scalars.items():
        require_shape(name, label, type, ())


def in_float64(*arrays: np.ndarray) -> list[np.ndarray]:
    """The operands as a reference computes with them."""
    return [np.asarray(a, np.float64) for a in arrays]


def descent(p: Any, g: Any, weight_decay: float, maximize: bool) -> Any:
    """The direction of descent before any memory of earlier ones."""
    return (-g if maximize else g) + weight_decay * p


def samples_of(op: Any, moments: int, scalars: dict[str, Any], *attrs: dict[str, Any]) -> None:
    """Declare samples: ``scalars`` are ranges by name, None for ``lr`` where it comes."""

    @op.samples
    def samples(draw: Any) -> Iterator[Any]:
        for dtype in draw.floats:
            for shape in [(0,), (1,), (17,), (3, 5)]:
                for given in attrs:
                    p, g, first = (draw(dtype, *shape) for _ in range(3))
                    others = [draw(dtype, *shape, low=0.5, high=1.0) for _ in range(moments - 1)]
                    numbers = [draw(dtype, low=low, high=high) for low, high in scalars.values()]
                    yield (p, g, *[first, *others][:moments], *numbers), given


LR = {"lr": (0.01, 0.1)}
T = {"t": (1.0, 1.0)}
BETA = {"beta1": (0.8, 0.9)}
DECAYED = {"weight_decay": 0.01}


@op(kernel="sgd", elementwise=True, differentiable=False)
def sgd(
    p: TensorType,
    g: TensorType,
    lr: TensorType,
    *,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> TensorType:
    """The parameter after a step: ``p - lr * d``."""
    require_step("sgd", p, {"g": g}, {"lr": lr})
    return p


@sgd.reference
def sgd_reference(p, g, lr, *, weight_decay, maximize):
    kind = p.dtype
    p, g, lr = in_float64(p, g, lr)
    return (p - lr * descent(p, g, weight_decay, maximize)).astype(kind)


samples_of(sgd, 0, LR, DECAYED, DECAYED | {"maximize": True})


@op(kernel="sgd_momentum", elementwise=True, differentiable=False)
def sgd_momentum(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    lr: TensorType,
    momentum: TensorType,
    *,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> tuple[TensorType, TensorType]:
    """Parameter and momentum after a step (Sutskever et al. 2013).

    ``m' = momentum * m + d``; then ``p - lr * m'``, or with Nesterov's momentum
    ``p - lr * (d + momentum * m')``.
    """
    require_step("sgd_momentum", p, {"g": g, "m": m}, {"lr": lr, "momentum": momentum})
    return p, p


@sgd_momentum.reference
def sgd_momentum_reference(p, g, m, lr, momentum, *, weight_decay, nesterov, maximize):
    kind = p.dtype
    p, g, m, lr, momentum = in_float64(p, g, m, lr, momentum)
    d = descent(p, g, weight_decay, maximize)
    moved = momentum * m + d
    along = d + momentum * moved if nesterov else moved
    return (p - lr * along).astype(kind), moved.astype(kind)


samples_of(
    sgd_momentum,
    1,
    LR | {"momentum": (0.8, 0.9)},
    DECAYED,
    DECAYED | {"nesterov": True, "maximize": True},
)


@op(kernel="sgd_dampened", elementwise=True, differentiable=False)
def sgd_dampened(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    lr: TensorType,
    momentum: TensorType,
    t: TensorType,
    *,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType]:
    """``sgd_momentum`` with ``m' = momentum * m + (1 - dampening) * d``.

    At the first step it is not dampened yet, as in PyTorch's SGD.
    """
    require_step("sgd_dampened", p, {"g": g, "m": m}, {"lr": lr, "momentum": momentum, "t": t})
    return p, p


@sgd_dampened.reference
def sgd_dampened_reference(p, g, m, lr, momentum, t, *, dampening, weight_decay, maximize):
    kind = p.dtype
    p, g, m, lr, momentum, t = in_float64(p, g, m, lr, momentum, t)
    share = 1.0 if t <= 1 else 1 - dampening
    moved = momentum * m + share * descent(p, g, weight_decay, maximize)
    return (p - lr * moved).astype(kind), moved.astype(kind)


samples_of(
    sgd_dampened,
    1,
    LR | {"momentum": (0.8, 0.9), "t": (0.5, 2.5)},
    DECAYED | {"dampening": 0.25},
    DECAYED | {"dampening": 0.25, "maximize": True},
)


@op(kernel="adam", elementwise=True, differentiable=False)
def adam(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    v: TensorType,
    lr: TensorType,
    beta1: TensorType,
    t: TensorType,
    *,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Parameter and both moments after step ``t`` of Adam (Kingma and Ba 2015).

    ``m' = beta1 * m + (1 - beta1) * d``, ``v' = beta2 * v + (1 - beta2) * d * d``; both are divided
    by ``1 - beta ** t`` for ``p - lr * m' / (sqrt(v') + eps)``.  ``decoupled`` is AdamW (Loshchilov
    and Hutter 2019).
    """
    require_step("adam", p, {"g": g, "m": m, "v": v}, {"lr": lr, "beta1": beta1, "t": t})
    return p, p, p


def adam_moments(
    p: Any, g: Any, m: Any, v: Any, lr: Any, beta1: Any, given: dict[str, Any]
) -> tuple[Any, Any, Any, Any]:
    """(the parameter with its own decay, direction, both moments) of the family of Adam."""
    decoupled = given.get("decoupled", False)
    d = descent(p, g, 0.0 if decoupled else given["weight_decay"], given["maximize"])
    p = p * (1 - lr * given["weight_decay"]) if decoupled else p
    beta2 = given["beta2"]
    return p, d, beta1 * m + (1 - beta1) * d, beta2 * v + (1 - beta2) * d * d


@adam.reference
def adam_reference(p, g, m, v, lr, beta1, t, **given):
    kind = p.dtype
    p, g, m, v, lr, beta1, t = in_float64(p, g, m, v, lr, beta1, t)
    p, _, m, v = adam_moments(p, g, m, v, lr, beta1, given)
    size = np.sqrt(v / (1 - given["beta2"] ** t)) + given["eps"]
    p = p - lr * (m / (1 - beta1**t)) / size
    return p.astype(kind), m.astype(kind), v.astype(kind)


_ADAM_ATTRS = (DECAYED, DECAYED | {"decoupled": True, "maximize": True})
samples_of(adam, 2, LR | BETA | T, *_ADAM_ATTRS)


@op(kernel="amsgrad", elementwise=True, differentiable=False)
def amsgrad(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    v: TensorType,
    x: TensorType,
    lr: TensorType,
    beta1: TensorType,
    t: TensorType,
    *,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    """``adam`` that divides by ``x' = max(x, v')`` in place of ``v'`` (Reddi et al. 2018)."""
    like = {"g": g, "m": m, "v": v, "x": x}
    require_step("amsgrad", p, like, {"lr": lr, "beta1": beta1, "t": t})
    return p, p, p, p


@amsgrad.reference
def amsgrad_reference(p, g, m, v, x, lr, beta1, t, **given):
    kind = p.dtype
    p, g, m, v, x, lr, beta1, t = in_float64(p, g, m, v, x, lr, beta1, t)
    p, _, m, v = adam_moments(p, g, m, v, lr, beta1, given)
    x = np.maximum(x, v)
    size = np.sqrt(x / (1 - given["beta2"] ** t)) + given["eps"]
    p = p - lr * (m / (1 - beta1**t)) / size
    return p.astype(kind), m.astype(kind), v.astype(kind), x.astype(kind)


samples_of(amsgrad, 3, LR | BETA | T, *_ADAM_ATTRS)


@op(kernel="adamax", elementwise=True, differentiable=False)
def adamax(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    u: TensorType,
    lr: TensorType,
    beta1: TensorType,
    t: TensorType,
    *,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Adam of the greatest gradient: ``u' = max(beta2 * u, |d| + eps)`` (Kingma and Ba 2015).

    ``p - lr / (1 - beta1 ** t) * m' / u'``.
    """
    require_step("adamax", p, {"g": g, "m": m, "u": u}, {"lr": lr, "beta1": beta1, "t": t})
    return p, p, p


@adamax.reference
def adamax_reference(p, g, m, u, lr, beta1, t, **given):
    kind = p.dtype
    p, g, m, u, lr, beta1, t = in_float64(p, g, m, u, lr, beta1, t)
    p, d, m, _ = adam_moments(p, g, m, u, lr, beta1, given)
    u = np.maximum(given["beta2"] * u, np.abs(d) + given["eps"])
    p = p - lr / (1 - beta1**t) * m / u
    return p.astype(kind), m.astype(kind), u.astype(kind)


samples_of(adamax, 2, LR | BETA | T, DECAYED, DECAYED | {"maximize": True})


@op(kernel="radam", elementwise=True, differentiable=False)
def radam(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    v: TensorType,
    lr: TensorType,
    beta1: TensorType,
    t: TensorType,
    *,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Adam with a rectified step (Liu et al. 2020): by ``m'`` alone while the variance of the
    adaptive one is unbounded.
    """
    require_step("radam", p, {"g": g, "m": m, "v": v}, {"lr": lr, "beta1": beta1, "t": t})
    return p, p, p


@radam.reference
def radam_reference(p, g, m, v, lr, beta1, t, **given):
    kind = p.dtype
    p, g, m, v, lr, beta1, t = in_float64(p, g, m, v, lr, beta1, t)
    p, _, m, v = adam_moments(p, g, m, v, lr, beta1, given)
    beta2, bias2 = given["beta2"], 1 - given["beta2"] ** t
    step = m / (1 - beta1**t)
    most = 2 / (1 - beta2) - 1
    length = most - 2 * t * beta2**t / bias2
    if length > 5:
        ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
        step = step * np.sqrt(ratio) * np.sqrt(bias2) / (np.sqrt(v) + given["eps"])
    return (p - lr * step).astype(kind), m.astype(kind), v.astype(kind)


# Rectified and, with a mean that forgets as fast as 0.5, not.
samples_of(
    radam,
    2,
    LR | BETA | {"t": (7.0, 9.0)},
    *[given | {"beta2": beta2} for given in _ADAM_ATTRS for beta2 in (0.9, 0.5)],
)


@op(kernel="nadam_product", elementwise=True, differentiable=False)
def nadam_product(
    product: TensorType, beta1: TensorType, t: TensorType, *, momentum_decay: float = 4e-3
) -> TensorType:
    """``product`` times the momentum of step ``t`` of NAdam (Dozat 2016).

    That is ``beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))``.
    """
    require_step("nadam_product", product, {}, {"product": product, "beta1": beta1, "t": t})
    return product


def _nadam_momentum(beta1: Any, t: Any, momentum_decay: float) -> Any:
    return beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))


@nadam_product.reference
def nadam_product_reference(product, beta1, t, *, momentum_decay):
    before, beta1, t = in_float64(product, beta1, t)
    return (before * _nadam_momentum(beta1, t, momentum_decay)).astype(product.dtype)


@nadam_product.samples
def nadam_product_samples(draw):
    for dtype in draw.floats:
        for decay in (4e-3, 0.5):
            numbers = draw(dtype, low=0.1, high=1), draw(dtype, low=0.8, high=0.9)
            yield (*numbers, draw(dtype, low=1, high=99)), {"momentum_decay": decay}


@op(kernel="nadam", elementwise=True, differentiable=False)
def nadam(
    p: TensorType,
    g: TensorType,
    m: TensorType,
    v: TensorType,
    lr: TensorType,
    beta1: TensorType,
    t: TensorType,
    product: TensorType,
    *,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum_decay: float = 4e-3,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[TensorType, TensorType, TensorType]:
    """Adam with Nesterov's momentum (Dozat 2016).

    ``product`` is that of the momenta of all steps up to ``t``.
    """
    scalars = {"lr": lr, "beta1": beta1, "t": t, "product": product}
    require_step("nadam", p, {"g": g, "m": m, "v": v}, scalars)
    return p, p, p


@nadam.reference
def nadam_reference(p, g, m, v, lr, beta1, t, product, **given):
    kind = p.dtype
    p, g, m, v, lr, beta1, t, product = in_float64(p, g, m, v, lr, beta1, t, product)
    p, d, m, v = adam_moments(p, g, m, v, lr, beta1, given)
    now = _nadam_momentum(beta1, t, given["momentum_decay"])
    after = _nadam_momentum(beta1, t + 1, given["momentum_decay"])
    size = np.sqrt(v / (1 - given["beta2"] ** t)) + given["eps"]
    step = (1 - now) / (1 - product) * d + after / (1 - product * after) * m
    return (p - lr * step / size).astype(kind), m.astype(kind), v.astype(kind)


samples_of(nadam, 2, LR | BETA | {"t": (1.0, 9.0), "product": (0.1, 0.5)}, *_ADAM_ATTRS)
