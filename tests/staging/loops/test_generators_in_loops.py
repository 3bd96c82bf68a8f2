"""Loops over what the author's code makes item by item, and that break on the value of a tensor."""

from __future__ import annotations

from types import SimpleNamespace

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


def stored(st, values):
    for st.last in values:
        st.total = st.total + st.last
        yield st.last


@table.runs(*CALLS)
def a_generator_whose_loop_sets_an_attribute(x):
    st = SimpleNamespace(last=x, total=x * 0)
    total = x
    for w in stored(st, [x, x * 2, x * 4]):
        if hy.sum(w) > 3:
            break
        total = total + w
    return total, st.last, st.total


@table.runs(*CALLS)
def a_generator_whose_loop_sets_an_item(x):
    kept = {"last": x}

    def values():
        for kept["last"] in (x, x * 2, x * 4):
            yield kept["last"] + 1

    total = x
    for w in values():
        if hy.sum(w) > 3:
            break
        total = total + w
    return total, kept


@table.runs(*CALLS)
def a_generator_that_counts(x):
    st = SimpleNamespace(count=0)

    def values():
        for k in range(3):
            st.count += 1
            yield x * k
        st.count += 10

    for w in values():
        if hy.sum(w) > 1:
            break
    return x * st.count, st.count


@table.runs(*CALLS)
def a_generator_that_sets_a_variable(x):
    count, last = 0, x

    def values():
        nonlocal count, last
        for k in range(3):
            count, last = count + 1, x * k
            yield last

    for w in values():
        if hy.sum(w) > 1:
            break
    return x * count, last, count


@table.runs(*CALLS)
def a_generator_that_appends(x):
    kept = []

    def values():
        for k in range(3):
            kept.append(x * k)
            yield kept[-1] + len(kept)

    total = x
    for w in values():
        if hy.sum(w) > 4:
            break
        total = total + w
    return total, sum(kept), len(kept)


def doubling(st):
    for _ in range(3):
        st.v = st.v * 2
        yield st.v


@table.runs(*CALLS)
def a_generator_and_the_loop_write_in_turn(x):
    st = SimpleNamespace(v=x)

    total = x
    for w in doubling(st):
        if hy.sum(w) > 5:
            break
        st.v = st.v + 1
        total = total + w
    return total, st.v


@table.runs(*CALLS)
def a_generator_and_the_loop_write_on_some_paths(x):
    st = SimpleNamespace(v=x)

    total = x
    for w in doubling(st):
        if hy.sum(w) > 5:
            break
        if hy.sum(w) > 2:
            st.v = st.v + 1
        total = total + w
    return total, st.v


@table.runs(*CALLS)
def a_generator_that_writes_once(x):
    st = SimpleNamespace(v=x)

    def values():
        yield x
        st.v = x * 5
        yield x * 2
        yield x * 3

    for w in values():
        if hy.sum(w) > 1.5:
            break
        x = x + w
    return x, st.v


@table.runs(*CALLS)
def a_generator_within_another(x):
    st = SimpleNamespace(inner=0, outer=x)

    def inner():
        for k in range(4):
            st.inner += 1
            yield x * k

    def outer():
        for w in inner():
            st.outer = st.outer + w
            yield w + 1

    for w in outer():
        if hy.sum(w) > 3:
            break
    return st.outer, x * st.inner


@table.runs(*CALLS)
def loops_in_a_loop(x):
    st = SimpleNamespace(v=x)

    def values(scale):
        for k in range(2):
            st.v = st.v + scale
            yield st.v * k

    total = x
    for scale in (1.0, 2.0):
        for w in values(scale):
            if hy.sum(w) > 2:
                break
            total = total + w
    return total, st.v


@table.runs(*CALLS)
def an_iterator_is_asked_afterwards(x):
    items = Doubles(x)
    for w in items:
        if hy.sum(w) > 13:
            break
    return items.v, x * items.count


@table.runs(*CALLS)
def items_are_numbered(x):
    items, at = Doubles(x), 0
    for at, w in enumerate(items):  # noqa: B007  asked for behind the loop
        if hy.sum(w) > 13:
            break
    return items.v + at, items.count


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
