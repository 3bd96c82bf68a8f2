"""fallback="eager": what cannot be captured runs eagerly, and says so once for each place."""

import warnings
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import describe, f32

X = f32([1.0, -2.0, 3.0])
LOG: list[int] = []


class Holder:
    def __init__(self) -> None:
        self.count, self.total, self.seen = 0, hy.zeros(3), [hy.zeros(3)]
        self.log: list[int] = []
        self.table: dict[str, Any] = {}

    def content(self) -> Any:
        return describe([self.total, self.seen, self.table]), self.count, self.log, LOG


def counts_in_a_plain_int(holder, x):
    holder.total = holder.total + x
    holder.count += 1
    return x * holder.count


def appends_plain_values(holder, x):
    holder.seen[0] = x
    holder.log.append(len(holder.log))
    LOG.append(1)
    return x


def keys_differ_between_branches(holder, x):
    holder.total = x
    if hy.sum(x) > 0:
        holder.table["positive"] = x
        d = {"a": x}
    else:
        holder.table["negative"] = x
        d = {"b": x}
    return d


def structures_change_in_a_loop(holder, x):
    holder.seen.append(x)
    held = x
    while hy.sum(x) < 8:
        holder.total = holder.total + 1
        x, held = x + 1, (held, x)
    return held


def counts_in_a_loop(holder, x):
    holder.total = x * 2
    while hy.sum(x) < 8:
        holder.log.insert(0, holder.count)
        holder.count += 1
        x = x + 1
    return x


def value_is_asked_for(holder, x):
    holder.total = holder.total + x
    if hy.sum(x) > 0:
        holder.seen[0] = x
        return x * float(f"{x[0].item():.1f}")
    return x.numpy().sum()


def structures_differ(holder, x):
    holder.count += 0
    holder.total = x
    return (x, x) if hy.sum(x) > 0 else [x]


PROGRAMS = [
    counts_in_a_plain_int,
    appends_plain_values,
    keys_differ_between_branches,
    structures_change_in_a_loop,
    counts_in_a_loop,
    value_is_asked_for,
    structures_differ,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_runs_eagerly_and_warns_once(program) -> None:
    LOG.clear()
    eager, outcome = Holder(), []
    for x in (X, X, -X):
        outcome.append((describe(program(eager, x)), *map(repr, eager.content())))
    LOG.clear()
    holder = Holder()
    hybridized = hy.hybridize(lambda x: program(holder, x), fallback="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x, expected in zip((X, X, -X), outcome, strict=True):
            assert (describe(hybridized(x)), *map(repr, holder.content())) == expected
    places = [str(w.message).splitlines()[0] for w in caught]
    assert places and len(places) == len(set(places))
    assert all(place.startswith("graph runs eagerly: ") for place in places)
    assert all(w.filename == __file__ for w in caught)
    assert len(places) <= 2


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_refused_capture_leaves_nothing_behind(program) -> None:
    LOG.clear()
    holder = Holder()
    before = repr(holder.content())
    with pytest.raises(hy.errors.CaptureError):
        hy.hybridize(lambda x: program(holder, x))(X)
    assert repr(holder.content()) == before
    assert describe(program(holder, X)) == describe(program(Holder(), X))
