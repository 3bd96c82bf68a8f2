"""Datasets and loops of the tests of captured loops over loaders."""

from __future__ import annotations

from typing import Any

import numpy as np

import hybrid as hy
from hybrid.core.tree import flatten
from hybrid.data import Dataset, IterableDataset, batch_generator

SAMPLES = 23


class Noisy(Dataset):
    """Samples with draws of the default generator, or of the batch's own."""

    def __init__(self, length=SAMPLES, *, bad=None, own=False):
        self.length, self.bad, self.own, self.wide = length, bad, own, ()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.bad:
            raise KeyError(f"sample {index}")
        draws = batch_generator() if self.own else hy.random.default_generator()
        noise = draws.uniform(size=(3 + 2 * (index in self.wide),)).numpy()
        return np.float32(index) + noise, index


class Counted(IterableDataset):
    """A stream that says how long it is."""

    def __init__(self, length=SAMPLES, *, gives=None):
        self.length, self.gives = length, length if gives is None else gives

    def __len__(self):
        return self.length

    def __iter__(self):
        return (np.full(2, i, np.float32) for i in range(self.gives))


def outcome(call, state, loader, times=2):
    """What calls return or raise, and what they leave behind."""
    found: list[Any] = []
    for _ in range(times):
        try:
            leaves, structure = flatten(call())
            found.append((structure, [hy.asarray(leaf).tolist() for leaf in leaves]))
        except Exception as error:
            found.append((type(error), str(error).splitlines()[0].split(" (/")[0]))
        found.append(state.tolist())
        found.append(loader.state_dict())
        found.append(hy.random.default_generator().state.tolist())
    return found


def assert_same(make_loader, make_body, times=2):
    """Hybridized and eager calls agree in all; the plan of the first call serves the second."""
    found = []
    for hybridizes in (False, True):
        hy.random.seed(5)
        state, loader = hy.zeros(()), make_loader()
        body = make_body(loader, state)
        call = hy.hybridize(body) if hybridizes else body
        found.append(outcome(call, state, loader, times))
    assert found[0] == found[1]
    assert len(call.plans) == 1
    return call


def summed(loader, state):
    def body():
        total = hy.zeros(())
        for x, y in loader:
            total = total + x.sum() * y.sum()
            state.assign(total)
        return total

    return body
