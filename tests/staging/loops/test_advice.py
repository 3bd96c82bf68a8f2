"""What refusals of loops and branches advise: each is followed, with the eager bits."""

from __future__ import annotations

import contextlib

import hybrid as hy
from tests.advice import P, Row, S, around, check, in_one_graph, named, refusal


def size(x):
    return hy.sum(hy.abs(x))


def grow(x):
    ys = []
    while size(x) < 50:
        ys.append(x)
        x = x * 2
    return ys


def another_structure_each_time(x):
    y = x
    while size(x) < 50:
        x, y = x * 2, (y, x)
    return x


def one_structure_all_the_time(x):
    y = (x, x)
    while size(x) < 50:
        x, y = x * 2, (y[1], x)
    return x


def another_structure_in_an_iteration(x):
    last = hy.zeros(2)
    while size(x) < 50:
        last = (x, x * 2)
        x = x * 2
    return last


def of_the_same_structure_before(x):
    last = (x, x)
    while size(x) < 50:
        last = (x, x * 2)
        x = x * 2
    return last


def two_names_of_one_list(x):
    xs, ys = [x], [x]
    while size(xs[0]) < 50:
        xs[0] = xs[0] * 2 + hy.abs(ys[0])
        xs = ys = list(xs)
    return xs, ys


def one_name(x):
    xs = [x]
    while size(xs[0]) < 50:
        xs[0] = xs[0] * 3
        xs = list(xs)
    return xs


def a_copy_in_each_iteration(x):
    xs, ys = [x], [x]
    while size(xs[0]) < 50:
        xs[0] = xs[0] * 2 + hy.sign(xs[0]) * hy.abs(ys[0])
        ys = list(xs)
        xs = list(xs)
    return xs, ys


def another_kind_of_object(x):
    s = P(x, 1)
    while size(s.a) < 50:
        s = P(s.a * 2, [s.b])
    return s.a


def one_object(x):
    s = P(x, 1)
    while size(s.a) < 50:
        s.a = s.a * 2
    return s.a


def of_its_final_kind(x):
    s = P(x, [x])
    while size(s.a) < 50:
        s = P(s.a * 2, [s.a])
    return s.a, s.b


def endless(x):
    return x if size(x) > 50 else endless(x * 2)


def by_a_loop(x):
    while size(x) <= 50:
        x = x * 2
    return x


def up_to(x, depth):
    return x if depth == 0 else hy.where(size(x) > 50, x, up_to(x * 2, depth - 1))


def ended_by_a_number(x):
    return up_to(x, 3)


def yielding(x):
    if hy.sum(x) > 0:
        yield x
    yield x * 2


def going_over_it(x):
    total = x
    for v in yielding(x):
        total = total + v
    return total


def collected(x):
    found = []
    if hy.sum(x) > 0:
        found.append(x)
    found.append(x * 2)
    return found


def generator_of_a_run(x):
    total = x[0] * 0
    for y in (y for y in x if y > 0):
        total = total + y
    return total


def list_of_it(x):
    return [y * 2 for y in (x, x + 1)], list(y * 2 for y in (x, x * 3))


def given_to_functions(x):
    return sum(hy.sum(v) for v in (x, x)), any(hy.all(v > 0) for v in (x, x))


def filtered(x):
    return hy.sum(hy.stack(list(filter(lambda v: v > 0, [x[0], x[1]]))))


def where_in_its_place(x):
    return hy.sum(hy.where(x > 0, x, 0))


def loop_in_its_place(x):
    total = x[0] * 0
    for v in x:
        if v > 0:
            total = total + v
    return total


def used_up_twice(x):
    pairs = enumerate(grow(x))
    total = x * 0
    for _, y in pairs:
        total = total + y
    for _, y in pairs:
        total = total + y
    return total


def made_anew(x):
    total, ys = x * 0, grow(x)
    for i, y in enumerate(ys):
        total = total + y * i
    for i, y in enumerate(ys):
        total = total + y * i
    for y, z in zip(ys, reversed(ys), strict=True):
        total = total + y * z
    return total


def asked_by_python(x):
    match x.shape:
        case (n,) if hy.sum(x) > 0:
            found = n
        case _:
            found = 0

    class Inner:
        if hy.sum(x) > 0:  # noqa: SIM108
            value = 1
        else:
            value = 2

    return x * Inner.value + found


def asked_by_an_if(x):
    value = 2
    if hy.sum(x) > 0:
        value = 1
    return x * value, hy.where(hy.sum(x) > 0, x, -x)


def low(x):
    if hy.sum(x) < 0:
        raise ValueError("low")
    return x * 2


def low_index(x):
    def doubled(v):
        if v.sum() < 0:
            raise IndexError("low")
        return v * 2

    return hy.py_call(doubled, x, result=x.type)


def caught_by_a_caller(x):
    try:
        return low_index(x)
    except IndexError:
        return x


def asked_first(x):
    return x if hy.sum(x) < 0 else x * 2


def chosen_with_where(x):
    return hy.where(hy.sum(x) < 0, x, x * 2)


@around
def try_around_the_call(wrap, x):
    try:
        return wrap(low)(x)
    except ValueError:
        return x


@around
def with_around_the_call(wrap, x):
    with contextlib.suppress(ValueError):
        return wrap(low)(x)
    return x


def suppressed_by_a_with(x):
    with contextlib.suppress(IndexError):
        return low_index(x)
    return x


def written_in_a_finally(x):
    try:
        low_index(x)
    finally:
        S.t += 1
    return x


@around
def written_after_the_try(wrap, x):
    def run(x):
        try:
            x = x * 2
        finally:
            x = x + 1
        S.t += 1
        return x

    return wrap(run)(x)


@around
def written_around_the_call(wrap, x):
    try:
        return wrap(low)(x)
    except ValueError:
        return x
    finally:
        S.t += 1


def making_effects(x):
    for v in x:
        S.t += 1
        yield v


def gone_over_with_a_break(x):
    total = x[0] * 0
    for v in making_effects(x):
        total = total + v
        if total > 2:
            break
    return total


def gone_over_as_a_list(x):
    total = x[0] * 0
    for v in list(making_effects(x)):
        total = total + v
        if total > 2:
            break
    return total


def kept_by_a_function(x):
    for v in x:

        def scaled(u, by=v * 2):
            return u * by

        x = scaled(x)
    return scaled(x)


def made_after_the_loop(x):
    for v in x:
        last = v * 2
        x = x * last

    def scaled(u, by=last):
        return u * by

    return scaled(x)


def given_to_it(x):
    def scaled(u, by):
        return u * by

    for v in x:
        x = scaled(x, v * 2)
    return scaled(x, v * 2)


def yields_again(x):
    @contextlib.contextmanager
    def twice():
        try:
            yield
        except ValueError:
            yield

    with twice():
        x = low(x)
    return x


def yields_once(x):
    @contextlib.contextmanager
    def once():
        with contextlib.suppress(ValueError):
            yield

    with once():
        x = low(x)
    return x


ROWS = [
    Row(kept_by_a_function, "make the function, partial or iterator that keeps it after the "
        "branch or loop, or give it the value as an argument", (made_after_the_loop, given_to_it)),
    Row(yields_again, "let the generator end after its first yield", (yields_once,)),
    Row(another_structure_each_time, "give y its final type, shape and structure before the loop",
        (one_structure_all_the_time,)),
    Row(another_structure_in_an_iteration, "give last the same type, shape and structure before "
        "the loop", (of_the_same_structure_before,)),
    Row(in_one_graph(two_names_of_one_list), "let only one name hold the list, or bind the name to "
        "a copy in each iteration", (two_names_of_one_list, one_name, a_copy_in_each_iteration)),
    Row(another_kind_of_object, "set the attributes of one P in place, or give them their final "
        "kind before it", (one_object, of_its_final_kind)),
    Row(endless, "write the recursion as a while loop, or let a Python value end it",
        (by_a_loop, ended_by_a_number)),
    Row(going_over_it, "collect the values in a list and return it", (collected,)),
    Row(generator_of_a_run, "make a list of it, [...] in place of (...), or give it to sum(), "
        "any(), all(), min(), max(), list() or tuple()", (list_of_it, given_to_functions)),
    Row(filtered, "use hybrid.where, or a loop with an if",
        (where_in_its_place, loop_in_its_place)),
    Row(used_up_twice, "make a new one with enumerate(), zip() or reversed()", (made_anew,)),
    Row(asked_by_python, "move the test into an if statement of its own, or choose with "
        "hybrid.where", (asked_by_an_if,)),
    Row(caught_by_a_caller, "test the condition and choose the value with if and else, or with "
        "hybrid.where; or put the try around the call of the hybridized function",
        (asked_first, chosen_with_where, try_around_the_call)),
    Row(suppressed_by_a_with, "or put the with around the call of the hybridized function",
        (with_around_the_call,)),
    Row(written_in_a_finally, "do it after the try, or put the try around the call of the "
        "hybridized function", (written_after_the_try, written_around_the_call)),
    Row(gone_over_with_a_break, "make a list of the items first (for item in list(...))",
        (gone_over_as_a_list,)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)


def test_what_is_kept_by_a_function() -> None:
    first = kept_by_a_function.__code__.co_firstlineno
    assert str(refusal(ROWS[0])) == (
        f"a value (f32[]) of a branch or loop was used after that had ended ({__file__}:"
        f"{first + 4})\n"
        f"    {first + 4} | return u * by\n"
        f"It was made there (at {__file__}:{first + 3}), and what has kept it is no list, dict or "
        "object of which a run makes another.\n"
        "Fix: make the function, partial or iterator that keeps it after the branch or loop, or "
        "give it the value as an argument."
    )
