"""Programs that once went wrong, by what went wrong."""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([0.5, -1.0, 2.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]


@table.makes(*[(x, f32(0.25)) for x in (X, X * 0.5, f32([3.0, -2.0, 0.0]))])
def an_item_that_a_loop_leaves_beside_one_that_it_changes():
    state = SimpleNamespace(s=hy.zeros(()))

    def run(x, s):
        o = SimpleNamespace(v=x * 0.25)
        d = {"a": x, "b": s}
        for _ in range(3):
            o.v += d["a"]
            d["b"] = state.s
        return o.v, x

    return run


@table.makes(f32(0.5), f32(-1.0), f32(2.0))
def a_tensor_from_outside_that_is_read_and_then_written():
    state = SimpleNamespace(v=hy.ones(3))

    def run(s):
        found = hy.sin(state.v - s)
        state.v += 1
        return found

    return run, state


# State has a history that the path did not give it.
@table.makes(*[(X, f32(v)) for v in (0.5, -1.0, 0.25, -0.5)])
def histories_that_are_written_to_tensors_from_outside():
    state = SimpleNamespace(v=hy.ones(3), w=hy.ones(3))
    row = hy.zeros(3)

    def run(x, s):
        row[1] = s * x[0]
        for item in x:
            state.v += item * row
        if s < 0:
            state.v.assign(state.w)
            state.w.assign(row + x)
        if s < -0.75:
            raise ValueError("low")
        x += s
        return hy.sum(state.v * row) + x

    return run, (state, row)


@table.runs(*[(X, v) for v in NUMBERS])
def an_attribute_set_in_an_endless_loop_that_breaks_or_raises(x, s):
    o = SimpleNamespace(v=x * 0.25)
    while True:
        if s > 0:
            o.v = o.v + x
        else:
            raise ValueError("low")
        if hy.sum(o.v) > s:
            break
    return o.v * 2


@table.makes(*NUMBERS, f32(0.25))
def state_with_a_history_left_by_a_raise_in_a_loop():
    state = SimpleNamespace(h=hy.ones(()), seen=[])

    def run(x):
        before = state.h * x
        for i in range(4):
            state.h = hy.sin(state.h * x) + before
            state.seen.append(state.h * i)
            if state.h * x > 1:
                raise ValueError("large")
        while state.h < 0.5:
            state.h = state.h + state.seen[-1] * 0 + 0.25
            if state.h * x > 0.3:
                raise IndexError("high")
        return state.h * sum(state.seen)

    return run, state


@table.runs((X, f32(1.0)), (X, f32(-1.0)))
def a_list_bound_anew_on_one_path_and_changed_on_the_other(x, s):
    xs = [x * 3.0, x + 1.0]
    if s > 0:
        xs = [*xs[1:], x]
    else:
        xs.append(x)
        xs.pop(0)
    return sum(xs)


@table.runs(f32([3.0, 1.0, 2.0, 5.0]))
def an_attribute_counted_under_a_condition_in_a_loop(x):
    bag = SimpleNamespace(n=0)
    for v in x:
        if v > 1:
            bag.n += 1
    return bag.n


@table.runs(draw(5, 3), draw(5, 3, seed=1))
def the_index_of_the_largest(x):
    best, where = hy.sum(x[0]), 0
    for i in range(1, x.shape[0]):
        s = hy.sum(x[i])
        if s > best:
            best, where = s, i
    return best, where


@table.runs(X, -X)
def a_name_that_one_branch_binds_and_the_other_reads(x):
    if x[0] > 0:
        x = x + 1
    else:
        return x
    return x * 3


@table.runs(f32(1.0), f32(30.0))
def a_list_made_anew_in_each_iteration(x):
    while x < 50:
        best = []
        for _ in range(2):
            y = x + 1
            best.append(y)
        x = x + hy.sum(hy.stack(best))
    return x


@table.runs(*[(x, s) for x in (X, -X, X * 4) for s in NUMBERS])
def tensor_bound_anew_on_some_paths_then_written(x, s):
    """No other name holds any of the tensors that v may stand for."""
    v = x * 1
    if s < 0:
        v = v * 2
    elif s > 1:
        v = hy.tanh(v)
    for i in range(2):
        if hy.sum(v) > i:
            v += 1
        else:
            v = v * 3
    v += 1
    return v


@table.runs(*[(x, s) for x in (X, -X, X * 4) for s in NUMBERS])
def tensor_bound_anew_beside_a_written_one(x, s):
    v, xs = x * 1, [x * 3]
    if s < 0:
        y = x
    elif s > 1:
        xs[0] += 1
        v = hy.tanh(v)
        y = x * 2
    else:
        y = x * 4
    for row in hy.stack([x, x * 2]):
        if hy.sum(row) > 3:
            xs[0] = hy.flip(row)
            v += row * s
        else:
            y = y + row
    return v, xs, y


@table.runs(X, -X)
def dict_rebound_in_one_branch_and_written_in_the_other(x):
    d = {"a": x, "b": x * 2}
    if hy.sum(x) > 0:
        d = {"b": x, "a": x * 5}
    else:
        d["a"] = x * 7
    return d["a"], d["b"]


@table.runs(X, -X)
def object_rebound_in_one_branch_and_written_in_the_other(x):
    o = SimpleNamespace(v=x)
    if hy.sum(x) > 0:
        o = SimpleNamespace(v=x * 5)
    else:
        o.v = x * 7
    return o.v


@table.runs(X, -X)
def list_written_then_rebound(x):
    xs = [x * 3, x + 1]
    ys = xs
    if hy.sum(x) > 0:
        xs[0] = x
        xs = [x * 9]
    else:
        xs = [x * 8]
    return xs, ys


@table.runs(*[(X, i64(n)) for n in (0, 1, 3)])
def list_rebound_in_a_loop_after_a_write(x, n):
    xs = [x * 3, x + 1]
    for i in range(n):
        xs[0] = xs[0] * 2 + i
        xs = [*xs[1:], xs[0]]
        xs[1] = xs[1] + 1
    return xs


@table.runs(*NUMBERS)
def list_made_and_left_in_a_branch(x):
    """Nothing can see it later."""
    if x > 1:
        y = x * 2
    elif x > 0:
        y = x * 3
    else:
        found = []
        for i in range(3):
            found.append(x * i)
        y = sum(found) + len(found)
    return y


@table.makes(*NUMBERS, plans=1)
def attribute_written_before_an_unbound_name():
    state = SimpleNamespace(v=hy.ones(()))

    def run(x):
        if x > 1:
            y = x * 0.75
        state.v = state.v + x
        return y

    return run, state


@table.makes(*NUMBERS)
def attribute_written_before_a_raise_that_python_knows():
    state = SimpleNamespace(v=hy.ones(()))

    def run(x):
        state.v = state.v + x
        raise ValueError("always")

    return run, state


@table.runs(*NUMBERS)
def argument_written_before_a_raise(x):
    x += 1
    if x > 1:
        raise ValueError("large")
    x += 1
    return x * 2


@table.runs(*[f32(v) for v in (1.0, 3.0)])
def only_a_raise_ends_the_loop(x):
    while True:
        x = x * 2
        if x > 50:
            raise OverflowError("enough", 3)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
