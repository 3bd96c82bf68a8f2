"""Slices that begin where only the run knows: of a fixed length they work, else they say so."""

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, describe, draw, f32, i64

table = Table()
V = f32([float(v) for v in range(8)])
M = draw(6, 4)


@table.runs(V, -V)
def in_a_loop(v):
    total = hy.zeros(3)
    for i in range(6):
        total = total * 0.5 + v[i : i + 3]
    return total


@table.runs(V)
def blocks(v):
    total = hy.zeros(2)
    for i in range(3):
        total = total * 0.5 + v[2 * i : 2 * i + 2] * v[2 * (i + 1) : 2 * (i + 1) + 2]
    return total


@table.runs(*[(V, i64(n)) for n in (0, 1, 4)])
def in_a_loop_of_unknown_length(v, n):
    total = hy.zeros(2)
    for i in range(n):
        total = total * 0.5 + v[i : i + 4 : 2]
    return total


@table.runs(*[(V, i64(n)) for n in (2, 0, 6, -8, -3)])
def anywhere(v, n):
    k = int(n)
    return v[k : k + 2], v[n : n + 2], v[k:k]


@table.runs(*[(M, i64(n)) for n in (1, 0, 2)])
def beside_other_indices(m, n):
    k = n.item()
    return m[:, k : k + 2], m[k : k + 2, 1], m[..., k : k + 1], m[k + 1 : k + 3, None, k : k + 2]


@table.runs(*[(V, i64(n)) for n in (0, 1, 4)])
def written(v, n):
    v = v * 1
    for i in range(n):
        v[i : i + 2] = v[i : i + 2] * 2
    return v


@table.runs(*[(M, i64(n)) for n in (1, 0, 2)])
def written_beside_other_indices(m, n):
    k = int(n)
    m = m * 1
    m[k : k + 2, 1] = m[0, k : k + 2]
    m[1, k : k + 2] += 1
    return m


@table.runs(V)
def of_known_length_by_unrolling(v):
    total = hy.zeros(())
    for i in range(4):
        total = total + hy.sum(v[:i])
    return total


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def head(v, n):
    return v[:n]


def tail(v, n):
    return v[int(n) :]


def between(v, n):
    return v[n : 2 * n]


def every(v, n):
    return v[:: int(n)]


@pytest.mark.parametrize("function", [head, tail, between, every])
def test_an_unknown_length_is_a_size(function) -> None:
    hybridized = hy.hybridize(function)
    for n in (2, 1, 3, 2):
        assert describe(hybridized(V, i64(n))) == describe(function(V, i64(n)))


def two(v, n):
    return v[n : n + 2]


def two_of_a_number(v, n):
    return two(v, int(n))


def two_set(v, n):
    v = v * 1
    v[n : n + 2] = 7.0
    return v


def three_on_one_path(v, n):
    return v[n : n + 3].sum() if n > 2 else v.sum()


def three_from_each(v, n):
    total = hy.zeros(()) * n
    for i in range(len(v)):
        total = total + v[i : i + 3].sum()
    return total


def three_from_some(v, n):
    total = hy.zeros(())
    while n < 8:
        total = total + v[n : n + 3].sum()
        n = n + 2
    return total


@pytest.mark.parametrize(
    "function", [two, two_of_a_number, two_set, three_on_one_path, three_from_each, three_from_some]
)
def test_a_slice_is_cut_short_as_in_python(function) -> None:
    hybridized = hy.hybridize(function)
    for n in (0, 7, 1, 8, -1, -2, 3, -9, 7, 12, 0):
        assert describe(hybridized(V, i64(n))) == describe(function(V, i64(n)))
    assert len(hybridized.plans) <= 8  # before and behind both ends, and across them


def test_a_number_among_the_arguments_cuts_a_slice_short() -> None:
    hybridized = hy.hybridize(two)
    for n in (0, 1, 5, 7, 1, 8, -1):
        assert describe(hybridized(V, n)) == describe(two(V, n))


def test_gradients_of_a_slice_that_is_cut_short() -> None:
    def loss(v, n):
        return (v[n : n + 2] ** 2).sum()

    found = hy.hybridize(hy.grad(loss))
    for n in (0, 7, 1, 8):
        assert describe(found(V, i64(n))) == describe(hy.grad(loss)(V, i64(n)))


def test_what_was_written_before_a_slice_is_cut_short_is_written_once() -> None:
    count = hy.zeros(())

    @hy.hybridize
    def counted(v, n):
        count.assign(count + 1)
        return v[n : n + 2]

    for calls, n in enumerate((0, 1, 7, 8, 0), 1):
        assert describe(counted(V, i64(n))) == describe(two(V, i64(n)))
        assert count.item() == calls


@pytest.mark.parametrize("begin", [7, 8, -1, -2, -9])
def test_a_slice_is_not_cut_short_behind_a_call_of_python(begin: int) -> None:
    def f(v, n):
        print("here")
        return v[n : n + 2]

    hybridized = hy.hybridize(f)
    hybridized(V, i64(0))
    line = f.__code__.co_firstlineno + 2
    with pytest.raises(CaptureError) as caught:
        hybridized(V, i64(begin))
    assert str(caught.value) == (
        f"a slice of 2 elements from {begin} on does not fit an axis of size 8 "
        f"({__file__}:{line})\n"
        f"    {line} | return v[n : n + 2]\n"
        "Shapes in a graph are fixed. Eagerly the slice would be cut short here.\n"
        "Fix: let the slice begin where all of it fits, or pad the tensor."
    )
