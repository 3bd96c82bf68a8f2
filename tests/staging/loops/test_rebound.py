"""Lists, dicts and objects that some paths and iterations bind anew: state in functional style."""

# ruff: noqa: SIM108  the programs are about these forms

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, f32, i64

table = Table()
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]
X = f32([1.0, -2.0, 3.0])


# Lists and dicts ----------------------------------------------------------------------------------


@table.runs(*NUMBERS)
def a_copy_in_one_branch_is_read(x):
    o = SimpleNamespace(xs=[x, x * 2])
    ys = [x]
    if x > 0:
        o.xs = list(o.xs)
        ys = list(ys)
    return o.xs[0] + o.xs[1], o.xs, ys, len(ys)


@table.runs(*NUMBERS)
def a_copy_in_one_branch_is_changed(x):
    """Nobody else sees the old one."""
    o, d = SimpleNamespace(xs=[x, x * 2]), {"a": x}
    ys = [x]
    if x > 0:
        o.xs = list(o.xs)
        ys = [*ys]
        d = dict(d)
    o.xs.append(x)
    ys[0] = ys[0] + 1
    ys.append(x)
    d["a"] = d["a"] * 2
    return o.xs, ys, d


@table.runs(*NUMBERS)
def a_copy_in_both_branches(x):
    xs = [x]
    old = xs
    if x > 0:
        xs = list(xs)
    else:
        xs = [*xs, x]
    xs.append(x)
    return xs, old


@table.runs(*NUMBERS)
def one_new_list_under_two_names(x):
    if x > 0:
        xs = [x]
        ys = xs
    else:
        xs = ys = [x * 2]
    xs.append(x)
    d = {"xs": xs}
    d["xs"].append(x + 1)
    return xs, ys, xs is ys


@table.runs(*NUMBERS)
def one_new_list_under_two_names_on_the_path_that_goes_on(x):
    if x > 1:
        return [x], 0
    else:
        xs = [x]
        ys = xs
    xs.append(x)
    return ys, 1


@table.runs(*COUNTS, covered=False)
def a_list_changed_before_it_is_rebound(n):
    xs = [hy.zeros(())]
    again = False
    for i in range(n):
        if again:
            xs = list(xs)
        xs[0] = xs[0] + i
    return xs


@table.runs(*[(x, n) for x in NUMBERS for n in COUNTS])
def lists_rebound_in_a_loop(x, n):
    xs, d = [x, x * 2], {"a": x}
    for i in range(n):
        xs = [xs[1], xs[0] + i]
        xs[0] = xs[0] + 1
        d = {**d, "a": d["a"] + xs[0]}
    xs.append(x)
    d["b"] = x
    return xs, d


# Objects ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any


@dataclass
class State:
    a: Any
    b: Any
    name: str = "s"


DEFAULT = State(f32(0.5), 0)


class Plain:
    def __init__(self, a, b):
        self.a, self.b = a, b
        self.items = [a, {"b": b}]
        self.none = None

    def next(self):
        return Plain(self.b, self.a + 1)

    @property
    def total(self):
        return self.a + self.b


class Slotted:
    __slots__ = ("a", "b", "unset")

    def __init__(self, a, b):
        self.a, self.b = a, b


@table.runs(*NUMBERS)
def frozen_in_while(x):
    s = Frozen(x, x * 2)
    while s.a < 4:
        s = Frozen(s.b, s.a + 1)
    return s.a, s.b


@table.runs(*NUMBERS)
def replaced_in_while(x):
    s = State(x, x * 2)
    while s.a < 4:
        s = replace(s, a=s.b, b=s.a + 1)
    return s.a, s.b, s.name


@table.runs(*NUMBERS)
def replaced_in_a_branch(x):
    s = Frozen(x, 0)
    if x > 0:
        s = replace(s, a=x * 5, b=s.b + 1)
    return s.a, s.b


@table.runs(*NUMBERS)
def plain_in_while(x):
    s = Plain(x, x * 2)
    while s.total < 9:
        s = s.next()
    return s.a, s.b, s.items, s.none, type(s).__name__, isinstance(s, Plain)


@table.runs(*[(x, n) for x in NUMBERS for n in COUNTS])
def slotted_in_for(x, n):
    s = Slotted(x, 1)
    for _ in range(n):
        s = Slotted(s.a * 0.5 + s.b, s.b + 1)
    return s.a, s.b, hasattr(s, "unset")


@table.runs(*NUMBERS)
def slotted_in_branches(x):
    if x > 0:
        s = Slotted(x, 1)
    else:
        s = Slotted(x * 3, 2)
    s.unset = s.a
    return s.a, s.b, s.unset


@table.runs(*NUMBERS)
def nested_objects(x):
    s = State(Frozen(x, [x]), {"c": Plain(x, x * 3)})
    while s.a.a < 4:
        c = s.b["c"]
        s = State(Frozen(s.a.a + 2, [s.a.b[0] * 2]), {"c": c.next()})
    return s.a.a, s.a.b, s.b["c"].a, s.b["c"].b


@table.runs(*NUMBERS)
def objects_in_lists(x):
    particles = [State(x, 1.0), State(x * 2, 2.0)]
    for _ in range(3):
        if x > 0:
            particles = [replace(p, a=p.a + p.b) for p in particles]
    return [p.a for p in particles]


@table.runs(*[(x, n) for x in NUMBERS for n in COUNTS])
def objects_in_lists_in_a_loop(x, n):
    particles = [State(x, 1.0), State(x * 2, 2.0)]
    for _ in range(n):
        particles = [replace(p, a=p.a + p.b) for p in particles]
    return [p.a for p in particles]


@table.runs(*NUMBERS)
def object_rebound_then_written(x):
    s = State(x, 1)
    if x > 0:
        s = State(x * 2, 2)
    s.a = s.a + 1
    s.b += 1
    if x > 1:
        s.a = s.a * 3
    return s.a, s.b


@table.runs(*NUMBERS)
def object_written_and_rebound_in_while(x):
    s = State(x, 0)
    while s.a < 50:
        s.a = s.a + 1
        s = replace(s, b=s.b + 1)
        s.a = s.a * 2 + s.b
    s.b += 1
    return s.a, s.b


@table.runs(*NUMBERS)
def object_rebound_in_one_branch_of_a_loop(x):
    s = Frozen(x, 0)
    for i in range(4):
        if s.a < i:
            s = replace(s, a=s.a + 2)
        else:
            s = replace(s, b=s.b + 1)
    return s.a, s.b


@table.runs(*NUMBERS)
def object_chosen(x):
    a, b = State(x, 1), State(x * 2, 2)
    s = a if x > 0 else b
    return s.a, s.b, s.name, (a if x > 1 else b).b


@table.runs(*NUMBERS)
def object_bound_in_one_branch(x):
    s = None
    if x > 0:
        s = Plain(x, 1)
        t = s
    if s is None:
        return x
    return s.a + t.b


@table.runs(*NUMBERS)
def one_new_object_under_two_names(x):
    if x > 0:
        s = t = State(x, 1)
    else:
        s = State(x * 2, 2)
        t = s
    s.a = s.a + 5
    return t.a, s is t


@table.runs(*NUMBERS)
def objects_that_hold_each_other(x):
    def pair(v):
        a, b = SimpleNamespace(v=v), SimpleNamespace(v=v * 2)
        a.other, b.other = b, a
        return a

    if x > 0:
        s = pair(x)
    else:
        s = pair(x + 1)
    s.other.other.v = s.other.v + 1
    return s.v, s.other.other is s


@table.runs(*NUMBERS)
def object_of_the_path_that_goes_on(x):
    if x > 1:
        return x
    else:
        s = State(x, [x])
        log = [s]
    s.a = s.a + 1
    return log[0].a + s.b[0]


@table.runs(*NUMBERS)
def object_in_an_attribute(x):
    o = SimpleNamespace(s=Frozen(x, 0))
    while o.s.a < 4:
        o.s = Frozen(o.s.a + 1, o.s.b + 1)
    if x > 0:
        o.s = replace(o.s, a=x)
    return o.s.a, o.s.b


@table.runs(*NUMBERS)
def object_first_bound_in_the_loop(x):
    for i in range(3):
        s = Frozen(x * i, i)
        if s.a > 1:
            break
    return s.a, s.b


@table.runs(*NUMBERS)
def attribute_that_begins_as_none(x):
    s = State(x, None)
    while s.a < 4:
        s = State(s.a + 1, s.a)
        s.b = s.b * 2
    s = replace(s, b=s.a)
    return s.a, s.b


@table.runs(*NUMBERS)
def copied_in_a_loop(x):
    s = Plain(x, 1)
    while s.a < 4:
        s = copy.copy(s)
        s.a = s.a + 1
    return s.a, s.b, s.items


@table.runs(*NUMBERS)
def break_with_an_object(x):
    s = Frozen(x, 0)
    for _ in range(5):
        if s.a > 3:
            break
        s = Frozen(s.a * 2 + 1, s.b + 1)
    return s.a, s.b


@table.runs(*NUMBERS)
def returned_from_helpers(x):
    def step(s):
        if s.a > 1:
            return replace(s, b=s.b + 1)
        return replace(s, a=s.a + 1)

    s = Frozen(x, 0)
    for _ in range(3):
        s = step(s)
    return s.a, s.b


@table.runs(*NUMBERS)
def an_operator_makes_it(x):
    class Vector:
        def __init__(self, u, v):
            self.u, self.v = u, v

        def __add__(self, other):
            return Vector(self.u + other.u, self.v + other.v)

        def norm(self):
            return self.u * self.u + self.v * self.v

    p, step = Vector(x, x), Vector(1.0, 2.0)
    while p.norm() < 50:
        p = p + step
    return p.u, p.v


@table.runs(*NUMBERS)
def a_copy_of_an_argument_in_the_state(x):
    s = copy.copy(DEFAULT)
    while s.a < 4:
        s = replace(s, a=s.a + x * x + 1, b=s.b + 1)
    return s.a, s.b


@table.runs(*NUMBERS)
def linked_list(x):
    head = None
    for i in range(3):
        if x > i:
            head = SimpleNamespace(v=x + i, next=head)
        else:
            head = SimpleNamespace(v=x - i, next=head)
    total, node = 0, head
    while node is not None:
        total = total + node.v
        node = node.next
    return total


@table.runs(*[(x, n) for x in NUMBERS for n in COUNTS])
def best_of_all(x, n):
    s, best = State(x, 0), None
    for i in range(n):
        s = State(s.a * 1.5 + 1, i)
        if best is None or s.a > best.a:
            best = s
    return s.a, best.a if best is not None else x


@table.runs(*NUMBERS)
def objects_in_a_dict(x):
    points = {k: Frozen(x * k, k) for k in (1, 2)}
    for _ in range(3):
        for k, p in points.items():
            if p.a < 4:
                points[k] = replace(p, a=p.a + 1)
    return [p.a for p in points.values()]


@table.runs(*NUMBERS)
def object_read_through_a_closure(x):
    s = Frozen(x, 1)

    def get():
        return s

    if x > 0:
        s = Frozen(x * 2, 2)
    return get().a, get().b


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


@pytest.mark.parametrize("named", [False, True])
def test_the_old_dict_is_changed_beside_gradients(named: bool) -> None:
    """An iteration changes the dict that the one before has left; the first may have no name."""

    def program(state: Any, x: hy.Tensor) -> Any:
        state.d = {}
        first = state.d if named else None
        for _ in range(3):
            hy.sum(state.w * x).backward()
            old = state.d
            state.d = {}
            old["a"] = x
        return first

    def started() -> SimpleNamespace:
        state = SimpleNamespace(w=hy.ones(2))
        state.w.requires_grad = True
        return state

    eager, captured, hybridized = started(), started(), hy.hybridize(program)
    for x in NUMBERS:
        expected, found = program(eager, x), hybridized(captured, x)
        assert (None if found is None else found["a"].item()) == (x.item() if named else None)
        assert (expected is None) == (found is None)
        assert captured.w.grad.tolist() == eager.w.grad.tolist()
        assert captured.d == eager.d == {}
    assert len(hybridized.plans) <= 2  # the gradient is None at first
