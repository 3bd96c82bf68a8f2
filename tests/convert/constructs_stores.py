"""Small functions about stores, nested functions, classes and generators; see constructs.py."""

# The code below is as odd as authors may write it.
# ruff: noqa: B007, B020, F821, RUF012

from __future__ import annotations

import functools
from typing import Any

from tests.convert.constructs import CASES, case

GLOBAL = 1


# stores -----------------------------------------------------------------------------------------


@case(([1, 2], (3,)), ([], "ab"), (None, [1]))
def displays(xs, ys):
    return [*xs, 0, *ys], (*ys, *xs), {*xs, *ys}, [*range(2), *[*ys]]


@case(({"a": 1}, {"b": 2, "a": 3}), ({}, {1: 2}), ({}, None), ([1], {}))
def dict_displays(a, b):
    return {**a}, {**a, "a": 5, **b}, {"b": 0, **b, **a}, list({**b, **a})


@case(({"a": 1}, {"b": 2, "a": 3}), ({1}, {2}), (6, 9), (None, 1))
def joined_with_bars(a, b):
    c = a | b
    same = a
    a |= b
    return a, c, a is same, a == c, a != b


@case(([1, 2, 3], 1, -1), ({0: 5, 1: 6}, 1, 0), ((1, 2), 0, 0), ([], 0, 0), ("ab", 0, 1))
def subscripts(xs, i, j):
    found = xs[i], xs[-1 if isinstance(xs, list) else 0]
    xs[j] = xs[i]
    xs[i] += 1
    return found, xs


@case(([1, 2, 3],))
def evaluation_order(xs):
    log = []

    def at(i, value=0):
        log.append(i)
        return value

    class Owner:
        pass

    owner = Owner()

    def get(i):
        log.append(i)
        return owner

    get(1).a = at(2, 5)
    xs[at(3)] = at(4, 9)
    get(5).a += at(6, 1)
    xs[at(7, 1)] += at(8, 3)
    get(9).b, xs[at(10, 2)] = at(11), at(12)
    del xs[at(13)], get(14).b
    return log, xs, vars(owner)


@case(())
def global_and_nonlocal():
    global GLOBAL
    GLOBAL += 1
    count = 0

    def inner():
        nonlocal count
        count += 1
        for count in range(5):
            if count == 3:
                break
        return count

    before, GLOBAL = GLOBAL, 1
    return before, inner(), count


@case(())
def deletes():
    a = b = c = 1
    del a, (b, c)
    try:
        del c
    except NameError as error:
        return str(error)


@case(())
def same_object():
    xs = ys = [1]
    xs += [2]
    ys *= 2
    return xs, xs is ys


# functions --------------------------------------------------------------------------------------


class Base:
    __private = 3
    log: list[Any] = []

    def method(self, x, *, scale=2):
        return x * scale

    @classmethod
    def make(cls):
        return cls.__name__

    def __mangled(self):
        return self.__private

    def call_mangled(self):
        __local = 1
        if __local:
            __local = self.__mangled()
        return __local


class Derived(Base):
    def method(self, x, *, scale=5):
        found = super().method(x, scale=scale) if x else super().make()
        return found or (x and super().method(1)) or __class__.__name__

    def recursive(self, n):
        return 1 if n < 1 else n * Derived().recursive(n - 1)


@case(0, 1, 3)
def methods(x):
    d = Derived()
    return d.method(x), d.method(x, scale=0), d.call_mangled(), d.recursive(x)


CASES += [
    (Derived.method, (Derived(), 2)),
    (Derived.method, (Derived(), 0)),
    (Derived.recursive, (Derived(), 4)),
    (Base.call_mangled, (Base(),)),
]


@case(0, 1, 6)
def recursion(n):
    if n < 2:
        return 1
    return n * recursion(n - 1)


@case(2)
def closures(n):
    functions = []
    for i in range(n):

        @functools.lru_cache
        def add(x, i=i, *rest, scale=n, **named):
            """Documented."""
            if x > 1:
                return (x + i) * scale, rest, named
            return None

        functions.append(add)
    functions.append(lambda x: x if x > n else -x)
    return [f(x) for f in functions for x in (1, 2, 3)], functions[0].__doc__, add.__qualname__


@case(3)
def local_class(n):
    class Local(Base):
        """Local."""

        size = n if n > 2 else 0
        if size:
            kind = [size for _ in range(size)]

        def method(self, x):
            while x < n:
                x += 1
            return super().method(x), self.size

        @functools.cached_property
        def cached(self):
            return [n if n > 2 else 0]

    made = Local()
    assert made.cached is made.cached == [n]
    return made.method(1), made.kind, Local.__qualname__, Local.method.__qualname__, Local.__doc__


@case(5)
def generator(n):
    received = yield "first"
    for i in range(n):
        if i == 3:
            return received
        received = (yield i) or received
        if received and (yield received):
            yield from (x for x in "ab")


@case(2)
def frames(n):
    if n:
        extra = 1
    for n in range(n):
        pass
    return sorted(locals()), sorted(dir()), eval("n + extra"), sorted(vars())


@case(())
def wrong_arguments():
    def f(a, *, b):
        return a, b

    log = []
    for args, kwargs in (((), {}), ((1, 2), {}), ((1,), {"c": 2}), ((1,), {"b": 2})):
        try:
            log.append(f(*args, **kwargs))
        except TypeError as error:
            log.append(str(error))
    try:
        f(**{1: 2})
    except TypeError as error:
        log.append(str(error))
    return log


@case(())
def context_managers():
    log = []

    class Manager:
        def __init__(self, name, swallows=False):
            self.name, self.swallows = name, swallows

        def __enter__(self):
            log.append(("enter", self.name))
            return self.name

        def __exit__(self, kind, error, trace):
            log.append(("exit", self.name, kind))
            return self.swallows

    for i in range(3):
        with Manager("a", True) as a, Manager("b"):
            if i == 1:
                continue
            if i == 2:
                raise ValueError(a)
            log.append(i)

    def suspended():
        with Manager("d") as d:
            yield d

    log += suspended()
    with Manager("c"):
        if log:
            return log
    return None
