"""Names and places that hold one of several objects, as conditions and loops say.

One capture holds all paths where the objects are read, returned and stored.  Where the code depends
on which of them one is, each path is captured by itself.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import ProgramError
from tests.staging.effects.test_replaced_objects import CALLS, ZEROS, Plain, State
from tests.staging.harness import Program, Table, describe, f32, same

table = Table()


def two() -> SimpleNamespace:
    return SimpleNamespace(first=Plain(f32([1.0, 2.0])), second=Plain(f32([3.0, 4.0])))


@table.makes(*CALLS, plans=1)
def one_of_two_is_read():
    box = two()

    def run(x):
        one = box.first if x.sum() > 0 else box.second
        return one.a * x, one.moved(x), isinstance(one, Plain), type(one) is Plain

    return run, box


@table.makes(*CALLS, plans=1)
def gradients_of_one_of_two():
    box = two()
    box.first.a.requires_grad = box.second.a.requires_grad = True

    def run(x):
        box.first.a.grad = box.second.a.grad = None
        one = box.first if x.sum() > 0 else box.second
        loss = (one.a * one.a * x).sum()
        loss.backward()
        return loss, box.first.a.grad, box.second.a.grad

    return run, box


@table.makes(*CALLS, plans=1)
def swapped():
    box = two()

    def run(x):
        if x.sum() > 0:
            box.first, box.second = box.second, box.first
        return box.first.a * x

    return run, box


@table.makes(*CALLS)
def a_walk_along_a_list():
    head = State(f32(1.0), State(f32(2.0), State(f32(3.0), None)))

    def run(x):
        node = head
        if x.sum() > 0:
            node = node.n
        if x.sum() > 4:
            node = State(x.sum(), None)
        return node.a

    return run, head


def changed_thrice(x, t):
    y = x * 1
    if t > 0:
        y = y + x
    if t > 0:
        y = y + x
    if t > 0:
        y = y + x
    return y


@table.makes(*CALLS)
def a_tensor_in_what_a_loop_makes():
    """It is the one that is returned, unless it is the one before the loop."""
    box = two()

    def run(x):
        t = x.sum()
        y = changed_thrice(x, t)
        while t > 0:
            box.first = Plain(y)
            t = t - 3
        return y, box.first.a

    return run, box


@table.makes(*CALLS)
def a_tensor_in_what_a_name_gets_in_a_loop():
    box = two()

    def run(x):
        t, found = x.sum(), box.first
        y = changed_thrice(x, t)
        while t > 0:
            found = Plain(y)
            t = t - 3
        return y, found.a

    return run, box


@table.makes(*CALLS)
def one_new_object_at_two_places():
    box = two()
    box.all, box.third = [box.first], Plain(ZEROS + 1)

    def run(x):
        box.first = box.first.moved(x)
        if x.sum() > 0:
            box.all = [box.first]
            box.second = box.third = Plain(x * 2)
        return x

    return run, box


@table.makes(*CALLS, plans=1)
def new_objects_of_an_early_return():
    box = two()

    def run(x):
        if x.sum() > 0:
            return x
        box.second = Plain(x)
        box.first = box.second
        return x * 2

    return run, box


KEYS = {
    "compared": lambda one, box: one == box.first,
    "looked for": lambda one, box: one in [box.first],
    "looked up": lambda one, box: {box.first: 1}.get(one),
    "subscripted": lambda one, box: {box.first: 1}[one],
    "hashed": lambda one, box: hash(one) == hash(box.first),
    "asked for its id": lambda one, box: id(one) == id(box.first),
    "in a set of a list": lambda one, box: len(frozenset([one, box.first])),
    "in a set": lambda one, box: len({one, box.first}),
    "a key": lambda one, box: len({one: 1, box.first: 2}),
}
TOLD = {
    "compared": "two objects (Plain) were compared by ==",
    "looked for": "a Plain was looked for by `in`",
    "looked up": "a Plain was given to get()",
    "subscripted": "a Plain was used as a key",
    "hashed": "a Plain was given to hash()",
    "asked for its id": "a Plain was given to id()",
    "in a set of a list": "a Plain was given to frozenset()",
    "in a set": "a Plain was used as a key",
    "a key": "a Plain was used as a key",
}


@pytest.mark.parametrize("how", KEYS)
def test_which_of_two_it_is_shows(how: str) -> None:
    """Each path is captured by itself, which programs cannot do."""
    ask = KEYS[how]

    def make() -> Any:
        box = two()

        def run(x):
            one = box.first if x.sum() > 0 else box.second
            return ask(one, box)

        return run, box

    same(make, calls=CALLS, make=True, grad=False, plans=2)
    told = unexported(make()[0], CALLS[0])
    assert told.startswith(
        f"{TOLD[how]}, and which of several {'they are' if how == 'compared' else 'it is'} depends "
        "on the value of a tensor ["
    )
    assert "A plan keeps no objects of which a run decides which they are. [" in told


def unexported(function: Any, *args: Any) -> str:
    with pytest.raises(ProgramError) as caught:
        hy.export(function, os.devnull, *args)
    error = caught.value
    assert error.at is not None and error.at.path == __file__
    what = error.what.removeprefix(f"{function.__name__} cannot be exported: ")
    return f"{what} [{error.at.text}] {error.why} [{error.fix}]"


@table.makes(*CALLS, plans=4)
def one_of_two_is_changed():
    box = two()

    def run(x):
        one = box.first if x.sum() > 0 else box.second
        one.tag = "changed"
        one.a = one.a * 2
        return box.first.a + box.second.a

    return run, box


@table.makes(*CALLS)
def exchanged_in_a_loop():
    box = two()

    def run(x):
        while x.sum() > 0:
            box.first, box.second = box.second, box.first
            x = x - 1
        return box.first.a

    return run, box


@table.makes(*CALLS)
def one_of_two_in_a_branch():
    box = two()

    def run(x):
        one = box.first
        if x[0] > 0:
            one = box.first if x[1] > 0 else box.second
        box.third = one
        return one

    return run, box


def one_path_binds_one_anew(x, new):
    p = q = new(x)
    if x.sum() > 0:
        p = new(x * 2)
    return p, q


def one_path_makes_them_one(x, new):
    p, q = new(x), new(x * 2)
    if x.sum() > 0:
        p = q
    return p, q


def made_in_a_branch(x, new):
    p, q = new(x), new(x * 2)
    if x.sum() > 0:
        p = q = new(x * 3)
    return p, q


def made_in_a_branch_of_a_branch(x, new):
    p, q = new(x), new(x * 2)
    if x[0] > 0:
        q = p
        if x[1] > 0:
            p = new(x * 3)
    return p, q


def made_in_a_loop(x, new):
    p = q = new(x)
    while x.sum() > 0:
        p = new(x * 3)
        x = x - 2
    return p, q


NEW = {
    "lists": lambda x: [x],
    "dicts": lambda x: {"a": x},
    "objects": Plain,
}


@pytest.mark.parametrize("new", NEW.values(), ids=NEW)
@pytest.mark.parametrize(
    "function",
    [
        one_path_binds_one_anew, one_path_makes_them_one, made_in_a_branch,
        made_in_a_branch_of_a_branch, made_in_a_loop,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_new_objects_are_one_where_the_path_says_so(function: Any, new: Any) -> None:
    def run(x):
        return function(x, new)

    hybridized = hy.hybridize(run, ledger=False)
    for x in CALLS:
        rows = []
        for call in (run, hybridized):
            p, q = call(x)
            rows.append((p is q, describe(p), describe(q)))
        assert rows[0] == rows[1]
    nested = function is made_in_a_branch_of_a_branch  # each path of which is captured by itself
    assert len(hybridized.plans) <= (3 if nested else 1)


@table.each()
def test_it_runs_as_eagerly(program: Program) -> None:
    program.check()
