"""Captures that are made again: every reason, how often, and what the call comes to."""

from __future__ import annotations

import threading
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from hybrid.trace.capture.recapture import DISTURBANCES, LIMIT, REASONS

NEEDED, FOLLOWED, _, _, OWNERS, PLACES, CONTAINERS = (reason.name for reason in REASONS)
X = hy.asarray([1.0, 2.0, 3.0])
STEPS = ["relu", "tanh", "exp"]
state = types.SimpleNamespace()
table: dict[str, Any] = {}
others: list[Iterator[float]] = [iter(())]  # which no capture puts back


def _reset(attributes: dict[str, Any]) -> None:
    vars(state).clear()
    vars(state).update(attributes)


def reasons(hybridized: Any) -> list[str]:
    """Why its newest plan has been captured again."""
    return list(hybridized._table.all()[-1].capture.recaptured)


def needs_a_number(x: hy.Tensor) -> hy.Tensor:
    k = 0
    for i in range(300):
        k = int((k + i) ** 1.0) % 3  # a power of floats is Python's
    return getattr(hy, STEPS[k])(x)


def needs_to_know_which_is_which(x: hy.Tensor, y: hy.Tensor) -> tuple[hy.Tensor, ...]:
    a, b = x * 1, y * 1
    for _ in range(3):
        a, b = b, a
        if hy.sum(a) > 1e9:
            break
    a += 1
    return a, b


def sets_a_name_that_is_spelled_nowhere(x: hy.Tensor) -> hy.Tensor:
    setattr(state, "".join(["la", "st"]), x * 2)
    return x


def a_function(x: hy.Tensor) -> hy.Tensor:
    return x * 2


def sets_an_attribute_of_a_function(x: hy.Tensor) -> hy.Tensor:
    a_function.last = a_function(x)  # type: ignore[attr-defined]
    return x


def writes_to_a_dict(x: hy.Tensor) -> hy.Tensor:
    table["sum"] = table["sum"] + x
    return x


def does_all_of_it(x: hy.Tensor, y: hy.Tensor) -> tuple[hy.Tensor, ...]:
    setattr(state, "".join(["la", "st"]), x * 2)
    table["sum"] = table["sum"] + x
    return *needs_to_know_which_is_which(x, y), needs_a_number(x)


@hy.no_convert
def let_others_write() -> None:
    """What another thread does meanwhile: the next of its writes."""
    for value in others[0]:
        thread = threading.Thread(target=setattr, args=(state, "k", value), daemon=True)
        thread.start()
        thread.join()
        break


def is_disturbed(x: hy.Tensor) -> hy.Tensor:
    let_others_write()
    return x * state.k


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (needs_a_number, [NEEDED]),
        (needs_to_know_which_is_which, [FOLLOWED]),
        (sets_a_name_that_is_spelled_nowhere, [OWNERS]),
        (writes_to_a_dict, [CONTAINERS]),
    ],
)
def test_each_reason_once(function: Callable[..., Any], expected: list[str]) -> None:
    """Twice the result of eager code, and one plan for both calls."""

    def call(run: Callable[..., Any]) -> Any:
        _reset({"last": hy.zeros(3)})
        table.clear()
        table["sum"] = hy.zeros(3)
        args = (X, X + 1)[: function.__code__.co_argcount]
        found = [[t.tolist() for t in _several(run(*args))] for _ in range(2)]
        return found, table["sum"].tolist(), {k: str(v) for k, v in vars(state).items()}

    hybridized = hy.hybridize(function)
    assert call(hybridized) == call(function)
    assert reasons(hybridized) == expected
    assert len(hybridized.plans) == 1


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_all_reasons_in_one_call() -> None:
    def call(run: Callable[..., Any]) -> Any:
        _reset({"last": hy.zeros(3)})
        table["sum"] = hy.zeros(3)
        found = [t.tolist() for t in run(X, X + 1)]
        return found, table["sum"].tolist(), state.last.tolist()

    hybridized = hy.hybridize(does_all_of_it)
    assert call(hybridized) == call(does_all_of_it)
    found = reasons(hybridized)
    assert {NEEDED, FOLLOWED, OWNERS, CONTAINERS} <= {*found}
    assert found.count(NEEDED) == found.count(FOLLOWED) == 1


def test_attributes_of_a_function_that_had_none() -> None:
    vars(a_function).clear()
    hybridized = hy.hybridize(sets_an_attribute_of_a_function)
    for x in (X, X + 1):
        hybridized(x)
        assert vars(a_function).pop("last").tolist() == (x * 2).tolist()
    assert reasons(hybridized) == [OWNERS]


@pytest.mark.parametrize("count", [0, 1, 2, DISTURBANCES - 1])
def test_what_others_write_stands(count: int) -> None:
    """A capture is made again after each write of another thread, whose work is not undone."""
    _reset({"k": 0.5})
    others[0] = iter([float(k) for k in range(count)])
    hybridized = hy.hybridize(is_disturbed)
    found = hybridized(X)
    assert reasons(hybridized) == [PLACES] * count
    assert state.k == (count - 1 if count else 0.5)
    assert found.tolist() == (X * 0.5).tolist()  # what was there when it began
    assert hybridized(X).tolist() == (X * state.k).tolist()


def test_others_that_write_for_ever_do_not_keep_a_call_from_ending() -> None:
    _reset({"k": 0.5})
    others[0] = iter([float(k) for k in range(3 * LIMIT)])
    hybridized = hy.hybridize(is_disturbed)
    with pytest.raises(CaptureError, match=r"is_disturbed changed SimpleNamespace\.k"):
        hybridized(X)
    assert len(list(others[0])) > LIMIT
    assert hybridized(X).tolist() == (X * state.k).tolist()


def sets_other_names_each_time(x: hy.Tensor) -> hy.Tensor:
    setattr(state, fresh_name(), x * 2)
    return x


@hy.no_convert
def fresh_name() -> str:
    return f"n{uuid.uuid4().hex}"


def test_there_is_an_end_to_it() -> None:
    _reset({})
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(sets_other_names_each_time)(X)
    assert str(caught.value) == (
        f"sets_other_names_each_time was captured {LIMIT} times, and no capture came to an end\n"
        "Each time it reads or sets attributes that no code leads to, and others than the time "
        "before.\n"
        "Fix: keep what it writes in objects, and under names, that are the same at each call."
    )
    assert vars(state) == {}


def counts_up(x: hy.Tensor) -> hy.Tensor:
    table["n"] = table["n"] + 1
    return x * table["n"]


def is_set_to_the_same(x: hy.Tensor) -> hy.Tensor:
    table["n"] = 1
    return x * table["n"]


def test_plain_values_that_each_call_changes_are_refused() -> None:
    """One more capture, from where the first call would leave it, tells the two apart."""
    table.clear()
    table["n"] = 0
    hybridized = hy.hybridize(is_set_to_the_same)
    assert hybridized(X).tolist() == X.tolist()
    assert reasons(hybridized) == [CONTAINERS]
    table["n"] = 0
    with pytest.raises(CaptureError, match="counts_up changed global table while it was captured"):
        hy.hybridize(counts_up)(X)
    assert table == {"n": 0}


def test_an_error_of_the_function_ends_it() -> None:
    """It is no reason to try again, and nothing is left of what was written before it."""

    def fails(x: hy.Tensor) -> hy.Tensor:
        writes_to_a_dict(x)
        raise ValueError("no")

    before = table["sum"] = hy.zeros(3)
    with pytest.raises(ValueError, match="no"):
        hy.hybridize(fails)(X)
    assert table["sum"] is not before  # as in eager code
    assert table["sum"].tolist() == X.tolist()


def test_what_a_later_call_would_ask_for_is_no_surprise() -> None:
    """A capture tells whether each call writes another value; that one may begin again, too."""
    state = types.SimpleNamespace(i=0)

    def turned(x, k):
        a, b = x, hy.astype(x, hy.float32)
        for _ in range(3):
            a, b = b, a
        state.i = k
        return a

    x = hy.asarray(0.25)
    assert hy.hybridize(turned)(x, 3).tolist() == x.tolist()
    assert state.i == 3
