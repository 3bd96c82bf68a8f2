"""Captured functions over several loaders: the same samples, draws and results as eagerly.

Datasets draw of Python's and NumPy's random numbers, loaders shuffle by the common generator, and
the body draws of it, too: all of them in the order of eager code.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, Dataset

Asked = list[tuple[str, int]]


class Drawn(Dataset):
    """Samples that draw, and tell that they were asked for."""

    def __init__(self, name: str, count: int, asked: Asked) -> None:
        self.name, self.count, self.asked = name, count, asked

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> Any:
        self.asked.append((self.name, at))
        return np.float32(at + random.random() + np.random.rand())


def one_behind_the_other(a: Any, b: Any, x: Any) -> Any:
    for v in a:
        x = x + v.sum()
    for v in b:
        x = x * 0.5 + v.sum()
    return x


def one_in_the_other(a: Any, b: Any, x: Any) -> Any:
    for v in a:
        for w in b:
            x = x + v.sum() * w.sum()
    return x


def both_at_once(a: Any, b: Any, x: Any) -> Any:
    for v, w in zip(a, b, strict=False):
        x = x + v.sum() * w.sum()
    return x


def epochs(a: Any, b: Any, x: Any) -> Any:
    for _ in range(3):
        for v in a:
            x = x + v.sum() * hy.random.uniform(size=(1,)).sum()
        for v in b:
            x = x * 0.5 + v.sum()
    return x


def broken_off(a: Any, b: Any, x: Any) -> Any:
    for v in a:
        x = x + v.sum()
        if x > 6:
            break
    for v in b:
        x = x * 0.5 + v.sum()
    return x


def on_some_paths(a: Any, b: Any, x: Any) -> Any:
    for v in a:
        x = x + v.sum()
    if x > 20:
        for v in b:
            x = x * 0.5 + v.sum()
    return x


def the_same_twice(a: Any, b: Any, x: Any) -> Any:
    for v in a:
        x = x + v.sum()
    for v in a:
        x = x * 0.5 + v.sum()
    return x + len(b)


BODIES = [
    one_behind_the_other, one_in_the_other, both_at_once, epochs, broken_off, on_some_paths,
    the_same_twice,
]  # fmt: skip


def trained(body: Callable[..., Any], hybridizes: bool, shuffle: bool) -> tuple[list[Any], Any]:
    """Results and what was asked for in each call, and what comes of generators behind them."""
    hy.random.seed(0)
    random.seed(0)
    np.random.seed(0)
    asked: Asked = []
    a = DataLoader(Drawn("a", 6, asked), 2, shuffle=shuffle)
    b = DataLoader(Drawn("b", 5, asked), 2, shuffle=shuffle)
    call = hy.hybridize(lambda x: body(a, b, x), ledger=False) if hybridizes else None
    found = []
    for x in (0.0, 1.0, 2.0):
        y = call(hy.asarray(x)) if call else body(a, b, hy.asarray(x))
        found.append((y.item(), list(asked)))
        asked.clear()
    return found, (random.random(), np.random.rand(), hy.random.uniform(size=(2,)).tolist())


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_samples_and_draws(body: Callable[..., Any], shuffle: bool) -> None:
    eager, hybridized = trained(body, False, shuffle), trained(body, True, shuffle)
    assert hybridized[1] == eager[1]
    assert [y for y, _ in hybridized[0]] == [y for y, _ in eager[0]]
    assert [asked for _, asked in hybridized[0]] == [asked for _, asked in eager[0]]


def test_the_first_call_runs_eagerly_and_the_second_has_a_plan() -> None:
    asked: Asked = []
    a, b = (DataLoader(Drawn(name, 5, asked), 2) for name in "ab")
    call = hy.hybridize(lambda x: one_behind_the_other(a, b, x), ledger=False)
    found = []
    for _ in range(3):
        call(hy.asarray(0.0))
        found.append((len(call.plans), len(asked)))
        asked.clear()
    assert found == [(0, 10), (1, 10), (1, 10)]


@pytest.mark.parametrize("way", ["graph", "explain"])
def test_what_captures_without_a_call(way: str) -> None:
    """It reads a batch of the second loader, and puts back what that has drawn."""
    results = []
    for looks in (False, True):
        asked: Asked = []
        a, b = (DataLoader(Drawn(name, 5, asked), 2) for name in "ab")
        random.seed(0)
        np.random.seed(0)
        call = hy.hybridize(lambda x, a=a, b=b: one_behind_the_other(a, b, x), ledger=False)
        if looks:
            assert getattr(call, way)(hy.asarray(0.0)) is not None
            assert {name for name, _ in asked} == {"a", "b"}
        results.append(call(hy.asarray(0.0)).item())
    assert results[0] == results[1]


def test_a_loader_whose_dataset_is_another_one_is_seen_anew() -> None:
    asked: Asked = []
    a, b = (DataLoader(Drawn(name, 4, asked), 2) for name in "ab")
    call = hy.hybridize(lambda x: one_behind_the_other(a, b, x), ledger=False)
    for dataset in (Drawn("b", 4, asked), Drawn("c", 6, asked)):
        b.dataset = dataset
        b.batch_sampler.sampler.data_source = dataset
        for _ in range(2):
            asked.clear()
            call(hy.asarray(0.0))
            assert next(n for n, _ in asked if n != "a") == dataset.name
