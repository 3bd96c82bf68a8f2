"""Tensors that are one of several, as a condition decides: what is written goes to that one."""

import pytest

import hybrid as hy
from hybrid.errors import CaptureError


def one_of_two(x, y):
    z = x
    if x[0] <= 0:
        z = y
    z += 1
    return z * 2


def one_of_the_arguments_or_new(x, y):
    if x[0] > 0:
        x = x * 2
    x += y
    return x * 1


def one_of_what_was_computed(x, y):
    a, b = x * 1, y * 1
    z = a if x[0] > 0 else b
    z *= 3
    return a, b, z


def in_another_branch(x, y):
    z = x
    if x[0] <= 0:
        z = y
    if x[1] > 0:
        z += 1
    return z * 2


def carried_and_written(x, y):
    z = x * 1
    for _ in range(3):
        z += y
        z = z * 2
    while z[0] > 10:
        z -= 1
        z = z * 0.5
    return z


FUNCTIONS = [
    one_of_two, one_of_the_arguments_or_new, one_of_what_was_computed, in_another_branch,
    carried_and_written,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_is_written_is_that_of_eager(function) -> None:
    hybridized = hy.hybridize(function)
    for a, b in ((1.0, 2.0), (-1.0, 2.0), (1.0, -2.0), (-1.0, -2.0)):
        seen = []
        for call in (function, hybridized):
            given = [hy.asarray([a, b]), hy.asarray([3.0, 4.0])]
            result = call(*given)
            results = result if isinstance(result, tuple) else (result,)
            seen.append([t.tolist() for t in (*given, *results)])
        assert seen[0] == seen[1]
    assert len(hybridized.plans) == 1


def test_tensors_of_two_dtypes_are_refused() -> None:
    def choosing(x, y):
        z = x
        if x[0] > 0:
            z = y
        z += 1
        return z

    x, y = hy.ones(2), hy.ones(2, dtype=hy.float64)
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(choosing)(x, y)
    assert x.tolist() == y.tolist() == [1.0, 1.0]
    assert caught.value.at.text == "z += 1"
    assert caught.value.what == "a tensor was written that may be another one, of another dtype"
    assert str(caught.value).endswith(
        "Two branches bind a name to tensors of different dtypes, so it gets a tensor of the "
        "dtype of both, which cannot be the one of either.\n"
        "Fix: bind the name to a new tensor (x = x + 1), or give both branches one dtype."
    )
