"""Open captures and threads, copies, pickles and lifetimes."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn, optim
from hybrid.calls.hybridized import Hybridized
from hybrid.nn import functional
from tests.calls.test_open_families import captures
from tests.calls.test_open_training import SIZES, batch, draw, mlp, training
from tests.staging.harness import describe


def test_threads_that_call_at_other_sizes(traces: list[Hybridized]) -> None:
    net = mlp(nn.BatchNorm1d(6))
    net.eval()
    hybridized = hy.hybridize(lambda x: (net(x) ** 2).sum(axis=0))
    with hy.no_grad():
        expected = {n: describe((net(draw(n, n, 4)) ** 2).sum(axis=0)) for n in range(2, 26)}
    hybridized(draw(30, 30, 4))
    wrong: list[int] = []
    begin = threading.Barrier(4)

    def calls(seed: int) -> None:
        begin.wait()
        for n in np.random.default_rng(seed).permutation(24) + 2:
            with hy.no_grad():
                found = describe(hybridized(draw(int(n), int(n), 4)))
            if found != expected[int(n)]:
                wrong.append(int(n))

    threads = [threading.Thread(target=calls, args=(seed,), daemon=True) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(traces) <= 3  # with and without recording


def test_threads_that_train_a_model_each() -> None:
    @hy.hybridize
    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def trained(call: Any, at: int, found: dict[int, Any]) -> None:
        net = nets[at]
        optimizer = optim.Adam(net.parameters())
        losses = [call(net, optimizer, *batch(n + at)) for n in SIZES]
        found[at] = describe((losses, net.state_dict()))

    outcomes = []
    for call in (step.function, step):
        hy.random.seed(3)
        nets, found = [mlp() for _ in range(3)], {}
        threads = [
            threading.Thread(target=trained, args=(call, at, found), daemon=True) for at in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"]
)
def test_copies_have_captures_of_their_own(copied: Callable[[Any], Any]) -> None:
    net = mlp(nn.BatchNorm1d(6)).hybridize()
    plain = copy.deepcopy(net).hybridize(False)
    for n in SIZES:
        net(batch(n)[0])
        plain(batch(n)[0])
    other = copied(net)
    for n in (7, 11, 30):
        assert describe(other(batch(n)[0])) == describe(plain(batch(n)[0]))
    assert describe(other.state_dict()) == describe(plain.state_dict())
    assert describe(net.state_dict()) != describe(plain.state_dict())
    again = copied(hy.hybridize(len))  # of a function: what was captured stays behind
    assert again.plans == []


def test_captures_go_with_the_function() -> None:
    net = mlp()
    alive = weakref.ref(net)
    step = training(hy.hybridize, net, optim.Adam(net.parameters())).call
    for n in SIZES:
        step(*batch(n))
    assert captures(step) == 1
    step.clear()
    assert captures(step) == 0
    step(*batch(5))
    step(*batch(9))
    del net, step
    gc.collect()
    assert alive() is None
