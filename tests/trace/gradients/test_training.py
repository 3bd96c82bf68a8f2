"""Training loops inside one hybridized function: forward, backward, step and running sums."""

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import CaptureError
from hybrid.optim import SGD, Adam, AdamW
from tests.helpers import leaf, tensor
from tests.staging.harness import describe, draw, i64

BATCHES = [(draw(8, 4, seed=i), i64([(i + j) % 3 for j in range(8)])) for i in range(5)]
STACKED = hy.stack([x for x, _ in BATCHES]), hy.stack([y for _, y in BATCHES])
KINDS = {
    "sgd": lambda params: SGD(params, lr=0.1),
    "momentum": lambda params: SGD(params, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda params: Adam(params, lr=0.01),
    "adamw": lambda params: AdamW(params, lr=0.01),
}


class Trainer:
    """A network, its optimizer and a loop, from a fixed start."""

    def __init__(self, make: Callable[..., Any], kind: str, hybridized: bool) -> None:
        hy.random.seed(0)
        self.net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        self.optimizer = KINDS[kind](self.net.parameters())
        self.loss_of = nn.CrossEntropyLoss()
        self.epoch = make(self)
        if hybridized:
            self.epoch = hy.hybridize(self.epoch)

    def state(self) -> Any:
        kept = self.optimizer.state.values()
        moments = [cell.detach() for cells in kept for cell in cells.values()]
        params = [p.detach() for p in self.net.parameters()]
        return describe([params, [p.grad for p in self.net.parameters()], moments])


def plain(t: Trainer) -> Callable[..., Any]:
    def epoch(batches):
        total, n = 0.0, 0
        for x, y in batches:
            t.optimizer.zero_grad()
            loss = t.loss_of(t.net(x), y)
            loss.backward()
            t.optimizer.step()
            total = total + loss.detach() * x.shape[0]
            n += x.shape[0]
        return total / n

    return epoch


def stacked(t: Trainer) -> Callable[..., Any]:
    def epoch(xs, ys):
        total = hy.zeros(())
        for x, y in zip(xs, ys, strict=True):
            t.optimizer.zero_grad()
            loss = t.loss_of(t.net(x), y)
            loss.backward()
            t.optimizer.step()
            total += loss.detach()
        return total

    return epoch


def by_index(t: Trainer) -> Callable[..., Any]:
    def epoch(xs, ys):
        losses = []
        for i in range(xs.shape[0]):
            t.optimizer.zero_grad()
            loss = t.loss_of(t.net(xs[i]), ys[i])
            loss.backward()
            t.optimizer.step()
            losses.append(loss.detach())
        return hy.stack(losses)

    return epoch


def counting_hits(t: Trainer) -> Callable[..., Any]:
    def epoch(batches):
        hits = 0
        for x, y in batches:
            t.optimizer.zero_grad()
            scores = t.net(x)
            loss = t.loss_of(scores, y)
            loss.backward()
            t.optimizer.step()
            hits = hits + hy.sum(hy.argmax(scores, axis=1) == y)
        return hits

    return epoch


def with_early_stop(t: Trainer) -> Callable[..., Any]:
    def epoch(xs, ys):
        steps = 0
        loss = hy.zeros(())
        for x, y in zip(xs, ys, strict=True):
            t.optimizer.zero_grad()
            loss = t.loss_of(t.net(x), y)
            loss.backward()
            t.optimizer.step()
            steps += 1
            if loss < 1.05:
                break
        return loss.detach(), steps

    return epoch


def accumulating(t: Trainer) -> Callable[..., Any]:
    """Gradients of two batches for each step."""

    def epoch(batches):
        t.optimizer.zero_grad()
        for i, (x, y) in enumerate(batches):
            loss = t.loss_of(t.net(x), y) / 2
            loss.backward()
            if i % 2 == 1:
                t.optimizer.step()
                t.optimizer.zero_grad()

    return epoch


def clipped_when_large(t: Trainer) -> Callable[..., Any]:
    def epoch(batches):
        for x, y in batches:
            t.optimizer.zero_grad()
            loss = t.loss_of(t.net(x), y)
            loss.backward()
            norm = hy.zeros(())
            for p in t.net.parameters():
                norm = norm + hy.sum(p.grad * p.grad)
            if norm > 0.3:
                for p in t.net.parameters():
                    p.grad = p.grad / hy.sqrt(norm)
            t.optimizer.step()
        return norm

    return epoch


def skipping_bad_batches(t: Trainer) -> Callable[..., Any]:
    def epoch(batches):
        taken = 0
        for x, y in batches:
            loss = t.loss_of(t.net(x), y)
            if loss > 1.15:
                continue
            t.optimizer.zero_grad()
            loss.backward()
            t.optimizer.step()
            taken += 1
        return taken

    return epoch


def several_epochs(t: Trainer) -> Callable[..., Any]:
    def train(xs, ys):
        losses = []
        for _ in range(3):
            total = hy.zeros(())
            for x, y in zip(xs, ys, strict=True):
                t.optimizer.zero_grad()
                loss = t.loss_of(t.net(x), y)
                loss.backward()
                t.optimizer.step()
                total = total + loss.detach()
            losses.append(total)
        return hy.stack(losses)

    return train


def until_good(t: Trainer) -> Callable[..., Any]:
    def train(xs, ys):
        n = 0
        loss = t.loss_of(t.net(xs[0]), ys[0]).detach()
        while loss > 1.0 and n < 20:
            t.optimizer.zero_grad()
            value = t.loss_of(t.net(xs[0]), ys[0])
            value.backward()
            t.optimizer.step()
            loss = value.detach()
            n += 1
        return loss, n

    return train


def functional(t: Trainer) -> Callable[..., Any]:
    """Gradients by transform, parameters updated by hand."""

    def epoch(xs, ys):
        w, b = draw(4, 3, seed=7), hy.zeros(3)

        def loss_of(params, x, y):
            return t.loss_of(x @ params[0] + params[1], y)

        total = hy.zeros(())
        for x, y in zip(xs, ys, strict=True):
            loss, (dw, db) = hy.value_and_grad(loss_of)((w, b), x, y)
            w, b = w - 0.1 * dw, b - 0.1 * db
            total = total + loss
        return w, b, total

    return epoch


def printing(t: Trainer) -> Callable[..., Any]:
    def epoch(batches):
        for i, (x, y) in enumerate(batches):
            t.optimizer.zero_grad()
            loss = t.loss_of(t.net(x), y)
            loss.backward()
            t.optimizer.step()
            if i % 2 == 0:
                print(f"step {i}: {loss.item():.6f}")

    return epoch


LOOPS: list[tuple[Callable[..., Any], Any]] = [
    (plain, (BATCHES,)),
    (stacked, STACKED),
    (by_index, STACKED),
    (counting_hits, (BATCHES,)),
    (with_early_stop, STACKED),
    (accumulating, (BATCHES[:4],)),
    (clipped_when_large, (BATCHES,)),
    (skipping_bad_batches, (BATCHES,)),
    (several_epochs, STACKED),
    (until_good, STACKED),
    (functional, STACKED),
    (printing, (BATCHES,)),
]


def run_twice(make, kind: str, args: tuple, hybridized: bool, capsys) -> tuple[Any, int]:
    trainer = Trainer(make, kind, hybridized)
    results = [describe(trainer.epoch(*args)) for _ in range(2)]
    plans = len(trainer.epoch.plans) if hybridized else 0
    return (results, trainer.state(), capsys.readouterr().out), plans


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("make", "args"), LOOPS, ids=[m.__name__ for m, _ in LOOPS])
def test_loops_have_the_same_bits(make, args, kind, capsys) -> None:
    expected, _ = run_twice(make, kind, args, False, capsys)
    found, plans = run_twice(make, kind, args, True, capsys)
    assert found == expected
    # Gradients that are None at the first call and not at the second are two keys.
    assert plans <= 2


@pytest.mark.parametrize("make", [stacked, by_index])
def test_one_loop_node(make) -> None:
    trainer = Trainer(make, "sgd", hybridized=True)
    trainer.epoch(*STACKED)
    text = str(trainer.epoch.graph(*STACKED))
    assert text.count(" = for ") == 1, text


def test_many_batches_do_not_grow_the_graph() -> None:
    sizes = []
    for n in (3, 30):
        trainer = Trainer(stacked, "momentum", hybridized=True)
        xs, ys = draw(n, 8, 4), i64([[j % 3 for j in range(8)]] * n)
        trainer.epoch(xs, ys)
        sizes.append(len(str(trainer.epoch.graph(xs, ys)).splitlines()))
    assert sizes[0] == sizes[1] < 150


def test_a_method_of_the_trainer() -> None:
    class Fit:
        def __init__(self, hybridized: bool) -> None:
            hy.random.seed(0)
            self.net = nn.Linear(4, 3)
            self.optimizer = Adam(self.net.parameters(), lr=0.01)
            self.seen = hy.asarray(0)
            self.best = hy.asarray(1e9)
            self.fit = hy.hybridize(self.epoch) if hybridized else self.epoch

        def epoch(self, xs, ys):
            for x, y in zip(xs, ys, strict=True):
                self.optimizer.zero_grad()
                loss = nn.CrossEntropyLoss()(self.net(x), y)
                loss.backward()
                self.optimizer.step()
                self.seen = self.seen + 1
                if loss < self.best:
                    self.best = loss.detach()
            return self.best

    found = []
    for hybridized in (False, True):
        fit = Fit(hybridized)
        results = [fit.fit(*STACKED) for _ in range(3)]
        params = [p.detach() for p in fit.net.parameters()]
        found.append(describe([results, fit.seen, fit.best, params]))
    assert found[0] == found[1]


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("cell", [False, True])
def test_gradients_and_a_choice_in_a_while_loop(steps: bool, cell: bool) -> None:
    """The first iteration is peeled, and the capture begins anew to follow which tensors are one:
    attributes are then what they were before."""
    x, y = tensor(8, 4), tensor(8, 3, seed=1)
    outcomes = []
    for hybridizes in (False, True):
        p, done = leaf(3, 4, seed=2), hy.zeros((), dtype=hy.int64)
        optimizer = hy.optim.SGD([p], lr=0.1)

        def run(due, n, p=p, done=done, optimizer=optimizer):
            i = 0
            while i < n:
                ((x @ p.mT - y) ** 2).mean().backward()
                if steps:
                    optimizer.step()
                if cell:
                    done.assign(done + 1)
                i = i + 1
                if i == due:
                    due = due + 1
            return due

        call = hy.hybridize(run) if hybridizes else run
        found = call(hy.asarray(2), hy.asarray(4)).item()
        outcomes.append((found, p.tolist(), p.grad.tolist(), done.item()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("kind", ["while", "for"])
def test_a_capture_that_fails_in_a_peeled_loop_leaves_attributes_alone(kind: str) -> None:
    p = leaf(3)

    def body(i):
        (p * i).sum().backward()
        if i > 1:
            return hy.zeros((2,)).numpy()  # which no plan can give
        return None

    @hy.hybridize
    def run(n):
        i = hy.asarray(0)
        if kind == "for":
            for _ in range(n):
                i = i + 1
                body(i)
        else:
            while i < n:
                i = i + 1
                body(i)
        return i

    with pytest.raises(CaptureError):
        run(hy.asarray(3))
    assert p.grad is None
