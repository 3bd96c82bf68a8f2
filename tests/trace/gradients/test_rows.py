"""Lists whose items are values that loops carry: each use of such a value is one term, in order."""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
ROWS = (draw(5, 3, seed=1), draw(3, seed=2))
COUNTED = tuple([(draw(3, seed=s), i64(n)) for s, n in enumerate((0, 1, 4))])
LIMITED = tuple([(draw(3, seed=s), f32(n)) for s, n in enumerate((-1.0, 0.5, 4.0))])


def cell(x, h):
    """A step that uses the old state more than once."""
    z = hy.sigmoid(x * h)
    return (1 - z) * hy.tanh(x + h) + z * h


def used(*xs):
    """Each of ``xs`` twice, by turns."""
    total = xs[0] * 0.1
    for k in (0.3, 1.1):
        for j, x in enumerate(xs):
            total = total + hy.sin(x * (k + j)) * x
    return total


@table.runs(ROWS)
def attention_over_the_states(xs, h):
    hs = []
    for x in xs:
        h = cell(x, h)
        hs.append(h)
    memory = hy.stack(hs)
    w = hy.softmax(hy.sum(memory * h, axis=1), axis=0)
    return hy.sum(hy.expand_dims(w, 1) * memory, axis=0), hs[-1], used(h, hs[-1])


@table.runs(ROWS)
def states_before_the_update(xs, h):
    hs, first = [], h
    for x in xs:
        hs.append(h)
        h = cell(x, h)
    memory = hy.stack(hs)
    return used(h, hs[0], first, hs[1]) + hy.sum(memory * h * first, axis=0)


@table.runs(ROWS)
def the_stack_between_uses(xs, h):
    hs = []
    for x in xs:
        h = cell(x, h)
        hs.append(h)
    a = used(hs[-1], h)
    memory = hy.stack(hs)
    b = used(hs[2], hs[-1], h)
    c = hy.sum(memory * a * b, axis=0)
    again = hy.stack(hs)
    return c + hy.sum(again * memory, axis=0) + used(hs[2], memory[2])


@table.runs(ROWS)
def single_states(xs, h):
    hs = []
    for x in xs:
        h = cell(x, h)
        hs.append(h)
    return used(hs[1], hs[3]) + used(hs[1], h)


@table.runs(ROWS)
def unused_roots(xs, h):
    hs = []
    for x in xs:
        h = hy.relu(h - 10.0) + x * 0.0
        hs.append(hy.sqrt(h))
    return hs[-1] * 0.0 + hy.sum(xs, axis=0) + h


@table.runs(ROWS)
def summed_states(xs, h):
    hs = []
    for x in xs:
        h = cell(x, h)
        hs.append(h)
    return sum(hs, h * 0.5) + used(h, hs[0]) + sum(hs)


@table.runs(ROWS)
def two_lists_of_one_state(xs, h):
    a, b = [], []
    for x in xs:
        h = cell(x, h)
        a.append(h)
        b.append(h)
    return used(a[-1], b[-1], h, a[1], b[1]) + hy.sum(hy.stack(a) * hy.stack(b), axis=0)


@table.runs(ROWS)
def before_and_after(xs, h):
    old, new = [], []
    for x in xs:
        old.append(h)
        h = cell(x, h)
        new.append(h)
    return used(old[1], new[0], old[0], new[-1], h) + hy.sum(hy.stack(old) * hy.stack(new), axis=0)


@table.runs(ROWS)
def windows_of_states(xs, h):
    hs = []
    for x in xs:
        h = cell(x, h)
        hs.append(h)
    return used(*hs[1:4]) + used(*hs[::-1]) + used(h, *hs[-2:])


@table.runs(ROWS)
def states_and_made_values(xs, h):
    hs, ys = [], []
    for x in xs:
        h = cell(x, h)
        y = h * x
        hs.append(h)
        ys.append(y)
        h = h + y * 0.1
    return used(hs[-1], ys[-1], h, hs[0]) + hy.sum(hy.stack(hs) * hy.stack(ys), axis=0)


@table.runs(ROWS)
def pairs_of_states(xs, h):
    c, found = h * 0.5, []
    for x in xs:
        h, c = cell(x, c), cell(x, h)
        found.append((h, c))
    (a, b), (d, e) = found[0], found[-1]
    return used(a, b, d, e, h, c) + sum([p * q for p, q in found])


@table.runs(*COUNTED)
def counted_states(x, n):
    h, hs = x, []
    for _ in range(n):
        h = cell(x, h)
        hs.append(h)
    total = used(h, x)
    for y in hs:
        total = total + y * h
    return total, hs


@table.runs(*COUNTED)
def counted_states_before(x, n):
    h, hs = x, []
    for _ in range(n):
        hs.append(h)
        h = cell(x, h)
    total = used(h, x)
    for y in hs:
        total = total + y * h * y
    return total


@table.runs(*[(v, i64(n)) for v in (draw(3, seed=5), draw(3, seed=6)) for n in (2, 0, 1, 3)])
def lists_of_unknown_length_in_each_other(x, n):
    h, outer = x, []
    for i in range(n):
        inner = []
        for _ in range(i + 2):
            h = h + x
            inner.append(hy.tanh(h))
        h = sum(inner, h) * 0.3
        outer.append(inner[0] * h)
    return h + sum(outer), outer


@table.runs(*COUNTED)
def counted_states_by_index(x, n):
    h, hs = x, [x]
    for _ in range(n):
        h = cell(x, h)
        hs.append(h)
    last = hs[-1]
    return used(hs[n // 2], h, last, hs[n], x, hs[n // 2])


@table.runs(*LIMITED)
def states_until(x, limit):
    h, hs, n = x, [x * 2.0], 0
    while hy.sum(h * h) < limit + n and n < 6:
        h = cell(x, h) * 1.5
        hs.append(h)
        n += 1
    return used(hs[-1], h, hs[0], hs[n]) + sum(hs, h)


@table.runs(*LIMITED)
def states_until_before(x, limit):
    h, hs, n = x, [], 0
    while hy.sum(h * h) < limit + n and n < 6:
        hs.append(h)
        h = cell(x, h) * 1.5
        n += 1
    total = used(h, x)
    for y in hs:
        total = total + y * h * y
    return total


@table.runs(*LIMITED)
def states_in_a_branch(x, limit):
    h = x
    if hy.sum(x) > limit - 3.0:
        hs = []
        for k in range(4):
            h = cell(x * k, h)
            hs.append(h)
        y = used(h, hs[-1], hs[1]) + hy.sum(hy.stack(hs) * h, axis=0)
    else:
        y = h
    return used(y, h)


@table.runs(*LIMITED)
def states_of_a_loop_in_a_loop(x, limit):
    h = x
    for _ in range(3):
        hs = []
        for k in range(4):
            h = cell(x * k, h)
            hs.append(h)
        h = hy.tanh(used(h, hs[-1], hs[1]) + hy.sum(hy.stack(hs) * h, axis=0)) * limit
    return h


@table.runs(ROWS)
def a_name_that_follows_the_rows(xs, x):
    last = kept = x * 1.0
    for row in xs:
        last = row
        if hy.sum(row) > 0.0:
            kept = last
    return last + (last + x) * kept


@table.runs(ROWS)
def rows_times_zero(xs, x):
    found = x
    for row in xs:
        found = hy.sin(x + row[0] * 0.0)
    return found * x


@table.runs(ROWS)
def a_row_or_what_was_before(xs, x):
    kept = x * 1.0
    for at in range(len(xs) - 1):
        kept = kept if hy.sum(xs[at] * xs[at + 1]) > 0.0 else xs[0]
    return used(kept, xs[0], x)


@table.runs(*[(draw(3, seed=n), f32(at)) for n in range(3) for at in (-2.0, 0.5, 4.0)])
def an_item_that_an_attribute_becomes(x, s):
    v0, v1, count = x * 1.0, x * 2.0, 0
    xs, held = [x * 3.0, x + 1.0], SimpleNamespace(v=x * 0.25)
    while count < 3 and xs:
        count += 1
        v0 = held.v
        xs[0] += 1.0
        if -1.0 < s < 1.5:
            v0 = v0 * 1.0
            break
        else:
            held.v = v1
            v1 = xs[0]
    return v0 * 0.5 + held.v + (x - 1.0) + sum(xs)


@table.runs(*[(draw(3, seed=n), i64(2 + n % 2), f32(0.5 * n)) for n in range(6)], covered=False)
def the_first_of_a_list_that_may_lose_it(x, n, s):
    v0, v1, ys = x * 2.0, x, []
    xs = [v0, x + 1.0]
    for _ in range(n):
        v0, v1 = v1, v0
        if hy.sum(v0) > 9.0 + s:
            xs = [*xs[1:], v0]
        ys.append(xs[0])
    v0 = v0 * v1 + sum(ys, v1 * 1.0) * v0
    return v0 * 0.5 + sum(xs)


@table.runs(*[(draw(3, seed=n), draw(seed=n + 9)) for n in range(3)])
def rows_that_stay_one_tensor(x, s):
    kept, total, ys = x, s * 2.0, []
    for _ in range(3):
        kept = kept
        total = hy.sum(kept)
        ys.append(kept)
    kept = sum(ys, kept * 1.0)
    return kept * 0.5 + x * 0.25 + (x - 1.0), total


@table.runs(*[(draw(3, seed=n), draw(seed=n + 9)) for n in range(3)])
def pairs_of_what_stays_and_what_does_not(x, s):
    kept, pairs = x, []
    for _ in range(3):
        s = hy.sin(s) + hy.sum(kept)
        kept = kept
        pairs.append((kept, s))
    return [a * b for a, b in pairs], pairs[1][0]


PLACES = [(draw(3, seed=n), f32(at)) for n in range(3) for at in (-1.0, 0.5)]


@table.runs(*PLACES, covered=False)
def an_item_of_one_path_that_is_replaced(x, s):
    v, w, xs = x + x, x * 2.0, [x * 3.0]
    if s > 0:
        xs.append(v)
        if s > s:
            xs[-1] = w
    return v * 0.5 + v + sum(xs)


@table.runs(*PLACES, (draw(3, seed=1), f32(2.0)))
def an_item_of_one_path_that_is_one_of_two(x, s):
    v, w, xs = x + x, x * 2.0, [x * 3.0]
    if s > 0:
        if s > 1:
            xs.append((w, s))
        else:
            xs.append((v, s + 1.0))
    rest = xs[1:]
    return v * 0.5 + v + xs[0] + sum([a * b for a, b in rest]), len(rest)


@table.runs(*[(draw(2, 3, seed=1), f32(at), draw(3)) for at in (1.0, -1.0)])
def rows_that_no_iteration_comes_to(rows, s, z):
    total = z * 2
    for row in rows:
        if s > 0:
            total = total + row
    return total


@table.runs(*[(hy.abs(draw(3, seed=1)) * sign,) for sign in (1.0, -1.0)])
def a_sum_that_no_iteration_comes_to(x):
    total = hy.zeros(3)
    for row in hy.stack([x, x * 2]):
        if hy.sum(row) > 0:
            x = x + row
            total = total + x
    return total, x


WHOLE = [(hy.abs(draw(4, seed=1)), f32(s)) for s in (0.5, 1.5, -1.0)]


@table.runs(*WHOLE)
def rows_of_what_is_used_as_a_whole_on_one_path(x, s):
    v = x
    if s > 1:
        v = x * 2
    rows = []
    for row in x:
        rows.append(row * hy.sum(v))
    return hy.stack(rows)


@table.runs(*WHOLE)
def rows_of_what_a_loop_may_have_bound(x, s):
    v = x
    for k in range(3):
        if s > k:
            rows = []
            for j in range(len(x)):
                rows.append(x[j] * hy.max(v))
            v = hy.stack(rows)
            break
        v = x
    return v


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
