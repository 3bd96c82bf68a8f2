"""Networks whose channels hang together in each of the ways that there are."""

from typing import Any

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.nn import functional as F


def drawn(*shape: int, seed: int = 0) -> hy.Tensor:
    return hy.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class Residual(nn.Module):
    """What a block gives is added to what it got."""

    def __init__(self) -> None:
        self.stem, self.bn0 = nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv1, self.bn1 = nn.Conv2d(8, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12)
        self.conv2, self.bn2 = nn.Conv2d(12, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 10)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu(self.bn0(self.stem(x)))
        y = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(y)) + x)
        return self.linear(x.mean(axis=(2, 3)))


class Dense(nn.Module):
    """What each layer gives is put behind what it got (Huang et al. 2017)."""

    def __init__(self) -> None:
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 4, 3, padding=1)
        self.conv3 = nn.Conv2d(10, 5, 1)
        self.linear = nn.Linear(15, 10)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu(self.conv1(x))
        x = hy.concat([x, F.relu(self.conv2(x))], axis=1)
        x = hy.concat([x, F.relu(self.conv3(x))], axis=1)
        return self.linear(F.max_pool2d(x, 8).reshape((x.shape[0], -1)))


class Separable(nn.Module):
    """Depthwise, grouped and transposed convolutions."""

    def __init__(self) -> None:
        self.wide = nn.Conv2d(1, 8, 1)
        self.depthwise = nn.Conv2d(8, 16, 3, groups=8)
        self.grouped = nn.Conv2d(16, 12, 1, groups=4)
        self.up = nn.ConvTranspose2d(12, 6, 2, stride=2, groups=2)
        self.last = nn.ConvTranspose2d(6, 3, 2)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        x = F.relu6(self.depthwise(F.relu(self.wide(x))))
        return self.last(F.leaky_relu(self.up(F.silu(self.grouped(x)))))


class Flat(nn.Sequential):
    """A channel is a block of what the linear layer reads."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(54, 20),
            nn.Tanh(), nn.Linear(20, 10),
        )  # fmt: skip


class Gated(nn.Module):
    """Halves of one layer multiply each other; a norm of all channels stands at the end."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(8, 24), nn.Linear(12, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return self.norm(x + self.second(F.glu(self.first(x), dim=-1)))


class Attention(nn.Module):
    """MultiheadAttention of what it gets with itself, or of keys of another width."""

    def __init__(self, kdim: int | None = None, more: bool = False) -> None:
        self.kdim = kdim
        self.attention = nn.MultiheadAttention(
            12, 3, kdim=kdim, vdim=kdim, add_bias_kv=more, batch_first=True
        )

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        key = x if self.kdim is None else x[..., : self.kdim]
        return self.attention(x, key, key, need_weights=False)[0]


class Steps(nn.Module):
    """A recurrent layer between others, of which outputs at all times and the last are read."""

    def __init__(self, layer: type[nn.Module], **how: Any) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(8, 10), layer(10, 12, batch_first=True, **how)
        width = self.layer(hy.zeros((1, 1, 10)))[0].shape[-1]
        self.last = nn.Linear(2 * width, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        rows = self.layer(hy.relu(self.first(x)))[0]
        return self.last(hy.concat([rows[:, -1], rows.mean(axis=1)], axis=-1))


class LastState(nn.Module):
    """Of which the state is read in which the layer ends."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.LSTM(8, 12, num_layers=2), nn.Linear(24, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        _, (h, c) = self.layer(x)
        return self.last(hy.concat([h[-1], c[-1]], axis=-1))


class OwnLoop(nn.Module):
    """A loop over cells, with a layer in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.mixed, self.last = nn.GRUCell(8, 12), nn.Linear(12, 12), nn.Linear(12, 4)

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        h = hy.zeros((x.shape[1], self.cell.hidden_size))
        for row in x:
            h = hy.tanh(self.mixed(self.cell(row, h)))
        return self.last(h)


IMAGES = drawn(2, 1, 8, 8)
ROWS = drawn(3, 5, 8)
CHANNELS = {
    "residual": (Residual, IMAGES),
    "dense": (Dense, IMAGES),
    "separable": (Separable, IMAGES),
    "flat": (Flat, IMAGES),
    "gated": (Gated, ROWS),
    "lstm": (lambda: Steps(nn.LSTM), ROWS),
    "gru": (lambda: Steps(nn.GRU, bidirectional=True), ROWS),
    "rnn": (lambda: Steps(nn.RNN, nonlinearity="relu", bias=False), ROWS),
    "deep": (lambda: Steps(nn.LSTM, num_layers=2, bidirectional=True), ROWS),
    "projected": (lambda: Steps(nn.LSTM, proj_size=5), ROWS),
    "last_state": (LastState, ROWS),
    "own_loop": (OwnLoop, ROWS),
}
