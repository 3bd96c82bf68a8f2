"""The optimizers once more, in NumPy, from the documents that define them.

Each is a generator: it gets the first value of a parameter and its gradients, and gives the
parameter and the state kept after each step.  The text followed is that of PyTorch 2's
documentation, page by page (``torch.optim.<Name>``), and for Lion algorithm 2 of Chen et al.
(2023), "Symbolic discovery of optimization algorithms".
"""

import numpy as np

from hybrid import optim


def sgd(
    p, grads, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False
):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html"""
    buffer = None
    for g in grads:
        d = (-g if maximize else g) + weight_decay * p
        if momentum:
            buffer = d if buffer is None else momentum * buffer + (1 - dampening) * d
            d = d + momentum * buffer if nesterov else buffer
        p = p - lr * d
        yield p, {} if buffer is None else {"momentum_buffer": buffer}


def adam(
    p,
    grads,
    lr,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    maximize=False,
    decoupled=False,
):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html and AdamW.html"""
    m, v, greatest = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        greatest = np.maximum(greatest, v)
        root = np.sqrt((greatest if amsgrad else v) / (1 - betas[1] ** t))
        p = p - lr * (m / (1 - betas[0] ** t)) / (root + eps)
        kept = {"step": t, "exp_avg": m, "exp_avg_sq": v}
        yield p, kept | ({"max_exp_avg_sq": greatest} if amsgrad else {})


def adamw(p, grads, lr, weight_decay=1e-2, **settings):
    yield from adam(p, grads, lr, weight_decay=weight_decay, decoupled=True, **settings)


def adamax(p, grads, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, maximize=False):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.Adamax.html"""
    m, u = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = (-g if maximize else g) + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        u = np.maximum(betas[1] * u, np.abs(g) + eps)
        p = p - lr * m / ((1 - betas[0] ** t) * u)
        yield p, {"step": t, "exp_avg": m, "exp_inf": u}


def nadam(
    p,
    grads,
    lr,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    momentum_decay=4e-3,
    decoupled_weight_decay=False,
    maximize=False,
):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.NAdam.html"""
    m, v, product = np.zeros_like(p), np.zeros_like(p), 1.0
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        now = betas[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay))
        after = betas[0] * (1 - 0.5 * 0.96 ** ((t + 1) * momentum_decay))
        product *= now
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        first = after * m / (1 - product * after) + (1 - now) * g / (1 - product)
        p = p - lr * first / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
        yield p, {"step": t, "mu_product": product, "exp_avg": m, "exp_avg_sq": v}


def radam(
    p,
    grads,
    lr,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    decoupled_weight_decay=False,
    maximize=False,
):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html"""
    m, v = np.zeros_like(p), np.zeros_like(p)
    most = 2 / (1 - betas[1]) - 1
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled_weight_decay:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        first = m / (1 - betas[0] ** t)
        length = most - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
        if length > 5:
            adaptive = np.sqrt(1 - betas[1] ** t) / (np.sqrt(v) + eps)
            ratio = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            p = p - lr * first * np.sqrt(ratio) * adaptive
        else:
            p = p - lr * first
        yield p, {"step": t, "exp_avg": m, "exp_avg_sq": v}


def rmsprop(
    p,
    grads,
    lr,
    alpha=0.99,
    eps=1e-8,
    weight_decay=0.0,
    momentum=0.0,
    centered=False,
    maximize=False,
):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html"""
    square, mean, buffer = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        square = alpha * square + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(square - mean * mean if centered else square) + eps)
        if momentum:
            step = buffer = momentum * buffer + step
        p = p - lr * step
        kept = {"square_avg": square} | ({"grad_avg": mean} if centered else {})
        yield p, kept | ({"momentum_buffer": buffer} if momentum else {})


def adagrad(
    p,
    grads,
    lr,
    lr_decay=0.0,
    weight_decay=0.0,
    initial_accumulator_value=0.0,
    eps=1e-10,
    maximize=False,
):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.Adagrad.html"""
    total = np.full_like(p, initial_accumulator_value)
    for t, g in enumerate(grads, 1):
        g = (-g if maximize else g) + weight_decay * p
        total = total + g * g
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(total) + eps)
        yield p, {"step": t, "sum": total}


def adadelta(p, grads, lr, rho=0.9, eps=1e-6, weight_decay=0.0, maximize=False):
    """https://docs.pytorch.org/docs/stable/generated/torch.optim.Adadelta.html"""
    square, steps = np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        square = rho * square + (1 - rho) * g * g
        step = np.sqrt(steps + eps) / np.sqrt(square + eps) * g
        steps = rho * steps + (1 - rho) * step * step
        p = p - lr * step
        yield p, {"square_avg": square, "acc_delta": steps}


def lion(p, grads, lr, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
    """Chen et al. 2023, algorithm 2."""
    m = np.zeros_like(p)
    for g in grads:
        g = -g if maximize else g
        p = p - lr * (np.sign(betas[0] * m + (1 - betas[0]) * g) + weight_decay * p)
        m = betas[1] * m + (1 - betas[1]) * g
        yield p, {"exp_avg": m}


def _with_flags(settings, *flags):
    return [settings, *[settings | {flag: True} for flag in flags]]


DECAY = {"weight_decay": 0.1}
ADAM = [{"lr": 1e-2}, {"lr": 3e-2, "betas": (0.8, 0.9), "eps": 1e-3}, {"betas": (0.0, 0.5)}]
FORMULAS = {  # the optimizer -> its formula, and settings to try
    optim.SGD: (
        sgd,
        [
            {"momentum": momentum, "dampening": dampening, "nesterov": nesterov} | decay
            for momentum in (0.0, 0.9)
            for dampening in (0.0, 0.3)
            for nesterov in (False, True)
            for decay in ({}, DECAY)
            if not nesterov or (momentum and not dampening)
        ]
        + [{"maximize": True} | DECAY, {"maximize": True, "momentum": 0.5, "dampening": 0.5}],
    ),
    optim.Adam: (
        adam,
        [*ADAM, *_with_flags({"lr": 1e-2, "betas": (0.5, 0.6)} | DECAY, "amsgrad", "maximize")],
    ),
    optim.AdamW: (
        adamw,
        [*ADAM, *_with_flags({"lr": 1e-2, "betas": (0.5, 0.6)} | DECAY, "amsgrad", "maximize")],
    ),
    optim.Adamax: (adamax, [*ADAM, *_with_flags({"lr": 1e-2} | DECAY, "maximize")]),
    optim.NAdam: (
        nadam,
        [
            {"lr": 1e-2},
            {"betas": (0.8, 0.9), "eps": 1e-3, "momentum_decay": 0.5},
            *_with_flags({"lr": 1e-2} | DECAY, "decoupled_weight_decay", "maximize"),
        ],
    ),
    optim.RAdam: (
        radam,
        [
            {"lr": 1e-2},
            {"betas": (0.8, 0.9), "eps": 1e-3},
            {"betas": (0.8, 0.5)},  # never rectified
            *_with_flags({"lr": 1e-2} | DECAY, "decoupled_weight_decay", "maximize"),
        ],
    ),
    optim.RMSprop: (
        rmsprop,
        [
            {"momentum": momentum} | more
            for momentum in (0.0, 0.9)
            for more in _with_flags({"alpha": 0.9, "eps": 1e-3} | DECAY, "centered", "maximize")
        ]
        + [{}],
    ),
    optim.Adagrad: (
        adagrad,
        [
            {},
            {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3},
            *_with_flags({"lr": 0.1} | DECAY, "maximize"),
        ],
    ),
    optim.Adadelta: (
        adadelta,
        [{}, {"lr": 0.5, "rho": 0.5, "eps": 1e-3}, *_with_flags(DECAY, "maximize")],
    ),
    optim.Lion: (lion, [{}, {"betas": (0.5, 0.6)}, *_with_flags({"lr": 1e-2} | DECAY, "maximize")]),
}
CASES = [(kind, settings) for kind, (_, tried) in FORMULAS.items() for settings in tried]


def named(case):
    """For ``ids``: the optimizer and its settings."""
    return f"{case[0].__name__}-{case[1]}".replace(" ", "")
