"""Losses made in loops that write variables: each is differentiated by the value it was made of."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import f32


def last_loss(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        loss = (w * w * v).sum()
        with hy.no_grad():
            w.assign(w - 0.1 * v)
    return loss + (w * v).sum()


def summed(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        loss = loss + (w * w * v).sum()
        with hy.no_grad():
            w.sub_(0.1)
            v.mul_(1.1)
    return loss


def by_data(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        loss = loss + (w * w * v).sum()
        w.data = w.data * 0.9
        v.data.mul_(1.1)
    return loss


def one_element(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        loss = loss + (w * w * v).sum()
        with hy.no_grad():
            w[0] = w[1] * 0.5
    return loss


def in_a_branch(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        loss = loss + (w * w * v).sum()
        if loss > 1:
            with hy.no_grad():
                w.sub_(0.1)
    return loss


def until_it_is_enough(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        loss = loss + (w * w * v).sum()
        with hy.no_grad():
            w.sub_(0.1)
        if loss < -7:
            break
    return loss + (w * v).sum()


def while_it_is_little(w, v, n):
    loss = (v * 0).sum()
    while loss < n:
        loss = loss + (w * w * v * v).sum()
        with hy.no_grad():
            w.add_(0.1)
    return loss


def loop_in_a_loop(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        for _ in range(2):
            loss = loss + (w * w * v).sum()
            with hy.no_grad():
                w.sub_(0.1)
        with hy.no_grad():
            v.mul_(1.1)
    return loss


def recurrent(w, v, n):
    h, loss = hy.ones(2), (v * 0).sum()
    for _ in range(n):
        h = hy.tanh(h * w + v)
        loss = loss + (h * h).sum()
        with hy.no_grad():
            w.sub_(0.01)
            v.assign(v * 0.99)
    return loss


def stepping_inside(w, v, n):
    loss = (v * 0).sum()
    for _ in range(n):
        made = (w * w * v).sum()
        loss = loss + made
        made.backward(retain_graph=True)
        with hy.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad = v.grad = None
    return loss


def differentiated_again(w, v, n):
    def total(z):
        found = (z * 0).sum()
        for _ in range(n):
            found = found + (z * z * z * w).sum()
            with hy.no_grad():
                w.mul_(0.9)
        return found

    return hy.grad(total)(v).sum() + (w * v).sum()


PROGRAMS = [
    last_loss, summed, by_data, one_element, in_a_branch, until_it_is_enough, while_it_is_little,
    loop_in_a_loop, recurrent, stepping_inside, differentiated_again,
]  # fmt: skip


def seen(called: Any, lengths: list[Any]) -> list[Any]:
    w, v = hy.nn.Parameter(f32([1.0, 2.0])), hy.nn.Parameter(f32([0.5, -1.0]))
    found = []
    for n in lengths:
        w.grad = v.grad = None
        loss = called(w, v, n)
        loss.backward()
        found.append([t.tolist() for t in (loss, w, v, w.grad, v.grad) if t is not None])
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_eager_code(program) -> None:
    for lengths in ([3, 1], [hy.asarray(3), hy.asarray(1), hy.asarray(0)]):
        assert seen(hy.hybridize(program), lengths) == seen(program, lengths)


def test_a_history_that_an_iteration_has_used_up_is_used_up_after_the_loop() -> None:
    w = hy.nn.Parameter(f32([1.0, 2.0]))

    def last(n):
        for _ in range(n):
            loss = (w * w).sum()
            loss.backward()
        return loss

    for called in (last, hy.hybridize(last)):
        with pytest.raises(hy.errors.GradientError, match="already used by backward"):
            called(3).backward()
