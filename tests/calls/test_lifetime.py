"""Memory: functions and modules that were hybridized go, and what stays does not grow."""

import contextlib
import gc
import linecache
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.convert import source
from hybrid.memory import native
from tests.staging.harness import f32

X = hy.ones((4, 8))
HOW_MANY, CALLS = 6, 1000

pytestmark = pytest.mark.usefixtures("learned_at_once")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.state = hy.zeros((4, 8))
        self.history = [hy.zeros((4, 8))]

    def forward(self, x):
        ys = []
        while hy.sum(x * x) > 1:
            x = hy.tanh(self.linear(x)) * 0.5
            ys.append(x)
        if hy.sum(x) > 0:
            self.state = x
        else:
            self.history[0] = x
        for y in x:
            x = x + y
        return x, ys


def a_module() -> None:
    net = Net().hybridize()
    y, _ = net(X)
    hy.sum(y * y).backward()


def a_training_step() -> None:
    net = Net()
    optimizer = hy.optim.Adam(net.parameters(), lr=0.1)

    @hy.hybridize
    def step(x):
        optimizer.zero_grad()
        y, _ = net(x)
        loss = hy.sum(y * y)
        loss.backward()
        optimizer.step()
        if loss > 1:
            print(end="")
        return loss

    step(X), step(X)


def a_function() -> None:
    kept, scale = [hy.ones((4, 8))], 2.0

    def note(a):
        return a * scale

    @hy.hybridize
    def f(x, k):
        while hy.sum(x) < 500:
            x = hy.py_call(note, x, result=x.type) + k
            kept[0] = x
        if hy.sum(x) > 1e6:
            raise ValueError("large")
        return hy.grad(lambda v: hy.sum(v * v * kept[0]))(x)

    for k in (1.0, 2.0, 3.0):
        f(X, k)
    with pytest.raises(ValueError):
        f(X * 1e6, 1.0)


def an_object() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = hy.zeros(())

        @hy.hybridize
        def add(self, x):
            if x > 0:
                self.n = self.n + x
            return self.n

    counter = Counter()
    counter.add(f32(1.0)), counter.add(f32(-1.0))


def a_refused_capture() -> None:
    seen = [hy.ones((100, 100))]

    @hy.hybridize
    def f(x):
        seen.append(1)
        return {"a": x} if hy.sum(x) > 0 else [x, seen[0]]

    with pytest.raises(hy.errors.CaptureError):
        f(X)


def an_open_axis() -> None:
    """Also with sizes that are attributes, and parts of shapes alone."""
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.BatchNorm1d(8))

    @hy.hybridize
    def step(x):
        y = net(x)
        hy.sum(y * y).backward()
        return hy.concat([y, hy.ones((len(x), 8)), hy.full(8, len(x)) + y[: len(x) - 1]])

    for n in range(2, 7):
        step(hy.ones((n, 8)))


def counts() -> tuple[int, int]:
    gc.collect()
    gc.collect()
    return native.memory()["live_bytes"], len(gc.get_objects())


@pytest.mark.parametrize(
    "make", [a_module, a_training_step, a_function, an_object, a_refused_capture, an_open_axis]
)
def test_what_is_dropped_is_given_back(make: Callable[[], None]) -> None:
    for _ in range(3):
        make()
    before = counts()
    for _ in range(HOW_MANY):
        make()
    after = counts()
    assert after[0] <= before[0]
    assert after[1] - before[1] < HOW_MANY  # less than one object each


def growing_lists(x):
    ys, total = [], x * 0
    while hy.sum(x) < 200:
        x = x * 1.5 + 1
        ys.append(x)
    for y in ys:
        total = total + y if hy.sum(y) > 0 else total
    return ys, total


def test_long_runs_keep_nothing() -> None:
    hybridized = hy.hybridize(growing_lists)
    xs = [f32([float(i), 1.0]) for i in range(7)]

    def run(times: int) -> tuple[Any, int]:
        for i in range(times):
            hybridized(xs[i % 7])
        return counts(), sys.getallocatedblocks()

    run(50)
    (live, objects), blocks = run(CALLS)
    (live_later, objects_later), blocks_later = run(CALLS)
    assert live_later == live and abs(objects_later - objects) < 20
    assert abs(blocks_later - blocks) < CALLS / 10
    assert len(hybridized.plans) == 1


SOURCE = """
def function(x):
    with context:
        if hy.sum(x) > {0}:
            x = x * {0}
    return (lambda y: y + {0})(x)
"""


def test_dead_functions_let_go_of_their_code() -> None:
    codes, parsed = [], len(source._files)
    for n in range(40):
        path, text = f"<function {n}>", SOURCE.format(n)
        linecache.cache[path] = len(text), None, text.splitlines(True), path
        space = {"hy": hy, "context": contextlib.nullcontext()}
        exec(compile(text, path, "exec"), space)
        assert hy.hybridize(space["function"])(X).shape == X.shape
        codes.append(weakref.ref(space["function"].__code__))
        del linecache.cache[path]
    del space
    gc.collect()
    assert [code() for code in codes] == [None] * len(codes)
    assert len(source._files) - parsed <= source._newest.maxlen
