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


def selected_by_a_mask(x):
    if hy.sum(x) > -100:
        return hy.sum(x[x > 0])
    return hy.sum(x)


def masked(x):
    return hy.sum(hy.where(x > 0, x, 0))


def repeated(x):
    return hy.repeat(x, hy.astype(hy.abs(x), hy.int64))


INDICES = hy.asarray([0, 0, 1, 2, 2])


def taken(x):
    return hy.take(x, INDICES, axis=0)


def different_ones(x):
    return x * 2 if hy.unique_values(x).shape[0] > 2 else x


@around
def different_ones_outside(wrap, x):
    return wrap(lambda x, u: x * hy.sum(u))(x, hy.unique_values(x))


def so_many_different_ones(x):
    return hy.unique_values(x, size=3)


def a_length_of_a_run(x):
    n = x[0].astype(hy.int64).item()
    return x[: n % 3]


def of_fixed_length(x):
    n = x[0].astype(hy.int64).item() % 2
    return x[n : n + 2]


def chosen_from_the_whole(x):
    n = x[0].astype(hy.int64).item() % 3
    return hy.where(hy.arange(len(x)) < n, x, 0)


def a_slice_that_is_cut(x):
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
    Row(selected_by_a_mask, "keep the shape: hybrid.where(mask, x, 0), with what changes no sum, "
        "product or maximum in place of 0", (masked,)),
    Row(repeated, "call take with indices that are computed outside", (taken,)),
    Row(different_ones, "call it outside the hybridized function and pass the result as an "
        "argument, or give a bound: unique_values(x, size=...)",
        (different_ones_outside, so_many_different_ones)),
    Row(a_length_of_a_run, "write x[i:i + 3], or keep the whole tensor and choose: hybrid.where("
        "hybrid.arange(len(x)) < n, x, 0)", (of_fixed_length, chosen_from_the_whole)),
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
