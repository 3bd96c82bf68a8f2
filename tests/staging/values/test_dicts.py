"""Dicts, sets and argument containers; lists that the loop reads."""

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X, Y = f32([1.0, -2.0, 3.0]), f32([0.5, 0.25, -1.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5)]
ROWS = [draw(5, 3, seed=1), draw(5, 3, seed=2)]


@table.runs(*[(X, n) for n in COUNTS])
def dict_carried(x, n):
    state = {"h": x, "c": x * 0}
    for i in range(n):
        state["c"] = state["c"] * 0.5 + state["h"]
        state["h"] = hy.tanh(state["c"]) + i
    return state


@table.runs(*STARTS)
def dict_carried_in_while(x):
    state = {"x": x, "n": 0}
    while state["x"] < 100:
        state["x"] = state["x"] * 3
        state["n"] += 1
    return state


@table.runs(*NUMBERS)
def dict_gains_a_key_in_both(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x * 2
    else:
        d["b"] = x
    return d


@table.runs(*NUMBERS)
def dict_gains_a_key_and_agrees_later(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x * 2
    d["b"] = x + 5
    return d


@table.runs(*NUMBERS)
def dict_gains_a_key_read_where_it_is(x):
    d = {"a": x}
    p = x > 0
    if p:
        d["b"] = x * 2
    y = d["a"]
    if p:
        y = y + d["b"]
    return y


@table.runs(*NUMBERS)
def dict_gains_and_loses_a_key(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x * 2
        d["a"] = d.pop("b")
    return d


@table.runs(*NUMBERS)
def dict_replaced(x):
    d = {"a": x, "b": x * 2}
    if x > 0:
        d = {"a": x * 3, "b": x * 4}
    return d


@table.runs(*NUMBERS)
def dict_methods(x):
    d = {"a": x}
    if x > 0:
        d.update(b=x * 2)
        d.setdefault("c", x)
    else:
        d |= {"b": x, "c": x + 1}
    return d, d.get("z", x), "a" in d, list(d)


@table.runs(*NUMBERS)
def dict_missing_key(x):
    d = {"a": x}
    if x > 0:
        return d["nothing"]
    return d["a"]


@table.runs(*NUMBERS, may_refuse=True)
def dict_key_on_one_path_read_later(x):
    d = {"a": x}
    if x > 0:
        d["b"] = x * 2
    return d["b"]


@table.runs(*NUMBERS)
def set_of_numbers(x):
    seen = set()
    for i in range(4):
        seen.add(i % 2)
        x = x + len(seen)
    return x, seen


@table.runs(*NUMBERS)
def unpacked(x):
    ys = [x, x * 2, x * 3]
    if x > 0:
        a, *b = ys
    else:
        *b, a = ys
    return a, b, [*ys, a], {**{"k": a}}


@table.runs(X)
def list_is_returned_and_kept(x):
    ys = [x]
    for _ in range(2):
        ys.append(ys[-1] * 2)
    zs = ys
    ys = ys[:1]
    return ys, zs


@table.runs(*ROWS)
def list_of_lists_of_rows(x):
    groups = [[], []]
    for i in range(4):
        groups[i % 2].append(x[i])
    return groups


@table.runs(([X],), ([Y],), plans=1)
def argument_list_is_changed(xs):
    xs.append(xs[0] * 2)
    xs[0] = xs[0] + 1
    return hy.sum(xs[0])


@table.runs(([X, Y],), ([-X, Y],), plans=1)
def argument_list_is_changed_in_a_branch(xs):
    if xs[0][0] > 0:
        xs[0] = xs[0] * 2
    else:
        xs[1] = xs[1] * 3
    return len(xs)


@table.runs(({"h": X},), ({"h": -X},), plans=1)
def argument_dict_is_changed(state):
    if state["h"][0] > 0:
        state["h"] = state["h"] * 2
    for _ in range(3):
        state["h"] = state["h"] + 1
    state["new"] = state["h"] * 0
    return state


@table.runs(*COUNTS)
def comparison_of_lengths(n):
    ys = [hy.ones(2)]
    while len(ys) < 4:
        ys.append(ys[-1] * n)
    return ys


@table.runs(*ROWS)
def two_dimensional_outputs(x):
    grid = []
    for i in range(3):
        line = []
        for j in range(2):
            line.append(x[i, j] * i + j)
        grid.append(hy.stack(line))
    return hy.stack(grid)


@table.runs(X)
def history_is_read_in_the_loop(x):
    ys = [x, x * 2]
    for i in range(2, 6):
        ys.append(ys[i - 1] * 0.5 + ys[i - 2])
    return ys


@table.runs(X)
def stack_methods(x):
    stack = [x]
    for i in range(4):
        top = stack.pop()
        stack.append(top * 2)
        stack.append(top + i)
    return stack


@table.runs(*ROWS)
def memo(x):
    known = {}

    def row(i):
        if i not in known:
            known[i] = hy.sum(x[i])
        return known[i]

    return row(0) + row(1) + row(0), len(known)


@table.runs(*NUMBERS)
def updated_and_bound_anew_in_a_loop(x):
    d, e = {"a": x, "b": x * 3}, {"c": x}
    for _ in range(2):
        e.update(d)
        e = {**e, "b": -x}
        d["c"] = x + 1
    return d, e, list(e)


@table.runs(*NUMBERS)
def order_settled_in_a_loop(x):
    d = {"a": x, "b": x * 2}
    while x < 4:
        d = {"b": d["b"] + 1, "a": d["a"] * 2}
        x = x + 1.5
    return d["a"], d["b"], x


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
