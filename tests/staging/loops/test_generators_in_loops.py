"""Loops over what the author's code makes item by item, and that break on the value of a tensor."""

from __future__ import annotations

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32

table = Table()
CALLS = [f32([1.0]), f32([0.1]), f32([-1.0]), f32([10.0])]


def doubled(v, count=5):
    for _ in range(count):
        v = v * 2
        yield v


class Doubles:
    def __init__(self, v):
        self.v, self.count = v, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.count == 4:
            raise StopIteration
        self.count += 1
        self.v = self.v * 2
        return self.v


@table.runs(*CALLS)
def a_generator(x):
    total = x
    for w in doubled(x):
        if hy.sum(w) > 13:
            break
        total = total + w
    return total


@table.runs(*CALLS)
def an_iterator_of_the_authors(x):
    total = x
    for w in Doubles(x):
        if hy.sum(w) > 13:
            break
        total = total + w
    return total


@table.runs(*CALLS)
def numbered_with_an_else(x):
    total = x
    for i, w in enumerate(doubled(x)):
        if hy.sum(w) > 13:
            break
        total = total + w * i
    else:
        total = total - 1
    return total


@table.runs(*CALLS)
def that_reads_what_the_loop_binds(x):
    last = x

    def following():
        for i in range(4):
            yield last * i

    for w in following():
        if hy.sum(w) > 3:
            break
        last = last + 1
    return last


@table.runs(*CALLS, covered=False)
def that_reads_what_the_loop_binds_and_returns(x):
    last = x

    def following():
        for i in range(4):
            yield last * i

    for w in following():
        if hy.sum(w) > 3:
            return w
        last = last + 1
    return last


@table.runs(*CALLS)
def that_keeps_what_it_read(x):
    a, b = x, x + 1

    def following():
        w = x
        for _ in range(3):
            yield w
            w = b - 1

    for w in following():
        if hy.sum(b) > 8:
            break
        a, b = b, a + w
    return a, b


def shown(v):
    for w in doubled(v):
        print("made")
        yield w


def broken_off(x):
    total = x
    for w in shown(x):
        if hy.sum(w) > 13:
            break
        total = total + w
    return total


def broken_off_a_list(x):
    total = x
    for w in list(shown(x)):
        if hy.sum(w) > 13:
            break
        total = total + w
    return total


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_all_lines_run(program: Program) -> None:
    program.check_coverage()


def test_one_that_does_more_than_to_compute_its_items(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaptureError, match="does more than to compute its next item") as caught:
        hy.hybridize(broken_off)(f32([1.0]))
    assert caught.value.at is not None and caught.value.at.text == 'print("made")'
    assert "for item in list(...)" in str(caught.value)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("x", CALLS)
def test_the_advice_is_followed(x: hy.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    expected = broken_off(x).tolist()
    assert hy.hybridize(broken_off_a_list)(x).tolist() == expected
    assert capsys.readouterr().out.count("made") >= 5
