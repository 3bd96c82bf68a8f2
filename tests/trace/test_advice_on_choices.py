"""What refusals of one value or another advise: each is followed, with the eager bits."""

from __future__ import annotations

import hybrid as hy
from tests.advice import P, Row, around, check, named

NAMES = ("grow", "shrink")


def two_shapes(x):
    return hy.sum(x) if hy.sum(x) > 0 else x


def one_shape(x):
    return hy.sum(x) + x * 0 if hy.sum(x) > 0 else x


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


def two_others(x):
    p = Plain(1) if hy.sum(x) > 0 else Plain(2)
    return x * p.text


def an_object_made_before(x):
    p = Plain(2)
    if hy.sum(x) > 0:
        p.text = 1
    return x * p.text


def in_a_variable(x):
    text = 1 if hy.sum(x) > 0 else 2
    return x * text


def an_optional_result(x):
    y = None
    if hy.sum(x) > 3:
        y = x * 2
    return [x, y]


def a_result_on_each_path(x):
    y = x * 0
    if hy.sum(x) > 3:
        y = x * 2
    return [x, y]


def a_test_of_the_result(x):
    y = an_optional_result(x)[1]
    return x if y is None else y


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


def written_and_held_on_one_path(x):
    h, hs = x * 1, [x]
    if hy.sum(x) > 0:
        h = x * 2
        hs.append(h)
    h += 1
    return h, hs


def a_copy_is_held(x):
    h, hs = x * 1, [x]
    if hy.sum(x) > 0:
        h = x * 2
        hs.append(h * 1)
    h += 1
    return h, hs


def held_and_bound_anew(x):
    h, hs = x * 1, [x]
    if hy.sum(x) > 0:
        h = x * 2
        hs.append(h)
    h = h + 1
    return h, hs


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


ROWS = [
    Row(two_shapes, "the same type, shape and structure on both paths", (one_shape,)),
    Row(two_texts, "use an int in place of the text, and look the text up outside: NAMES[code]",
        (a_number_for_the_text,)),
    Row(two_functions, "call the one on the one path and the other on the other, and go on with "
        "what they return", (called_on_its_path,)),
    Row(two_sets, "keep what is in the set in a tensor of flags (seen[i] = True)", (flags,)),
    Row(two_others, "set the attributes of one object, which is made before, or keep the values "
        "in variables or a named tuple", (an_object_made_before, in_a_variable)),
    Row(an_optional_result, "be a tensor on every path, or test it with `is None` before it is "
        "used", (a_result_on_each_path, a_test_of_the_result)),
    Row(a_list_that_is_one_of_two, "bind a new list on every path, or change the old one in place "
        "on every path", (a_new_list_on_each_path, the_old_one_on_each_path)),
    Row(asked_which_it_is, "compare what they hold, or keep a flag beside them",
        (asked_for_a_flag, compared_by_what_it_holds)),
    Row(written_of_two_dtypes, "bind the name to a new tensor (x = x + 1), or give both branches "
        "one dtype", (bound_anew, written_of_one_dtype)),
    Row(written_and_held_on_one_path, "append a copy (xs.append(x * 1)), or bind the name to a "
        "new tensor (x = x + 1)", (a_copy_is_held, held_and_bound_anew)),
    Row(two_kinds_of_numbers, "give it one kind on all paths, or convert it: int(k)",
        (of_one_kind, converted)),
    Row(kind_asked_for, "ask with isinstance(k, int)", (kind_asked_with_isinstance,)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
