"""Numbers that become inputs of plans: of the arguments, and of places outside."""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from tests.staging.harness import describe, f32

X = f32([1.0, -2.0, 3.0])
FACTOR = 1.0
TABLE: dict[str, Any] = {"rate": 1.0, "rows": [1.0, 2.0], "name": "a"}


def agree(function: Callable[..., Any], hybridized: Callable[..., Any], *args: Any) -> None:
    assert describe(hybridized(*args)) == describe(function(*args))


def swept(
    function: Callable[..., Any], put: Callable[[Any], Any], values: Any, *args: Any
) -> list[str]:
    """The reasons for the plans of calls after ``put`` of each value."""
    hybridized = hy.hybridize(function)
    for value in values:
        put(value)
        agree(function, hybridized, *(args or (X,)))
    return [plan.why for plan in hybridized.plans]


FLOATS = [0.5, -0.0, 0.0, 1 / 3, float("inf"), float("nan"), 5e-324, 1e308, 7.25]


class Net(nn.Module):
    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.k = 1.0
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x) * self.k + self.factor


class Slotted:
    __slots__ = ("k",)


class Pair(NamedTuple):
    low: float
    high: float


def of_an_attribute() -> Any:
    owner = SimpleNamespace(k=1.0)
    return lambda x: x * owner.k, lambda v: setattr(owner, "k", v)


def of_slots() -> Any:
    owner = Slotted()
    return lambda x: x * owner.k, lambda v: setattr(owner, "k", v)


def of_a_module() -> Any:
    net = Net()
    return lambda x: net(x), lambda v: setattr(net, "k", v)


def of_a_class() -> Any:
    net = type("Other", (Net,), {})()
    return lambda x: net(x), lambda v: setattr(type(net), "factor", v)


def of_a_property() -> Any:
    class Owner:
        k = 1.0

        @property
        def double(self):
            return self.k * 2

    owner = Owner()
    return lambda x: x * owner.double, lambda v: setattr(owner, "k", v)


def of_a_global() -> Any:
    return lambda x: x * FACTOR, lambda v: globals().update(FACTOR=v)


def of_a_variable() -> Any:
    k = 1.0

    def put(value):
        nonlocal k
        k = value

    return lambda x: x * k, put


def of_defaults() -> Any:
    def function(x, k=1.0, *, shift=2.0):
        return x * k + shift

    def put(value):
        function.__defaults__ = (value,)
        function.__kwdefaults__ = {"shift": value}

    return function, put


def of_a_dict() -> Any:
    return lambda x: x * TABLE["rate"], lambda v: TABLE.update(rate=v)


def of_a_new_dict() -> Any:
    def put(value):
        globals()["TABLE"] = {"rate": value, "rows": [value, 2.0], "name": "a"}

    return lambda x: x * TABLE["rate"] + TABLE["rows"][0], put


def of_a_deque() -> Any:
    owner = SimpleNamespace(items=deque([1.0, 2.0]))
    return lambda x: x * owner.items[1], lambda v: owner.items.__setitem__(1, v)


def of_a_tuple() -> Any:
    owner = SimpleNamespace(pair=(1.0, (2.0, "a")))
    return lambda x: x * owner.pair[1][0], lambda v: setattr(owner, "pair", (1.0, (v, "a")))


def of_a_named_tuple() -> Any:
    owner = SimpleNamespace(pair=Pair(1.0, 2.0))
    return lambda x: x * owner.pair.high, lambda v: setattr(owner, "pair", Pair(1.0, v))


PLACES = [
    of_an_attribute, of_slots, of_a_module, of_a_class, of_a_property, of_a_global, of_a_variable,
    of_defaults, of_a_dict, of_a_new_dict, of_a_deque, of_a_tuple, of_a_named_tuple,
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_numbers_outside_are_inputs(place) -> None:
    function, put = place()
    values = [*FLOATS, *np.random.default_rng(0).standard_normal(100).tolist()]
    assert len(swept(function, put, values)) == 2


def test_numbers_of_an_argument_object() -> None:
    owner = SimpleNamespace(k=1.0)
    reasons = swept(lambda x, o: x * o.k, lambda v: setattr(owner, "k", v), FLOATS, X, owner)
    assert len(reasons) == 2


def test_a_thousand_values_that_change_together() -> None:
    net = Net()
    owner = SimpleNamespace(k=1.0, n=1)

    def put(value):
        net.k, owner.k, owner.n = value, -value, int(1000 * value)

    def function(x):
        if owner.k > 0:
            x = x + owner.n
        return net(x) ** 2 * owner.k, owner.n

    values = np.random.default_rng(1).standard_normal(1000).tolist()
    assert len(swept(function, put, values)) <= 2


def test_gradients_flow_past_them() -> None:
    owner = SimpleNamespace(k=1.0)
    gradient = hy.grad(lambda x: hy.sum(x * x * owner.k))
    assert len(swept(lambda x: gradient(x), lambda v: setattr(owner, "k", v), (0.5, 1.5, 3.0))) == 2


def test_ints_that_count_loops() -> None:
    owner = SimpleNamespace(n=1)

    def function(x):
        for i in range(owner.n):
            x = x * 0.5 + i
        return x

    assert len(swept(function, lambda v: setattr(owner, "n", v), (3, 5, 0, 50, 1, -2))) == 2


def test_numbers_that_decide_what_is_captured_stay_keys() -> None:
    owner = SimpleNamespace(n=1, k=1.0)

    def put(n):
        owner.n, owner.k = n, n + 0.5

    line = put.__code__.co_firstlineno + 4
    reasons = swept(lambda x: hy.zeros(owner.n) + owner.k, put, (1, 2, 3))
    assert len(reasons) == 3
    assert reasons[1] == (
        "SimpleNamespace.k was 1.5 and is 2.5; SimpleNamespace.n was 1 and is 2; "
        "SimpleNamespace.k is an input of this plan: any value will do; another number cannot be: "
        f"an index or size needs the value of a traced int ({__file__}:{line})"
    )
    # The other one goes on being an input.
    hybridized = hy.hybridize(lambda x: hy.zeros(owner.n) + owner.k)
    for n, k in ((1, 0.5), (2, 1.5), (1, 2.5), (2, 3.5), (1, 4.5), (2, 5.5)):
        owner.n, owner.k = n, k
        agree(hybridized.function, hybridized, X)
    assert len(hybridized.plans) == 3


def test_an_argument_that_decides_leaves_the_others_inputs() -> None:
    hybridized = hy.hybridize(lambda n, k: hy.zeros(n) + k)
    for n, k in ((1, 0.5), (2, 1.5), (1, 2.5), (2, 3.5), (1, 4.5), (2, 5.5)):
        agree(hybridized.function, hybridized, n, k)
    assert len(hybridized.plans) == 3


def test_each_kind_has_its_plan() -> None:
    owner = SimpleNamespace(k=1.0)
    values = (1.0, 2.0, 3, 4, True, False, None, "a", 5.5, 6, np.float64(1.5), 10**20, 7.5, 8)
    hybridized = hy.hybridize(lambda x: x * owner.k if type(owner.k) in (int, float) else x + 1)
    for value in values:
        owner.k = value
        agree(hybridized.function, hybridized, X)
    # 1.0, any float, any int, 10**20, two bools, None, a text, NumPy's.
    assert len(hybridized.plans) == 9


def test_what_raises_in_every_plan_refuses_nothing() -> None:
    owner = SimpleNamespace(k=1.0, fails=False)

    def function(x):
        if owner.fails:
            raise ValueError("no")
        return x * owner.k

    hybridized = hy.hybridize(function)
    for k, fails in ((1.0, False), (2.0, True), (3.0, False), (4.0, False)):
        owner.k, owner.fails = k, fails
        if fails:
            with pytest.raises(ValueError, match="no"):
                hybridized(X)
        else:
            agree(function, hybridized, X)
    assert len(hybridized.plans) == 2


def test_an_instance_that_comes_to_hide_its_class() -> None:
    class Owner:
        k = 1.0

    owner = Owner()
    hybridized = hy.hybridize(lambda x: x * owner.k + Owner.k)
    for step in range(8):
        if step == 4:
            owner.k = Owner.k
        Owner.k = step + 0.5
        agree(hybridized.function, hybridized, X)
    owner.k = 100.0
    agree(hybridized.function, hybridized, X)


def test_one_dict_in_two_places() -> None:
    first = SimpleNamespace(table={"k": 1.0})
    second = SimpleNamespace(table=first.table)
    hybridized = hy.hybridize(lambda x: x * first.table["k"] + second.table["k"])
    for step in range(8):
        if step == 4:
            second.table = {"k": -1.0}
        first.table["k"] = step + 0.5
        agree(hybridized.function, hybridized, X)
    assert len(hybridized.plans) <= 4


def test_a_list_of_many_numbers_is_data() -> None:
    rows = [float(i) for i in range(100)]
    hybridized = hy.hybridize(lambda x: x * rows[0])
    for k in (1.5, 2.5, 3.5):
        rows[:] = [row + k for row in rows]
        agree(hybridized.function, hybridized, X)
    assert len(hybridized.plans) == 3


def test_containers_that_are_written_hold_inputs_too() -> None:
    state = {"k": 1.0, "last": 0.0, "sum": hy.zeros(3), "flag": 0}

    def function(x):
        state["last"] = (x[0] * state["k"]).item()
        state["sum"] = state["sum"] + x
        state["flag"] = 7
        return x * state["k"]

    hybridized = hy.hybridize(function)
    for k in (0.5, 1.5, 2.5, 3.5):
        for run in (function, hybridized):
            state.update({"k": k, "sum": X + k, "flag": 0})
            found = describe(run(X)), describe(state)
            if run is function:
                expected = found
        assert found == expected
    assert len(hybridized.plans) == 2


def test_writes_of_a_number_that_is_an_input_are_repeated() -> None:
    owner = SimpleNamespace(k=1.0, on=False)

    def function(x):
        if owner.on:
            owner.k = owner.k + 1.0
        return x * owner.k

    hybridized = hy.hybridize(function)
    for owner.k in (1.0, 2.0, 3.0):
        agree(function, hybridized, X)
    owner.on = True
    for start in (4.0, 5.0):
        owner.k = start
        expected = describe(function(X)), owner.k
        owner.k = start
        assert (describe(hybridized(X)), owner.k) == expected


def test_a_number_that_is_an_input_is_set_to_what_it_is_already() -> None:
    owner = SimpleNamespace(k=1.0)

    def function(x):
        y = x * owner.k
        owner.k = 3.0
        return y

    hybridized = hy.hybridize(function)
    for k in (5.0, 3.0, 3.0, 3.0, 7.0, 9.0):
        for run in (function, hybridized):
            owner.k = k
            found = describe(run(X)), describe(owner.k)
            if run is function:
                expected = found
        assert found == expected


def test_a_cached_property_keeps_its_value() -> None:
    class Owner:
        k = 1.0

        @functools.cached_property
        def double(self):
            return self.k * 2

    owner = Owner()
    owner.first = True

    def function(x):
        return x * owner.k if owner.first else x * owner.double * owner.k

    hybridized = hy.hybridize(function)
    agree(function, hybridized, X)
    owner.first, Owner.k = False, 2.0
    expected = X * 4.0 * 2.0
    assert describe(hybridized(X)) == describe(expected)
    line = function.__code__.co_firstlineno
    assert hybridized.plans[-1].why == (
        "Owner.first was True and is False; Owner.k was 1.0 and is 2.0; it cannot become an "
        f"input: function computed Owner.double, which keeps its value ({__file__}:{line})"
    )
    Owner.k = 3.0
    assert describe(hybridized(X)) == describe(X * 4.0 * 3.0)


def test_explain_tells_of_inputs() -> None:
    net = Net()

    class User:
        k = 1.0

        @hy.hybridize
        def run(self, x, shift=0.5):
            return net(x) * self.k * TABLE["rate"] + shift

    user = User()
    user.k = 1.0
    for user.k in (1.0, 2.0):
        user.run(X)
    text = str(user.run.explain(X))
    assert "self.k is an input of this plan: any value will do" in text
    assert "^ self.k is an input: read at every call" in text
    assert "self.k, any number" in text
    assert "guard: User.k" not in text
    function, put = of_defaults()
    hybridized = hy.hybridize(function)
    for k in (1.0, 2.0):
        put(k)
        hybridized(X)
    text = str(hybridized.explain(X))
    assert "^ the default of k is an input: read at every call" in text
    assert "defaults of function are (2.0,) {'shift': 2.0} with any the default of k" in text


def test_explain_before_there_is_a_plan() -> None:
    owner = SimpleNamespace(k=1.0)
    hybridized = hy.hybridize(lambda x: x * owner.k)
    hybridized(X)
    owner.k = 2.0
    assert hybridized.explain(X).verdict == (
        "a call builds a new plan: SimpleNamespace.k was 1.0 and is 2.0; "
        "SimpleNamespace.k is an input of this plan: any value will do"
    )


def test_other_threads_read_them_while_one_captures() -> None:
    net = Net()
    hybridized = hy.hybridize(lambda x: net(x))
    expected = []
    for net.k in (1.0, 2.0):
        expected.append(describe(hybridized(X)))
    wrong: list[Any] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                if describe(hybridized(X)) not in expected:
                    wrong.append("another result")
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for size in range(1, 12):
            for net.k in (1.0, 2.0):  # the second is a capture with self.k for an input
                hybridized(hy.ones((size, 3)))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[0]
