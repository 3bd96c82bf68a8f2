"""``backward()`` of several results of one call: what is used up is what they have in common."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import GradientError
from tests.staging.harness import f32

DATA = f32([1.5, 2.5])


def apart(w, v, u):
    return (w * w).sum(), (v * 3).sum(), (u * u * u).sum()


def of_one_value(w, v, u):
    h = hy.tanh(w * v)
    return (h * h).sum(), (h * u).sum(), (u * 3).sum()


def each_of_the_one_before(w, v, u):
    a = (w * v).sum()
    b = a * a
    return a, b, (b * u).sum()


def the_middle_of_both(w, v, u):
    p, q = w * w, v * v
    return p.sum(), (p * q).sum(), q.sum()


def of_a_constant(w, v, u):
    k = DATA * 2
    with hy.no_grad():
        m = w * v
    return (w * k * m).sum(), (v * k * m).sum(), (u * k).sum()


def sums_of_one_loop(w, v, u):
    a = b = d = 0.0
    for i in range(3):
        a = a + (w * w).sum()
        b = b + (v * v * i).sum()
        d = d + (u * u).sum()
    return a, b, d


def of_one_state(w, v, u):
    a = b = d = 0.0
    h = DATA
    for _ in range(3):
        h = hy.tanh(h * w)
        a = a + (h * v).sum()
        b = b + (h * h).sum()
        d = d + (u * u).sum()
    return a, b, d


def on_one_path(w, v, u):
    if w.sum() > 0:
        return (w * w).sum(), (v * w).sum(), (u * u).sum()
    return (v * w).sum(), (v * v).sum(), (u * u).sum()


def of_unknown_length(w, v, u):
    a = b = d = 0.0 * w.sum()
    while a < 4:
        a = a + (w * w).sum()
        b = b + (v * v).sum()
        d = d + (u * v).sum()
    return a, b, d


def items_of_a_list(w, v, u):
    xs = []
    for i in range(3):
        xs.append((w * w).sum() * i)
    return xs[0], xs[1], (u * xs[2]).sum()


def items_of_a_state(w, v, u):
    xs, h = [], w
    for _ in range(3):
        h = h * v
        xs.append(h)
    return xs[0].sum(), xs[2].sum(), u.sum()


def one_twice(w, v, u):
    a = (w * v).sum()
    return a, a, (u * u).sum()


PROGRAMS = [
    apart, of_one_value, each_of_the_one_before, the_middle_of_both, of_a_constant,
    sums_of_one_loop, of_one_state, on_one_path, of_unknown_length, items_of_a_list,
    items_of_a_state, one_twice,
]  # fmt: skip
ORDERS = [*itertools.permutations(range(3), 2), (2, 1, 0), (0, 0)]


def seen(called: Any, with_history: bool, retained: bool) -> list[Any]:
    """What each order of going back leaves, or raises."""
    found: list[Any] = []
    for order in ORDERS:
        variables = [hy.nn.Parameter(f32(v)) for v in ([1.0, 2.0], [0.5, -1.0], [2.0, -0.3])]
        losses = called(*[p * 1.5 for p in variables] if with_history else variables)
        for at, which in enumerate(order):
            try:
                (losses[which] * 2).backward(retain_graph=retained and at == 0)
            except GradientError as error:
                found.append(error.what)
            found.append([None if p.grad is None else p.grad.tolist() for p in variables])
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_each_order_is_as_eagerly(program) -> None:
    called = hy.hybridize(program)
    for given in itertools.product((False, True), repeat=2):
        assert seen(called, *given) == seen(program, *given), given


def test_what_one_loss_has_used_up_is_let_go_when_all_are() -> None:
    w, v = hy.nn.Parameter(f32([1.0, 2.0])), hy.nn.Parameter(f32([0.5, -1.0]))
    a, b = hy.hybridize(lambda: ((w * w).sum(), (v * v).sum()))()
    record = a.record.record
    a.backward()
    assert record.saved is not None
    b.backward()
    assert record.saved is None
