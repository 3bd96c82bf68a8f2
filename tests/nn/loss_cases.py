"""Every loss layer, with inputs and what it means in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import hybrid as hy
from hybrid import nn
from tests.nn import references as ref
from tests.nn.layer_cases import Case, draw, plain, whole

P, T = draw(6, 4), draw(6, 4)
CLASSES, SIGNS = whole(4, 6), np.sign(draw(6)).astype(np.float32)
CHANCES = ref.sigmoid(draw(6, 4)).astype(np.float32)
COUNTS = whole(5, 6, 4).astype(np.float32)
WEIGHT = np.array([0.5, 1, 2, 3], np.float32)


def log_softmax(x):
    return np.log(ref.softmax(x.astype(np.float64), 1))


def cross_entropy(x, classes, s):
    shares = s["weight"][classes]
    return -(log_softmax(x)[np.arange(6), classes] * shares).sum() / shares.sum()


def margins(x, classes):
    rows = [
        sum(max(0, 1 - row[c] + row[j]) for j in range(4) if j != c) / 4
        for row, c in zip(x, classes, strict=True)
    ]
    return np.mean(rows)


def distance(a, b):
    return np.linalg.norm(a - b + 1e-6, axis=1)


def binary(x, target, weight=1.0):
    return -(weight * target * np.log(x) + (1 - target) * np.log(1 - x))


LOSSES = [
    plain(nn.MSELoss, (P, T), lambda a, b: ((a - b) ** 2).mean()),
    plain(nn.L1Loss, (P, T), lambda a, b: np.abs(a - b).mean()),
    plain(
        lambda: nn.SmoothL1Loss(beta=0.5, reduction="sum"),
        (P, T),
        lambda a, b: np.where(np.abs(a - b) < 0.5, (a - b) ** 2, np.abs(a - b) - 0.25).sum(),
    ),
    plain(
        lambda: nn.HuberLoss(delta=0.5),
        (P, T),
        lambda a, b: np.where(
            np.abs(a - b) < 0.5, (a - b) ** 2 / 2, (np.abs(a - b) - 0.25) / 2
        ).mean(),
    ),
    plain(nn.PoissonNLLLoss, (P, COUNTS), lambda x, n: (np.exp(x) - n * x).mean()),
    plain(
        nn.GaussianNLLLoss,
        (P, T, CHANCES),
        lambda x, t, v: (np.log(v) + (x - t) ** 2 / v).mean() / 2,
    ),
    plain(
        lambda: nn.KLDivLoss(reduction="batchmean"),
        (P, CHANCES),
        lambda x, t: (t * (np.log(t) - x)).sum() / 6,
    ),
    Case(
        lambda: nn.CrossEntropyLoss(hy.asarray(WEIGHT)),
        (P, CLASSES),
        lambda s, x, c: cross_entropy(x, c, s),
        {"weight": (4,)},
    ),
    Case(
        lambda: nn.NLLLoss(hy.asarray(WEIGHT)),
        (log_softmax(P).astype(np.float32), CLASSES),
        lambda s, x, c: cross_entropy(x, c, s),
        {"weight": (4,)},
    ),
    plain(nn.BCELoss, (CHANCES, COUNTS / 4), lambda x, t: binary(x, t).mean()),
    Case(
        lambda: nn.BCEWithLogitsLoss(pos_weight=hy.asarray(WEIGHT)),
        (P, COUNTS / 4),
        lambda s, x, t: binary(ref.sigmoid(x), t, s["pos_weight"]).mean(),
        {"pos_weight": (4,)},
    ),
    plain(nn.MultiMarginLoss, (P, CLASSES), margins),
    plain(
        nn.MultiLabelMarginLoss,
        (P, np.tile([2, -1, 0, 0], (6, 1))),
        lambda x, _: np.mean(
            [sum(max(0, 1 - row[2] + row[j]) for j in (0, 1, 3)) / 4 for row in x]
        ),
    ),
    plain(
        nn.MultiLabelSoftMarginLoss,
        (P, COUNTS / 4),
        lambda x, t: binary(ref.sigmoid(x), t).mean(),
    ),
    plain(
        nn.HingeEmbeddingLoss,
        (P[:, 0], SIGNS),
        lambda x, t: np.where(t == 1, x, np.maximum(0, 1 - x)).mean(),
    ),
    plain(
        lambda: nn.MarginRankingLoss(0.3),
        (P[:, 0], P[:, 1], SIGNS),
        lambda a, b, t: np.maximum(0, 0.3 - t * (a - b)).mean(),
    ),
    plain(
        nn.CosineEmbeddingLoss,
        (P, T, SIGNS),
        lambda a, b, t: np.where(
            t == 1,
            1 - (c := (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)),
            np.maximum(0, c),
        ).mean(),
    ),
    plain(nn.SoftMarginLoss, (P[:, 0], SIGNS), lambda x, t: np.log1p(np.exp(-t * x)).mean()),
    plain(
        nn.TripletMarginLoss,
        (P, T, CHANCES),
        lambda a, p, n: np.maximum(0, 1 + distance(a, p) - distance(a, n)).mean(),
    ),
    plain(
        lambda: nn.TripletMarginWithDistanceLoss(
            distance_function=lambda a, b: ((a - b) ** 2).sum(-1)
        ),
        (P, T, CHANCES),
        lambda a, p, n: np.maximum(0, 1 + ((a - p) ** 2).sum(1) - ((a - n) ** 2).sum(1)).mean(),
    ),
    plain(
        nn.CTCLoss,
        (
            log_softmax(P)[:, None].astype(np.float32),
            np.array([[1, 2]]),
            np.array([6]),
            np.array([2]),
        ),
        lambda x, *_: -np.log(ctc(np.exp(x[:, 0]), (1, 2))) / 2,
    ),
]


def ctc(chances: Any, labels: tuple[int, ...]) -> float:
    """The sum over all paths that collapse to ``labels``."""
    total = 0.0
    for path in np.ndindex(*[chances.shape[1]] * len(chances)):
        merged = [c for i, c in enumerate(path) if c and (i == 0 or c != path[i - 1])]
        if tuple(merged) == labels:
            total += np.prod(chances[np.arange(len(path)), path])
    return total
