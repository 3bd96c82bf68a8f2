"""Containers of modules in captures: slices, reversed, joined, made of modules that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.helpers import same, tensor


class Net(hy.nn.Module):
    def __init__(self, way: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        hy.random.seed(0)
        self.layers = hy.nn.ModuleList([hy.nn.Linear(3, 3) for _ in range(4)])
        self.seq = hy.nn.Sequential(hy.nn.Linear(3, 3), hy.nn.ReLU(), hy.nn.Linear(3, 3))
        self.scales = hy.nn.ParameterList([hy.ones(3) * n for n in (1.0, 2.0, 3.0)])
        self.named = hy.nn.ModuleDict({"a": hy.nn.Linear(3, 3), "b": hy.nn.Tanh()})
        self.way = way

    def forward(self, x):
        return self.way(self, x)


def through(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def in_branches_and_loops(net, x):
    if hy.sum(x) > 0:
        x = through(net.layers[1:3], x)
    for _ in range(3):
        x = through(net.layers[:2], x)
    return x


def scaled(net, x):
    for scale in net.scales[1:]:
        x = x * scale
    return x


def paired(net, x):
    for a, b in zip(net.layers[:2], net.layers[2:], strict=True):
        x = a(x) + b(x)
    return x


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "slice": lambda net, x: through(net.layers[1:3], x),
    "from the end": lambda net, x: through(net.layers[-1:], x),
    "steps": lambda net, x: through(net.layers[::-2], x),
    "reversed": lambda net, x: through(reversed(net.layers), x),
    "reversed slice": lambda net, x: through(reversed(net.layers[1:]), x),
    "enumerate": lambda net, x: sum(n * layer(x) for n, layer in enumerate(net.layers[1:])),
    "zip": paired,
    "list": lambda net, x: through(list(net.layers)[::-1], x),
    "sum of two": lambda net, x: through(net.layers[-1:] + net.layers[:1], x),
    "slice of Sequential": lambda net, x: net.seq[:2](x),
    "Sequential made anew": lambda net, x: hy.nn.Sequential(*list(net.seq)[1:])(x),
    "length": lambda net, x: x * len(net.layers[1:]),
    "parameters": scaled,
    "dict": lambda net, x: through(net.named.values(), x),
    "branches and loops": in_branches_and_loops,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_container_is_used_as_eagerly(way: str) -> None:
    net, x = Net(WAYS[way]), tensor(2, 3, seed=1)
    fast = hy.hybridize(net.forward)
    for _ in range(2):
        assert same(fast(x), net.forward(x))
    assert len(fast.plans) == 1
    net.layers[1].weight.assign(net.layers[1].weight * 2.0)
    net.scales[1].assign(net.scales[1] * 2.0)
    assert same(fast(x), net.forward(x)) and len(fast.plans) == 1
    net.layers[1] = hy.nn.Linear(3, 3)
    net.seq[0] = hy.nn.Linear(3, 3)
    assert same(fast(x), net.forward(x))
    del net.layers[2:]
    net.layers.append(hy.nn.Linear(3, 3))
    net.layers.append(hy.nn.Linear(3, 3))
    assert same(fast(x), net.forward(x))


def test_gradients_reach_the_parameters() -> None:
    grads = []
    for mode in (lambda f: f, hy.hybridize):
        net = Net(WAYS["slice"])
        hy.sum(mode(net.forward)(tensor(2, 3, seed=1))).backward()
        grads.append([None if p.grad is None else p.grad.tolist() for p in net.parameters()])
    assert grads[0] == grads[1] and grads[0][2] is not None and grads[0][0] is None


def replaces(net, x):
    net.layers = net.layers[0]
    return x


def shortens(net, x):
    net.layers = net.layers[:2]
    return x


def test_a_list_of_layers_that_a_call_makes_is_kept() -> None:
    net = Net(shortens)
    run = hy.hybridize(net.forward)
    for _ in range(2):
        run(tensor(2, 3, seed=1))
    assert len(net.layers) == 2


def test_what_changes_the_model_is_refused() -> None:
    net = Net(replaces)
    with pytest.raises(CaptureError, match="was replaced inside a hybridized function"):
        hy.hybridize(net.forward)(tensor(2, 3, seed=1))
    assert len(net.layers) == 4


def test_names_that_are_no_identifiers() -> None:
    class Counts(hy.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("0", hy.zeros(3))
            self.register_buffer("class", hy.zeros(3))

        def forward(self, x):
            setattr(self, "0", getattr(self, "0") + x)
            setattr(self, "class", getattr(self, "class") - x)
            return getattr(self, "0") * 2.0

    eager, other = Counts(), Counts()
    fast = hy.hybridize(other.forward)
    for n in range(3):
        x = tensor(3, seed=n)
        assert same(eager.forward(x), fast(x))
        assert all(map(same, eager.buffers(), other.buffers()))
