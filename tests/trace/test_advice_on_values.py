"""What refusals of what needs values advise: each is followed, with the eager bits."""

from __future__ import annotations

import numpy as np

import hybrid as hy
from hybrid.errors import (
    NeedsValue,
    TracedBoolError,
    TracedValueError,
)
from tests.advice import Row, S, around, check, named


def a_slice_that_is_cut(x):
    print("behind a call of Python")
    n = hy.floor(hy.abs(x[0])).astype(hy.int64).item()
    return x[n : n + 2]


def a_slice_that_fits(x):
    n = hy.floor(hy.abs(x[0])).astype(hy.int64).item()
    n = min(n, 1)
    return x[n : n + 2]


def a_slice_of_what_is_padded(x):
    n = hy.floor(hy.abs(x[0])).astype(hy.int64).item()
    return hy.concat([x, hy.zeros(10)])[n : n + 2]


def an_index_of_a_run(x):
    return [x, x * 2][int(hy.argmax(x)) % 2] if len(S.items) else (x, "ab"[int(hy.argmax(x))])


def stacked_and_indexed(x):
    return hy.stack([x, x * 2])[int(hy.argmax(x)) % 2]


@around
def indexed_outside(wrap, x):
    return wrap(lambda x, at: [x, x * 2, x * 3][at])(x, int(hy.argmax(x)))


def a_key_of_a_run(x):
    k = int(hy.argmax(x))
    return x if k in {0, 5} and hash(k) else x * 2


def in_arithmetic(x):
    k = int(hy.argmax(x))
    return x * k if k > 0 else x + x[k]


@around
def key_from_outside(wrap, x):
    return wrap(lambda x, k: x if k in {0, 5} else x * 2)(x, int(hy.argmax(x)))


def an_array_of_a_run(x):
    return x + np.asarray([int(hy.argmax(x))])


def a_tensor_in_its_place(x):
    return x + hy.asarray([int(hy.argmax(x))])


def a_value_of_a_run(x):
    return x[0].numpy() * 2


@around
def value_read_outside(wrap, x):
    return wrap(lambda x: x[0])(x).numpy() * 2


def called_on_its_path(x):
    return hy.exp(x) if hy.sum(x) > 0 else hy.abs(x)


@around
def a_truth_while_tracing(wrap, x):
    return hy.hybridize(called_on_its_path, mode="trace")(x)


def by_cond(x):
    return hy.cond(hy.sum(x) > 0, hy.exp, hy.abs, x)


def by_where(x):
    return hy.where(hy.sum(x) > 0, hy.exp(x), hy.abs(x))


def by_while_loop(x):
    return hy.while_loop(lambda y: hy.sum(y) < 50, lambda y: y * 2, hy.abs(x))


def int_beyond_64_bits(x):
    k = int(hy.argmax(x)) + 1
    for _ in range(5):
        k = k * 2**40
    return k


def float_in_place(x):
    k = float(int(hy.argmax(x)) + 1)
    for _ in range(5):
        k = k * 2.0**40
    return k


@around
def computed_outside(wrap, x):
    k = wrap(lambda x: int(hy.argmax(x)) + 1)(x)
    return k * 2**200


ROWS = [
    Row(a_slice_that_is_cut, "let the slice begin where all of it fits, or pad the tensor",
        (a_slice_that_fits, a_slice_of_what_is_padded)),
    Row(an_index_of_a_run, "put the items into a tensor (hybrid.stack) and index that, or compute "
        "indices and sizes outside the hybridized function",
        (stacked_and_indexed, indexed_outside), NeedsValue),
    Row(a_key_of_a_run, "keep it in arithmetic, comparisons, indexing of tensors and range(), or "
        "compute what needs its value outside the hybridized function",
        (in_arithmetic, key_from_outside), NeedsValue),
    Row(an_array_of_a_run, "leave numpy.asarray out, or join values with hybrid.stack",
        (a_tensor_in_its_place,), NeedsValue),
    Row(a_value_of_a_run, "return the tensor and read its value outside the hybridized function",
        (value_read_outside,), TracedValueError),
    Row(a_truth_while_tracing,
        'leave out mode="trace", or call hybrid.cond, hybrid.while_loop or hybrid.where',
        (called_on_its_path, by_cond, by_where, by_while_loop), TracedBoolError),
    Row(int_beyond_64_bits, "use a float, or compute it outside the hybridized function",
        (float_in_place, computed_outside), OverflowError),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
