"""Modules that a hybridized function builds: that call runs eagerly, and later ones as plans."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from tests.staging.harness import f32

X = f32([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]])


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = None

    def forward(self, x):
        if self.linear is None:
            self.linear = nn.Linear(x.shape[-1], 2)
        return self.linear(x)


def lazy() -> Any:
    module = Lazy()
    return (lambda x: module(x)), lambda: module.linear.weight


def in_a_namespace() -> Any:
    kept = SimpleNamespace(net=None)

    def run(x):
        if kept.net is None:
            kept.net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
        return kept.net(x)

    return run, lambda: kept.net[0].weight


def in_a_dict() -> Any:
    layers: dict[int, nn.Module] = {}

    def run(x):
        if x.shape[-1] not in layers:
            layers[x.shape[-1]] = nn.Linear(x.shape[-1], 2)
        return layers[x.shape[-1]](x)

    return run, lambda: layers[3].weight


def with_an_optimizer() -> Any:
    kept = SimpleNamespace(net=None, optimizer=None)

    def run(x):
        if kept.net is None:
            kept.net = nn.Linear(3, 2)
            kept.optimizer = hy.optim.SGD(kept.net.parameters(), lr=0.1)
        kept.optimizer.zero_grad()
        loss = (kept.net(x) ** 2).mean()
        loss.backward()
        kept.optimizer.step()
        return loss.detach()

    return run, lambda: kept.net.weight


@pytest.mark.parametrize("make", [lazy, in_a_namespace, in_a_dict, with_an_optimizer])
def test_a_model_that_is_kept(make: Any) -> None:
    results = []
    for hybridized in (False, True):
        hy.random.seed(0)
        run, weight = make()
        function = hy.hybridize(run) if hybridized else run
        found = [function(X).tolist() for _ in range(4)]
        (function(X) * 1).sum()
        results.append([*found, weight().tolist(), weight().requires_grad, hy.random.uniform()])
    assert str(results[0]) == str(results[1])
    assert len(function.plans) == 1


def test_its_parameters_are_trained() -> None:
    grads = []
    for hybridized in (False, True):
        hy.random.seed(0)
        run, weight = lazy()
        function = hy.hybridize(run) if hybridized else run
        for _ in range(3):
            function(X).sum().backward()
        grads.append(weight().grad.tolist())
    assert grads[0] == grads[1]


def test_a_module_that_is_hybridized_itself() -> None:
    module = Lazy().hybridize()
    found = [module(X).tolist() for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert len(module.plans) == 1


def test_a_model_that_each_call_builds_runs_eagerly() -> None:
    @hy.hybridize
    def run(x):
        model = nn.Linear(3, 2)
        return model(x)

    def eager(x):
        return nn.Linear(3, 2)(x)

    hy.random.seed(0)
    expected = [eager(X).tolist() for _ in range(4)]
    hy.random.seed(0)
    found = [run(X).tolist() for _ in range(2)]
    line = test_a_model_that_each_call_builds_runs_eagerly.__code__.co_firstlineno + 3
    with pytest.warns(UserWarning) as warned:
        found += [run(X).tolist() for _ in range(2)]
    assert [str(w.message) for w in warned] == [
        f"run runs eagerly: a Linear is built inside ({__file__}:{line})\n"
        f"    {line} | model = nn.Linear(3, 2)\n"
        "A plan repeats what is computed, not how a model is built.\n"
        "Fix: build it outside, or keep it where the next call finds it."
    ]
    assert found == expected
    assert not run.plans
