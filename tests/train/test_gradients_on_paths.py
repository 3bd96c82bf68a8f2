"""What a captured training step reaches on some paths alone has a gradient on these paths alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "decay": lambda p: hy.optim.SGD(p, lr=0.1, weight_decay=0.5),
    "momentum": lambda p: hy.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: hy.optim.Adam(p, lr=0.1),
    "AdamW": lambda p: hy.optim.AdamW(p, lr=0.1, weight_decay=0.5),
}


class Network(nn.Module):
    """Two branches, and a layer in a loop that may make no iteration."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.repeated, self.last = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x: Any, n: Any) -> Any:
        x = self.first(x) if hy.sum(x) > 0 else self.second(x)
        for _ in range(n):
            x = hy.tanh(self.repeated(x))
        return self.last(x)


CALLS = [(1.0, 2), (1.0, 0), (-1.0, 0), (-1.0, 1), (1.0, 3)]


def trained(
    optimizer: str, body: Callable[..., Any], hybridizes: bool, shards: int = 0
) -> list[Any]:
    hy.random.seed(0)
    network = Network()
    parameters = list(network.parameters())
    optim = OPTIMIZERS[optimizer](parameters)
    if shards:
        dist.data_parallel(network, optim, shards=shards)
    step = body(network, optim, parameters)
    step = hy.hybridize(step, ledger=False) if hybridizes else step
    seen = []
    for scale, n in CALLS:
        loss = step(hy.asarray([[0.5, 1.5]]) * scale, hy.asarray(n))
        slopes = [None if p.grad is None else p.grad.tolist() for p in parameters]
        seen.append((loss.tolist(), slopes, [p.tolist() for p in parameters]))
    return seen


def plainly(network: Any, optimizer: Any, _: Any) -> Callable[..., Any]:
    def step(x, n):
        optimizer.zero_grad()
        loss = (network(x, n) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def twice(network: Any, optimizer: Any, _: Any) -> Callable[..., Any]:
    """Gradients of two losses are added, each of which may reach a parameter or not."""

    def step(x, n):
        optimizer.zero_grad()
        loss = (network(x, n) ** 2).sum()
        loss.backward()
        (network(-x, n - 1) * 0.5).sum().backward()
        optimizer.step()
        return loss

    return step


def clipped(network: Any, optimizer: Any, parameters: Any) -> Callable[..., Any]:
    def step(x, n):
        optimizer.zero_grad()
        loss = (network(x, n) ** 2).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss

    return step


def by_hand(network: Any, _: Any, parameters: Any) -> Callable[..., Any]:
    def step(x, n):
        for p in parameters:
            p.grad = None
        loss = (network(x, n) ** 2).sum()
        loss.backward()
        with hy.no_grad():
            for p in parameters:
                if p.grad is None:
                    p.assign(p + 1)
                else:
                    p.assign(p * 0.5 - p.grad * 0.1)
        return loss

    return step


def added_up(network: Any, optimizer: Any, _: Any) -> Callable[..., Any]:
    """Nothing clears them: those of former calls stay."""

    def step(x, n):
        loss = (network(x, n) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("body", [plainly, twice, clipped, by_hand, added_up])
def test_steps(body: Callable[..., Any], optimizer: str) -> None:
    assert trained(optimizer, body, True) == trained(optimizer, body, False)


@pytest.mark.parametrize("body", [plainly, twice, by_hand, added_up])
def test_steps_of_one_rank(body: Callable[..., Any]) -> None:
    """A data-parallel model sums the gradients that there are."""
    eager = trained("decay", body, False, shards=1)
    assert trained("decay", body, True, shards=1) == eager
    assert [seen[1] for seen in eager] == [seen[1] for seen in trained("decay", body, False)]


# Losses that have a history on some paths alone --------------------------------------------------


def in_a_branch(w: Any, x: Any, n: Any) -> Any:
    loss = x.sum()
    if n > 0:
        loss = loss * w.sum()
    return loss


def in_a_loop(w: Any, x: Any, n: Any) -> Any:
    loss = hy.zeros(())
    for _ in range(n):
        loss = loss + (w * x).sum()
    return loss


def in_a_while(w: Any, x: Any, n: Any) -> Any:
    loss = x.sum()
    while n > 0:
        loss, n = loss * w.sum(), n - 1
    return loss


LOSSES = [in_a_branch, in_a_loop, in_a_while]


@pytest.mark.parametrize("loss_of", LOSSES)
def test_backward_of_a_loss_without_history_raises(loss_of: Callable[..., Any]) -> None:
    seen = []
    for prepared in (lambda f: f, lambda f: hy.hybridize(f, ledger=False)):
        w = hy.nn.Parameter(hy.ones((2,)))

        def step(x: Any, n: Any, w: Any = w) -> Any:
            loss = loss_of(w, x, n)
            loss.backward()
            return loss.detach()

        call, found = prepared(step), []
        for n in (2, 0, 1):
            try:
                found.append(call(hy.ones((2,)), hy.asarray(n)).item())
            except hy.errors.GradientError as error:
                found.append(error.what.partition(" (")[0])
            found.append(None if w.grad is None else w.grad.tolist())
        seen.append(found)
    assert seen[0] == seen[1] and "backward() of a tensor without history" in seen[0]


@pytest.mark.parametrize("loss_of", LOSSES)
def test_whether_a_loss_has_a_history_is_told(loss_of: Callable[..., Any]) -> None:
    seen = []
    for prepared in (lambda f: f, lambda f: hy.hybridize(f, ledger=False)):
        w = hy.nn.Parameter(hy.ones((2,)))
        optimizer = hy.optim.SGD([w], lr=0.1, weight_decay=0.5)

        def step(x: Any, n: Any, w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = loss_of(w, x, n)
            if loss.requires_grad:
                loss.backward()
                optimizer.step()
            return loss.detach(), loss.requires_grad

        call = prepared(step)
        found = [call(hy.ones((2,)), hy.asarray(n)) for n in (2, 0, 1, 0)]
        seen.append([(loss.item(), told) for loss, told in found] + w.tolist())
    assert seen[0] == seen[1]
