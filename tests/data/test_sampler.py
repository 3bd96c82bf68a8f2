"""Samplers: which numbers come, in which order, how many."""

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import hybrid as hy
from hybrid.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from hybrid.data.sampler import OrderSampler, RandomOrderSampler
from hybrid.errors import ArgumentError, ArgumentTypeError


@settings(deadline=None)
@given(st.integers(0, 40))
def test_sequential(n):
    sampler = SequentialSampler(range(n))
    assert list(sampler) == list(range(n)) and len(sampler) == n


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(-(2**40), 2**40))
def test_random_is_a_permutation(n, seed):
    sampler = RandomSampler(range(n), generator=seed)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(n)) and len(sampler) == n
    again = RandomSampler(range(n), generator=hy.random.Generator(seed))
    assert [list(again), list(again)] == [first, second]
    assert n < 10 or first != second


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(0, 50))
def test_random_without_replacement_goes_round(n, count):
    drawn = list(RandomSampler(range(n), num_samples=count, generator=1))
    assert len(drawn) == count
    times = Counter(drawn)
    assert not count or max(times.values()) - min(times[i] for i in range(n)) <= 1
    for start in range(0, count, n):
        assert len(set(drawn[start : start + n])) == len(drawn[start : start + n])


def test_random_with_replacement():
    sampler = RandomSampler(range(4), replacement=True, num_samples=4000, generator=0)
    drawn = Counter(sampler)
    assert len(sampler) == 4000 and set(drawn) == {0, 1, 2, 3}
    assert all(abs(times - 1000) < 150 for times in drawn.values())
    assert len(list(RandomSampler(range(5), replacement=True, generator=0))) == 5


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), unique=True, max_size=20))
def test_subset_random(indices):
    sampler = SubsetRandomSampler(indices, generator=3)
    assert sorted(sampler) == sorted(indices) and len(sampler) == len(indices)


def test_weighted():
    sampler = WeightedRandomSampler([0, 1, 3], 4000, generator=0)
    times = Counter(sampler)
    assert set(times) == {1, 2} and len(sampler) == 4000
    assert abs(times[2] - 3000) < 150
    once = WeightedRandomSampler([0.5, 0.1, 2], 3, replacement=False, generator=0)
    assert sorted(once) == [0, 1, 2]


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(1, 8), st.booleans())
def test_batches(n, size, drop_last):
    sampler = BatchSampler(SequentialSampler(range(n)), size, drop_last)
    batches = list(sampler)
    kept = n - n % size if drop_last else n
    assert [i for batch in batches for i in batch] == list(range(kept))
    assert all(len(batch) == size for batch in batches[:-1]) and len(batches) == len(sampler)
    assert [list(s) for s in sampler.stretches(range(n))] == batches


def test_batches_of_anything():
    assert list(BatchSampler("abcde", 2, False)) == [["a", "b"], ["c", "d"], ["e"]]


def test_the_default_generator_is_the_default():
    hy.random.seed(7)
    first = list(RandomSampler(range(9)))
    hy.random.seed(7)
    assert list(RandomSampler(range(9))) == first


def test_a_sampler_defines_iter():
    for call, method in (
        (lambda: iter(Sampler()), "__iter__"),
        (lambda: iter(OrderSampler()), "order"),
        (lambda: iter(RandomOrderSampler(None)), "drawn"),
    ):
        with pytest.raises(NotImplementedError, match=f"Sampler does not define {method}"):
            call()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RandomSampler([1], replacement=1),
            "replacement is 1\nFix: give True or False.",
        ),
        (lambda: RandomSampler([1], num_samples=-1), "num_samples is -1\nFix: give an int >= 0."),
        (lambda: RandomSampler([1], num_samples=1.5), "num_samples is 1.5\nFix: give an int >= 0."),
        (
            lambda: list(RandomSampler([], num_samples=2)),
            "2 samples of an empty dataset\nFix: give one with some.",
        ),
        (
            lambda: RandomSampler([1], generator=1.5),
            "the seed 1.5 is not an int\nFix: give any int.",
        ),
        (
            lambda: WeightedRandomSampler([1.0], 0),
            "num_samples is 0\nFix: give an int >= 1.",
        ),
        (
            lambda: WeightedRandomSampler([1.0], 1, replacement="no"),
            "replacement is 'no'\nFix: give True or False.",
        ),
        (
            lambda: WeightedRandomSampler(np.ones((2, 2)), 1),
            "weights of shape [2, 2]\nFix: give one for each sample.",
        ),
        (
            lambda: list(WeightedRandomSampler([1, -1], 1)),
            "choice with weights below 0 or not finite\nFix: give others.",
        ),
        (lambda: BatchSampler([1], 0), "batch_size is 0\nFix: give an int >= 1."),
        (lambda: BatchSampler([1], True), "batch_size is True\nFix: give an int >= 1."),
        (lambda: BatchSampler([1], 1, 0), "drop_last is 0\nFix: give True or False."),
    ],
)
def test_errors(make, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        make()
    assert str(caught.value) == message
