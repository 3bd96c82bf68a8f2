"""Pipelines of several ranks: the bits of one process, by all schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.errors import ShapeError
from tests.distributed.ranks import require_well


@pytest.mark.parametrize(
    "ranks", [2, *[pytest.param(n, marks=pytest.mark.nightly) for n in (3, 4)]]
)
def test_stages_of_ranks(ranks: int) -> None:
    require_well(ranks, "pipelined.py")


@pytest.mark.nightly
def test_one_process_computes_all_stages() -> None:
    require_well(1, "pipelined.py")
    require_well(1, "held_stages.py")


@pytest.mark.parametrize(
    "ranks", [2, *[pytest.param(n, marks=pytest.mark.nightly) for n in (3, 4)]]
)
def test_stages_hold_their_own(ranks: int) -> None:
    require_well(ranks, "held_stages.py")


# Eager calls --------------------------------------------------------------------------------------


class Noisy(nn.Module):
    """A model that draws for its rows, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(8, 4)
        self.register_buffer("calls", hy.zeros(()))

    def forward(self, x: Any, shift: Any) -> Any:
        self.calls.assign(self.calls + 1)
        noise = hy.random.normal(size=x.shape)
        return self.out(x + noise + shift) * self.calls, "text"


MODELS: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
    "dropout": lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 4)),
    "attention": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 4)), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.2, batch_first=True)
    ),
    "noise": Noisy,
    "tied": lambda: Tied(),
}


class Tied(nn.Module):
    """A model that uses a parameter twice."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(0.3 * hy.random.normal(size=(8, 8)))

    def forward(self, x: Any) -> Any:
        return hy.tanh(hy.tanh(x @ self.w) @ self.w)


class Around(nn.Module):
    """A pipelined model between layers, the first of which uses a parameter of the model."""

    def __init__(self, microbatches: int) -> None:
        super().__init__()
        self.first, self.model, self.last = nn.Linear(8, 8), Tied(), nn.Linear(8, 5)
        dist.pipeline(self.model, stages=2, microbatches=microbatches)

    def forward(self, x: Any) -> Any:
        return self.last(self.model(self.first(x) @ self.model.w) @ self.model.w)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": nn.functional.cross_entropy,
    "squares": lambda z, y: (z**2).mean(),
    "all_rows": lambda z, y: hy.log((z**2).sum()) + z.std(),
}


@pytest.mark.parametrize("microbatches", [2, 8, 24])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_stands_around_a_model_is_of_all_rows(loss: str, microbatches: int) -> None:
    draw = np.random.default_rng(0)
    x = hy.asarray(draw.standard_normal((24, 8)).astype("f4"))
    y = hy.asarray(draw.integers(0, 5, 24))
    found = []
    for hybridized in (False, True):
        hy.random.seed(3)
        net = Around(microbatches)
        optimizer = hy.optim.AdamW(net.parameters(), lr=0.01)

        def step(x: Any, y: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            z = net(x)
            made = LOSSES[loss](z, y)
            made.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return made, norm, (z.argmax(1) == y).astype(hy.float32).mean(), z.sum(0)

        run = hy.hybridize(step) if hybridized else step
        results = [t.numpy().tobytes() for _ in range(2) for t in run(x, y)]
        found.append(results + [p.numpy().tobytes() for p in net.parameters()])
    assert found[0] == found[1]


@pytest.mark.parametrize("microbatches", [3, 12])
@pytest.mark.parametrize("kind", MODELS)
def test_an_eager_step_has_the_bits_of_a_hybridized_one(kind: str, microbatches: int) -> None:
    x = hy.asarray(np.random.default_rng(0).standard_normal((12, 8)).astype("f4"))
    given = (x, x[:, :1]) if kind == "noise" else (x,)
    found = []
    for hybridized in (False, True):
        hy.random.seed(3)
        model = dist.pipeline(MODELS[kind](), stages=2, microbatches=microbatches)
        optimizer = hy.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)

        def step(*given: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            y = model(*given)
            y = y[0] if isinstance(y, tuple) else y
            penalty = sum((p * p).sum() for p in model.parameters())
            loss = (y**2).mean() + 0.1 * penalty
            loss.backward()
            optimizer.step()
            return loss

        run = hy.hybridize(step) if hybridized else step
        losses = [run(*given).item() for _ in range(2)]
        cells = [*model.parameters(), *model.buffers(), hy.random.default_generator().state]
        found.append((losses, [cell.numpy().tobytes() for cell in cells]))
    assert found[0] == found[1]


def test_eager_rows_are_those_of_microbatches() -> None:
    model = dist.pipeline(nn.Linear(8, 4), stages=1, microbatches=5)
    with pytest.raises(ShapeError) as caught:
        model(hy.ones((12, 8)))
    first, _, *rest = str(caught.value).splitlines()
    assert first.startswith("a batch of 12 rows and 5 microbatches")
    assert rest == [
        "Each microbatch has equally many rows: of the first axis of arguments.",
        "Fix: give a multiple of 5 rows, or pad the batch.",
    ]


def test_an_eager_loss_of_the_model_itself_is_that_of_all_rows() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return self.out(x).mean() + hy.random.uniform(size=())

    x = hy.asarray(np.random.default_rng(0).standard_normal((12, 8)).astype("f4"))
    found = []
    for microbatches in (1, 3):
        hy.random.seed(0)
        model = dist.pipeline(Mean(), stages=1, microbatches=microbatches)
        found.append((model(x).item(), hy.random.default_generator().state.tolist()))
    assert found[0] == found[1]


def test_eager_batch_norms_are_refused() -> None:
    model = dist.pipeline(nn.BatchNorm1d(8), stages=1, microbatches=3)
    with pytest.raises(ShapeError) as caught:
        model(hy.ones((12, 8)))
    first, *_, why, fix = str(caught.value).splitlines()
    assert first.startswith("batch_norm in a pipelined model cannot be computed by microbatches")
    assert why == "It needs all of them at once, and a stage gets them one by one."
    assert fix == "Fix: leave it out of the pipelined model, or give microbatches=1."
    model.eval()
    assert model(hy.ones((12, 8))).shape == (12, 8)
