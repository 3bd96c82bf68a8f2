"""Refusals: what a capture cannot keep raises, and leaves everything as it was."""

import collections
import dataclasses
import functools
import sched
import types

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError, LeakedValueError, TracedBoolError, TracedValueError
from tests.helpers import leaf


def test_the_truth_of_a_traced_value() -> None:
    def function(x):
        if hy.sum(x) > 0:  # the line in the message
            return x
        return -x

    with pytest.raises(TracedBoolError) as caught:
        hy.hybridize(function, mode="trace")(hy.ones(2))
    text = str(caught.value)
    assert "the truth of a traced value was asked for" in text
    assert "if hy.sum(x) > 0:  # the line in the message" in text
    assert f"{__file__}:{caught.value.at.line}" in text
    assert "(bool[] here)" in text
    assert 'Fix: leave out mode="trace"' in text


@pytest.mark.parametrize(
    "ask", [hy.Tensor.__float__, hy.Tensor.__int__, hy.Tensor.numpy, np.asarray]
)
def test_the_number_of_a_traced_value(ask) -> None:
    with pytest.raises(TracedValueError, match="of a traced value was asked for"):
        hy.hybridize(lambda x: ask(x[0] * 2))(hy.ones(2))
    cell = hy.ones(())
    with pytest.raises(TracedValueError):  # a cell's value may change between runs, too
        hy.hybridize(lambda x: x * ask(cell))(hy.ones(2))


def test_names_that_are_computed_are_written_to() -> None:
    class Holder:
        value = None

    holder, made = Holder(), types.SimpleNamespace()

    def hide(x):
        setattr(holder, "".join(["val", "ue"]), x + 1)
        object.__setattr__(made, "".join(["ma", "de"]), x + 2)
        return x

    hide = hy.hybridize(hide)
    for n in range(3):
        hide(hy.ones(2) * n)
        assert (holder.value.tolist(), made.made.tolist()) == ([n + 1.0] * 2, [n + 2.0] * 2)
    assert len(hide.plans) == 2  # nothing there before, and a tensor


def test_leaks() -> None:
    kept = sched.scheduler()

    def hide(x):
        kept.enterabs(1, 1, print, (x + 1,))
        return x

    hy.hybridize(hide)(hy.ones(2))
    with pytest.raises(LeakedValueError, match="used after its capture had ended") as caught:
        kept.queue[0].argument[0] + 1
    assert "It was made while a hybridized function was traced" in str(caught.value)


def test_side_effects_that_cannot_be_repeated() -> None:
    calls = {"n": 0}

    def function(x):
        calls["n"] += 1
        return x

    with pytest.raises(CaptureError, match="changed closure variable") as caught:
        hy.hybridize(function)(hy.ones(1))
    assert "Fix: keep the value in a tensor" in str(caught.value)


SETTINGS = {"count": 0, "seen": [1], "names": {"a"}}
COUNT = 0


def test_what_a_refused_capture_has_changed_is_put_back() -> None:
    table = np.zeros(2, np.float32)
    queue = collections.deque([1])
    raw = bytearray(b"ab")
    owner = types.SimpleNamespace(count=0, state=hy.zeros(2), items=[1, [2]])
    closure = 0
    calls = 0

    def function(x):
        global COUNT
        nonlocal closure
        COUNT += 1
        closure += 1
        SETTINGS["count"] += 1
        SETTINGS["seen"].append(2)
        SETTINGS["names"].add("b")
        SETTINGS["new"] = x
        table[0] += 1
        queue.append(2)
        raw.extend(b"c")
        owner.count += 1
        owner.state = owner.state + x
        owner.items[1].append(x)
        owner.fresh = x * 2
        return x * 1

    x = hy.ones(2)
    with pytest.raises(CaptureError, match="while it was captured"):
        hy.hybridize(function)(x)

    def state():
        return (
            COUNT, closure, SETTINGS["count"], SETTINGS["seen"], SETTINGS["names"],
            "new" in SETTINGS, table.tolist(), list(queue), bytes(raw), owner.count,
            owner.state.tolist(), owner.items, hasattr(owner, "fresh"), calls,
        )  # fmt: skip

    untouched = (
        0,
        0,
        0,
        [1],
        {"a"},
        False,
        [0.0, 0.0],
        [1],
        b"ab",
        0,
        [0.0, 0.0],
        [1, [2]],
        False,
        0,
    )
    assert state() == untouched
    # So the eager fall-back does it once, and not once and a bit.
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert hy.hybridize(function, fallback="eager")(x).tolist() == [1.0, 1.0]
    assert (COUNT, closure, SETTINGS["count"], owner.count) == (1, 1, 1, 1)
    assert owner.state.tolist() == [1.0, 1.0] and table.tolist() == [1.0, 0.0]


@pytest.fixture(autouse=True)
def fresh_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "COUNT", 0)
    monkeypatch.setitem(globals(), "SETTINGS", {"count": 0, "seen": [1], "names": {"a"}})


def test_exceptions_of_the_function_come_through_as_they_are() -> None:
    def function(x, n):
        if n > 2:
            raise KeyError("the author's own")  # the author's line
        return x

    hybridized = hy.hybridize(function)
    hybridized(hy.ones(1), 1)
    with pytest.raises(KeyError) as caught:
        hybridized(hy.ones(1), 3)
    assert caught.value.args == ("the author's own",)
    line = caught.traceback[-1].statement
    assert "the author's line" in str(line)
    assert hybridized(hy.ones(1), 2).tolist() == [1.0]


@dataclasses.dataclass
class Holder:
    value: object


HIDING = {
    "a set": (lambda y: {y}, "set", "[0]"),
    "a deque": (lambda y: collections.deque([1, y]), "deque", "[1]"),
    "a default dict": (lambda y: collections.defaultdict(int, a=[y]), "defaultdict", "['a'][0]"),
    "a closure": (lambda y: lambda: y, "function", "its variable y"),
    "a partial": (lambda y: functools.partial(max, y, key=y), "partial", ".args[0]"),
    "a method": (lambda y: Holder(y).__repr__, "method", ".__self__.value"),
}


@pytest.mark.parametrize(("hide", "kind", "way"), HIDING.values(), ids=HIDING)
def test_results_that_hide_traced_tensors(hide, kind, way) -> None:
    def function(x):
        return x, hide(x + 1)

    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(hy.ones(1))
    assert caught.value.what == f"function returned a {kind} that holds a traced tensor ({way})"


def test_results_that_hide_no_traced_tensors() -> None:
    cell = hy.ones(1)
    holder = Holder(cell)
    holder.itself = [holder]
    back = hy.hybridize(lambda x: (x, holder, Holder))(hy.ones(1))
    assert back[1] is holder and back[2] is Holder


def test_results_that_compute_later() -> None:
    def generator(x):
        yield x + 1

    async def coroutine(x):
        return x + 1

    async def both(x):
        yield x + 1

    for function, kind in ((generator, "generator"), (coroutine, "coroutine"), (both, "async_gen")):
        with pytest.raises(CaptureError, match=f"{function.__name__} returned a {kind}"):
            hy.hybridize(function)(hy.ones(1))
    with pytest.raises(CaptureError, match="returned a map"):
        hy.hybridize(lambda x: map(hy.exp, [x]))(hy.ones(1))


def test_tensors_in_argument_lists_are_written() -> None:
    def function(tensors):
        for t in tensors:
            t += 1

    tensors = [hy.zeros(2), hy.zeros(3)]
    hybridized = hy.hybridize(function)
    hybridized(tensors)
    hybridized(tensors)
    assert [t.tolist()[0] for t in tensors] == [2.0, 2.0]
    assert len(hybridized.plans) == 1


def test_a_value_of_another_capture() -> None:
    kept: dict[str, hy.Tensor] = {}

    def outer(x):
        def inner():
            return x * 2

        return hy.hybridize(inner)() + 1

    assert hy.hybridize(outer)(hy.ones(1)).tolist() == [3.0]
    assert kept == {}


def test_a_failed_capture_leaves_no_trace() -> None:
    w = leaf(2)
    w.grad = hy.ones(2)

    def function(x):
        w.grad = None
        hy.sum(w * x).backward()
        w.assign(w.detach() * 2)
        return x.numpy()

    before = w.numpy().copy()
    with pytest.raises(CaptureError):
        hy.hybridize(function)(hy.ones(2))
    assert w.grad.tolist() == [1.0, 1.0]
    assert w.numpy().tobytes() == before.tobytes()
    assert (w * 1).requires_grad


def test_fallback_to_eager_warns_once() -> None:
    def function(x):
        return x if hy.sum(x).numpy() > 0 else -x

    hybridized = hy.hybridize(function, fallback="eager")
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert hybridized(hy.ones(1)).item() == 1.0
    assert hybridized(-hy.ones(1)).item() == 1.0  # a second warning would be an error


def test_errors_of_ops_are_those_of_eager() -> None:
    def function(x, y):
        return x @ y

    x, y = hy.ones((2, 3)), hy.ones((2, 3))
    with pytest.raises(ValueError) as eager:
        function(x, y)
    with pytest.raises(type(eager.value)) as hybridized:
        hy.hybridize(function)(x, y)
    assert str(eager.value) == str(hybridized.value)


def test_an_index_out_of_range_raises_from_the_plan() -> None:
    def function(x, i):
        y = x * 2
        return hy.take(y, i, axis=0)  # the author's line

    x, good, bad = hy.ones((3, 2)), hy.asarray([0, 2]), hy.asarray([0, 3])
    hybridized = hy.hybridize(function)
    assert hybridized(x, good).shape == (2, 2)
    with pytest.raises(IndexError) as eager:
        function(x, bad)
    with pytest.raises(IndexError) as planned:
        hybridized(x, bad)
    assert type(eager.value) is type(planned.value)
    assert "the author's line" in str(planned.value)
    assert hybridized(x, good).shape == (2, 2)


class Kept:
    """Holds a tensor that functions put another one in place of for a while."""

    def __init__(self) -> None:
        self.v = hy.ones(3)


class Scope:
    def __init__(self, state, value) -> None:
        self.state, self.value = state, value

    def __enter__(self):
        self.before, self.state.v = self.state.v, self.value

    def __exit__(self, *error) -> None:
        self.state.v = self.before


@pytest.mark.parametrize("kind", [Kept, lambda: types.SimpleNamespace(v=hy.ones(3))])
def test_what_a_finally_has_put_back_stays_as_it_was(kind) -> None:
    state = kind()
    before = state.v

    def refused(x):
        old, state.v = state.v, x
        try:
            assert hy.sum(x) > -9
            x.numpy()
        finally:
            state.v = old
        return x

    with pytest.raises(TracedValueError):
        hy.hybridize(refused)(hy.ones(3) * 2)
    assert state.v is before


def test_a_block_that_is_captured_again_for_other_numbers_puts_back_what_was_there() -> None:
    state = Kept()
    before = state.v

    def function(x, s, k):
        with Scope(state, x):
            assert s > 0
            if hy.sum(x) > 0 or s > 5:
                x = x * 2
        return x

    hybridized = hy.hybridize(function, ledger=False)
    for value, k in ((-1.0, 1), (2.0, 3), (-3.0, 4), (-3.0, 4)):
        x = hy.ones(3) * value
        assert (
            hybridized(x, hy.asarray(1.0), k).tolist() == function(x, hy.asarray(1.0), k).tolist()
        )
        assert state.v is before
