"""Many threads: captures, runs, copies and the author's own writes, all at the same time."""

import copy
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.eager import thread_state
from hybrid.trace.capture.recapture import DISTURBANCES
from hybrid.trace.regions.tracer import Tracer
from tests.staging.harness import describe, f32

THREADS = 8


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*works: Callable[[], None]) -> None:
    """Run ``works``, one thread each; whatever they raise is raised."""
    errors, start = [], threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Shared:
    def __init__(self) -> None:
        self.total = None
        self.count = hy.zeros(())
        self.history = {"last": hy.zeros(2)}

    @hy.hybridize(max_plans=4)
    def add(self, x, k):
        x = self.plain(x, k)
        self.total = hy.sum(x)
        self.count += 1
        self.history["last"] = x
        return x

    def plain(self, x, k):
        for _ in range(2):
            x = x * k + 1 if hy.sum(x) > 0 else x - k
        return x


def test_an_object_that_all_write_to() -> None:
    shared = Shared()
    rows = {n: [f32(np.linspace(-i, n, n)) for i in range(3)] for n in range(2, 8)}
    expected = {
        (n, i, k): describe(shared.plain(x, k))
        for n, xs in rows.items() for i, x in enumerate(xs) for k in (1.5, 2.5)
    }  # fmt: skip

    def work(seed: int) -> Callable[[], None]:
        def calls() -> None:
            for turn in range(10):
                n, i, k = 2 + (seed + turn) % 6, turn % 3, (1.5, 2.5)[turn % 2]
                assert describe(shared.add(rows[n][i], k)) == expected[n, i, k]

        return calls

    at_once(*[work(seed) for seed in range(THREADS)])
    assert shared.count.item() == 10 * THREADS  # nobody's write is lost
    sums = [
        hy.sum(shared.plain(x, k)).item() for xs in rows.values() for x in xs for k in (1.5, 2.5)
    ]
    assert shared.total.item() in sums
    assert describe(shared.history["last"]) in expected.values()
    assert len(shared.add.plans) <= 4


def test_prints_raises_lists_copies_and_a_growing_cache(capfd) -> None:
    def f(x, k):
        ys = []
        while hy.sum(x) < 50:
            x = x * 2 + k
            ys.append(x)
        if x[0] > 200:
            raise ValueError("large")
        print("now", x[0], flush=True)
        return ys

    hybridized = hy.hybridize(f, max_plans=3)
    calls = [(f32([float(i), 1.0 + i]), k) for i in (1, 10, 100, 300) for k in (1.0, 2.5, 3.0)]

    def outcome(function, args):
        try:
            return describe(function(*args))
        except ValueError as error:
            return str(error)

    expected = [outcome(f, args) for args in calls]
    capfd.readouterr()

    def work(seed: int) -> Callable[[], None]:
        def caller() -> None:
            for turn in range(12):
                at = (seed * 5 + turn) % len(calls)
                assert outcome(hybridized, calls[at]) == expected[at]

        def copier() -> None:
            for turn in range(12):
                at = (seed + turn) % len(calls)
                assert outcome(copy.deepcopy(hybridized), calls[at]) == expected[at]
                assert repr(hybridized).startswith("<hybridized f")
                if turn % 4 == 0:
                    hybridized.clear()
                assert len(hybridized.plans) <= 3

        return copier if seed % 4 == 3 else caller

    at_once(*[work(seed) for seed in range(THREADS)])
    printed = capfd.readouterr().out.count("now")  # lines of several threads may be mixed
    large = sum(e == "large" for e in expected)
    assert large and printed == round(THREADS * 12 * (1 - large / len(expected)))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.seen = hy.zeros(())
        self.state = None

    def forward(self, x):
        for _ in range(3):
            if hy.sum(x) < 100:
                x = hy.tanh(self.linear(x)) + 1
        self.seen = self.seen + 1
        self.state = x
        return x


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def test_modules_are_copied_while_they_run() -> None:
    net = Counting().hybridize(max_plans=2)
    plain = copy.deepcopy(net).hybridize(False)
    xs = [hy.ones((n, 3)) for n in range(1, 6)]
    expected = [describe(plain(x)) for x in xs]

    def call(seed: int) -> None:
        for turn in range(15):
            at = (seed + turn) % len(xs)
            assert describe(net(xs[at])) == expected[at]

    def clone(how) -> None:
        for turn in range(6):
            other = how(net)
            assert describe(other(xs[turn % len(xs)])) == expected[turn % len(xs)]
            assert describe(other.state) == expected[turn % len(xs)]
            net.clear()

    at_once(
        *[lambda seed=seed: call(seed) for seed in range(THREADS - 2)],
        lambda: clone(copy.deepcopy),
        lambda: clone(pickled),
    )
    assert net.seen.item() == 15 * (THREADS - 2)


def test_two_functions_share_state() -> None:
    class State:
        value, log = hy.zeros(2), [hy.zeros(2)]

    state = State()

    @hy.hybridize
    def put(x):
        if hy.sum(x) > 0:
            state.value = x
        else:
            state.value = -x
        state.log[0] = state.value * 2

    @hy.hybridize
    def take(x):
        y = state.value
        while hy.sum(y) < 10:
            y = y + 1
        return y + x * 0, state.log[0]

    def puts() -> None:
        for turn in range(25):
            put(f32([1.0, turn - 5]) if turn % 2 else f32([[1.0, turn - 5]]))

    def takes() -> None:
        for turn in range(25):
            y, last = take(hy.zeros((turn % 4 + 1, 1, 2) if turn % 3 else ()))
            assert hy.sum(y).item() >= 10 and last.shape[-1] == 2

    at_once(*[puts, takes] * (THREADS // 2))
    assert describe(state.log[0]) == describe(state.value * 2)


@pytest.mark.alone
def test_what_others_do_meanwhile_is_neither_lost_nor_taken_for_the_captures_own() -> None:
    log, settings, done = [], {"turn": 0}, threading.Event()

    class Config:
        level = 0

    config = Config()
    kept = [hy.zeros(())]

    def function(x):
        for _ in range(4):
            x = hy.tanh(x) + len(log) * 0 + settings["turn"] * 0 + config.level * 0
            if hy.sum(x) > 100:
                x = x - 1
        kept[0] = hy.sum(x)
        return x

    written = []

    def others() -> None:
        while not done.is_set():
            written.append(len(written))
            log.append(written[-1])
            settings["turn"] = config.level = written[-1]
            time.sleep(0.02)

    def calls() -> None:
        try:
            for n in range(1, 7):
                x = hy.ones(n)
                assert describe(hy.hybridize(function)(x)) == describe(function(x))
        finally:
            done.set()

    at_once(others, calls)
    assert log == written
    assert settings["turn"] == config.level == written[-1]


@pytest.mark.parametrize("captures", [1, 2, DISTURBANCES, DISTURBANCES + 1, DISTURBANCES + 2])
def test_what_others_do_in_each_of_many_captures_stays(captures, monkeypatch) -> None:
    """Though at last all that moves is taken for the function's own."""
    log, kept, applied = [], [hy.zeros(())], Tracer.applied
    appended: list[int] = []

    def function(x):
        x = hy.tanh(x) + len(log) * 0
        kept[0] = hy.sum(x)
        return x

    def disturbed(self, op, *rest):
        if op.name == "tanh" and len(appended) < captures:
            appended.append(len(appended))
            other = threading.Thread(target=log.append, args=(appended[-1],), daemon=True)
            other.start()
            other.join()
        return applied(self, op, *rest)

    monkeypatch.setattr(Tracer, "applied", disturbed)
    x = hy.ones(3)
    assert describe(hy.hybridize(function)(x)) == describe(hy.tanh(x))
    assert log == appended == list(range(captures))
    assert describe(kept[0]) == describe(hy.sum(hy.tanh(x)))


# Forks ------------------------------------------------------------------------------------------


class State:
    last = None


def forked(check: Callable[[], bool]) -> int:
    """The pid of a child that ends with 0 if ``check`` holds there, soon."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return child


def test_a_fork_waits_for_the_capture_of_another_thread(monkeypatch):
    """Else the child has a lock that nobody gives back, and traced values in its places."""
    begun, apply = threading.Event(), Tracer.applied
    state, ends = State(), []

    def applied(self, *args):
        if not begun.is_set():
            begun.set()
            time.sleep(0.3)  # meanwhile a fork begins
        return apply(self, *args)

    def step(x):
        state.last = hy.sin(x)
        for j in range(3):
            x = hy.sin(x) * 2 if hy.sum(x) > j else x
        return x + state.last

    monkeypatch.setattr(Tracer, "applied", applied)
    function = hy.hybridize(step)
    thread = threading.Thread(target=lambda: ends.append(function(hy.ones(3))), daemon=True)
    thread.start()
    begun.wait()

    def check():
        whole = state.last.shape == (3,) and hy.sum(state.last).item() > 0
        other = hy.hybridize(lambda x: x * 3)(hy.ones(2)).tolist() == [3.0, 3.0]
        return whole and other and function(hy.ones(2)).shape == (2,)

    child = forked(check)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert ends[0].tolist() == step(hy.ones(3)).tolist()


def test_a_fork_waits_for_the_write_of_another_thread():
    """Else nothing of the child could be written in place again."""
    held, x = threading.Event(), hy.ones(2)

    def write():
        with thread_state.WRITES:
            held.set()
            time.sleep(0.3)  # meanwhile a fork begins

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    held.wait()

    def check():
        x[0] = 5.0
        return x.tolist() == [5.0, 1.0]

    child = forked(check)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_gives_up_a_lock_that_is_never_given_back(monkeypatch):
    """The parent's thread may wait for the child, whose lock is a new one then."""
    monkeypatch.setattr(thread_state, "FORK_PATIENCE", 0.05)
    held, over = threading.Event(), threading.Event()

    def hold():
        with thread_state.STATE:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait()
    child = forked(lambda: hy.hybridize(lambda x: x * 3)(hy.ones(2)).tolist() == [3.0, 3.0])
    assert os.waitpid(child, 0)[1] == 0
    over.set()
    thread.join()
