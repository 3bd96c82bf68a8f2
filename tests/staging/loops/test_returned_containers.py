"""Loops that return, or keep, a container that was there before them, beside a break."""

# ruff: noqa: B007  these forms are tested

from collections import namedtuple

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
X, Y = f32([1.0, 2.0, -1.0]), f32([5.0, 0.0, 1.0])
CALLS = [(X, Y, f32(v)) for v in (0.0, 2.5, 3.5, 5.5, 8.0, -5.0)]
Pair = namedtuple("Pair", "a b")
SHARED = [X, Y]


class Box:
    def __init__(self, a, b):
        self.a, self.b = a, b


def helper(x, y):
    return x - y


def returned_beside_a_break(make):
    """A program that returns what ``make`` has made of (x, y) from within a loop."""

    def program(x, y, s):
        value, count = make(x, y), 0
        while hy.sum(y) > s:
            count += 1
            if count > 3:
                break
            s = s + 1
            if s > 3:
                return value
        return None

    program.__name__ = make.__name__
    table.runs(*CALLS, covered=False)(program)


@returned_beside_a_break
def a_list(x, y):
    return [x, y]


@returned_beside_a_break
def a_dict(x, y):
    return {"a": x, "b": [y]}


@returned_beside_a_break
def a_tuple(x, y):
    return x, [y], {"a": x}


@returned_beside_a_break
def a_named_tuple(x, y):
    return Pair(x, [y])


@returned_beside_a_break
def a_set(x, y):
    return {1, 2}


@returned_beside_a_break
def an_object(x, y):
    return Box(x, [y])


@returned_beside_a_break
def a_text(x, y):
    return "text"


@returned_beside_a_break
def a_number(x, y):
    return 7


@returned_beside_a_break
def a_function(x, y):
    return helper


@returned_beside_a_break
def a_list_of_a_module(x, y):
    return SHARED


@returned_beside_a_break
def nothing(x, y):
    return None


@table.runs(*CALLS)
def in_a_loop_over_a_range(x, y, s):
    xs = [x, y]
    for i in range(5):
        if s > 4:
            break
        if s > i:
            return xs
    return [y, y]


@table.runs(*CALLS)
def in_a_loop_over_rows(x, y, s):
    xs = [x, y]
    for q in x:
        if q > s:
            break
        if q > -3:
            return xs


@table.runs(*CALLS)
def in_a_loop_with_an_else(x, y, s):
    xs = {"a": x}
    while s < 7:
        s = s + 1
        if s > 6:
            break
        if s > 3:
            return xs
    else:
        return {"a": y}
    return {"a": x * y}


@table.runs(*CALLS)
def in_an_inner_loop(x, y, s):
    xs = [[x], [y]]
    for i in range(3):
        for j in range(2):
            s = s + 1
            if s > 5:
                break
            if s > 3:
                return xs[0]
        if s > 4:
            return xs[1]
    return xs[-1]


@table.runs(*CALLS)
def beside_a_continue(x, y, s):
    xs = [x, y]
    for i in range(6):
        s = s + 1
        if s < 2:
            continue
        if s > 6:
            break
        return xs


@table.runs(*CALLS)
def through_a_finally(x, y, s):
    xs = [x, y]
    try:
        for i in range(3):
            s = s + 1
            try:
                if s > 4:
                    break
                if s > 2:
                    return xs
            finally:
                xs[1] = xs[1] + 1
    finally:
        xs[0] = s
    return xs


@table.runs(*CALLS)
def of_two_containers(x, y, s):
    xs, ys = [x, y], [y, x]
    for i in range(4):
        s = s + 1
        if s > 6:
            break
        if s > 3:
            return xs
        if s < -2:
            return ys
        xs[0] = xs[0] + 1
    return ys


@table.runs(*CALLS)
def beside_none_in_a_plain_loop(x, y, s):
    xs, count = [x, y], 0
    while count < 4:
        count += 1
        s = s + 1
        if s > 5:
            break
        if s > 3:
            return [xs, x]
        if s < -2:
            return None
    return None


@table.runs(*CALLS)
def that_is_written_afterwards(x, y, s):
    xs = {"a": x}

    def look(s):
        for i in range(4):
            s = s + 1
            if s > 6:
                break
            if s > 3:
                return xs

    found = look(s)
    if found is not None:
        found["a"] = found["a"] + 5
    return found, xs, found is xs


@table.runs(*CALLS)
def kept_under_another_name(x, y, s):
    xs, kept = [x, y], None
    while s < 8:
        s = s + 1
        if s > 3:
            kept = xs
        xs[0] = xs[0] + 1
        if s > 6:
            break
    if kept is not None:
        kept[1] = kept[1] * 2
    return kept, xs


@table.runs(*CALLS)
def made_on_one_path_and_written_on_others(x, y, s):
    xs = None
    if s > 1:
        xs = [x, y]
    if s > 3:
        xs[0] = xs[0] + 1
    elif s > 1:
        xs.append(y * 2)
    return xs


# Lists that the loop appends to -----------------------------------------------------------------

STARTS = [(f32([1.0, 2.0, 3.0]), f32(v)) for v in (0.0, 4.0, 13.0, 50.0, 1.5, 2.5)]


@table.runs(*STARTS, identity="items apart")
def appended_in_an_endless_loop(x, s):
    out = []
    while True:
        x = x * 2
        out.append(x)
        if hy.sum(x) > s:
            return out


@table.runs(*STARTS, identity="items apart")
def appended_beside_a_break(x, s):
    out = [x]
    while True:
        if hy.sum(x) > 30:
            break
        x = x * 2
        if hy.sum(x) > s:
            return out
        out.append(x)
    return None


@table.runs(*STARTS, identity="items apart")
def appended_in_a_dict(x, s):
    out = {"ys": [], "n": 0}
    while True:
        x = x * 2
        if hy.sum(x) > s:
            return out
        out["ys"].append(x)


@table.runs(*STARTS, identity="items apart")
def appended_and_returned_with_a_tensor(x, s):
    out = []
    while True:
        x = x * 2
        if hy.sum(x) > s:
            return out, x
        out.append(x)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
