"""Small functions, each about one construct, with arguments to call them with."""

# The code below is as odd as authors may write it.
# ruff: noqa: B007, B012, F541, UP031, UP032

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


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
def break_in_finally_of_a_class(n):
    class Inner:
        for i in range(3):
            try:
                if i == n:
                    raise ValueError
            finally:
                if i == 1:
                    break

    return Inner.i


@case(1, 2, 3)
def clauses_in_a_class(n):
    class Inner:
        try:
            if n > 1:
                raise KeyError(n) if n == 2 else ValueError(n)
            m = 1
        except KeyError as error:
            m = error.args[0] * 2
        except ValueError:
            m = 4
        else:
            m = m + 6
        finally:
            k = n

    return Inner.m, Inner.k


@case(1, 2)
def with_in_a_class(n):
    class Inner:
        with contextlib.suppress(ValueError):
            if n == 1:
                raise ValueError
            n = 3

    return vars(Inner).get("n")


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


@case((1,), (True,), (0,), (2,))
def matching_bools(x):
    match x:
        case True | 2 if x is not True:
            return "two"
        case 1:
            return "one"
    return "none"


@case(0, 1)
def asserting(x):
    assert x, f"x is {x}"
    assert x
    return x


class Modulus:
    """What a ``%`` by an object of one's own gives."""

    def __rmod__(self, left: Any) -> Any:
        return "mine", left

    def __imod__(self, right: Any) -> Any:
        return "in place", right


@case(7, 2.5, "a", (1, 2), "%d")
def texts(x):
    width = 8
    shown = f"{x} {x!r:>{width}}", f"{x=}", f"{'plain'}", f"", "{}".format(x), "a".join([str(x)])
    name = "%s" % (x,)
    name += f"{name}"
    modulus = Modulus()
    modulus %= 3
    return shown, name, 5 % Modulus(), modulus, type(shown[0]), x % 2


@case([1, 2, 3, 4])
def comprehensions(xs):
    a = [x * y for x in xs if x > 1 for y in range(x) if y or x == 3]
    b = {x: [y for y in xs if y < x] for x in xs}
    c = sum(x if x % 2 else -x for x in xs)
    return a, b, c, {x % 2 for x in xs}


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


# Attributes by names made at run time ---------------------------------------------------------


class Bag:
    """Holds whatever is put into it."""


@case("a", "b")
def the_dict_of_an_object(name):
    bag = Bag()
    bag.__dict__[name] = 1
    bag.__dict__.update(c=len(bag.__dict__))
    return dict(bag.__dict__), bag.c
