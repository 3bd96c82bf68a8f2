"""What captured loops over loaders advise: each is followed, and gives the eager bits."""

from __future__ import annotations

import numpy as np

import hybrid as hy
from hybrid.data import DataLoader, IterableDataset, TensorDataset
from tests.advice import Row, around, check, named
from tests.staging.harness import f32

ITEMS = f32(np.arange(21).reshape(7, 3))


def loader(size: int = 2, **options):
    return DataLoader(TensorDataset(ITEMS), size, **options)


class Stream(IterableDataset):
    def __iter__(self):
        for n in range(7):
            yield np.float32(n)


class Counted(Stream):
    def __len__(self):
        return 7


def by_a_comprehension(x):
    return sum([hy.sum(a * x) for (a,) in LOADER])


LOADER = loader()


def by_a_for_statement(x):
    total = x * 0
    for (a,) in LOADER:
        total = total + hy.sum(a, axis=0) * x
    for n, (a,) in enumerate(LOADER):
        total = total + hy.sum(a, axis=0) * n
    for (a,), (b,) in zip(LOADER, LOADER, strict=True):
        total = total + hy.sum(a * b, axis=0)
    return total


@around
def as_a_list(wrap, x):
    return wrap(lambda batches, x: sum([hy.sum(a * x) for (a,) in batches]))(list(LOADER), x)


def beside_a_stream(x):
    for a, n in zip(DataLoader(Stream(), 2, drop_last=True), range(3), strict=False):
        x = x + hy.sum(a) * n
    return x


def counted_with_enumerate(x):
    for n, a in enumerate(DataLoader(Stream(), 2, drop_last=True)):
        x = x + hy.sum(a) * n
    return x


def beside_what_has_a_length(x):
    for a, n in zip(DataLoader(Counted(), 2), range(3), strict=False):
        x = x + hy.sum(a) * n
    return x


def of_computed_values(x):
    total = x[0] * 0
    for (a,) in DataLoader(TensorDataset(hy.concat([x, x * 2])), 2):
        total = total + a[0] * a[1]
    return total


def over_a_reshaped_tensor(x):
    total = x[0] * 0
    for a in hy.concat([x, x * 2]).reshape(-1, 2):
        total = total + a[0] * a[1]
    return total


def over_slices(x):
    total, both = x[0] * 0, hy.concat([x, x * 2])
    for i in range(0, 6, 2):
        a = both[i : i + 2]
        total = total + a[0] * a[1]
    return total


def of_values_from_outside(x):
    for (a,) in DataLoader(TensorDataset(ITEMS), 2):
        x = x + hy.sum(a, axis=0)
    return x


ROWS_FROM_OUTSIDE = TensorDataset(ITEMS)


def of_a_dataset_from_outside(x):
    for (a,) in DataLoader(ROWS_FROM_OUTSIDE, 2):
        x = x + hy.sum(a, axis=0)
    return x


NAMED = [(np.float32(1), "a"), (np.float32(2), "b")]


def of_texts(x):
    for a, _ in DataLoader(NAMED, 1):
        x = x + a
    return x


def of_tensors_made_of_them(x):
    def collated(samples):
        return f32([a for a, _ in samples]), hy.asarray([ord(b) for _, b in samples])

    for a, b in DataLoader(NAMED, 1, collate_fn=collated):
        x = x + a * b
    return x


def without_them(x):
    for a in DataLoader(NAMED, 1, collate_fn=lambda samples: f32([a for a, _ in samples])):
        x = x + a
    return x


@around
def one_batch_at_a_time(wrap, x):
    step = wrap(lambda x, a: x + a)
    for a, _ in DataLoader(NAMED, 1):
        x = step(x, a)
    return x


WITH_A_REST, WITHOUT = loader().repeat(), loader(drop_last=True).repeat()


def a_walk_with_a_rest(x):
    for (a,) in WITH_A_REST.take(3):
        x = x + hy.sum(a, axis=0)
    return x


def a_walk_without(x):
    for (a,) in WITHOUT.take(3):
        x = x + hy.sum(a, axis=0)
    return x


@around
def a_walk_outside(wrap, x):
    step = wrap(lambda x, a: x + hy.sum(a, axis=0))
    for (a,) in loader().repeat().take(5):
        x = step(x, a)
    return x


def evenly():
    return DataLoader(ROWS_FROM_OUTSIDE, 2, drop_last=True)


def a_walk_of_the_call(x):
    for (a,) in evenly().repeat().take(5):
        x = x + hy.sum(a, axis=0)
    return x


@around
def a_walk_made_outside(wrap, x):
    walk = evenly().repeat()

    def steps(x):
        for (a,) in walk.take(5):
            x = x + hy.sum(a, axis=0)
        return x

    call = wrap(steps)
    return call(call(x))


def for_statements_in_its_place(x):
    for _ in range(3):
        for (a,) in evenly():
            x = x + hy.sum(a, axis=0)
    return x


OUTSIDE = "or go over the loader outside, and hybridize the function of one batch that the loop "
ROWS = [
    Row(by_a_comprehension, "write a for statement over the loader, enumerate() or zip() of it; or "
        "pass list(loader) as an argument", (by_a_for_statement, as_a_list)),
    Row(beside_a_stream, "count with enumerate(), or give the dataset a __len__",
        (counted_with_enumerate, beside_what_has_a_length)),
    Row(of_computed_values, "go over x.reshape(-1, size, ...), or over slices of x",
        (over_a_reshaped_tensor, over_slices)),
    Row(of_values_from_outside, "go over x.reshape(-1, size, ...), or over slices of x; make "
        "datasets of other tensors outside", (of_a_dataset_from_outside,)),
    Row(of_texts, f"let collate_fn make tensors of it, or leave it out; {OUTSIDE}calls",
        (of_tensors_made_of_them, without_them, one_batch_at_a_time)),
    Row(a_walk_with_a_rest, f"give the loader drop_last=True, {OUTSIDE}calls",
        (a_walk_without, a_walk_outside)),
    Row(a_walk_of_the_call, "make it outside (walk = loader.repeat()), or write for statements "
        "over the loader, one in another", (a_walk_made_outside, for_statements_in_its_place)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
