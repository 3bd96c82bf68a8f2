"""What was written before an exception stays written: cells, attributes, lists, dicts.

PYTEST_DONT_REWRITE: the messages of assertions are compared.
"""

from collections import deque
from types import SimpleNamespace

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
ROWS = f32([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])
GOOD = f32([[1.0, 2.0], [3.0, 4.0]])

total = hy.zeros(())


@table.makes(*[(v, looks) for v in NUMBERS for looks in (False, True)])
def global_and_nonlocal():
    count = hy.zeros(())

    def run(x):
        nonlocal count
        global total
        count = count + x
        total = total * 0 + x
        assert x < 1, "large"
        count = count * 2
        return count + total

    def look(x):
        return count, total

    def both(x, looks):
        return look(x) if looks else run(x)

    return both


@table.makes(*NUMBERS)
def in_the_raising_branch_alone():
    state = SimpleNamespace(h=hy.zeros(()), seen=[], by_name={})

    def run(x):
        if x < 0:
            state.h = x * 2
            state.seen.append(x + 1)
            state.by_name["low"] = x
            raise ValueError("negative")
        return x * state.h

    return run, state


@table.makes(*NUMBERS)
def plain_values_on_the_way():
    state = SimpleNamespace(name="none", n=0)

    def run(x):
        if x < 0:
            state.name, state.n = "busy", 7
            raise ValueError("negative")
        return x * 2 + state.n

    return run, state


@table.makes(*NUMBERS)
def new_keys_and_items():
    state = {"a": hy.zeros(()), "rows": [], "last": deque([hy.zeros(())] * 2, maxlen=2)}

    def run(x):
        state["rows"].append(x * 2)
        state["last"].append(x)
        if x < 0:
            state["rows"].append(x * 3)
            raise ValueError("negative")
        state["rows"].clear()
        return x

    return run, state


@table.makes(ROWS, GOOD, -ROWS)
def cell_written_in_a_loop():
    count = hy.zeros((2,))

    def run(xs):
        for x in xs:
            if x[1] < 0:
                raise ValueError("negative")
            count.assign(count + x)
        count.assign(count * 2)
        return count * 1

    return run, count


@table.makes(ROWS, GOOD, -ROWS)
def attributes_written_in_a_loop():
    state = SimpleNamespace(h=hy.zeros((2,)), last=hy.zeros((2,)))

    def run(xs):
        for x in xs:
            assert x[1] > 0, "negative"
            state.h = state.h + x
            state.last = x
        return state.h * 2

    return run, state


@table.makes(ROWS, GOOD, -ROWS)
def attribute_that_begins_as_none():
    state = SimpleNamespace(last=None)

    def run(xs):
        for x in xs:
            if x[1] < 0:
                raise ValueError("negative")
            state.last = x
        state.last = None
        return xs * 2

    return run, state


@table.makes(ROWS, GOOD, -ROWS)
def list_of_its_own_in_a_loop():
    state = SimpleNamespace(seen=[])

    def run(xs):
        seen = []
        for x in xs:
            seen.append(x * 2)
            assert x[1] > 0, "negative"
        state.seen = seen
        return hy.stack(seen)

    return run, state


@table.makes(ROWS, GOOD, -ROWS, may_refuse=True)
def list_written_in_a_loop():
    seen = []

    def run(xs):
        seen.clear()
        for x in xs:
            seen.append(x * 2)
            assert x[1] > 0, "negative"
            seen.append(x * 3)
        return hy.stack(seen)

    return run, seen


@table.makes(ROWS, GOOD, -ROWS)
def list_written_before_a_loop():
    seen = []

    def run(xs):
        seen.append(xs[0])
        for x in xs:
            assert x[1] > 0, "negative"
            xs = xs + x
        seen.append(xs)
        return seen[-1]

    return run, seen


@table.makes(ROWS, GOOD, -ROWS)
def list_that_a_loop_has_written():
    state = SimpleNamespace(seen=[])

    def run(xs):
        state.seen.clear()
        for x in xs:
            if x[1] > 0:
                state.seen.append(x * 2)
        if x[1] + xs[1][1] < 7:
            raise ValueError("low")
        return xs

    return run, state


@table.makes(f32(0.5), f32(2.0), f32(30.0))
def cells_in_nested_loops():
    a, b = hy.zeros(()), hy.zeros(())

    def run(x):
        while x < 20:
            a.assign(a + 1)
            for i in range(3):
                if x * i > 10:
                    raise OverflowError(i)
                b.assign(b + x)
            x = x * 3 + 1
            a.assign(a * 2)
        return x + a + b

    return run, (a, b)


@table.makes(ROWS, GOOD, -ROWS)
def two_loops_and_a_branch():
    state = SimpleNamespace(h=hy.zeros((2,)), n=hy.zeros(()))

    def run(xs):
        for x in xs:
            state.h += x
        if hy.sum(xs) > 0:
            for x in xs:
                state.n += 1
                assert x[1] > 0
        else:
            state.n = state.n - 1
            raise RuntimeError("low")
        return state.h + state.n

    return run, state


@table.runs((X, i64(0)), (X, i64(1)))
def by_a_check_of_numbers(x, n):
    x += 1
    k = int(n)
    x += 1.0 / k
    x += 1
    return x


@table.runs((X, i64(0)), (X, i64(1)))
def by_a_call_into_python(x, n):
    def look(k):
        if k == 0:
            raise LookupError("zero")

    x += 1
    hy.py_call(look, n)
    x += 1
    return x


@table.makes(*NUMBERS)
def by_a_helper():
    state = {"n": hy.zeros(())}

    def positive(v):
        state["n"] += 1
        if v < 0:
            raise ValueError("negative")
        state["n"] += 10
        return v

    def run(x):
        return positive(x) * positive(x - 1)

    return run, state


@table.makes(*NUMBERS)
def what_is_printed_before_python_raises():
    count = hy.zeros(())

    def run(x):
        count.assign(count + x)
        print("count", count)
        if x < 0:
            count.assign(count * 3)
            print("negative")
        raise KeyError("always")

    return run, count


@table.makes(*NUMBERS)
def first_the_plan_then_python_raises():
    count = hy.zeros(())

    def run(x):
        count.assign(count + 1)
        if x < 0:
            raise ValueError("negative")
        count.assign(count + 10)
        raise KeyError("always")

    return run, count


@table.makes((X, 3), (X, 4), (X, 3))
def by_a_wrong_shape():
    state = SimpleNamespace(h=hy.zeros((3,)))

    def run(x, n):
        state.h = x * 2
        return x + hy.ones(n)

    return run, state


@table.runs(*[([v], {"x": v}) for v in NUMBERS])
def containers_among_the_arguments(xs, by_name):
    xs.append(xs[0] * 2)
    by_name["new"] = xs[0] + 1
    xs[0] += 1
    if xs[0] < 0:
        raise ValueError("negative")
    del xs[1:]
    return xs[0]


@table.makes(*NUMBERS)
def tensors_stay_the_same_objects():
    state = SimpleNamespace(a=hy.zeros(()), b=hy.zeros(()), c=None)

    def run(x):
        state.a = x
        state.b = state.c = x * 2
        if x < 0:
            raise ValueError("negative")
        state.c = None
        return state.b is state.a

    return run, state


@table.makes(*[draw(4, 2, seed=i) for i in range(3)], grad=False)
def training_that_is_stopped():
    model = hy.nn.Linear(2, 1)
    optimizer = hy.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def run(x):
        for row in x:
            optimizer.zero_grad()
            loss = hy.sum(model(row) ** 2)
            assert loss < 2, "diverges"
            loss.backward()
            optimizer.step()
        return loss

    return run, model


@table.makes(*[draw(4, 2, seed=i) for i in range(3)], grad=False)
def a_step_that_is_checked():
    model = hy.nn.Linear(2, 2)
    optimizer = hy.optim.Adam(model.parameters(), lr=0.1)

    def run(x):
        optimizer.zero_grad()
        loss = hy.sum(model(x) ** 2)
        loss.backward()
        optimizer.step()
        if hy.sum(x) < 0:
            raise FloatingPointError("negative")
        optimizer.step()
        return loss

    return run, model


@table.each()
def test_same(program: Program) -> None:
    program.check()
