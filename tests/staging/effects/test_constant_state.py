"""Attributes and variables that a call sets to plain values: each run repeats it, or it is refused.

What is set to the same again is repeated; what every call would change once more is refused, with
the line that does.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32, flag

table = Table()
CALLS = (f32(2.0), f32(-3.0))
MODE = "none"


@table.makes(*CALLS)
def a_flag_is_set():
    state = SimpleNamespace(flag=False)

    def function(x):
        state.flag = True
        return x if x > 0 else -x

    return function, state


@table.makes(*CALLS)
def a_flag_is_made():
    state = SimpleNamespace()

    def function(x):
        state.flag = True
        return x * 2 if x > 0 else x

    return function, state


@table.makes(*CALLS)
def several_plain_values_are_set():
    state = SimpleNamespace(shape=None, name="", sizes=(), limit=0.0)

    def function(x):
        state.shape, state.name = x.shape, "last"
        state.sizes = (*x.shape, "end")
        state.limit = 0.5
        return x * state.limit if x > 0 else x

    return function, state


@table.makes(*CALLS)
def set_and_set_back():
    state = SimpleNamespace(k=1.0)

    def function(x):
        before = state.k
        state.k = 5.0
        y = x * state.k
        state.k = before
        return y if x > 0 else x

    return function, state


@table.makes(*CALLS)
def a_variable_of_an_enclosing_function():
    state = [0]
    last = "none"

    def function(x):
        nonlocal last
        last = "some"
        return x if x > 0 else -x

    def both(x):
        y = function(x)
        return y, last

    return both, state


@table.makes(*CALLS)
def a_tensor_on_a_function():
    def function(x):
        function.last = x * 2
        return function.last + 1 if x > 0 else x

    return lambda x: (function(x), function.last), None


@table.makes(*CALLS)
def a_tensor_on_a_function_is_kept():
    def function(x):
        before = getattr(function, "last", None)
        function.last = x * 2
        return x if before is None else x + before

    return function, None


@table.makes(*CALLS)
def a_flag_on_a_function():
    def function(x):
        function.seen = True
        return x if x > 0 else -x

    return lambda x: (function(x), function.seen), None


@table.makes(*CALLS)
def a_flag_on_a_class():
    class Settings:
        seen = False

    def function(x):
        Settings.seen = True
        Settings.name = "new"
        return x if x > 0 else -x

    return lambda x: (function(x), Settings.seen, Settings.name), None


@table.makes(*CALLS)
def a_module_is_put_to_evaluation():
    class Net(nn.Module):
        def __init__(self):
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            self.eval()
            self.drop.tried = True
            return self.drop(x) if x > 0 else x

    net = Net()
    return net, net


@table.makes(flag(True), flag(False))
def a_number_is_set_in_a_branch():
    state = SimpleNamespace(k=f32(0.0))

    def function(p):
        if p:
            state.k = state.k + 1
        return state.k

    return function, state


@table.makes(*CALLS)
def a_frozen_object_is_given_state():
    @dataclass(frozen=True)
    class Frozen:
        k: float = 2.0

    held = Frozen()

    def function(x):
        object.__setattr__(held, "shape", x.shape)
        object.__setattr__(held, "last", x * held.k)
        return x if x > 0 else -x

    return function, held


@table.makes(*CALLS)
def a_property_sets_it():
    class Held:
        last = 0.0

        @property
        def k(self):
            return self.last

        @k.setter
        def k(self, value):
            self.last = value

    held = Held()

    def function(x):
        held.k = 5.0
        return x * held.k if x > 0 else x

    return function, held


@table.makes(*CALLS)
def put_to_evaluation_and_back():
    drop = nn.Dropout(0.5)

    def function(x):
        drop.eval()
        y = drop(x)
        drop.train()
        return y if x > 0 else x

    return function, drop


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_a_global_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MODE", "none")

    @hy.hybridize
    def function(x: Any) -> Any:
        global MODE
        MODE = "some"
        return x

    for _ in range(3):
        function(CALLS[0])
        assert MODE == "some"
    monkeypatch.setitem(globals(), "MODE", "none")
    function(CALLS[0])
    assert MODE == "some"
    assert len(function.plans) == 2


class Counter:
    total = 0

    def __init__(self) -> None:
        self.n = 0


COUNTER, CALLED = Counter(), 0


def counts_an_attribute(x):
    COUNTER.n += 1
    return x


def counts_a_new_attribute(x):
    COUNTER.more = getattr(COUNTER, "more", 0) + 1
    return x


def counts_on_a_class(x):
    Counter.total += 1
    return x


def counts_a_global(x):
    global CALLED
    CALLED = CALLED + 1
    return x


def counts_on_itself(x):
    counts_on_itself.calls = getattr(counts_on_itself, "calls", 0) + 1
    return x


def toggles(x):
    COUNTER.n = 1 - COUNTER.n
    return x


REFUSED = {
    counts_an_attribute: ("Counter.n", "COUNTER.n += 1"),
    counts_a_new_attribute: ("Counter.more", 'COUNTER.more = getattr(COUNTER, "more", 0) + 1'),
    counts_on_a_class: ("Counter.total", "Counter.total += 1"),
    counts_a_global: ("global CALLED", "CALLED = CALLED + 1"),
    counts_on_itself: (
        "counts_on_itself.calls",
        'counts_on_itself.calls = getattr(counts_on_itself, "calls", 0) + 1',
    ),
    toggles: ("Counter.n", "COUNTER.n = 1 - COUNTER.n"),
}
ADVICE = (
    "A side effect on a Python value happens once, at capture, and could not be repeated by the "
    "plan.\n"
    "Fix: keep the value in a tensor (x.assign, +=), return it, or change it outside."
)


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_counting_is_refused(function: Any) -> None:
    what, line = REFUSED[function]
    hybridized = hy.hybridize(function)
    for _ in range(2):
        with pytest.raises(CaptureError) as caught:
            hybridized(CALLS[0])
        number = function.__code__.co_firstlineno + (2 if "global" in what else 1)
        assert str(caught.value) == (
            f"{function.__name__} changed {what} while it was captured ({__file__}:{number})\n"
            f"    {number} | {line}\n"
            f"{ADVICE}"
        )
    assert (vars(COUNTER), Counter.total, CALLED) == ({"n": 0}, 0, 0)
    assert not vars(counts_on_itself)
