"""Terms of a gradient are added in the order of eager code where a loop carries one value twice."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, draw, i64
from tests.trace.gradients.test_order import mixed

table = Table()
ROWS = tuple([(draw(5, seed=n), draw(4, 5, seed=n + 99)) for n in (1, 2, 3, 4, 5, 6)])
COUNTED = tuple([(x, rows, i64(n)) for (x, rows), n in zip(ROWS, (0, 1, 2, 4, 4, 3), strict=True)])


@table.runs(*ROWS)
def a_name_for_the_last_that_is_added_to_it(x, rows):
    t, last = hy.sum(x), x[0] * 1.0
    for row in rows:
        t = t + row[0]
        last = t or last
    return x * 0.5 * (last * 1.1 + last * 0.3 + last * 0.7), last + t


@table.runs(*ROWS)
def the_best_state(x, rows):
    h, best = x, x * 2.0
    for row in rows:
        h = hy.tanh(h * row) + h
        best = h if hy.sum(h) > 0.5 else best
    return mixed(best, h, x)


@table.runs(*ROWS)
def the_best_state_of_which_the_next_is_made(x, rows):
    h = best = x
    for row in rows:
        h = hy.tanh(h * best) + h * best * row
        best = h if hy.sum(h) > 0.5 else best
    return mixed(best, h, x)


@table.runs(*COUNTED)
def a_state_beside_what_it_stays_for_a_while(x, rows, n):
    y, z = x, x * 0.5
    for i in range(n):
        z = z + hy.sin(y * rows[i]) * x * y
        y = y if hy.sum(rows[i]) > -1.0 else hy.sin(y)
    return mixed(z, y, x)


@table.runs(*COUNTED)
def the_last_three_or_some_of_them(x, rows, n):
    a, b, c = x, x * 2.0, x * 3.0
    for i in range(n):
        new = hy.sin(a * rows[i]) * b + c * a
        if hy.sum(rows[i]) > 0:
            c = b
            b = a
        elif rows[i][0] > 0:
            c = a
        a = new
    return mixed(a, b, c)


@table.runs(*COUNTED)
def two_names_that_one_value_had_before(x, rows, n):
    a, b = x, x * 2.0
    c = a if hy.sum(x) > 0 else b
    for i in range(n):
        b = hy.sin(a * rows[i]) * c + b * a
        c = c if rows[i][0] > 0 else a
        a = a if rows[i][1] > 0 else b
    return mixed(a, b, c)


@table.runs(*COUNTED)
def a_name_that_becomes_another_one_and_stays_it(x, rows, n):
    z, a, d = x * 0.1, x * 1.5, x * 2.0
    for i in range(n):
        if hy.sum(x * rows[i]) > -0.14:
            d = x
        z = z + d * x
        a = hy.tanh(a) * d + a
    return z + a * 0.91


@table.runs(*COUNTED)
def a_name_that_is_an_old_value_of_another(x, rows, n):
    a, c = x * 2.0, x
    b = a
    for i in range(n):
        if rows[i][1] > 0.44:
            b = hy.sin(b * 0.89)
        else:
            c = a
        d = hy.tanh(c) * c + c
        a = a + c * d if rows[i][0] > 0 else b
    return mixed(a, b, c)


@table.runs(*ROWS)
def until_the_best_is_good(x, rows):
    h = best = x
    n = 0
    while hy.sum(best * best) < 20.0 and n < 4:
        h = hy.tanh(h * best) * 2.0 + h * rows[n]
        best = h if hy.sum(h) > 0.0 else best
        n += 1
    return mixed(best, h, x)


@table.runs(*ROWS)
def loops_in_a_loop(x, rows):
    h = best = x
    for row in rows:
        kept = h
        for k in range(3):
            h = hy.sin(h * row) * best + kept * h * k
            kept = h if h[0] > 0 else kept
        best = kept if hy.sum(h) > 0.0 else best
    return mixed(best, h, kept)


@table.runs(*ROWS)
def an_old_value_in_the_rows_of_a_list(x, rows):
    h, best, found = x, x * 2.0, []
    for row in rows:
        h = hy.tanh(h * row) + h * best
        best = h if hy.sum(h) > 0.5 else best
        found.append(best * row)
    return sum(found) + mixed(best, h)


@table.runs(*ROWS)
def a_window_beside_a_number_that_python_computes(x, rows):
    v, xs, i = x + x, [x * 3.0, x + 1.0], 1
    for _ in range(3):
        xs = [*xs[1:], v]
        i = i + (i * i % 7)
    return v * 0.5 + sum(xs) * rows, i


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


@pytest.mark.parametrize("budget", [0, 200])
def test_stacks_that_do_not_fit(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of unknown length is run again, block by block."""
    monkeypatch.setattr("hybrid.config.RESIDUAL_NBYTES", budget)

    def f(x):
        h = best = x
        n = hy.zeros((), dtype=hy.int64)
        while n < 50:
            h = hy.tanh(h * best) + h * 0.9
            best = h if hy.sum(h) > n * 0.05 else best
            n = n + 1
        return hy.sum(mixed(best, h, x))

    for x, _ in ROWS:
        expected = hy.grad(f)(x).numpy().tobytes()
        assert hy.grad(hy.hybridize(f))(x).numpy().tobytes() == expected


def test_python_is_not_called_again() -> None:
    calls = []

    def scaled(row):
        calls.append(1)
        return row * 0.5

    def f(x, rows):
        h = best = x
        for row in rows:
            h = hy.tanh(h * hy.py_call(scaled, row, result=row.type)) + h * best
            best = h if hy.sum(h) > 0.5 else best
        return hy.sum(mixed(best, h, x))

    for x, rows in ROWS:
        expected = hy.grad(f)(x, rows).numpy()
        calls.clear()
        found = hy.grad(hy.hybridize(f))(x, rows).numpy()
        assert len(calls) == len(rows)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_name_that_begins_without_a_history() -> None:
    """No gradient is asked for what it is at first, and later it is the one that is asked for."""

    def f(x, start, n):
        a, b = x * 1.0, start
        for i in range(5):
            a, b = 1 / (hy.tanh(hy.tanh(x)) * hy.sin(a * 0.7 - b) + 1.5), x
            if i + 1 >= n:
                break
        return hy.sum(a * a + b * b)

    call = hy.hybridize(hy.grad(f))
    for seed in range(8):
        x, start = draw(5, seed=seed), draw(5, seed=seed + 99)
        for n in (1, 2, 3, 5):
            expected = hy.grad(f)(x, start, i64(n)).numpy().tobytes()
            assert call(x, start, i64(n)).numpy().tobytes() == expected
