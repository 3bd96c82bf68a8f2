"""Effects that no plan can repeat are refused before they happen; what only looks is not."""

import array
import collections
import copy
import datetime
import functools
import heapq
import io
import itertools
import math
import operator
import os
import pathlib
import queue
import random
import secrets
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import f32, same

CALLS = (f32(2.0), f32(-2.0), f32(9.0))


def in_a_branch(make: Callable[..., Any], act: Callable[..., Any], look: Callable[..., Any]) -> Any:
    def function(x: Any) -> Any:
        s = make(x)
        y = x
        y = y + 0 * act(s, x) if x > 0 else x * 2
        return look(s), y

    return function


def in_a_while(make: Callable[..., Any], act: Callable[..., Any], look: Callable[..., Any]) -> Any:
    def function(x: Any) -> Any:
        s = make(x)
        y = x
        while y < 3:
            act(s, y)
            y = y + 1
        return look(s), y

    return function


def in_a_range(make: Callable[..., Any], act: Callable[..., Any], look: Callable[..., Any]) -> Any:
    def function(x: Any) -> Any:
        s = make(x)
        y = x
        for _ in range(3):
            if y > 1:
                act(s, y)
            y = y + 1
        return look(s), y

    return function


def at_once(make: Callable[..., Any], act: Callable[..., Any], look: Callable[..., Any]) -> Any:
    s = make(f32(1.0))

    def function(x: Any) -> Any:
        act(s, x)
        return look(s), x

    return function


def none(_: Any) -> None:
    return None


# What is made before, what is done with it, and what is seen of it afterwards.
CHANGING: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "next": (lambda x: iter([x, x * 2, x * 3]), lambda s, x: next(s), none),
    "next with a default": (lambda x: iter([x]), lambda s, x: next(s, x), none),
    "__next__": (lambda _: itertools.count(), lambda s, x: s.__next__(), none),
    "a generator": (lambda x: (x * i for i in range(9)), lambda s, x: next(s), none),
    "send": (lambda x: (x * i for i in range(9)), lambda s, x: s.send(None), none),
    "cycle": (lambda _: itertools.cycle([1, 2]), lambda s, x: next(s), none),
    "list of an iterator": (lambda _: iter([1, 2]), lambda s, x: len(list(s)), none),
    "zip of an iterator": (
        lambda _: iter([1, 2]),
        lambda s, x: len(list(zip(s, [1], strict=False))),
        none,
    ),
    "map next": (lambda _: iter([1, 2]), lambda s, x: len(list(map(next, [s]))), none),
    "a partial of next": (lambda _: iter([1, 2]), lambda s, x: functools.partial(next, s)(), none),
    "islice": (lambda _: iter([1, 2]), lambda s, x: sum(itertools.islice(s, 1)), none),
    "a comprehension": (lambda _: iter([1, 2]), lambda s, x: sum([v for v in s]), none),
    "unpacking": (lambda _: iter([1, 2]), lambda s, x: math.hypot(*s), none),
    "a list of it": (lambda _: iter([1, 2]), lambda s, x: len([*s]), none),
    "in": (lambda _: iter([1, 2]), lambda s, x: 1 in s, none),
    "extend by an iterator": (lambda _: iter([1]), lambda s, x: [].extend(s) or 1, none),
    "a shared Random": (lambda _: random.Random(3), lambda s, x: s.random(), none),
    "a shared generator": (lambda _: np.random.default_rng(3), lambda s, x: s.uniform(), none),
    "a queue": (lambda _: queue.Queue(), lambda s, x: s.put(1) or 1, lambda s: s.qsize()),
    "an array.array": (
        lambda _: array.array("i", [1]), lambda s, x: s.append(2) or 1, lambda s: len(s),
    ),
    "a StringIO": (lambda _: io.StringIO(), lambda s, x: s.write("a"), lambda s: s.getvalue()),
}  # fmt: skip
IN_PARTS = {  # what is a matter of branches and loops alone
    "an array's method": (lambda _: np.zeros(2), lambda s, x: s.fill(3) or 1, none),
    "np.add.at": (lambda _: np.zeros(2), lambda s, x: np.add.at(s, 0, 1) or 1, none),
    "np.copyto": (lambda _: np.zeros(2), lambda s, x: np.copyto(s, 1) or 1, none),
    "out": (lambda _: np.zeros(2), lambda s, x: np.add(s, 1, out=s).sum().item(), none),
    "a view": (lambda _: np.zeros(2), lambda s, x: s[:1].fill(3) or 1, none),
}


@pytest.mark.parametrize("form", [in_a_branch, in_a_while, in_a_range, at_once])
@pytest.mark.parametrize(("make", "act", "look"), CHANGING.values(), ids=CHANGING)
def test_effects_are_refused(
    form: Callable[..., Any],
    make: Callable[..., Any],
    act: Callable[..., Any],
    look: Callable[..., Any],
) -> None:
    function = hy.hybridize(form(make, act, look))
    for x in CALLS:
        with pytest.raises(CaptureError, match=r"from outside this|that outlives the call"):
            function(x)


@pytest.mark.parametrize("form", [in_a_branch, in_a_while, in_a_range])
@pytest.mark.parametrize(("make", "act", "look"), IN_PARTS.values(), ids=IN_PARTS)
def test_effects_in_parts_are_refused(
    form: Callable[..., Any],
    make: Callable[..., Any],
    act: Callable[..., Any],
    look: Callable[..., Any],
) -> None:
    function = hy.hybridize(form(make, act, look))
    with pytest.raises(CaptureError, match="changes an ndarray from outside this"):
        function(CALLS[0])


def array_item(x: Any) -> Any:
    a = np.zeros(2)
    if x > 0:
        a[0] = 5.0
    return x * a[0].item()


def array_augmented(x: Any) -> Any:
    a = np.zeros(2)
    while x < 3:
        a += 5.0
        x = x + 1
    return x * a[0].item()


def array_item_augmented(x: Any) -> Any:
    a = np.zeros(2)
    for v in x * hy.ones(3):
        a[0] += 5.0
        x = x + v
    return x * a[0].item()


def for_over_an_iterator(x: Any) -> Any:
    items = iter([1, 2, 3])
    if x > 0:
        for item in items:
            x = x + item
    return x, next(items, None)


@pytest.mark.parametrize("function", [array_item, array_augmented, for_over_an_iterator])
def test_statements_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match="from outside this branch or loop"):
        hy.hybridize(function)(CALLS[0])


def test_a_loop_of_known_length_is_unrolled_instead() -> None:
    same(array_item_augmented, calls=CALLS)


IMPURE: dict[str, Callable[..., Any]] = {
    "random.random": lambda x: x * random.random(),
    "random.shuffle": lambda x: (random.shuffle([1, 2]), x),
    "random.seed": lambda x: (random.seed(3), x),
    "SystemRandom": lambda x: x * random.SystemRandom().random(),
    "Random()": lambda x: x * random.Random().random(),
    "np.random.rand": lambda x: x * float(np.random.rand()),
    "np.random.seed": lambda x: (np.random.seed(3), x),
    "default_rng()": lambda x: x * np.random.default_rng().uniform(),
    "time.time": lambda x: x * time.time(),
    "time.perf_counter": lambda x: x * time.perf_counter(),
    "time.monotonic_ns": lambda x: x * time.monotonic_ns(),
    "time.localtime": lambda x: x * time.localtime().tm_sec,
    "time.sleep": lambda x: (time.sleep(0), x),
    "datetime.now": lambda x: x * datetime.datetime.now().year,
    "date.today": lambda x: x * datetime.date.today().year,
    "uuid4": lambda x: (uuid.uuid4().hex, x),
    "urandom": lambda x: (os.urandom(3), x),
    "secrets": lambda x: (secrets.token_hex(3), x),
    "input": lambda x: (input(), x),
    "open": lambda x: (open(__file__), x),  # noqa: SIM115
    "read_text": lambda x: (pathlib.Path(__file__).read_text(), x),
    "tempfile": lambda x: (tempfile.mkdtemp(), x),
    "mkdir": lambda x: (os.mkdir("nowhere/at/all"), x),
    "os.environ.update": lambda x: (os.environ.update(A_NAME="b"), x),
}


@pytest.mark.parametrize("function", IMPURE.values(), ids=IMPURE)
def test_what_depends_on_the_world_is_refused(function: Callable[..., Any]) -> None:
    before = random.getstate()
    with pytest.raises(CaptureError):
        hy.hybridize(function)(CALLS[0])
    assert random.getstate() == before
    assert "A_NAME" not in os.environ


def test_the_environment_is_not_written() -> None:
    def function(x: Any) -> Any:
        os.environ["A_NAME"] = "b"
        return x

    with pytest.raises(CaptureError, match=r"os\.environ is changed"):
        hy.hybridize(function)(CALLS[0])
    assert "A_NAME" not in os.environ


def test_what_a_library_draws_unseen_is_refused() -> None:
    for text in ("random.random()", "np.random.rand()"):
        namespace: dict[str, Any] = {"random": random, "np": np}
        exec(compile(f"def sample(): return {text}", copy.__file__, "exec"), namespace)
        sample = namespace["sample"]
        before = random.getstate(), np.random.get_state()[1].tolist()
        with pytest.raises(CaptureError, match="the random numbers that all code shares"):
            hy.hybridize(lambda x, sample=sample: x * sample())(CALLS[0])
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before


# What is fine ------------------------------------------------------------------------------------

TABLE = np.arange(6.0)
NAMES = ["a", "b", "c"]
SETTINGS = {"rate": 0.5}
WHEN = datetime.datetime(2020, 1, 2)
OPENED = io.StringIO("text")

FINE: dict[str, Callable[..., Any]] = {
    "arrays that are read": lambda x: x * float(np.mean(TABLE)) + float(TABLE.max()) + TABLE[1],
    "arrays that are made": lambda x: x * float(np.sort(TABLE)[0] + TABLE.copy().sum()),
    "an array of its own": lambda x: x * own_array(),
    "einsum": lambda x: x * float(np.einsum("i,i->", TABLE, TABLE)),
    "math": lambda x: x * math.sqrt(math.pi) + math.fsum([0.5, 1.0]),
    "texts": lambda x: (x, ",".join(NAMES).upper().split(","), "a {}".format("b")),
    "dict.get": lambda x: x * SETTINGS.get("rate", 1.0) + len(SETTINGS.items()),
    "list.index": lambda x: x * NAMES.index("b") + NAMES.count("a"),
    "sorted": lambda x: (x, sorted(NAMES, reverse=True), list(reversed(NAMES))),
    "zip and enumerate": lambda x: [x * i for i, _ in enumerate(zip(NAMES, NAMES, strict=True))],
    "an iterator of its own": lambda x: x * sum(iter([1, 2])) + next(iter(NAMES), "") .__len__(),
    "a generator of its own": lambda x: sum(x * k for k in (i for i in range(3))),
    "itertools": lambda x: [
        x * i * j for i, j in itertools.product([1, 2], itertools.islice(itertools.count(), 2))
    ],
    "a Random of its own": lambda x: x * random.Random(3).random(),
    "a generator with a seed": lambda x: x * np.random.default_rng(3).uniform(),
    "copies": lambda x: (x, copy.deepcopy(SETTINGS), copy.copy(NAMES)),
    "operator": lambda x: x * operator.itemgetter("rate")(SETTINGS),
    "heaps": lambda x: (x, heapq.nsmallest(2, [3, 1, 2])),
    "dates": lambda x: x * (WHEN + datetime.timedelta(days=1)).day + time.gmtime(0).tm_year,
    "a text file of its own": lambda x: (x, own_text()),
    "a file that is asked": lambda x: (x, OPENED.getvalue(), OPENED.closed),
    "a counter of its own": lambda x: (x, collections.Counter("abca")["a"]),
    "reduce": lambda x: functools.reduce(operator.add, [x, x]),
    "isinstance": lambda x: x * isinstance(OPENED, io.IOBase),
    "paths": lambda x: (x, pathlib.Path("a/b").name, os.path.join("a", "b")),
    "the environment": lambda x: (x, os.environ.get("HOME"), "HOME" in os.environ),
}  # fmt: skip


def own_array() -> float:
    made = np.zeros(3)
    made[0] = 1.0
    made += 2.0
    np.add.at(made, 1, 5.0)
    made.sort()
    return float(made.sum())


def own_text() -> str:
    text = io.StringIO()
    text.write("a")
    print("b", end="", file=io.StringIO())
    return text.getvalue()


@pytest.mark.parametrize("use", FINE.values(), ids=FINE)
def test_what_only_looks_is_captured(use: Callable[..., Any]) -> None:
    def plain(x: Any) -> Any:
        return use(x)

    def branch(x: Any) -> Any:
        found = None
        if x > 0:
            found = use(x)
        return x * 2 if found is None else x * 3

    def loop(x: Any) -> Any:
        while x < 3:
            use(x)
            x = x + 1
        return x

    for function in (plain, branch, loop):
        same(function, calls=CALLS, plans=1)


def test_dicts_that_make_their_items() -> None:
    def function(x: Any) -> Any:
        made = collections.defaultdict(lambda: x * 2)
        made["a"] = x
        y = made["b"] if x > 0 else x
        return y, "b" in made

    def loop(x: Any) -> Any:
        made = collections.defaultdict(lambda: 2.0)
        made["a"] = 3.0
        while x < 3:
            x = x + made["a"]
        return x

    hybridized = hy.hybridize(loop)
    assert [hybridized(x).item() for x in CALLS] == [loop(x).item() for x in CALLS]
    try:
        found = hy.hybridize(function)(f32(-2.0))
    except CaptureError:
        return
    assert found[1] is False


def test_lists_that_a_library_changes() -> None:
    def shuffled(x: Any) -> Any:
        items = [1, 2, 3, 4, 5]
        if x > 0:
            random.Random(3).shuffle(items)
        return items, x

    def stored(x: Any) -> Any:
        items = [x, x]
        if x > 0:
            operator.setitem(items, 0, x * 3)
        return items, x

    def counted(x: Any) -> Any:
        items = {"a": x}
        while x < 3:
            operator.ior(items, {"a": x * 3})
            x = x + 1
        return items, x

    for function in (shuffled, stored, counted):
        same(function, calls=CALLS)


def test_an_iterator_argument_serves_one_call() -> None:
    def function(x: Any, items: Any) -> Any:
        return x * next(items)

    hybridized, items = hy.hybridize(function), iter([1.0, 2.0, 3.0])
    assert [hybridized(f32(2.0), items).item() for _ in range(3)] == [2.0, 4.0, 6.0]
    with pytest.raises(StopIteration):
        hybridized(f32(2.0), items)


def test_it_falls_back_with_nothing_done() -> None:
    items = iter([1.0, 2.0, 3.0])

    @hy.hybridize(fallback="eager")
    def function(x: Any) -> Any:
        return x * next(items)

    with pytest.warns(UserWarning, match="runs eagerly"):
        assert [function(f32(2.0)).item() for _ in range(3)] == [2.0, 4.0, 6.0]


MESSAGES: dict[str, tuple[Callable[..., Any], str]] = {
    "an iterator": (
        at_once(lambda _: iter([1, 2]), lambda s, x: next(s), none),
        "next() takes items from a list_iterator that outlives the call",
    ),
    "an array": (array_item, "a store changes an ndarray from outside this branch or loop"),
    "a shared generator": (
        lambda x: x * random.random(),
        "Random.random() draws from the random numbers that all code shares",
    ),
    "the time": (
        lambda x: x * time.time(),
        "time.time() gives or does something of its own at every call",
    ),
}


@pytest.mark.parametrize(("function", "what"), MESSAGES.values(), ids=MESSAGES)
def test_messages(function: Callable[..., Any], what: str) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(CALLS[0])
    assert caught.value.what == what
    assert caught.value.at is not None
    assert caught.value.at.path == __file__


def test_a_message_in_full() -> None:
    def function(x: Any) -> Any:
        items = iter([1, 2])
        while x < 3:
            x = x + next(items)
        return x

    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(CALLS[0])
    line = function.__code__.co_firstlineno + 3
    assert str(caught.value) == (
        "next() takes items from a list_iterator from outside this branch or loop "
        f"({__file__}:{line})\n"
        f"    {line} | x = x + next(items)\n"
        "All branches are captured, and the body of a loop once, however often a run takes them.\n"
        "Fix: go over a list or tuple of the items, or take them outside and pass them as "
        "arguments."
    )
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(IMPURE["time.time"])(CALLS[0])
    line = IMPURE["time.time"].__code__.co_firstlineno
    assert str(caught.value) == (
        f"time.time() gives or does something of its own at every call ({__file__}:{line})\n"
        f'    {line} | "time.time": lambda x: x * time.time(),\n'
        "It would be called once, while the function is captured, and not by the plan.\n"
        "Fix: measure it outside, and pass it as an argument, or call it by hybrid.py_call."
    )
