"""Aliasing: one tensor in two places gives what it gives eagerly, whichever call came first."""

import itertools
import types
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from tests.helpers import same, tensor

Program = tuple[Callable[..., Any], list[Callable[[], tuple]]]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    """``make`` gives a function and ways to call it: what changes things and gives arguments."""
    PROGRAMS[make.__name__.replace("_", " ")] = make
    return make


@program
def an_argument_that_is_read_from_outside_too() -> Program:
    cell = tensor(3)
    return lambda x: x * 2 + cell, [lambda: (cell,), lambda: (tensor(3, seed=1),)]


@program
def an_argument_that_is_written_from_outside() -> Program:
    cell = tensor(3)

    def function(x):
        cell.assign(cell + 1)
        return x * 10

    return function, [lambda: (cell,), lambda: (tensor(3, seed=1),)]


@program
def an_argument_that_is_written_and_read_from_outside() -> Program:
    cell = tensor(3)

    def function(x):
        x += 1
        return cell * 10

    return function, [lambda: (cell,), lambda: (tensor(3, seed=1),)]


@program
def an_argument_that_is_an_attribute() -> Program:
    owner = types.SimpleNamespace(state=tensor(3))

    def function(x):
        owner.state += 1
        return x * owner.state

    return function, [lambda: (owner.state,), lambda: (tensor(3, seed=1),)]


@program
def an_attribute_that_becomes_the_argument() -> Program:
    owner = types.SimpleNamespace(state=None)

    def function(x):
        owner.state = x if owner.state is None else owner.state + x
        return owner.state * 1

    x = tensor(3)
    return function, [lambda: (x,), lambda: (x,), lambda: (tensor(3, seed=1),)]


@program
def two_attributes() -> Program:
    shared = tensor(3)
    a, b = types.SimpleNamespace(w=shared), types.SimpleNamespace(w=shared)

    def replace(owner: Any, seed: int) -> tuple:
        owner.w = tensor(3, seed=seed)
        return (tensor(3),)

    ways = [
        lambda: (tensor(3),),
        lambda: replace(a, 1),
        lambda: replace(b, 2),
        lambda: (a.w,),
    ]
    return lambda x: x * a.w + b.w, ways


@program
def two_attributes_that_become_one() -> Program:
    a, b = types.SimpleNamespace(w=tensor(3)), types.SimpleNamespace(w=tensor(3, seed=1))

    def function(x):
        a.w += x
        return b.w * 2

    def join() -> tuple:
        b.w = a.w
        return (tensor(3),)

    return function, [lambda: (tensor(3),), join, lambda: (tensor(3),)]


@program
def two_closure_variables_that_become_one() -> Program:
    a, b = tensor(3), tensor(3, seed=1)

    def function(x):
        a.assign(a + x)
        return b * 2

    def join() -> tuple:
        nonlocal b
        b = a
        return (tensor(3),)

    return function, [lambda: (tensor(3),), join, lambda: (tensor(3),)]


@program
def two_arguments() -> Program:
    def function(x, y):
        x += 1
        return x * y

    a, b = tensor(3), tensor(3, seed=1)
    return function, [lambda: (a, b), lambda: (a, a), lambda: (b, a)]


@program
def an_argument_that_comes_back() -> Program:
    cell = tensor(3)
    return lambda x: (x, cell, x + cell), [lambda: (tensor(3),), lambda: (cell,)]


ORDERS = [
    pytest.param(make, order, id=f"{name} {order}")
    for name, make in PROGRAMS.items()
    for order in itertools.permutations(range(len(make()[1])))
]


@pytest.mark.parametrize(("make", "order"), ORDERS)
def test_calls_in_any_order(make: Callable[[], Program], order: tuple[int, ...]) -> None:
    function, ways = make()
    twin, twin_ways = make()
    hybridized = hy.hybridize(twin)
    for which in (*order, *order):
        args, twin_args = ways[which](), twin_ways[which]()
        expected, found = function(*args), hybridized(*twin_args)
        if isinstance(expected, tuple):
            assert [e is args[0] for e in expected] == [f is twin_args[0] for f in found]
        else:
            expected, found = (expected,), (found,)
        for pair in zip((*expected, *args), (*found, *twin_args), strict=True):
            assert same(*pair)


def test_plans_for_tensors_that_differ_are_not_multiplied() -> None:
    weights = hy.zeros(3)

    def step(x):
        weights.assign(weights + x)

    hybridized = hy.hybridize(step)
    for seed in range(5):
        hybridized(tensor(3, seed=seed))
    hybridized(weights)
    hybridized(weights)
    assert len(hybridized.plans) == 2
