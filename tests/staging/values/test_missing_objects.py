"""Keys and attributes that only some paths have set, of objects that are bound anew or hooked."""

import copy
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = [f32(v) for v in (5.0, 1.0, -2.0)]


class Owner:
    pass


class Hooked:
    def __setattr__(self, name, value):
        object.__setattr__(self, f"_{name}", value)

    def __delattr__(self, name):
        object.__delattr__(self, f"_{name}")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self, f"_{name}", hy.full((), 7.0))


class State:
    def __init__(self, total, seen):
        self.total, self.seen = total, seen


@table.runs(*NUMBERS)
def rebound_with_another_attribute(x):
    s = Owner()
    s.v = x
    if x > 3:
        s = Owner()
        s.v, s.w = x * 2, x * 3
    return s.v, hasattr(s, "w"), getattr(s, "w", x), getattr(s, "u", None)


@table.runs(*NUMBERS)
def rebound_and_missing(x):
    s = Owner()
    if x > 3:
        s = Owner()
        s.w = x * 3
    return s.w


@table.runs(*NUMBERS)
def hooked_attribute(x):
    s = Hooked()
    if x > 3:
        s.v = x * 2
    return s.v, hasattr(s, "v"), hasattr(s, "_v"), getattr(s, "_v", x), getattr(s, "u", x)


@table.runs(*NUMBERS)
def hooked_attribute_deleted(x):
    s = Hooked()
    if x > 3:
        s.v = x * 2
    del s.v
    return x


@table.runs(*NUMBERS)
def key_in_an_attribute(x):
    s = Owner()
    s.d = {"b": x * 1}
    if x > 3:
        s.d["a"] = x * 2
    s.d |= {"c": x}
    s.d["b"] += 1
    return "a" in s.d, len(s.d), s.d.get("a", x), s.d["b"], s.d["c"]


@table.runs(*NUMBERS)
def joined_to_an_attribute(x):
    s, more = Owner(), {}
    s.d = {"a": x}
    if x > 3:
        more["b"] = x * 2
    s.d |= more
    return "b" in s.d, len(s.d), s.d.get("b", x)


@table.runs(*NUMBERS)
def state_with_keys_in_a_loop(x):
    s = State(x * 0, {})
    while s.total < 6:
        s = State(s.total + abs(x), dict(s.seen))
        if s.total > 3:
            s.seen["large"] = s.total
    return s.total, "large" in s.seen, s.seen.get("large", x)


@table.runs(*NUMBERS)
def set_in_a_try(x):
    s, d = Owner(), {}
    try:
        if x > 3:
            s.v = d["a"] = x * 2
    finally:
        y = getattr(s, "v", x)
    return y, d.get("a", y), len(d)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def made_on_one_path(x):
    s = Owner()
    s.v = x
    if x > 3:
        s.w = x * 2
    return s


def rebound_on_one_path(x):
    s = Owner()
    s.v = x
    if x > 3:
        s = copy.copy(s)
        s.w = x * 2
    return {"s": s}["s"]


@pytest.mark.parametrize("function", [made_on_one_path, rebound_on_one_path])
def test_a_returned_object_has_what_a_run_has_set(function: Any) -> None:
    captured = hy.hybridize(function)
    for x in (5.0, 1.0, 4.0):
        found, wanted = vars(captured(f32(x))), vars(function(f32(x)))
        assert {n: v.item() for n, v in found.items()} == {n: v.item() for n, v in wanted.items()}
        assert list(found) == list(wanted)
