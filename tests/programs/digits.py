"""A program to train from C, and rows for it: ``python -m tests.programs.digits FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as hy
from hybrid import nn, optim
from hybrid.programs import export


class Digits(nn.Module):
    """The MLP of the digits."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 32), nn.Linear(32, 10)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        return self.last(self.dropout(hy.relu(self.first(x))))


def trained(model: Any, optimizer: Any) -> Any:
    """A step of training."""

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def write(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write ``digits.hyb``, ``x.npy`` and ``y.npy``; return the rows."""
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((64, 64), np.float32), draw.integers(0, 10, 64)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    model = Digits(0.1)
    step = trained(model, optim.Adam(model.parameters(), lr=1e-2))
    batch = hy.asarray(x[:16]), hy.asarray(y[:16])
    export({"train_step": (step, *batch), "predict": (model, batch[0])}, folder / "digits.hyb")
    return x, y


if __name__ == "__main__":
    write(Path(sys.argv[1]))
