"""Captured loops over loaders whose batches are unlike each other: one call, the bits of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader
from hybrid.errors import DatasetError
from hybrid.nn import functional
from tests.staging.harness import describe
from tests.train.test_open_batches import LOADERS, SIZES, Network, Texts, Uneven, padded, summed

PASSES = 3


def training(
    hybridize: Callable[[Any], Any], make_loader: Callable[[], DataLoader]
) -> tuple[Any, Callable[[], Any]]:
    hy.random.seed(0)
    network, loader = Network(), make_loader()
    optimizer = hy.optim.Adam(network.parameters(), lr=0.02)

    @hybridize
    def epoch() -> Any:
        total, steps = hy.zeros(()), 0
        for x, y in loader:
            loss = functional.cross_entropy(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total = total + loss.detach() * y.shape[0]
            steps = steps + 1
        return total, steps

    def state() -> Any:
        generator = hy.random.default_generator().state
        grads = [p.grad for p in network.parameters()]
        return network.state_dict(), grads, generator, loader.state_dict()

    return epoch, state


@pytest.mark.parametrize("name", LOADERS)
def test_an_epoch_is_one_call(name: str) -> None:
    outcomes = []
    for hybridize in (lambda f: f, hy.hybridize):
        epoch, state = training(hybridize, LOADERS[name])
        outcomes.append([describe((epoch(), state())) for _ in range(PASSES)])
    assert outcomes[0] == outcomes[1]
    assert 1 <= len(epoch.plans) <= 2  # gradients absent at first, there from then on


def looped(
    loader: Callable[[], DataLoader], body: Callable[[Any, DataLoader], Any], passes: int = 2
) -> list[Any]:
    """What calls of ``body`` give and leave, eagerly and hybridized."""
    outcomes = []
    for hybridize in (lambda f: f, hy.hybridize):
        hy.random.seed(0)
        state, data = hy.zeros(()), loader()
        call = hybridize(body(state, data))
        outcomes.append([])
        for _ in range(passes):
            try:
                found = call()
            except Exception as error:
                found = (type(error).__name__, str(error).split(" (/")[0].splitlines()[0])
            outcomes[-1].append(describe((found, state)))
    return outcomes


def sums(state: Any, loader: DataLoader) -> Callable[[], Any]:
    def call() -> Any:
        largest = hy.zeros(())
        for x, _ in loader:
            state.assign(state + x.sum())
            largest = hy.maximum(largest, x.max()) * x.shape[0]
        return largest

    return call


def branching(state: Any, loader: DataLoader) -> Callable[[], Any]:
    def call() -> Any:
        found = hy.zeros(4)
        for x, y in loader:
            if x.sum() > 0:
                found = found + x.reshape(-1, 4).sum(axis=0)
            else:
                found = found * 0.5
                state.assign(state - 1)
            while hy.sum(found) > 50:
                found = found / 2
            state.assign(state + hy.random.uniform() * y.sum())
        return found

    return call


def normals(state: Any, loader: DataLoader) -> Callable[[], Any]:
    def call() -> Any:
        for x, _ in loader:
            state.assign(state + (x + hy.random.normal(size=x.shape)).mean())

    return call


@pytest.mark.parametrize("name", ["both", "stream of lengths", "a smaller last one"])
@pytest.mark.parametrize("body", [sums, branching, normals])
def test_what_the_body_does(name: str, body: Callable[..., Any]) -> None:
    eager, hybridized = looped(LOADERS[name], body)
    assert eager == hybridized


def test_loops_in_loops() -> None:
    def body(state: Any, loader: DataLoader) -> Callable[[], Any]:
        def call() -> Any:
            for _ in range(2):
                for x, _ in loader:
                    state.assign(state * 0.5 + x.sum())
            return state * 1

        return call

    eager, hybridized = looped(LOADERS["both"], body)
    assert eager == hybridized


def test_an_error_in_the_body_leaves_what_was_written() -> None:
    def body(state: Any, loader: DataLoader) -> Callable[[], Any]:
        def call() -> Any:
            for x, y in loader:
                state.assign(state + 1)
                assert state < 4, "four of them"
                state.assign(state + x.sum() * 0 + y.sum() * 0)

        return call

    eager, hybridized = looped(
        lambda: DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed), body, passes=1
    )
    assert eager == hybridized
    assert eager[0][1][0][1][0][1] == "AssertionError"


def test_sizes_that_code_tells_apart_are_told() -> None:
    """The body is for sizes that answer its questions as those did that it was traced for."""

    def body(state: Any, loader: DataLoader) -> Callable[[], Any]:
        def call() -> Any:
            for x, _ in loader:
                state.assign(state + x.sum() * (2 if x.shape[0] > 4 else 3))

        return call

    loader = DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed)
    state = hy.zeros(())
    with pytest.raises(DatasetError, match=r"batch 4 of a pass over a Texts is f32\[1,4\]") as told:
        hy.hybridize(body(state, loader))()
    assert "n0 > 4" in str(told.value)
    first = [padded([loader.dataset[i] for i in range(8)])]
    assert first and state.item() != 0
    assert SIZES[4] == 1


def test_what_leaves_the_loop_has_one_size() -> None:
    def body(state: Any, loader: DataLoader) -> Callable[[], Any]:
        def call() -> Any:
            last = hy.zeros((8, 4))
            for x, _ in loader:
                last = last * 0.5 + x
            return last

        return call

    loader = DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed)
    with pytest.raises(DatasetError, match=r"batch 2 of a pass over a Texts is f32\[5,4\]"):
        hy.hybridize(body(hy.zeros(()), loader))()


def test_gradients_through_the_loop_are_those_of_like_batches() -> None:
    weight = hy.asarray(np.ones(4, np.float32))
    weight.requires_grad = True

    def body(loader: DataLoader) -> Callable[[], Any]:
        def call() -> Any:
            total = hy.zeros(())
            for x, _ in loader:
                total = total + (x @ weight).sum()
            return total

        return call

    like = DataLoader(Texts(), 8, collate_fn=summed)
    hy.random.seed(0)
    hy.hybridize(body(like))().backward()
    found, weight.grad = weight.grad, None
    hy.random.seed(0)
    body(like)().backward()
    assert describe(found) == describe(weight.grad)
    unlike = DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed)
    with pytest.raises(DatasetError, match="f32"):
        hy.hybridize(body(unlike))()


def test_a_break_takes_like_batches() -> None:
    def body(state: Any, loader: DataLoader) -> Callable[[], Any]:
        def call() -> Any:
            for x, _ in loader:
                state.assign(state + x.sum())
                if state > 1e9:
                    break

        return call

    eager, hybridized = looped(lambda: DataLoader(Texts(), 8, collate_fn=summed), body)
    assert eager == hybridized
    loader = DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed)
    with pytest.raises(DatasetError, match="the captured loop was made for"):
        hy.hybridize(body(hy.zeros(()), loader))()


def test_many_sizes_are_bound_once_each() -> None:
    """Sizes that come again are looked up."""
    from hybrid.staging.loops.open_rest import OpenBody

    made: list[tuple[int, ...]] = []
    plan = OpenBody.plan

    def counted(self: Any, values: tuple[int, ...]) -> Any:
        if values not in self.plans:
            made.append(values)
        return plan(self, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenBody, "plan", counted)
        loader = DataLoader(Texts(), batch_sampler=Uneven(), collate_fn=summed)
        state = hy.zeros(())
        call = hy.hybridize(sums(state, loader))
        for _ in range(4):
            call()
    assert sorted(made) == [(1, 4), (2, 4), (3, 4), (5, 4), (8, 4)]
