"""random_split: every sample in exactly one part."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import hybrid as hy
from hybrid.data import DataLoader, TensorDataset, random_split
from hybrid.errors import ArgumentError


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 2**40))
def test_counts(lengths, seed):
    parts = random_split(range(sum(lengths)), lengths, generator=seed)
    assert [len(part) for part in parts] == lengths
    assert sorted(i for part in parts for i in part.indices) == list(range(sum(lengths)))
    again = random_split(range(sum(lengths)), lengths, generator=hy.random.Generator(seed))
    assert [part.indices for part in again] == [part.indices for part in parts]


@pytest.mark.parametrize(
    ("total", "fractions", "lengths"),
    [
        (10, [0.5, 0.5], [5, 5]),
        (10, [0.3, 0.3, 0.4], [3, 3, 4]),
        (11, [0.5, 0.25, 0.25], [6, 3, 2]),
        (3, [1 / 3] * 3, [1, 1, 1]),
        (7, [1], [7]),
        (7, [1.0], [7]),
    ],
)
def test_fractions(total, fractions, lengths):
    assert [len(part) for part in random_split(range(total), fractions)] == lengths


def test_an_empty_part_is_told_of():
    with pytest.warns(UserWarning, match="part 1 of the split has no samples"):
        parts = random_split(range(3), [3, 0])
    assert list(DataLoader(parts[1], 2)) == []


def test_parts_are_read_at_once():
    data = TensorDataset(hy.arange(10), hy.arange(10) * 2)
    part, _ = random_split(data, [0.8, 0.2], generator=0)
    ((x, y),) = DataLoader(part, 8)
    assert x.tolist() == part.indices and (y - x).tolist() == part.indices


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (
            [3, 4],
            "a split of 10 samples into [3, 4]\nThey sum to 7.\n"
            "Fix: give counts that sum to 10, or fractions that sum to 1.",
        ),
        (
            [0.5, 0.2],
            "a split of 10 samples into [0.5, 0.2]\nThey sum to 0.7.\n"
            "Fix: give counts that sum to 10, or fractions that sum to 1.",
        ),
        ([11, -1], "a split into [11, -1]\nFix: give counts or fractions >= 0."),
        ([True], "a split into [True]\nFix: give counts or fractions >= 0."),
        (["a"], "a split into ['a']\nFix: give counts or fractions >= 0."),
    ],
)
def test_errors(lengths, message):
    with pytest.raises(ArgumentError) as caught:
        random_split(range(10), lengths)
    assert str(caught.value) == message
