"""state_dict: another loader goes on with exactly the batches left, and with the passes after."""

import itertools
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import hybrid as hy
from hybrid.data import (
    DataLoader,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from hybrid.errors import ArgumentError
from tests.data.samples import Stream, Uneven

N = 23
DATA = TensorDataset(hy.arange(N))
LIST = list(range(N))


class Remembers(Sampler):
    """A sampler with a state of its own: where it starts to count."""

    def __init__(self):
        self.start = 0

    def __len__(self):
        return N

    def __iter__(self):
        start, self.start = self.start, self.start + 5
        return iter([(start + i) % N for i in range(N)])

    def state_dict(self):
        return {"start": self.start}

    def load_state_dict(self, state):
        self.start = state["start"]


MAKERS = {
    "in order": lambda **o: DataLoader(DATA, **o),
    "shuffled": lambda **o: DataLoader(DATA, shuffle=True, generator=8, **o),
    "one by one": lambda **o: DataLoader(LIST, shuffle=True, generator=8, **o),
    "sampler": lambda **o: DataLoader(
        LIST, sampler=SubsetRandomSampler([3, 1, 4, 1, 5, 9, 2, 6], generator=5), **o
    ),
    "weighted": lambda **o: DataLoader(
        LIST, sampler=WeightedRandomSampler([1.0] * N, 17, generator=5), **o
    ),
    "of the loader's generator": lambda **o: DataLoader(
        LIST, sampler=RandomSampler(LIST, replacement=True, generator=4), **o
    ),
    "with a state": lambda **o: DataLoader(LIST, sampler=Remembers(), **o),
    "stream": lambda **o: DataLoader(Stream(N), **o),
    "streams of unequal length": lambda **o: DataLoader(Uneven(), **o),
}


def batches(loader):
    return [hy.asarray(b[0] if isinstance(b, tuple) else b).tolist() for b in loader]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(1, 9),
    workers=st.integers(0, 3),
    before=st.integers(0, 2),
    stop=st.integers(0, 30),
    drop_last=st.booleans(),
)
def test_the_rest_of_a_pass_and_the_passes_after(make, size, workers, before, stop, drop_last):
    def made():
        return make(batch_size=size, workers=workers, drop_last=drop_last)

    loader = made()
    for _ in range(before):
        batches(loader)
    going = iter(loader)
    taken = list(itertools.islice(going, stop))
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [batches(going)] if len(taken) == stop else []
    expected += [batches(loader) for _ in range(2)]
    other = made()
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert [batches(other) for _ in expected] == expected
    assert other.state_dict() == loader.state_dict()


def test_processes_count_what_was_given():
    options = {"batch_size": 3, "workers": 2, "worker_kind": "process", "generator": 6}
    loader = DataLoader(DATA, shuffle=True, **options)
    going = iter(loader)
    for _ in range(3):
        next(going)
    other = DataLoader(DATA, shuffle=True, **options)
    other.load_state_dict(loader.state_dict())
    assert batches(other) == batches(going)


def test_another_number_of_workers_goes_on():
    state, left = None, None
    for workers in (2, 0, 3):
        loader = DataLoader(DATA, 4, shuffle=True, generator=2, workers=workers)
        if state is None:
            going = iter(loader)
            next(going)
            state, left = loader.state_dict(), batches(going)
        loader.load_state_dict(state)
        assert batches(loader) == left


def test_the_default_generator_is_left_alone():
    hy.random.seed(3)
    loader = DataLoader(DATA, 4, shuffle=True)
    going = iter(loader)
    next(going)
    state, left = loader.state_dict(), batches(going)
    drawn = hy.random.uniform().item()
    hy.random.seed(3)
    hy.random.permutation(N)
    other = DataLoader(DATA, 4, shuffle=True)
    other.load_state_dict(state)
    assert batches(other) == left and hy.random.uniform().item() == drawn


def test_samples_are_not_read_again():
    read = []

    class Noting:
        def __len__(self):
            return N

        def __getitem__(self, index):
            read.append(index)
            return index

    loader = DataLoader(Noting(), 2)
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    read.clear()
    assert next(iter(loader)).tolist() == [2, 3] == read


STATE = DataLoader(DATA, 4).state_dict()
NOT_A_STATE = (
    "this is not the state of a loader\n"
    "That is a dict with batch_size, batches, generator, order, passes, sampler, samples, version, "
    "workers, of version 1.\nFix: pass what state_dict() gave."
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, NOT_A_STATE),
        ({"more": 1}, NOT_A_STATE),
        (
            {"batch_size": 5},
            "the state is of a loader whose batch_size is 5; here it is 4\n"
            "The batches left would be others.\nFix: make the loader as that one was made.",
        ),
        (
            {"samples": 9},
            f"the state is of a loader whose samples is 9; here it is {N}\n"
            "The batches left would be others.\nFix: make the loader as that one was made.",
        ),
        ({"batches": -1}, "batches of the state is -1"),
        ({"passes": "x"}, "passes of the state is 'x'"),
        ({"order": [1]}, "order of the state is [1]"),
        ({"batches": 2, "order": None}, "order of the state is None"),
        ({"generator": [1, 2.5]}, "generator of the state is [1, 2.5]"),
    ],
)
def test_bad_states(change, message):
    loader = DataLoader(DATA, 4, generator=1)
    before = loader.state_dict()
    for state in (STATE | change, None) if message == NOT_A_STATE else (STATE | change,):
        with pytest.raises(ArgumentError) as caught:
            loader.load_state_dict(state)
        assert str(caught.value) == message
    assert loader.state_dict() == before


def test_streams_need_as_many_workers():
    state = DataLoader(Stream(4), workers=2).state_dict()
    with pytest.raises(ArgumentError, match="whose workers is 2; here it is 0"):
        DataLoader(Stream(4)).load_state_dict(state)
