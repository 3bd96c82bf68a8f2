"""Small functions, each about one construct, with arguments to call them with."""

# The code below is as odd as authors may write it.
# ruff: noqa: B007, B012, B020, F821, RUF012, SIM116

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
GLOBAL = 1


def case(*arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call the function with each of ``arguments`` (a tuple: several)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for given in arguments:
            CASES.append((function, given if isinstance(given, tuple) else (given,)))
        return function

    return register


class Truth:
    """Counts how often it is asked for its truth."""

    def __init__(self, truth: bool) -> None:
        self.truth, self.asked = truth, 0

    def __bool__(self) -> bool:
        self.asked += 1
        return self.truth

    def __lt__(self, other: Any) -> Any:
        return self


# if -------------------------------------------------------------------------------------------


@case(-1, 0, 1, "x", None)
def branches(x):
    if x == 0:
        y = "zero"
    elif x > 0:
        y = "positive"
    else:
        y = "negative"
    return y


@case(0, 1)
def bound_in_one_branch(x):
    if x:
        y = 1
    return y


@case(0, 1)
def none_or_not(x):
    y = None
    if x:
        y = 1
    return y is None, y is not None, y == 1


@case(0, 1)
def deleted_in_one_branch(x):
    y = 1
    if x:
        del y
    return y


@case(*range(25))
def long_chain(x):
    if x == 0:
        return "a"
    elif x == 1:
        return "b"
    elif x == 2:
        return "c"
    elif x == 3:
        return "d"
    elif x == 4:
        return "e"
    elif x == 5:
        return "f"
    elif x == 6:
        return "g"
    elif x == 7:
        return "h"
    elif x == 8:
        return "i"
    elif x == 9:
        return "j"
    elif x == 10:
        return "k"
    elif x == 11:
        return "l"
    elif x == 12:
        return "m"
    elif x == 13:
        return "n"
    elif x == 14:
        return "o"
    elif x == 15:
        return "p"
    elif x == 16:
        return "q"
    elif x == 17:
        return "r"
    elif x == 18:
        return "s"
    elif x == 19:
        return "t"
    elif x == 20:
        return "u"
    elif x == 21:
        return "v"
    elif x == 22:
        return "w"
    elif x == 23:
        return "x"
    return "other"  # fmt: skip


@case(True, False)
def truth_is_asked_once(x):
    a, b, c = Truth(x), Truth(not x), Truth(True)
    log = []
    if a and b:
        log.append(1)
    if (a and b) or c:
        log.append(2)
    if not (a or b):
        log.append(3)
    while a and not b:
        break
    log.append((a or b) is a)
    log.append(((a and b) or c) is c)
    log.append((a < b < c) is a)
    log.append(1 if a else 2)
    if a < b < c:
        log.append(4)
    return log, a.asked, b.asked, c.asked


# loops ----------------------------------------------------------------------------------------


@case([], [1], [1, 2, 3], [3, 5], 7)
def for_else(xs):
    log = []
    for x in xs:
        if x == 2:
            continue
        log.append(x)
        if x > 2:
            break
    else:
        log.append("else")
    return log, x


@case(0, 1, 5, 30)
def while_else(n):
    total = 0
    while n > 0:
        n -= 1
        if n == 3:
            continue
        total += n
        if total > 50:
            break
    else:
        total = -total
    return total, n


@case(0, 3, 11, 25)
def return_from_nested_loops(n):
    for i in range(5):
        for j in range(5):
            if i * 5 + j == n:
                return i, j
            if j > i:
                break
        else:
            if i == n - 20:
                return "else"
    return None


@case([1, 2, 3])
def changed_while_iterated(xs):
    for x in xs:
        if len(xs) < 6:
            xs.append(x * 2)
    return xs


@case(())
def iterator_is_closed_on_break():
    log = []

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    for n in numbers():
        log.append(n)
        break
    log.append("after")
    return log


@case(())
def stop_iteration_in_a_body():
    for x in [1, 2]:
        next(iter([]))
    return x


@case(({"a": 1, "b": 2},))
def targets(d):
    log, o = [], functools.partial(print)
    for key, (first, *rest) in {k: (v, k, v) for k, v in d.items()}.items():
        log.append((key, first, rest))
    for d["c"] in (7, 8):
        log.append(dict(d))
    for o.attribute in "xy":
        log.append(o.attribute)
    return log


@case(0, 1, 2, 3, 4)
def jumps_in_try(n):
    log = []
    for i in range(4):
        try:
            if i == n:
                return log
            if i == 1:
                continue
            if n == 4 and i == 2:
                raise ValueError(i)
            log.append(i)
        except ValueError as error:
            log.append(repr(error))
            break
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log, i


@case(0, 1, 2)
def jumps_in_finally(n):
    for i in range(3):
        try:
            if i == n:
                raise KeyError(i)
        finally:
            if i == 1:
                continue
            if n == 2:
                return "swallowed"
    return i


@case(1, 2)
def return_in_finally(n):
    try:
        if n == 1:
            return "try"
        raise ValueError
    finally:
        if n == 2:
            return "finally"


@case(3)
def dead_code(n):
    if n:
        return n
        unreached = 1
    while True:
        break
        n = 2
    return unreached


# expressions ------------------------------------------------------------------------------------


@case((0, 0), (0, 2), (1, 0), (1, 2), ("", None))
def logic(a, b):
    return a and b, a or b, not a, (a and b) or 7, (a or b) and 8, not (a and not b)


@case((1, 2, 3), (3, 2, 1), (1, 1, "x"), (1, 0, "x"))
def chained(a, b, c):
    return a < b < c, a == b != c, a is not b is not c, a in (b, c) not in ((), [])


@case(0, 1)
def unbound_in_operands(x):
    if x > 5:
        y = 1
    log = []
    for attempt in (lambda: x and y, lambda: y if x else 0):
        try:
            log.append(attempt())
        except NameError as error:
            log.append((type(error).__name__, str(error)))
    try:
        log.append(x and y)
    except NameError as error:
        log.append((type(error).__name__, str(error)))
    return log, (y if x else 0)


@case(3, 0)
def walrus(x):
    if (y := x + 1) > 2 and (z := y * 2):
        return y, z
    return [w := y, w + 1], [last := i for i in range(4)], last, z


@case((1,), ("a",), ([1, 2, 3],), ({"k": 5, "r": 6},), (None,))
def matching(x):
    match x:
        case 1 | 2:
            return "small"
        case str() as text if text:
            return text
        case [first, *rest]:
            return first, rest
        case {"k": value, **others}:
            return value, others
    return "none"


@case(0, 1)
def asserting(x):
    assert x, f"x is {x}"
    assert x
    return x


@case([1, 2, 3, 4])
def comprehensions(xs):
    a = [x * y for x in xs if x > 1 for y in range(x) if y or x == 3]
    b = {x: [y for y in xs if y < x] for x in xs}
    c = sum(x if x % 2 else -x for x in xs)
    return a, b, c, {x % 2 for x in xs}


# stores -----------------------------------------------------------------------------------------


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

    made = Local()
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
    with Manager("c"):
        if log:
            return log
    return None


def iterate(found: Any) -> Any:
    """What a generator yields when it is sent numbers; anything else as it is."""
    if not isinstance(found, Iterator):
        return found
    log = []
    try:
        log.append(next(found))
        for number in range(20):
            log.append(found.send(number % 3))
    except StopIteration as stop:
        log.append(("returned", stop.value))
    return log
