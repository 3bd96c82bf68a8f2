"""A step that finds no gradients, and later finds some: it is traced once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls import hybridized
from tests.helpers import value_bits

ROWS = np.random.default_rng(3).standard_normal((6, 4, 5)).astype(np.float32)


def network() -> Any:
    hy.random.seed(1)
    return hy.nn.Sequential(hy.nn.Linear(5, 7), hy.nn.Tanh(), hy.nn.Linear(7, 2))


def adam(net: Any) -> Any:
    return hy.optim.Adam(net.parameters(), lr=0.1)


def accumulate(net: Any, optimizer: Any, x: Any) -> Any:
    loss = hy.mean(net(x) ** 2)
    loss.backward()
    return loss


def learn(net: Any, optimizer: Any, x: Any) -> Any:
    loss = accumulate(net, optimizer, x)
    optimizer.step()
    return loss


def clipped(net: Any, optimizer: Any, x: Any) -> Any:
    loss = accumulate(net, optimizer, x)
    norm = hy.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()
    return loss, norm


def twice(net: Any, optimizer: Any, x: Any) -> Any:
    first = accumulate(net, optimizer, x)
    return first, accumulate(net, optimizer, x * 2), net[0].bias.grad * 2


def variable(net: Any, optimizer: Any, x: Any) -> Any:
    x = x.detach()
    x.requires_grad = True
    loss = accumulate(net, optimizer, x)
    return loss, x.grad


def given_on(net: Any, optimizer: Any, x: Any) -> Any:
    loss = accumulate(net, optimizer, x)
    return loss, net[2].weight.grad, [net[2].weight.grad]


def behind_a_branch(net: Any, optimizer: Any, x: Any) -> Any:
    loss = accumulate(net, optimizer, x)
    if loss > 0.4:
        optimizer.step()
    return loss


STEPS: list[Callable[..., Any]] = [
    accumulate, learn, clipped, twice, variable, given_on, behind_a_branch,
]  # fmt: skip


def forget(net: Any) -> None:
    net.zero_grad()


def forget_some(net: Any) -> None:
    net[0].weight.grad = None


def forget_others(net: Any) -> None:
    net[0].bias.grad = net[2].bias.grad = None


BETWEEN = [None, None, forget, None, forget_some, forget_others]


def followed(function: Callable[..., Any], prepared: Callable[..., Any]) -> list[Any]:
    """All that shows, call by call."""
    net = network()
    optimizer = adam(net)
    called = prepared(lambda x: function(net, optimizer, x))
    found = []
    for rows, between in zip(ROWS, BETWEEN, strict=True):
        if between is not None:
            between(net)
        results = called(hy.asarray(rows))
        results = results if isinstance(results, tuple) else (results,)
        found.append([value_bits(r) for r in results if isinstance(r, hy.Tensor)])
        found.append([None if p.grad is None else value_bits(p.grad) for p in net.parameters()])
        found.append([value_bits(p) for p in net.parameters()])
        found.append([r is net[2].weight.grad for r in results])
    return found


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is captured meanwhile."""
    made: list[Any] = []
    capture = hybridized.capture

    def counted(function: Any, *args: Any, **kwargs: Any) -> Any:
        result = capture(function, *args, **kwargs)
        if function.__module__ == __name__:
            made.append(result)
        return result

    monkeypatch.setattr(hybridized, "capture", counted)
    return made


@pytest.mark.parametrize("function", STEPS)
def test_all_calls_are_served_by_one_capture(function, captures) -> None:
    expected = followed(function, lambda called: called)
    assert followed(function, hy.hybridize) == expected
    assert len(captures) == 1


def test_the_graph_of_each() -> None:
    w = hy.nn.Parameter(hy.ones(2))

    @hy.hybridize
    def step(x):
        hy.sum(w * x).backward()

    x = hy.asarray([1.0, 2.0])
    step(x)
    step(x)
    graphs = [plan.capture.graph for plan in step._table.all()]
    assert [[n.op.name for n in g.nodes].count("add") for g in graphs] == [0, 1]
    assert len(graphs[1].nodes) == len(graphs[0].nodes) + 1
    assert [len(g.params) for g in graphs] == [2, 3]
    assert w.grad.tolist() == [2.0, 4.0]
    assert "the gradient of a tensor was None and is" in step.plans[1].why


def test_who_looks_is_captured_anew(captures) -> None:
    def step(w, x):
        first = w.grad is None
        hy.sum(w * x).backward()
        return (x, first)

    told = []
    for function in (step, hy.hybridize(step)):
        w = hy.nn.Parameter(hy.ones(2))
        told.append([function(w, hy.ones(2))[1] for _ in range(3)])
    assert told[0] == told[1] == [True, False, False]
    assert len(captures) == 2


def test_gradients_that_a_region_reads(captures) -> None:
    def step(w, x):
        if hy.sum(x) > 0:
            hy.sum(w * x).backward()
        hy.sum(w * w).backward()

    told = []
    for function in (step, hy.hybridize(step)):
        w = hy.nn.Parameter(hy.ones(2))
        grads = []
        for sign in (1.0, -1.0, 1.0):
            function(w, hy.ones(2) * sign)
            grads.append(value_bits(w.grad))
        told.append(grads)
    assert told[0] == told[1]


def test_an_error_behind_it(captures) -> None:
    def step(w, x):
        hy.sum(w * x).backward()
        if x[0] > 1:
            raise ValueError("too much")

    told = []
    for function in (step, hy.hybridize(step)):
        w = hy.nn.Parameter(hy.ones(2))
        grads = []
        for first in (0.5, 3.0, 0.5, 3.0):
            try:
                function(w, hy.asarray([first, 1.0]))
            except ValueError:
                grads.append("raised")
            grads.append(w.grad.tolist())
            if first == 3.0:
                w.grad = None
        told.append(grads)
    assert told[0] == told[1]
    assert len(captures) == 1


def test_gradients_beside_changing_numbers(captures) -> None:
    def step(st, x, k):
        hy.sum(st.w * x * k).backward()

    told = []
    for function in (step, hy.hybridize(step)):
        st = SimpleNamespace(w=hy.nn.Parameter(hy.ones(2)))
        grads = []
        for k in (1.0, 2.0, 3.0, 4.0):
            if k == 4.0:
                st.w.grad = None
            function(st, hy.ones(2), k)
            grads.append(value_bits(st.w.grad))
        told.append(grads)
    assert told[0] == told[1]


@pytest.mark.parametrize("dtype", [hy.float16, hy.bfloat16, hy.float32, hy.float64], ids=str)
def test_gradients_of_every_dtype(dtype, captures) -> None:
    def step(w, x):
        hy.sum(w * x).backward()

    told = []
    for function in (step, hy.hybridize(step)):
        w = hy.nn.Parameter(hy.ones(3, dtype=dtype))
        for _ in range(3):
            function(w, hy.ones(3, dtype=dtype) * 0.3)
        told.append(value_bits(w.grad))
    assert told[0] == told[1]
    assert len(captures) == 1


def none_in_a_loop(w, x):
    for _ in range(3):
        w.grad = None
        x = x * 1
    hy.sum(w * x).backward()
    return x * 2


def none_on_both_paths(w, x):
    if hy.sum(x) > 0:
        w.grad = None
    else:
        w.grad = None
    hy.sum(w * x).backward()
    return x * 2


def none_in_some_iterations(w, x):
    n = hy.sum(x)
    while n > 0:
        w.grad = None
        n = n - 1
    hy.sum(w * x).backward()
    return x * 2


def none_on_one_path(w, x):
    if hy.sum(x) > 0:
        w.grad = None
    hy.sum(w * x).backward()
    return x * 2


@pytest.mark.parametrize(
    "step", [none_in_a_loop, none_on_both_paths, none_in_some_iterations, none_on_one_path]
)
def test_gradients_that_control_flow_clears(step):
    """At the first call ``None`` is written over ``None``: that counts as well."""

    def gradients(hybridized):
        w = hy.ones(3)
        w.requires_grad = True
        function = hy.hybridize(lambda x: step(w, x)) if hybridized else lambda x: step(w, x)
        found = []
        for row in ([0.5, -1.0, 2.0], [-0.5, 0.25, -2.0], [3.0, -2.0, 0.0], [1.0, 1.0, 1.0]):
            function(hy.asarray(row))
            found.append(w.grad.tolist())
        return found

    assert gradients(True) == gradients(False)
