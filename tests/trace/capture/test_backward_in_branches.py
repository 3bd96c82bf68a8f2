"""backward() on paths that a tensor chooses, of histories that began before the choice."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import CaptureError, GradientError
from hybrid.optim import Adam
from tests.staging.harness import describe, draw, f32

Step = Callable[[hy.Tensor, hy.Tensor, hy.Tensor], Any]


def scaled_on_one_path(x, w, u):
    loss = w * x[0]
    if x[0] < 1:
        loss = loss / 2
        loss.backward()
    return loss


def on_either_path(x, w, u):
    loss = w * x[0]
    if x[0] < 1:
        loss.backward()
    else:
        (loss * 2).backward()
    return loss


def on_nested_paths_after_a_return(x, w, u):
    h = hy.sin(w * x[0]) * u
    if x[0] > 5:
        return h
    loss = h * h + w
    if x[1] > 0:
        loss = loss * u
        if x[1] > 1:
            loss = loss + h * w
            loss.backward()
        else:
            (loss * 3).backward()
    return loss


def after_a_guard(x, w, u):
    if x[0] > 5:
        return x[0] * w
    h = hy.exp(w * x[0]) * u
    if x[1] > 0:
        h = h * u
    loss = h * h
    loss.backward()
    return loss.detach()


def kept_in_a_loop(x, w, u):
    h = w * x[0]
    for i in range(3):
        if x[i % 2] > 1:
            (h * u * i).backward(retain_graph=True)
    return h


def kept_in_a_while(x, w, u):
    h, n = w * x[0], 0
    while h.detach() * n < 10:
        (h * u * n).backward(retain_graph=True)
        n += 1
    return h, n


def after_an_inner_gradient(x, w, u):
    h = hy.exp(w * x[0])
    g = h
    if x[1] > 0:
        g = hy.grad(lambda a: hy.sin(a) * h * w)(u)
        (g * h).backward()
    return g


def freed_on_every_path(x, w, u):
    loss = hy.sin(w * x[0])
    if x[1] > 0:
        (loss * 2).backward()
    else:
        loss.backward()
    try:
        loss.backward()
    except GradientError:
        return loss * 0
    return loss


STEPS = [
    scaled_on_one_path,
    on_either_path,
    on_nested_paths_after_a_return,
    after_a_guard,
    kept_in_a_loop,
    kept_in_a_while,
    after_an_inner_gradient,
    freed_on_every_path,
]
INPUTS = [f32(pair) for pair in ((0.5, 0.5), (0.5, 2.0), (2.0, -1.0), (6.0, 1.0), (0.25, -3.0))]


def ran(step: Step, x: hy.Tensor) -> Any:
    w, u = nn.Parameter(f32(2.0)), nn.Parameter(f32(3.0))
    result = step(x, w, u)
    return describe([result, w.grad, u.grad])


@pytest.mark.parametrize("step", STEPS, ids=[step.__name__ for step in STEPS])
def test_the_same_gradients(step: Step) -> None:
    hybridized = hy.hybridize(step)
    for x in INPUTS:
        assert ran(hybridized, x) == ran(step, x), x


def test_a_training_step_with_guards() -> None:
    """Skips bad batches by an early return, scales the loss of large ones, clips, then updates."""

    class Fit:
        def __init__(self) -> None:
            hy.random.seed(0)
            self.net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
            self.optimizer = Adam(self.net.parameters(), lr=0.05)
            self.skipped = hy.asarray(0)

        def step(self, x, y):
            self.optimizer.zero_grad()
            if not hy.all(hy.isfinite(x)):
                self.skipped = self.skipped + 1
                return hy.asarray(0.0)
            loss = hy.mean((self.net(x) - y) ** 2)
            if loss > 2:
                loss = loss / 4
            loss.backward()
            norm = hy.sqrt(sum(hy.sum(p.grad**2) for p in self.net.parameters()))
            if norm > 0.5:
                for p in self.net.parameters():
                    p.grad = p.grad * (0.5 / norm)
            self.optimizer.step()
            return loss.detach()

    def history(hybridized: bool) -> Any:
        fit = Fit()
        step = hy.hybridize(fit.step) if hybridized else fit.step
        losses = []
        for i in range(6):
            x = draw(8, 4, seed=i) * (float("inf") if i == 3 else 1.0)
            losses.append(step(x, draw(8, 1, seed=50 + i) * (i % 3)))
        return describe([losses, fit.skipped, [p.detach() for p in fit.net.parameters()]])

    assert history(True) == history(False)


def test_the_gradient_goes_to_the_argument_of_the_call() -> None:
    """And not to the one that the plan was made with, of which nobody may have heard since."""

    @hy.hybridize
    def step(x, w):
        loss = w * x
        if x < 1:
            loss.backward()
        return loss

    for value in (2.0, 0.25, 0.5, 3.0, 0.75):
        w = nn.Parameter(f32(2.0))
        step(f32(value), w)
        assert describe(w.grad) == describe(f32(value) if value < 1 else None)
    assert len(step.plans) == 1
    w = f32(2.0)
    w.requires_grad = True
    with pytest.raises(CaptureError, match="reaches a value computed outside it"):
        step(f32(0.5), w * 1)  # not a leaf: its history would have to be walked, too


def test_a_loop_that_stops_early_is_captured_again_from_what_was_there() -> None:
    """The second call captures several times: another number makes numbers inputs."""

    def step(x, enough, count, state):
        taken, left = 0, hy.sum(x)
        while taken < 3 and left:
            taken += 1
            if enough:
                break
            hy.sum(state.w).backward()

    def gradients(function: Any) -> Any:
        state = SimpleNamespace(w=hy.ones(2))
        state.w.requires_grad = True
        found = []
        for count, enough in ((3, 3.0), (1, 2.5), (2, 0.0)):
            function(f32([2.0, 1.0]), f32(enough), count, state)
            found.append(describe(state.w.grad))
        return found

    assert gradients(hy.hybridize(step)) == gradients(step)
