"""Identity: names of one tensor are one tensor afterwards, among results, arguments and state."""

# ruff: noqa: SIM108, RUF100  the programs are about these

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from tests.fuzz.comparison import changeable_in, firsts, tensors_in
from tests.helpers import part_of, parts
from tests.staging.harness import f32


def rebound_on_one_path(st, x, y, s):
    a = x * 2
    b = a
    if s > 0:
        b = a + 1
    return a, b


def one_of_the_arguments(st, x, y, s):
    if s > 0:
        z = x
    else:
        z = y
    return z, x, [y, z]


def unchanged_argument(st, x, y, s):
    if s > 0:
        x = x * 2
    return x


def chosen_twice(st, x, y, s):
    a = x if s > 0 else y
    b = x if s > 1 else a
    return a, b


def nested(st, x, y, s):
    a, b = x * 1, y * 1
    if s > 0:
        b = a
        if s > 1:
            a = a + 1
    return a, b


def kept_in_state(st, x, y, s):
    z = x * 3
    if s > 0:
        st.v = z
        st.items[0] = z
    else:
        st.v = y
    return z, st.v


def state_or_new(st, x, y, s):
    v = st.v
    if s > 0:
        v = v + x
    st.table["v"] = v
    return v


def in_a_container(st, x, y, s):
    d = {"a": x, "b": y}
    if s > 0:
        d["b"] = d["a"]
    return d, d["b"], (d["a"],)


def lazy(st, x, y, s):
    n = hy.sum(x)
    return n or s, n and s, s


def early(st, x, y, s):
    if s > 1:
        return x, y
    if s > 0:
        return y, y
    return x, x * 1


def through_a_function(st, x, y, s):
    def pick(a, b):
        return a if s > 0 else b

    return pick(x, y), pick(y, x), x


def handled(st, x, y, s):
    z = x
    try:
        if s > 0:
            z = y
    finally:
        st.v = z
    return z


def loop_of_unknown_length(st, x, y, s):
    z = x
    while hy.sum(x) < s * 4:
        x = x + 1
    return x, y, z


def loop_that_returns(st, x, y, s):
    while True:
        if hy.sum(x) > s:
            return x
        x = x + 3


def range_of_unknown_length(st, x, y, s):
    n = int(s) if s > 1 else 0
    total = x
    for _ in range(n):
        total = total + y
    return total, x


def rows(st, x, y, s):
    best = x
    for row in hy.stack([x, y]) * s:
        if hy.sum(row) > 1:
            best = row
    return best, x


def best_so_far(st, x, y, s):
    best, now = x, y
    while hy.sum(now) < 20 * s:
        now = now * 2 + 1
        if hy.sum(now) > 6:
            best = now
    return best, now


def swapped(st, x, y, s):
    a, b, n = x, y, s
    while n > 0:
        a, b, n = b, a, n - 1
    return a, b


def bound_in_the_loop(st, x, y, s):
    last = y
    n = s
    while n > 0:
        last = x
        n = n - 1
    return last, n


def nested_loops(st, x, y, s):
    n = s
    while n > 0:
        m = s
        z = x
        while m > 1:
            z, m = y, m - 1
        x, n = z, n - 1
    return x, y


def attribute_in_a_loop(st, x, y, s):
    n = s
    while n > 0:
        st.v = x if n > 1 else y
        n = n - 1
    return st.v, n


def one_before_the_loop(st, x, y, s):
    a = b = x * 1
    for _ in range(3):
        a, b = a + y, b * 2
    n = s
    c = d = x * 2
    while n > 0:
        c, d, n = c + 1, d + y, n - 1
    return a, b, c, d


def let_go_in_a_loop(st, x, y, s):
    n = s
    while n > 1:
        x = x * 2
        st.items[0] = x
        n = n - 1
    return x, st.items[0]


def beside_a_list_that_grows(st, x, y, s):
    ys = [y]
    if s > 0:
        x = x + 1
        ys += [x]
    return x, y, sum(ys)


def beside_a_list_that_grows_in_a_loop(st, x, y, s):
    ys = [y]
    for row in hy.stack([x, x * 2]) * s:
        if hy.sum(row) > 0:
            x = x + row
            ys += [x]
    return x, y, sum(ys)


def a_list_in_two_places(st, x, y, s):
    ys = [x * 2]
    st.items = ys
    if s > 0:
        ys[0] = y
    return ys, {"ys": ys}, st.items


def a_list_that_grows_in_two_places(st, x, y, s):
    ys = [x]
    st.items, st.table = ys, {"v": ys, "w": [ys]}
    n = s
    while n > 0:
        ys.append(y * n)
        n = n - 1
    return ys


def an_object_that_shares_a_list(st, x, y, s):
    ys = [x, y]
    if s > 0:
        ys[0] = y
    return SimpleNamespace(a=ys, b=SimpleNamespace(a=ys)), ys


def a_list_of_the_state_or_a_new_one(st, x, y, s):
    ys, zs = [x], [y]
    if s > 0:
        ys = st.items
    if s > 1:
        zs = ys
    st.again = zs
    return ys, {"zs": zs, "d": st.table if s < 1 else {"v": y}}, ys


PROGRAMS: list[Callable[..., Any]] = [
    rebound_on_one_path, one_of_the_arguments, unchanged_argument, chosen_twice, nested,
    kept_in_state, state_or_new, in_a_container, lazy, early, through_a_function, handled,
    loop_of_unknown_length, loop_that_returns, range_of_unknown_length, rows, best_so_far, swapped,
    one_before_the_loop, bound_in_the_loop, nested_loops, attribute_in_a_loop, let_go_in_a_loop,
    beside_a_list_that_grows, beside_a_list_that_grows_in_a_loop,
    a_list_in_two_places, a_list_that_grows_in_two_places,
    an_object_that_shares_a_list, a_list_of_the_state_or_a_new_one,
]  # fmt: skip


def observed(function: Callable[..., Any], s: float, alias: bool, grad: bool) -> list[Any]:
    """Which tensors are one before and after, what gradients reach, and what a write reaches."""
    x = f32([1.0, -2.0])
    y = x if alias else f32([3.0, 0.5])
    st = SimpleNamespace(v=f32([5.0, 6.0]), items=[f32([7.0, 8.0])], table={"v": f32([0.0, 1.0])})
    x.requires_grad = y.requires_grad = grad
    before = [x, y, f32(s), *tensors_in(st)]
    result = function(st, x, y, before[2])
    every = [*before, *tensors_in(result), *tensors_in(st)]
    found: list[Any] = [firsts(every), firsts(changeable_in([result, st]))]
    found.append([(t.requires_grad, t.tolist()) for t in every])
    results = [t for t in tensors_in(result) if t.requires_grad]
    if results:
        sum(hy.sum(t * (n + 2.0)) for n, t in enumerate(results)).backward()
        found.append([None if t.grad is None else t.grad.tolist() for t in (x, y)])
    with hy.no_grad():
        for n, t in enumerate(tensors_in(result)):
            t += n + 1.0
    return [*found, [t.tolist() for t in every]]


# Whether the arguments are one tensor, and whether gradients are asked for.
WAYS = [(False, False), (False, True), (True, True), (True, False)]


@pytest.mark.parametrize("part", parts(2))
@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda n: PROGRAMS[n].__name__)
def test_same_objects(number: int, part: int) -> None:
    for alias, grad in part_of(WAYS, part, 2, turn=number):
        fast = hy.hybridize(PROGRAMS[number])
        for s in (1.5, -1.0, 0.5, 1.5, -1.0):
            expected = observed(PROGRAMS[number], s, alias, grad)
            where = f"{s}, {alias=}, {grad=}"
            assert observed(fast, s, alias, grad) == expected, where
            assert observed(fast.submit, s, alias, grad) == expected, f"{where}, queued"


# Errors that end the capture --------------------------------------------------------------------


def chosen_before_an_error(st, x, y, s):
    if s > 0:
        st.table.update(v=x if s > 1 else st.v)
    raise ValueError("low")


def stored_by_a_loop_before_an_error(st, x, y, s):
    for _ in range(3):
        st.table["v"] = x
    raise ValueError("low")


def a_value_in_two_places_before_an_error(st, x, y, s):
    z = x * 2
    if s > 0:
        st.v = st.table["v"] = z
    else:
        st.table["v"] = st.v
    raise ValueError("low")


def under_an_elif_before_an_error(st, x, y, s):
    if s > 1:
        pass
    elif s > -1:
        st.v = y
    raise ValueError("low")


@pytest.mark.parametrize(
    "program",
    [
        chosen_before_an_error, stored_by_a_loop_before_an_error,
        a_value_in_two_places_before_an_error, under_an_elif_before_an_error,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_is_left_before_an_error(program: Callable[..., Any]) -> None:
    def caught(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(st, x, y, s):
            with pytest.raises(ValueError, match="low"):
                function(st, x, y, s)

        return call

    fast = hy.hybridize(program)
    for s in (1.5, -1.0, 0.5, 1.5, -1.5):
        assert observed(caught(fast), s, False, False) == observed(caught(program), s, False, False)


# Lists and dicts that hold no tensors, or are handed on -----------------------------------------


def a_new_list(st, x):
    st.items = []
    return st.items


def a_new_list_of_numbers_and_a_dict(st, x):
    st.items, st.log = [1, 2], {}
    return {"items": st.items, "log": [st.log]}


def a_longer_list(st, x):
    st.log = [*st.log, 1][-3:]
    return st.log


def one_that_was_there(st, x):
    return st.log, x * 1


def one_that_was_there_in_another_place(st, x):
    st.items = st.log
    return x * 1


def one_in_a_dict(st, x):
    st.items = [st.deep["a"]]
    return st.deep["a"]


@pytest.mark.parametrize("given", [True, False], ids=["argument", "closure"])
@pytest.mark.parametrize(
    "program",
    [
        a_new_list, a_new_list_of_numbers_and_a_dict, a_longer_list, one_that_was_there,
        one_that_was_there_in_another_place, one_in_a_dict,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_lists_without_tensors(program: Callable[..., Any], given: bool) -> None:
    def followed(prepared: Callable[..., Any]) -> list[Any]:
        st = SimpleNamespace(items=[], log=[], deep={"a": []})
        called = prepared(program if given else lambda x: program(st, x))
        found = []
        for call in range(4):
            if call > 1:  # other lists with the same content
                st.log, st.deep = [], {"a": []}
            result = called(*([st] if given else []), f32([1.0]))
            places = changeable_in([result, st])
            found.append((firsts(places), str(places)))
        return found

    assert followed(hy.hybridize) == followed(lambda function: function)
