"""Hybridized functions shared: by threads, by copies, by subclasses and their bases."""

import copy
import pickle
import threading
from collections.abc import Callable

import pytest

import hybrid as hy
from hybrid.nn import Linear, Sequential, Tanh
from tests.helpers import same, tensor


def together(*works: Callable[[], None]) -> list[BaseException]:
    """Run ``works`` in threads of their own; what they raised."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failures


def trainer(seed: int) -> tuple[Sequential, Callable[[hy.Tensor, hy.Tensor], hy.Tensor]]:
    hy.random.seed(seed)
    network = Sequential(Linear(8, 16), Tanh(), Linear(16, 4))
    optimizer = hy.optim.Adam(network.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = hy.mean((network(x) - y) ** 2)
        loss.backward()
        optimizer.step()
        return loss

    return network, step


def test_one_thread_trains_while_others_look() -> None:
    x, y = tensor(32, 8), tensor(32, 4, seed=1)
    network, step = trainer(0)
    step = hy.hybridize(step)
    infer = hy.hybridize(lambda x: network(x))
    losses, over = [], threading.Event()

    def train() -> None:
        try:
            losses.extend(step(x, y).item() for _ in range(400))
        finally:
            over.set()

    def look() -> None:
        with hy.no_grad():
            while True:  # at least once, however fast the other is
                assert bool(hy.all(hy.isfinite(infer(x))))
                if over.is_set():
                    return

    assert together(train, look, look) == []
    _, alone = trainer(0)
    assert losses == [alone(x, y).item() for _ in range(400)]
    assert len(step.plans) == len(infer.plans) == 1


def test_updates_of_several_threads_all_count() -> None:
    total = hy.zeros(4)
    one = hy.ones(4)

    @hy.hybridize
    def add(x):
        total.assign(total + x)

    assert together(*[lambda: [add(one) for _ in range(1000)]] * 4) == []
    assert total.tolist() == [4000.0] * 4


def test_a_first_call_in_many_threads_is_one_plan() -> None:
    double = hy.hybridize(lambda x: x * 2 + 1)
    start = threading.Barrier(6)

    def work() -> None:
        start.wait(10)
        assert double(hy.ones(3)).tolist() == [3.0] * 3

    assert together(*[work] * 6) == []
    assert len(double.plans) == 1


class Scale:
    def __init__(self, k: float) -> None:
        self.k = hy.asarray(k)

    @hy.hybridize
    def apply(self, x):
        return x * self.k


class Shifted(Scale):
    @hy.hybridize
    def apply(self, x):
        return super().apply(x) + 1


@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_of_an_object_have_plans_of_their_own(make) -> None:
    scale = Scale(2.0)
    assert scale.apply(hy.ones(1)).item() == 2.0
    other = make(scale)
    other.k = hy.asarray(3.0)
    for _ in range(2):
        assert other.apply(hy.ones(1)).item() == 3.0
        assert scale.apply(hy.ones(1)).item() == 2.0
    assert other.apply is not scale.apply and other.apply is other.apply


def test_a_method_and_the_one_it_overrides() -> None:
    shifted = Shifted(2.0)
    for _ in range(3):
        assert shifted.apply(hy.ones(1)).item() == 3.0
        assert Scale.apply.__get__(shifted)(hy.ones(1)).item() == 2.0
    assert len(shifted.apply.plans) == len(Scale.apply.__get__(shifted).plans) == 1


@pytest.mark.parametrize("make", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_of_a_hybridized_network(make) -> None:
    network = Sequential(Linear(3, 3), Tanh()).hybridize()
    x = tensor(2, 3)
    network(x)
    other = make(network)
    assert other.plans == [] and list(other.state_dict()) == list(network.state_dict())
    assert same(other(x), network(x))
    with hy.no_grad():
        other[0].weight.assign(other[0].weight * 0)
    assert not same(other(x), network(x))
    assert len(other.plans) == len(network.plans) == 1
