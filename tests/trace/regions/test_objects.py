"""Objects that keep tensors: attributes, methods, modules, closures."""

# ruff: noqa: SIM108  the programs are about these forms

from dataclasses import dataclass, replace
from types import SimpleNamespace

import hybrid as hy
from hybrid import nn
from tests.staging.harness import Program, Table, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]


@table.runs(*[(X, n) for n in COUNTS])
def attribute_of_a_local_object(x, n):
    state = SimpleNamespace(h=x, steps=0)
    for i in range(n):
        state.h = hy.tanh(state.h) + i
        state.steps += 1
    return state.h, state.steps


@table.runs(*STARTS)
def attribute_in_while(x):
    state = SimpleNamespace(x=x)
    while state.x < 100:
        state.x = state.x * 3
    return state.x


@table.runs(*NUMBERS)
def attribute_in_branches(x):
    state = SimpleNamespace(a=x, b=x)
    if x > 0:
        state.a = x * 2
    else:
        state.b = x * 3
    return state.a, state.b


@table.runs(*NUMBERS)
def attribute_new_in_both(x):
    state = SimpleNamespace()
    if x > 0:
        state.a = x * 2
    else:
        state.a = x
    return state.a


@table.runs(*NUMBERS)
def attribute_new_in_one_then_set(x):
    state = SimpleNamespace()
    if x > 0:
        state.a = x * 2
    state.a = x
    return state.a


@table.runs(*NUMBERS, may_refuse=True)
def attribute_missing_on_one_path(x):
    state = SimpleNamespace()
    if x > 0:
        state.a = x * 2
    return state.a


@table.runs(*NUMBERS)
def attribute_augmented(x):
    state = SimpleNamespace(total=hy.zeros(()), n=0)
    for k in (1.0, 2.0):
        if x > k:
            state.total += x
            state.n += 1
    return state.total, state.n


@dataclass
class Cell:
    h: object
    c: object = None


@table.runs(*[(X, n) for n in COUNTS])
def dataclass_in_a_loop(x, n):
    cell = Cell(x, x * 0)
    for _ in range(n):
        cell.c = cell.c * 0.5 + cell.h
        cell.h = hy.tanh(cell.c)
    return cell.h, cell.c


@table.runs(*[(X, n) for n in COUNTS], may_refuse=True)
def dataclass_replaced(x, n):
    cell = Cell(x, x * 0)
    for _ in range(n):
        cell = replace(cell, c=cell.c + cell.h)
    return cell.h, cell.c


@table.runs(*NUMBERS)
def object_with_slots(x):
    class Slotted:
        __slots__ = ("v",)

        def __init__(self, v):
            self.v = v

    s = Slotted(x)
    if x > 0:
        s.v = s.v * 2
    return s.v


@table.runs(*NUMBERS)
def object_with_a_setter(x):
    class Checked:
        def __init__(self):
            self._v = None

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, value):
            self._v = value * 2

    c = Checked()
    c.v = x
    if x > 0:
        c.v = x + 1
    return c.v


class Counter:
    """Keeps tensors over calls."""

    def __init__(self):
        self.total = hy.zeros(())
        self.h = None
        self.history = []
        self.named = {"best": hy.asarray(-1000.0)}

    def add(self, x):
        if x > 0:
            self.total = self.total + x
        return self.total

    def add_in_place(self, x):
        while x > 0.25:
            self.total += x
            x = x * 0.5
        return x

    def run(self, x):
        for i in range(3):
            self.h = x if self.h is None else self.h * 0.5 + x * i
        return self.h * 2

    def best(self, x):
        if x > self.named["best"]:
            self.named["best"] = x * 1
        return self.named["best"]


@table.makes(*NUMBERS, plans=1)
def method_writes_an_attribute():
    counter = Counter()
    return counter.add, counter


@table.makes(*NUMBERS, plans=1)
def method_writes_a_cell():
    counter = Counter()
    return counter.add_in_place, counter


@table.makes(*NUMBERS, plans=2)
def self_h_in_a_loop():
    counter = Counter()
    return counter.run, counter


@table.makes(*NUMBERS, plans=1)
def method_writes_a_dict():
    counter = Counter()
    return counter.best, counter


@table.makes(*NUMBERS, plans=1)
def closure_list_of_tensors():
    state = [hy.zeros(()), hy.ones(())]

    def run(x):
        if x > 0:
            state[0] = state[0] + x
        else:
            state[1] = state[1] * 2
        return state[0] * state[1]

    return run, state


@table.makes(*NUMBERS, plans=1)
def closure_cell_in_a_loop():
    total = hy.zeros(())

    def run(x):
        for i in range(4):
            if x > i:
                total.assign(total + i)
        return x

    return run, total


@table.makes(X, -X, plans=1)
def a_stateful_module():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", hy.zeros(3))
            self.register_buffer("n", hy.zeros(()))

        def forward(self, x):
            if x[0] > 0:
                self.n += 1
                self.mean.assign(self.mean + (x - self.mean) / self.n)
            return x - self.mean

    net = Running()
    return net, net


@table.makes(X, -X, plans=2)
def a_module_that_keeps_its_state():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.Linear(3, 3)
            self.h = hy.zeros(3)

        def forward(self, x):
            for _ in range(3):
                self.h = hy.tanh(self.cell(self.h) + x)
                if hy.sum(self.h) > 0.5:
                    self.h = self.h * 0.5
            return self.h

    net = Recurrent()
    return net, net


@table.makes(*NUMBERS, plans=1)
def random_state():
    def run(x):
        y = hy.random.uniform()
        while y < 0.7:
            y = y + hy.random.uniform() * 0.1
        if x > 0:
            y = y + hy.random.normal()
        return y

    return run


@table.makes(*NUMBERS, plans=1)
def attribute_of_an_outer_object():
    owner = SimpleNamespace(inner=SimpleNamespace(v=hy.ones(())))

    def run(x):
        owner.inner.v = owner.inner.v * 2 if x > 0 else owner.inner.v
        for _ in range(2):
            owner.inner.v = owner.inner.v + x
        return x

    return run, owner


@table.makes(*[(X, n) for n in COUNTS], plans=1)
def buffer_written_by_row():
    buffer = hy.zeros((5, 3))

    def run(x, n):
        for i in range(n):
            buffer[i] = x * i
        return hy.sum(buffer)

    return run, buffer


@table.runs((X, X * 2), (-X, X * 2), may_refuse=True)
def write_to_one_of_two(x, y):
    """Which cell is written depends on a value."""
    if x[0] > 0:
        z = x
    else:
        z = y
    z += 1
    return z


@table.runs((X, X * 2), (-X, X * 2))
def write_to_each_in_its_branch(x, y):
    if x[0] > 0:
        x += 1
    else:
        y += 1
    return x + y


@table.runs(*[(X, n) for n in COUNTS])
def write_to_the_argument_in_a_loop(x, n):
    for _ in range(n):
        x += 1
    return hy.sum(x)


@table.runs(X, -X)
def rebound_then_written(x):
    if x[0] > 0:
        x = x * 2
        x += 1
    return x


# A variable that one path writes to has a history on the other, too.
@table.runs(X, -X, identity=False)
def copies_are_apart(x):
    import copy

    y = copy.copy(x)
    z = copy.deepcopy([x])
    if x[0] > 0:
        y += 1
        z[0] *= 2
    return x, y, z


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
