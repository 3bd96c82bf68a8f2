"""What refusals of one value or another advise: each is followed, with the eager bits."""

from __future__ import annotations

import hybrid as hy
from tests.advice import P, Row, S, around, check, in_one_graph, named

NAMES = ("grow", "shrink")


def two_structures(x):
    return (x, x) if hy.sum(x) > 0 else x


def one_structure(x):
    return (x, x) if hy.sum(x) > 0 else (x, x * 2)


def two_texts(x):
    state = "grow"
    if hy.sum(x) > 0:
        state = "shrink"
    return x * 2, state


@around
def a_number_for_the_text(wrap, x):
    def run(x):
        code = 0
        if hy.sum(x) > 0:
            code = 1
        return x * 2, code

    result, code = wrap(run)(x)
    return result, NAMES[code]


def two_functions(x):
    f = hy.exp if hy.sum(x) > 0 else hy.abs
    return f(x)


def called_on_its_path(x):
    return hy.exp(x) if hy.sum(x) > 0 else hy.abs(x)


def two_sets(x):
    seen = {2}
    if hy.sum(x) > 0:
        seen.add(1)
    return x if 1 in seen else -x


def flags(x):
    seen = hy.zeros(3, dtype=hy.bool)
    seen[2] = True
    if hy.sum(x) > 0:
        seen[1] = True
    return x if seen[1] else -x


class Plain:
    """What a branch may bind to a name."""

    def __init__(self, text):
        self.text = text

    def __del__(self):
        pass


def an_object_made_before(x):
    p = Plain(2)
    if hy.sum(x) > 0:
        p.text = 1
    return x * p.text


def in_a_variable(x):
    text = 1 if hy.sum(x) > 0 else 2
    return x * text


def doubled_or_none(x):
    return hy.sum(x * 2) if hy.sum(x) > 3 else None


def an_optional_result(x):
    return hy.grad(doubled_or_none)(x)


def a_result_on_each_path(x):
    def loss(x):
        return hy.sum(x * 2) if hy.sum(x) > 3 else hy.sum(x * 0)

    return hy.grad(loss)(x)


def a_test_of_the_result(x):
    def loss(x):
        y = doubled_or_none(x)
        return hy.sum(x) if y is None else y

    return hy.grad(loss)(x)


def a_list_that_grows_while_it_is_gone_over(x):
    xs, total = [x, x + 1], x
    for y in xs:
        total = total + y
        if len(xs) < 4 and hy.sum(total) > 3:
            xs.append(y)
    return total


def a_copy_is_gone_over(x):
    xs, total = [x, x + 1], x
    for y in list(xs):
        total = total + y
        if hy.sum(total) > 3:
            xs.append(y)
    return total


def it_grows_on_every_path(x):
    xs, total = [x, x + 1], x
    for y in xs:
        total = total + y
        if len(xs) < 4:
            xs.append(y)
    return total


def zipped_with_a_dict(x):
    xs = [x] if hy.sum(x) > 0 else []
    return [a * len(name) for a, name in zip(xs, {"a": 1, "bc": 2}, strict=False)]


def zipped_with_a_list_of_it(x):
    xs = [x] if hy.sum(x) > 0 else []
    return [a * b for a, b in zip(xs, list({1: "a", 2: "b"}), strict=False)]


def a_list_that_is_one_of_two(x):
    xs, ys = [x], [x * 2]
    zs = xs
    if hy.sum(x) > 0:
        zs = ys
    zs.append(x * 3)
    return xs, ys


def a_new_list_on_each_path(x):
    xs, ys = [x], [x * 2]
    zs = list(xs)
    if hy.sum(x) > 0:
        zs = list(ys)
    zs.append(x * 3)
    return xs, ys, zs


def the_old_one_on_each_path(x):
    xs, ys = [x], [x * 2]
    if hy.sum(x) > 0:
        ys.append(x * 3)
    else:
        xs.append(x * 3)
    return xs, ys


def asked_which_it_is(x):
    xs = ys = [x]
    if hy.sum(x) > 0:
        xs = list(xs)
    return x if xs is ys else x * 2


def asked_for_a_flag(x):
    xs, same = [x], True
    if hy.sum(x) > 0:
        xs, same = list(xs), False
    return x if same else xs[0] * 2


def compared_by_what_it_holds(x):
    a, b = P(x), P(x * 2)
    if hy.sum(x) > 0:
        a = P(x * 2)
    return x if hy.all(a.a == b.a) else x * 2


def written_of_two_dtypes(x):
    y = x.astype(hy.float64)
    z = x
    if hy.sum(x) > 0:
        z = y
    z += 1
    return z


def bound_anew(x):
    z = x
    if hy.sum(x) > 0:
        z = x.astype(hy.float64)
    z = z + 1
    return z.astype(hy.float64)


def written_of_one_dtype(x):
    y = x * 2
    z = x
    if hy.sum(x) > 0:
        z = y
    z += 1
    return z, y


def two_kinds_of_numbers(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    return x * 2, f"{n:x}"


def of_one_kind(x):
    n = 1 if hy.sum(x) > 0 else 2
    print(f"{n:x}")
    return x * n


def converted(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    print(f"{int(n):x}")
    return x * n


def kind_asked_for(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    return x * 2 if type(n) is int else x


def kind_asked_with_isinstance(x):
    n = 1 if hy.sum(x) > 0 else 2.5
    return x * 2 if isinstance(n, int) else x


def a_list_from_outside_or_another(x):
    rows = [x]
    if hy.sum(x) > 0:
        rows = [x] if hy.sum(x) > 9 else S.items
    return rows


def a_new_list_of_that_from_outside(x):
    rows = [x]
    if hy.sum(x) > 0:
        rows = [x] if hy.sum(x) > 9 else list(S.items)
    return rows


def a_list_from_outside_by_one_condition(x):
    total = hy.sum(x)
    return [x] if not total > 0 or total > 9 else S.items


class Named:
    """Equals itself alone."""

    def __init__(self, number):
        self.number = number


def looked_up(x):
    low, high = Named(0), Named(1)
    names = {low: 2.0, high: 3.0}
    found = high if hy.sum(x) > 0 else low
    return x * names[found]


def looked_up_on_each_path(x):
    low, high = Named(0), Named(1)
    names = {low: 2.0, high: 3.0}
    return x * names[high] if hy.sum(x) > 0 else x * names[low]


def looked_up_by_its_number(x):
    low, high = Named(0), Named(1)
    numbers = {low.number: 2.0, high.number: 3.0}
    found = high if hy.sum(x) > 0 else low
    return x * numbers[found.number]


ROWS = [
    Row(two_structures, "the same type, shape and structure on both paths", (one_structure,)),
    Row(two_texts, "use an int in place of the text, and look the text up outside: NAMES[code]",
        (a_number_for_the_text,)),
    Row(two_functions, "call the one on the one path and the other on the other, and go on with "
        "what they return", (called_on_its_path,)),
    Row(two_sets, "keep what is in the set in a tensor of flags (seen[i] = True)", (flags,)),
    Row(an_optional_result, "be a tensor on every path, or test it with `is None` before it is "
        "used", (a_result_on_each_path, a_test_of_the_result)),
    Row(a_list_that_grows_while_it_is_gone_over, "go over a copy of it (for x in list(xs)), or let "
        "it grow on every path", (a_copy_is_gone_over, it_grows_on_every_path)),
    Row(zipped_with_a_dict, "make a list of the dict first", (zipped_with_a_list_of_it,)),
    Row(in_one_graph(a_list_that_is_one_of_two), "bind a new list on every path, or change the old "
        "one in place on every path",
        (a_list_that_is_one_of_two, a_new_list_on_each_path, the_old_one_on_each_path)),
    Row(in_one_graph(a_list_from_outside_or_another), "make a new list of the one from outside, or "
        "bind it under a condition that stands in no branch and no loop",
        (a_list_from_outside_or_another, a_new_list_of_that_from_outside,
         a_list_from_outside_by_one_condition)),
    Row(in_one_graph(asked_which_it_is), "compare what they hold, or keep a flag beside them",
        (asked_which_it_is, asked_for_a_flag, compared_by_what_it_holds)),
    Row(in_one_graph(looked_up), "do so on each path, or give the Named a number of its own, and "
        "use that", (looked_up, looked_up_on_each_path, looked_up_by_its_number)),
    Row(written_of_two_dtypes, "bind the name to a new tensor (x = x + 1), or give both branches "
        "one dtype", (bound_anew, written_of_one_dtype)),
    Row(two_kinds_of_numbers, "give it one kind on all paths, or convert it: int(k)",
        (of_one_kind, converted)),
    Row(kind_asked_for, "ask with isinstance(k, int)", (kind_asked_with_isinstance,)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
