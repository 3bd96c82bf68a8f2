"""Names of one tensor in loops, of which some iterations bind one anew, and some write to it."""

from __future__ import annotations

from types import SimpleNamespace

import hybrid as hy
from tests.staging.harness import Program, Table, f32, i64

table = Table()
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0, 7.0)]


def several(*functions):
    for function in functions:
        table.runs(*NUMBERS)(function)


def bound_under_a_condition(x):
    x = x * 1
    y = x
    for _ in range(3):
        if y < 0:
            y = -y
        x += 1
    return y, x


def another_row(x):
    rows = [x * 1, x * 2 + 20]
    cur = rows[0]
    while cur < 10:
        cur += 3
        if cur > 5:
            cur = rows[1]
    return rows, cur


def kept_while_bound_anew(x):
    keep = best = x * 1
    for _ in range(3):
        best += 1
        if best > 3:
            best = best * 1
    return keep, best


@table.runs(*NUMBERS, covered=False)
def the_best_so_far(x):
    """Eagerly ``best`` is ``w`` throughout, so that it is never better."""
    w = x * 1
    best = w
    for _ in range(3):
        w -= 0.5
        if w * w < best * best:
            best = w
    return w, best


def the_best_so_far_from_none(x):
    w = x * 1
    best, least = None, 1e9
    for _ in range(3):
        w -= 0.5
        loss = w * w
        if loss < least:
            best, least = w, loss
    return w, best, least


def the_best_copy(x):
    w = x * 1
    best = w * 1
    for _ in range(3):
        w -= 0.5
        if w * w < best * best:
            best = w * 1
    best += 1
    return w, best


def bound_anew_at_the_end(x):
    s = x * 1
    t = s
    while s < 10:
        s += 3
        if s > 6:
            s = s * 1
    return s, t


def written_after_a_while(x):
    s = x * 1
    t = s
    while s < 1:
        s = s + 3
    s += 1
    t *= 2
    return s, t


def a_total_beside_a_name(x):
    x = x * 1
    total, out = x, []
    for q in range(3):
        total += q
        out.append(total)
        if x > 1:
            x = x * 1
    return total, out, x


def three_names_go_round(x):
    a, b, c = x * 1, x * 2, x * 3
    first, second = a, b
    for i in range(4):
        if x > i - 2:
            a, b, c = b, c, a
        a += 1
        b *= 2
    return a, b, c, first, second


def both_new_in_some_iteration(x):
    y, z = x * 1, x * 2
    for i in range(4):
        y += 1
        if x > i - 1:
            y = z = y * 2
        z -= 3
    y *= 2
    return y, z


def one_after_another(x):
    c = x * 1
    i, j = x * 2, x * 3
    for k in range(4):
        i *= 2
        if x > k - 2:
            i = j
            j = c
        c += 1
    i += 10
    return c, i, j


def states_swapped(x):
    cur, nxt = hy.stack([x, x]), hy.zeros(2)
    keep = cur
    for i in range(4):
        nxt[0] = cur[1] + i
        if x > 0:
            cur, nxt = nxt, cur
        cur[1] += 1
    return cur, nxt, keep


def appended_and_written_next_time(x):
    h, hs = x * 1, []
    for i in range(3):
        hs.append(h)
        h += 1
        if x > i:
            h = h * 1
    return hs, h


def the_last_of_a_list(x):
    h, hs = x * 1, []
    for _ in range(3):
        h = hy.tanh(h)
        hs.append(h)
    h += 1
    hs[0] *= 2
    return hs, h


def the_last_of_a_list_read_only(x):
    h, hs = x * 1, []
    for _ in range(3):
        h = hy.tanh(h)
        hs.append(h)
    h = h + 1
    return hs, h


def in_an_inner_loop(x):
    w = x * 1
    best = w
    for i in range(3):
        for _ in range(2):
            w += 0.5
            if w > i:
                best = w
            if w > 2:
                w = w * 0.5
        best -= 1
    return w, best


def left_behind(x):
    a = x * 1
    y = x * 2
    for i in range(3):
        y = a if x > i else a * 2
        a = a + 1
    y += 1
    a *= 2
    return a, y


def found_at_a_break(x):
    rows = [x * 1, x * 2, x * 3]
    found = rows[2]
    for row in rows:
        if row > 1:
            found = row
            break
    found += 10
    rows[0] *= 2
    return rows, found


def the_largest_of_a_list(x):
    rows = [x * 1, 3 - x, x * 2]
    best = rows[0]
    for row in rows[1:]:
        if row > best:
            best = row
    best += 100
    return rows


def an_attribute_and_what_it_was(x):
    s = SimpleNamespace(h=x * 1, prev=x * 1)
    for _ in range(3):
        s.prev = s.h
        if s.h < 3:
            s.h = s.h + 1
        s.h *= 2
    return s.h, s.prev


def first_iteration_binds(x):
    a = x * 1
    y = None
    for i in range(3):
        if x > 0:
            y = a
        a += i
    return a if y is None else a + y


def items_of_a_list(x):
    xs = [x * 1, x * 2]
    first = xs[0]
    for i in range(3):
        xs[0] += 1
        if x > i:
            xs[0] = xs[1]
    first *= 2
    return xs, first


@table.runs(*NUMBERS, covered=False)
def in_a_try_that_catches_all(x):
    """Nothing is raised; what the capture asks for by an exception is no matter of the clause."""
    y = x * 1
    best = y
    try:
        while x < 4:
            y -= 0.5
            if y > 0:
                best = y
            else:
                y = y * 2
            best += 1
            x = x + 1
    except BaseException:
        return x * 0, x * 0
    return y, best


def a_list_made_anew_of_one_tensor(x):
    y = x * 1
    xs = [y, y]
    while x < 4:
        xs[0] += 1
        xs = [xs[0], xs[1] * 1]
        xs[1] += 2
        x = x + 1
    return y, xs


several(
    bound_under_a_condition, another_row, kept_while_bound_anew, a_list_made_anew_of_one_tensor,
    the_best_so_far_from_none, the_best_copy, bound_anew_at_the_end, written_after_a_while,
    a_total_beside_a_name, three_names_go_round, both_new_in_some_iteration, one_after_another,
    states_swapped, appended_and_written_next_time, the_last_of_a_list,
    the_last_of_a_list_read_only, in_an_inner_loop, left_behind, found_at_a_break,
    the_largest_of_a_list, an_attribute_and_what_it_was, first_iteration_binds, items_of_a_list,
)  # fmt: skip


@table.runs(*[(x, i64(n)) for x in NUMBERS for n in (0, 1, 3)])
def as_often_as_told(x, n):
    w = x * 1
    best = w
    for _ in range(n):
        w += 0.5
        if w > 1:
            best = w * 1
    best += 1
    w *= 3
    return w, best


@table.runs(*[(x, i64(n)) for x in NUMBERS for n in (0, 1, 3)])
def bound_in_every_iteration(x, n):
    w = x * 1
    y = w
    for _ in range(n):
        y = w * 2
        w = y
    w += 1
    y *= 2
    return w, y


@table.runs(*NUMBERS)
def a_list_that_has_grown_goes_on(x):
    """Its rows are carried, and nobody writes to those."""
    hs, y = [], x * 1
    while y < 3:
        y = y + 1
        hs.append(y)
    for i in range(3):
        if x > i:
            hs = [*hs, y]
        y = y * 2
    return sum(hs, x), len(hs)


def taken_by_an_inner_loop(x):
    a, b = x * 1.0, x * 0.5 + 1.0
    for _ in range(3):
        b -= 0.25
        for _ in range(3):
            a = max(a, b)
    return a + b * 2.0, a


def taken_by_an_inner_loop_of_a_while(x):
    a, b, k = x * 1.0, x * 0.5 + 1.0, 0
    while k < 3:
        b -= 0.25
        k += 1
        for _ in range(2):
            if b > a:
                a = b
    return a + b * 2.0, a


def taken_by_a_branch_of_a_branch(x):
    a, b = x * 1.0, x * 0.5 + 1.0
    for k in range(3):
        b -= 0.25
        if x > 0.1 * k:
            c = b * 2.0
            if b > 1.0:
                a = b
            b = b + c * 0.1
    return a + b * 2.0, a


def written_after_nested_loops(x):
    a, b, w = x * 2.0, x * 0.5, x * 0.25
    for _ in range(2):
        for k in range(3):
            a = a if a > 0.3 * k else w
            a, b = b, a
    w += 1.0
    return a, b, w


def written_after_a_loop_in_a_branch(x):
    a, b, w = x * 2.0, x * 0.5, x * 0.25
    if x > 0:
        for k in range(3):
            a = a if a > 0.3 * k else w
            a, b = b, a
    w += 1.0
    return a, b, w


def asked_who_it_is(x):
    a, b = x * 2.0, x * 0.5
    for k in range(3):
        if b is a:
            b = b + 1.0
        if x > 0.3 * k:
            b = a
    return a, b


def one_loop_for_each_of_two_names(x):
    w, a, b = x * 2.0, x * 1.0, x + 1.0
    k = 0
    while k < 3 and b < 90:
        k += 1
        for j in range(3):
            w += 1.0
            a = b if x > 0.2 * j else a
        a = b if x > 1 else a
    return w, a + b


several(
    written_after_nested_loops,
    written_after_a_loop_in_a_branch,
    asked_who_it_is,
    one_loop_for_each_of_two_names,
    taken_by_an_inner_loop,
    taken_by_an_inner_loop_of_a_while,
    taken_by_a_branch_of_a_branch,
)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


slope = hy.grad(lambda q: -0.5 * (q[0] ** 2 + 4 * (q[1] - q[0] ** 2) ** 2))


def leaps_beside_random_draws(q, n):
    samples = []
    for _ in range(n):
        p = hy.random.normal(size=q.shape)
        new = q
        for i in range(8):
            new = new + 0.1 * p
            if i != 7:
                p = p + 0.1 * slope(new)
        if hy.random.uniform() < 0.9:
            q = new
        samples.append(q)
    return hy.stack(samples)


def test_state_of_another_type_keeps_no_loop_from_being_a_node() -> None:
    """What is written in each iteration, the state of draws, cannot be the tensor in doubt."""
    q, lines = hy.zeros(2), []
    f = hy.hybridize(leaps_beside_random_draws)
    for n in (5, 12):
        hy.random.seed(1)
        expected = leaps_beside_random_draws(q, n)
        hy.random.seed(1)
        assert f(q, n).numpy().tobytes() == expected.numpy().tobytes()
        lines.append(len(str(hy.hybridize(leaps_beside_random_draws).graph(q, n)).splitlines()))
    assert lines[0] == lines[1] < 120
