"""Whole networks of layers learn the same bits eagerly and hybridized, in one plan a mode."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from tests.helpers import same, tensor

CLASSES = hy.asarray(np.random.default_rng(1).integers(0, 5, 6))


class Residual(nn.Module):
    """A block whose shortcut sees what the activation in place has written, as in PyTorch."""

    def __init__(self, channels: int) -> None:
        self.conv = nn.Conv2d(channels, channels, 3, padding="same", padding_mode="circular")
        self.norm = nn.BatchNorm2d(channels)
        self.active = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.norm(self.conv(self.active(x)))
        return x + self.active(y)


class Texts(nn.Module):
    """Words to vectors, over time in both directions, and attention to the middle."""

    def __init__(self) -> None:
        self.words = nn.Embedding(20, 8, padding_idx=0)
        self.order = nn.LSTM(8, 4, 2, dropout=0.2, bidirectional=True, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.scores = nn.Linear(8, 5)

    def forward(self, words):
        x, _ = self.order(self.words(words))
        found, _ = self.attention(x, x, x, key_padding_mask=words == 0)
        return self.scores(self.norm(x + found).mean(axis=1))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        Residual(4),
        nn.MaxPool2d(2),
        nn.GroupNorm(2, 4),
        nn.Dropout2d(0.2),
        nn.ConvTranspose2d(4, 2, 2, stride=2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


WORDS = hy.asarray(np.random.default_rng(2).integers(0, 20, (6, 7)))
NETWORKS = [
    (images, tensor(6, 3, 6, 8)),
    (Texts, WORDS),
    (
        lambda: nn.Sequential(
            nn.Embedding(20, 8),
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
            nn.Flatten(),
            nn.Linear(56, 5),
        ),
        WORDS,
    ),
]


@pytest.mark.parametrize(("make", "inputs"), NETWORKS)
def test_training(make, inputs) -> None:
    hy.random.seed(0)
    eager = make()
    captured = copy.deepcopy(eager)

    def learner(network):
        loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
        optimizer = hy.optim.AdamW(network.parameters(), lr=0.02)

        def step(inputs, classes):
            optimizer.zero_grad()
            loss = loss_of(network(inputs), classes)
            loss.backward()
            optimizer.step()
            return loss

        return step

    steps = learner(eager), hy.hybridize(learner(captured))
    losses = []
    for step in steps:
        hy.random.seed(5)
        losses.append([step(inputs, CLASSES) for _ in range(6)])
    assert all(map(same, *losses))
    assert all(map(same, eager.state_dict().values(), captured.state_dict().values()))
    assert len(steps[1].plans) == 1
    assert losses[0][-1].item() < losses[0][0].item()
    eager.eval()
    captured.eval().hybridize()
    for _ in range(2):
        assert same(eager(inputs), captured(inputs))
    assert len(captured.plans) == 1
