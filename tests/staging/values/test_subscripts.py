"""Lists, tuples and dicts subscripted and ordered by what only the run knows."""

import operator

import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = [f32(v) for v in (5.0, 1.0, -2.0)]
ROWS = [f32(v) for v in ([1.0, 3.0, -2.0], [-1.0, -3.0, -2.0], [-1.0, 2.0, 5.0])]


# What is ordered by its keys --------------------------------------------------------------------


@table.runs(*NUMBERS)
def pairs_in_order(x):
    d = {"b": x, "a": x * 2, "c": x - 1}
    pairs = [(2, x), (1, -x)]
    pairs.sort()
    return {k: v for k, v in sorted(d.items())}, max(d.items()), min(d.items()), pairs


@table.runs(*NUMBERS)
def pairs_in_order_by_a_key(x):
    pairs = [("b", x), ("a", x * 2), ("c", x * 3)]
    by_name = sorted(pairs, key=lambda p: p[0], reverse=True)
    return by_name, max(pairs, key=operator.itemgetter(0)), sorted([("a", x), ("a", x)])


# Subscripts that only the run knows -------------------------------------------------------------

AT = [f32(v) for v in ([1.0, 2.0, 0.0], [0.0, 5.0, 1.0], [-1.0, 1.0, 2.0], [7.0, 1.0, 2.0])]


@table.runs(*AT, grad=False)
def number_at(x):
    i = int(x[0])
    return [10, 20, 30][i], (0.5, 1.5, 2.5)[i], [True, False, True][i]


@table.runs(*AT)
def item_at(x):
    rows = [x[0] * 2, x[1], x[2]]
    return rows[int(x[0])], (x[1], x[2])[int(x[2]) - 1]


@table.runs(*AT)
def item_stored_at(x):
    rows, numbers = [x[0] * 2, x[1], x[2]], [1, 2, 3]
    i, j = int(x[0]), int(x[2])
    rows[i] = x[1] * 10
    rows[i], rows[j] = rows[j], rows[i]
    numbers[j] += 5
    return rows, numbers


@table.runs(*AT)
def insertion_sort(x):
    a = [v for v in x]
    for i in range(1, len(a)):
        key, j = a[i], i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return hy.stack(a)


@table.runs(*AT, grad=False)
def numbers_as_keys(x):
    n = int(x[0])
    table_ = {0: 0.5, 1: 1.5, 7: 2.5}
    seen = n in {0, 1}, n in table_, n not in frozenset({1.0, 2})
    return seen, table_.get(n, -1.0), table_.get(n + 1, 0.25)


@table.runs(*AT)
def looked_up_by_a_number(x):
    return {0: x, 1: x * 2, 7: x * 3}[int(x[0])]


@table.runs(*ROWS)
def histogram(x):
    counts = {0: 0, 1: 0}
    for v in x:
        k = 1 if v > 0 else 0
        counts[k] = counts.get(k, 0) + 1
    return counts


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_a_write_to_the_only_item_leaves_no_history() -> None:
    """Wherever the index is: what was there before has no gradient."""

    def program(x: hy.Tensor, k: int, value: hy.Tensor) -> hy.Tensor:
        y = x * 2
        y[k] = value
        return y

    hybridized = hy.hybridize(program)
    for k in (0, -1, 0, -1):
        for size, depends in ((1, False), (2, True)):
            x, value = hy.ones(size), hy.asarray(3.0)
            x.requires_grad = True
            expected, found = program(x, k, value), hybridized(x, k, value)
            assert found.requires_grad == expected.requires_grad == depends
            assert found.tolist() == expected.tolist()
    value.requires_grad = True
    found = hybridized(hy.ones(1), -1, value)
    found.backward(hy.ones(1))
    assert value.grad.item() == 1.0
    with pytest.raises(IndexError):
        hybridized(hy.ones(1), 1, value)
