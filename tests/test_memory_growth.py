"""Memory: what runs again and again keeps nothing, and what is dropped is given back."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import hybrid as hy
from hybrid.memory import native
from tests.helpers import leaf

PAGE = os.sysconf("SC_PAGE_SIZE")
TOLERANCE = 1 << 20  # bytes: what the allocators of C and Python may move by
STATM = Path("/proc/self/statm")

pytestmark = pytest.mark.skipif(not STATM.exists(), reason="resident size is read from /proc")


def resident() -> int:
    gc.collect()
    native.trim_memory()
    return int(STATM.read_text(encoding="ascii").split()[1]) * PAGE


def eager_add() -> Callable[[], object]:
    x = hy.ones(16)
    return lambda: x + x


def recorded_step() -> Callable[[], object]:
    w = leaf(16)

    def step() -> None:
        w.grad = None
        hy.sum(w * w).backward()

    return step


def hybridized_call() -> Callable[[], object]:
    x = hy.ones(16)
    double = hy.hybridize(lambda x: x * 2 + 1)
    return lambda: double(x)


def hybridized_training_step() -> Callable[[], object]:
    network = hy.nn.Sequential(hy.nn.Linear(4, 8), hy.nn.Tanh(), hy.nn.Linear(8, 1))
    optimizer = hy.optim.Adam(network.parameters(), lr=1e-3)
    x = hy.ones((2, 4))

    @hy.hybridize
    def step(x):
        optimizer.zero_grad()
        loss = hy.mean(network(x) ** 2)
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(x)


def a_capture() -> Callable[[], object]:
    x = hy.ones(16)
    function = hy.hybridize(lambda x: hy.tanh(x) * 2)

    def capture() -> None:
        function(x)
        function.clear()

    return capture


def a_refused_call() -> Callable[[], object]:
    a, b = hy.ones(3), hy.ones(4)

    def refuse() -> None:
        with pytest.raises(hy.HybridError):
            a + b

    return refuse


REPEATED = {
    "an eager add": (eager_add, 100_000),
    "an eager add with backward": (recorded_step, 10_000),
    "a hybridized call": (hybridized_call, 100_000),
    "a hybridized training step": (hybridized_training_step, 30_000),
    "a capture that is cleared": (a_capture, 500),
    "a refused call": (a_refused_call, 2_000),
}


@pytest.mark.parametrize(("make", "calls"), REPEATED.values(), ids=REPEATED)
def test_nothing_piles_up(make, calls) -> None:
    """What piles up does so each time; pages that the system takes and gives back come once."""
    call = make()
    for _ in range(calls // 10):
        call()
    growth = []
    for _ in range(3):
        before = resident()
        for _ in range(calls):
            call()
        growth.append(resident() - before)
        if growth[-1] < TOLERANCE:
            break
    assert min(growth) < TOLERANCE, growth


def test_large_buffers_are_given_back() -> None:
    def make() -> hy.Tensor:
        return hy.ones(1 << 20, dtype=hy.float64) * 2

    make()  # the plans of its ops are remembered
    native.trim_memory()
    live = native.memory()["live_bytes"]
    kept = [make() for _ in range(4)]
    assert native.memory()["live_bytes"] - live >= 4 << 23
    del kept
    native.trim_memory()  # what malloc then does with the pages is its own affair
    assert native.memory()["live_bytes"] == live
    assert native.memory()["cached_bytes"] == 0


def test_losses_that_are_kept_do_not_keep_their_steps() -> None:
    weights = hy.ones(1 << 18)
    derived = hy.value_and_grad(lambda w: hy.sum(hy.exp(w) * w))
    losses = [derived(weights)[0]]
    before = native.memory()["live_bytes"]
    losses += [derived(weights)[0] for _ in range(10)]
    gc.collect()
    assert native.memory()["live_bytes"] - before < weights.nbytes
    assert len(losses) == 11
