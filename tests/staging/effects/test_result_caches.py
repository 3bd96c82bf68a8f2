"""Functions that keep results: those of functools, and memoizers of the author's."""

from __future__ import annotations

import collections
import functools
import gc
import weakref
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.trace.observed import Hybridize, Program, hybridized, require_same, t


def memo(function: Any) -> Any:
    store: dict[Any, Any] = {}

    def inner(n: int) -> Any:
        if n not in store:
            store[n] = function(n)
        return store[n]

    return inner


def memo_by_error(function: Any) -> Any:
    store: dict[Any, Any] = {}

    @functools.wraps(function)
    def inner(*args: Any) -> Any:
        try:
            return store[args]
        except KeyError:
            result = store[args] = function(*args)
            return result

    return inner


def memo_in_attributes(function: Any) -> Any:
    def inner(n: int) -> Any:
        if not hasattr(inner, f"kept{n}"):
            setattr(inner, f"kept{n}", function(n))
        return getattr(inner, f"kept{n}")

    return inner


def memo_in_a_default(function: Any) -> Any:
    def inner(n: int, store: dict[int, Any] = {}) -> Any:  # noqa: B006
        if n not in store:
            store[n] = function(n)
        return store[n]

    return inner


def memo_in_a_user_dict(function: Any) -> Any:
    store: Any = collections.UserDict()

    def inner(n: int) -> Any:
        if n not in store:
            store[n] = function(n)
        return store[n]

    return inner


class Memo:
    def __init__(self, function: Any) -> None:
        self.function, self.store = function, {}

    def __call__(self, n: int) -> Any:
        if n not in self.store:
            self.store[n] = self.function(n)
        return self.store[n]


class Missing(dict):
    def __init__(self, function: Any) -> None:
        self.function = function

    def __missing__(self, n: int) -> Any:
        result = self[n] = self.function(n)
        return result

    def __call__(self, n: int) -> Any:
        return self[n]


DECORATORS = {
    "cache": functools.cache,
    "lru_cache": functools.lru_cache,
    "lru_cache of 4": functools.lru_cache(4),
    "lru_cache of 1": functools.lru_cache(1),
    "memo": memo,
    "memo by an error": memo_by_error,
    "memo in attributes": memo_in_attributes,
    "memo in a default": memo_in_a_default,
    "memo in a UserDict": memo_in_a_user_dict,
    "Memo": Memo,
    "Missing": Missing,
}


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)
def test_a_table(decorator: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        @decorator
        def table(n: int) -> Any:
            return hy.arange(n) * 2.0

        f, h = hybridize(lambda x: x + table(3)), hybridize(lambda x: x * table(3))
        found = []
        for _ in range(2):
            found += [f(hy.ones(3)), table(3)]
        return [
            *found, h(hy.ones(3)), table(3) is table(3), table(2), f(hy.ones(3)), table(3),
        ]  # fmt: skip

    require_same(program)


WAYS = {
    "a keyword": lambda table: table(n=3),
    "map": lambda table: next(iter(list(map(table, [3])))),
    "a partial": lambda table: functools.partial(table, 3)(),
    "a comprehension": lambda table: [table(n) for n in (3, 3)][1],
    "sorted": lambda table: table(sorted([3, 2], key=lambda n: -n)[0]),
}


@pytest.mark.parametrize("call", WAYS.values(), ids=WAYS)
def test_ways_to_call_it(call: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        made: list[int] = []

        @functools.cache
        def table(n: int) -> Any:
            made.append(n)
            return hy.arange(n) * 2.0

        f = hybridize(lambda x: x + call(table))
        return [f(hy.ones(3)), f(hy.ones(3)), table(3), made]

    require_same(program)


class Tables:
    factor = 2.0

    @functools.lru_cache(None)  # noqa: B019
    def of_object(self, n: int) -> Any:
        return hy.arange(n) * self.factor

    @staticmethod
    @functools.cache
    def static(n: int) -> Any:
        return hy.arange(n) * 3.0

    @classmethod
    @functools.cache
    def of_class(cls, n: int) -> Any:
        return hy.arange(n) * 4.0

    @property
    @functools.cache  # noqa: B019
    def held(self) -> Any:
        return hy.arange(3) * 5.0

    @functools.cached_property
    def kept(self) -> Any:
        return hy.arange(3) * self.factor


@pytest.mark.parametrize(
    "take",
    [
        lambda o: o.of_object(3), lambda o: o.static(3), lambda o: o.of_class(3),
        lambda o: o.held, lambda o: o.kept, lambda o: getattr(o, "ke" + "pt"),
    ],
    ids=["method", "static", "class", "property", "cached property", "one by name"],
)  # fmt: skip
def test_members(take: Any) -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        for member in (Tables.of_object, Tables.static, Tables.of_class.__func__):
            member.cache_clear()
        held = Tables()
        f = hybridize(lambda x: x + take(held))
        found = [f(hy.ones(3)), take(held), f(hy.ones(3))]
        held.factor = 7.0
        found += [f(hy.ones(3)), take(held)]
        Tables.of_object.cache_clear()
        vars(held).pop("kept", None)
        return [*found, f(hy.ones(3)), take(held)]

    require_same(program)


def test_what_eager_code_finds_in_the_cache() -> None:
    """Which tensor it is, a stale one, and what was written to it in place."""

    def program(hybridize: Hybridize) -> list[Any]:
        factor = [2.0]

        @functools.cache
        def table(n: int) -> Any:
            return hy.ones(n) * factor[0]

        def step(x: Any) -> Any:
            held = table(2)
            held += x
            return held * 1.0

        f, g = hybridize(lambda x: (table(2), table(2))), hybridize(step)
        a, b = f(t(0.0))
        found = [a is b, a is table(2), a]
        factor[0] = 5.0
        found += [f(t(0.0)), g(t(1.0)), g(t(1.0)), table(2)]
        table.cache_clear()
        return [*found, f(t(0.0)), g(t(1.0)), table(2), f(t(0.0))[0] is table(2)]

    require_same(program)


def test_what_the_cache_holds_may_be_changed() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        @functools.cache
        def table(n: int) -> Any:
            return {"range": hy.arange(n), "list": [hy.ones(n)], "factor": 3.0}

        f = hybridize(lambda x: x + table(3)["range"] * table(3)["list"][0] * table(3)["factor"])
        found = [f(hy.ones(3)), f(hy.ones(3)), table(3)]
        for factor in (7.0, 8.0):
            table(3)["factor"] = factor
            found.append(f(hy.ones(3)))
        table(3)["list"][0] = hy.zeros(3)
        return [*found, f(hy.ones(3)), table(3)]

    require_same(program)


def test_sizes_numbers_branches_loops_and_gradients() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        weight = t([1.0, 2.0])
        weight.requires_grad = True

        @functools.lru_cache(None)
        def mask(n: int) -> Any:
            return hy.tril(hy.ones((n, n)))

        @functools.cache
        def scaled(k: float) -> Any:
            return weight * k

        def branch(x: Any) -> Any:
            return x @ mask(2) if x.sum() > 2 else x

        def loop(xs: Any) -> Any:
            total = hy.zeros((2, 2))
            for x in xs:
                total = total + x * mask(2)
            return total

        sizes, numbers = (
            hybridize(lambda x: x @ mask(x.shape[0])),
            hybridize(lambda x, k: x * scaled(k)),
        )
        found = [sizes(hy.ones((n, n))) for n in (2, 3, 4, 2, 5)]
        found += [numbers(t([1.0, 1.0]), k) for k in (1.0, 2.0, 3.0, 1.0)]
        found += [hybridize(branch)(hy.ones((2, 2)) * k) for k in (0.1, 3.0)]
        found += [hybridize(loop)(hy.ones((2, 2, 2)))]
        numbers(t([1.0, 1.0]), 2.0).sum().backward()
        return [*found, weight.grad, mask(3), scaled(3.0)]

    require_same(program)


def test_recursion_and_errors() -> None:
    def program(hybridize: Hybridize) -> list[Any]:
        @functools.cache
        def sums(n: int) -> Any:
            if n < 0:
                raise ValueError(f"negative: {n}")
            return hy.ones(2) if n < 2 else sums(n - 1) + sums(n - 2)

        def step(x: Any, n: int) -> Any:
            try:
                return x * sums(n)
            except ValueError as error:
                return x * len(str(error))

        f = hybridize(step)
        return [f(hy.ones(2), 5), f(hy.ones(2), -1), f(hy.ones(2), -1), sums(4), sums(6)]

    require_same(program)


def test_keys_that_are_held_weakly() -> None:
    class Key:
        pass

    def program(hybridize: Hybridize) -> list[Any]:
        key, store = Key(), weakref.WeakKeyDictionary()

        def table(key: Any) -> Any:
            if key not in store:
                store[key] = hy.arange(3) * 2.0
            return store[key]

        f = hybridize(lambda x: x + table(key))
        return [f(hy.ones(3)), f(hy.ones(3)), table(key), store[key]]

    require_same(program)


def test_a_cache_that_keeps_nothing() -> None:
    require_same(_of_nothing)


def _of_nothing(hybridize: Hybridize) -> list[Any]:
    @functools.lru_cache(0)
    def double(x: Any) -> Any:
        return x * 2 if x > 1 else x

    f = hybridize(lambda x: double(x))
    return [f(t(1.0)), f(t(2.0))]


def test_no_plan_is_made_in_vain() -> None:
    @functools.cache
    def table(n: int) -> Any:
        return hy.arange(n) * 2.0

    f = hy.hybridize(lambda x: x + table(3), ledger=False)
    for _ in range(3):
        f(hy.ones(3))
    assert len(f.plans) == 1
    assert "the result of table(3)" in f.plans[0].guards
    assert not any(isinstance(o, hy.Tensor) and type(o.content).__name__ == "Value"
                   for o in gc.get_referents(table))  # fmt: skip
    table.cache_clear()
    f(hy.ones(3))
    assert "the result of table(3) is another object" in f.plans[-1].why


# What is refused ----------------------------------------------------------------------------------


def doubling(call: Any) -> Program:
    def program(hybridize: Hybridize) -> list[Any]:
        @functools.cache
        def double(x: Any) -> Any:
            return x * 2

        f = hybridize(lambda x: call(double, x) + 1)
        return [f(t(1.0)), f(t(2.0))]

    return program


def looking(call: Any) -> Program:
    def program(hybridize: Hybridize) -> list[Any]:
        w = t(3.0)

        @functools.cache
        def table(n: int) -> Any:
            return w * n

        def step(x: Any) -> Any:
            w.assign(x)
            return call(table)

        f = hybridize(step)
        return [f(t(1.0)), f(t(2.0)), w]

    return program


def drawing(call: Any) -> Program:
    def program(hybridize: Hybridize) -> list[Any]:
        hy.random.seed(0)

        @functools.cache
        def noise(n: int) -> Any:
            return hy.random.normal(size=(n,))

        f = hybridize(lambda x: x + hy.random.normal(size=(2,)) + call(noise))
        return [f(hy.ones(2)), hy.random.normal(size=(2,))]

    return program


WHY = "What it returns is kept for all code, and the graph has only what stands for values."
REFUSED = {
    "a tensor": (
        doubling(lambda double, x: double(x)), doubling(lambda double, x: double.__wrapped__(x)),
        "double, which keeps its results in a cache, was called with a traced value",
        "Its cache would keep what stands for a value of the graph only.",
        "Fix: call what it wraps, double.__wrapped__(...), or give it plain values.",
    ),
    "a number of the run": (
        doubling(lambda double, x: double(x.item())),
        doubling(lambda double, x: double.__wrapped__(x.item())),
        "double, which keeps its results in a cache, was called with a traced value",
        "Its cache would keep what stands for a value of the graph only.",
        "Fix: call what it wraps, double.__wrapped__(...), or give it plain values.",
    ),
    "what was written": (
        looking(lambda table: table(2)), looking(lambda table: table.__wrapped__(2)),
        "table, which keeps its results in a cache, looks at a tensor that the graph has written",
        WHY,
        "Fix: call what it wraps, table.__wrapped__(...), or let it depend on its arguments alone.",
    ),
    "what is drawn": (
        drawing(lambda noise: noise(2)), drawing(lambda noise: noise.__wrapped__(2)),
        "noise, which keeps its results in a cache, writes to a tensor that the graph reads",
        WHY,
        "Fix: call what it wraps, noise.__wrapped__(...), or let it depend on its arguments alone.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("program", "advised", "what", "why", "fix"), REFUSED.values(), ids=REFUSED
)
def test_refusals(program: Program, advised: Program, what: str, why: str, fix: str) -> None:
    with pytest.raises(CaptureError) as caught:
        hybridized(program)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(what + " (/")
    assert lines[2:] == [why, fix]
    require_same(advised)


def test_code_that_is_not_converted_leaves_nothing_in_caches() -> None:
    @functools.cache
    def table(n: int) -> Any:
        return hy.ones(n)

    f = hy.hybridize(lambda x: x + table(2), mode="trace", ledger=False)
    with pytest.raises(CaptureError) as caught:
        f(hy.ones(2))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("graph left a traced value in the cache of table (/")
    assert lines[2:] == [
        "It stands for a value of the graph only, and the cache would hand it to all code.  The "
        "cache has been cleared.",
        "Fix: call what it wraps, table.__wrapped__(...), or call it once before.",
    ]
    assert table.cache_info().currsize == 0
    table(2)
    assert f(hy.ones(2)).tolist() == [2.0, 2.0]
