"""State that captured loops and branches write and read, and ``backward()`` afterwards: a decoder
that keeps its attention weights, call after call, inside of the captured function and outside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import hybrid as hy
from hybrid.errors import CaptureError


def attribute(s, w, x):
    for _ in range(2):
        s.w = hy.sin(w * x)
        x = s.w * x
    return x


def what_is_made_later(s, w, x):
    for _ in range(2):
        s.later = hy.sin(w * x)
        x = s.later * x
    return x


def read_behind_the_loop_alone(s, w, x):
    for _ in range(3):
        x = x + hy.sin(w * x)
        s.w = x
    return s.w


def item_of_a_list(s, w, x):
    for _ in range(2):
        s.items[0] = hy.sin(w * x)
        x = s.items[0] * x
    return x


def item_of_a_dict(s, w, x):
    for _ in range(2):
        s.named["a"] = hy.sin(w * x)
        x = s.named["a"] * x
    return x


def list_made_anew(s, w, x):
    for _ in range(3):
        s.items = [hy.sin(w * x), x]
        x = s.items[0] * x
    return x


def list_that_grows(s, w, x):
    s.grown = []
    for _ in range(3):
        weights = hy.sin(w * x)
        x = weights * x
        s.grown.append(weights)
    return x


def tensor_assigned(s, w, x):
    for _ in range(2):
        s.w.assign(hy.sin(w * x))
        x = s.w * x
    return x


def nested_loops(s, w, x):
    for _ in range(3):
        for _ in range(2):
            s.w = hy.sin(w * x)
            x = s.w * x
    return x


def loop_of_unknown_length(s, w, x):
    n = 0
    while hy.sum(x) * 0 + n < 2:
        s.w = hy.sin(w * x)
        x = s.w * x
        n += 1
    return x


def branches(s, w, x):
    if hy.sum(x) > 0:
        s.w = hy.sin(w * x)
    else:
        s.w = hy.cos(w * x)
    return x * s.w


def branches_in_a_loop(s, w, x):
    for _ in range(3):
        if hy.sum(x) > 0:
            s.w = hy.sin(w * x)
        else:
            s.w = hy.cos(w * x)
        x = x * s.w
    return x


PROGRAMS = [
    attribute, what_is_made_later, read_behind_the_loop_alone, item_of_a_list, item_of_a_dict,
    list_made_anew, list_that_grows, tensor_assigned, nested_loops, loop_of_unknown_length,
    branches, branches_in_a_loop,
]  # fmt: skip


def told(value):
    if isinstance(value, hy.Tensor):
        return value.tolist(), value.requires_grad
    if isinstance(value, (list, dict)):
        return [told(v) for v in (value.values() if isinstance(value, dict) else value)]
    return value


def results(program, within: bool, hybridized: bool):
    def step(s, w, x):
        loss = hy.sum(program(s, w, x))
        loss.backward()
        return loss

    called = step if within else program
    called = hy.hybridize(called) if hybridized else called
    s = SimpleNamespace(w=hy.zeros(3), items=[hy.ones(3)], named={"a": hy.ones(3)})
    w = hy.nn.Parameter(hy.ones(3))
    for at in range(4):
        x = hy.asarray([1.0, 2.0, -0.5]) * (1.0 - at)
        result = called(s, w, x)
        if not within:
            hy.sum(result).backward()
        yield told(result), told(w.grad), {name: told(v) for name, v in vars(s).items()}


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_call(program, within):
    expected = list(results(program, within, hybridized=False))
    assert list(results(program, within, hybridized=True)) == expected


def test_what_is_read_before_it_is_written_has_its_history():
    def step(s, w):
        for _ in range(2):
            s.w = s.w * w
        loss = hy.sum(s.w)
        loss.backward()
        return loss

    w = hy.nn.Parameter(hy.ones(3))
    s = SimpleNamespace(w=w * 2)
    with pytest.raises(CaptureError, match="reaches a value computed outside it"):
        hy.hybridize(step)(s, w)
    assert w.grad is None and s.w.tolist() == [2.0, 2.0, 2.0]
