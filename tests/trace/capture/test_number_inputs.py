"""Numbers from outside that are lent to a capture: what is written meanwhile, and by whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import describe, f32

X = f32([1.0, -2.0, 3.0])


def test_what_was_written_before_an_exception_stays_written() -> None:
    class Owner:
        k = 1.0

    owner = Owner()
    table = {"k": 1.0, "last": hy.zeros(3)}

    def function(x):
        owner.state = x * owner.k * table["k"]
        table["last"] = owner.state + 1
        if owner.state.sum() > 10.0:
            raise ValueError("too much")
        return owner.state

    def call(run: Callable[..., Any], k: float) -> Any:
        Owner.k, owner.state = k, hy.zeros(3)
        table.update(k=k + 1.0, last=hy.zeros(3))
        try:
            found = describe(run(X))
        except ValueError as error:
            found = str(error)
        return found, describe(vars(owner)), describe(table), Owner.k

    hybridized = hy.hybridize(function)
    for k in (0.0, 1.0, 7.0, 2.0, 8.0, 9.0):
        assert call(hybridized, k) == call(function, k)
    assert len(hybridized.plans) == 2


@pytest.mark.parametrize("place", ["own", "class", "item"])
def test_another_thread_writes_them_during_a_capture(place: str) -> None:
    class Owner:
        k = 1.0

    owner, table = Owner(), {"k": 1.0}
    write, read = {
        "own": (lambda v: setattr(owner, "k", v), lambda: owner.k),
        "class": (lambda v: setattr(Owner, "k", v), lambda: Owner.k),
        "item": (lambda v: table.update(k=v), lambda: table["k"]),
    }[place]
    others = [iter(())]

    @hy.no_convert
    def disturb() -> None:
        for value in others[0]:
            thread = threading.Thread(target=write, args=(value,), daemon=True)
            thread.start()
            thread.join()

    def function(x):
        disturb()
        return x * {"own": owner.k, "class": Owner.k, "item": table["k"]}[place]

    write(1.0)
    hybridized = hy.hybridize(function, dynamic=False)  # each size once more from the beginning
    for size in range(1, 6):
        x = hy.ones((size,))
        assert describe(hybridized(x)) == describe(function(x))
        write(size + 0.25)
        others[0] = iter([size + 0.5])  # while it is captured with the number for an input
        assert describe(hybridized(x)) in [describe(x * (size + k)) for k in (0.25, 0.5)]
        assert read() == size + 0.5
        write(100.0)
        assert describe(hybridized(x)) == describe(function(x))
    assert len(hybridized.plans) == 10
