"""Tensors that are one of several, as a condition decides: what is written goes to that one."""

import os

import pytest

import hybrid as hy
from hybrid.errors import CaptureError, ProgramError
from tests.staging.harness import same


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


def one_of_two_lists(x):
    xs, ys = [x], [x * 2]
    zs = xs
    if x > 0:
        zs = ys
    zs.append(x * 3)
    return xs, ys


def a_list_of_a_list_that_is_one_of_two(x):
    xs, ys = [x, x], [x * 2, x]
    keep = [ys]
    zs = xs if x > 0 else ys
    xs[0] = x * 9
    return keep, zs


def dicts_swapped(x):
    a, b = {"k": x}, {"k": x * 2}
    first = a
    if x > 0:
        a, b = b, a
    a["k"] = x * 9
    return first, b


def a_dict_kept_while_bound_anew(x):
    best = {"w": x}
    keep = best
    for i in range(3):
        if x > i:
            best = {"w": x + i}
        best["w"] = best["w"] * 2
    return best, keep


CHANGED = {
    one_of_two_lists: ("list", "zs.append(x * 3)"),
    a_list_of_a_list_that_is_one_of_two: ("list", "xs[0] = x * 9"),
    dicts_swapped: ("dict", 'a["k"] = x * 9'),
    a_dict_kept_while_bound_anew: ("dict", 'best["w"] = best["w"] * 2'),
}


@pytest.mark.parametrize("function", CHANGED, ids=lambda function: function.__name__)
def test_a_change_of_one_of_two_lists_or_dicts(function) -> None:
    """Each path is captured by itself, which programs cannot do."""
    same(function, calls=[hy.asarray(v) for v in (1.0, -1.0, 2.0, -2.0)], plans=4)
    kind, line = CHANGED[function]
    with pytest.raises(ProgramError) as caught:
        hy.export(function, os.devnull, hy.ones(()))
    assert caught.value.at.text == line
    assert caught.value.what == (
        f"{function.__name__} cannot be exported: a {kind} was changed that is one or another, "
        "depending on the value of a tensor"
    )
    assert str(caught.value).endswith(
        f" is a new {kind} on one path and one that others can see on another, so who sees the "
        "change would depend on the run.\n"
        f"Fix: bind a new {kind} on every path, or change the old one in place on every path."
    )


def a_list_bound_anew(x):
    xs = [x, x * 2]
    if x > 0:
        xs = [x * 3, x]
    xs[0] = xs[1] + 1
    xs.append(x)
    return xs


def a_list_bound_anew_in_a_loop(x):
    xs = [x, x * 2]
    for i in range(3):
        if x > i:
            xs = [xs[1], x]
        xs[0] = xs[0] + 1
    return xs


@pytest.mark.parametrize("function", [a_list_bound_anew, a_list_bound_anew_in_a_loop])
def test_a_list_that_nobody_else_has_may_be_changed(function) -> None:
    hybridized = hy.hybridize(function)
    for value in (-1.0, 1.0, 3.0):
        x = hy.asarray(value)
        assert [t.item() for t in hybridized(x)] == [t.item() for t in function(x)]


def test_what_a_loop_has_appended_is_not_written_later() -> None:
    def appending(x):
        h, hs = x * 1, []
        while x < 3:
            hs.append(h)
            h += x
            x = x + 1
            if x > 2:
                h = h * 2
        return hs, h

    with pytest.raises(CaptureError) as caught:
        hy.hybridize(appending)(hy.ones(()))
    assert caught.value.what == "a tensor is written in place that a loop has appended to a list"
    assert str(caught.value).endswith(
        "The items of the list are rows of one tensor, and in some iterations one of them is the "
        "tensor that is written.\n"
        "Fix: append a copy (xs.append(x * 1)), or bind the name to a new tensor (x = x + 1)."
    )


def test_a_tensor_that_a_list_holds_on_one_path_is_written_there_too() -> None:
    def appended(x):
        h, hs = x * 1, [x]
        if x > 0:
            h = x * 2
            hs.append(h)
        h += 1
        return h, hs

    hybridized = hy.hybridize(appended)
    for value in (1.0, -1.0):
        h, hs = hybridized(hy.asarray(value))
        expected, items = appended(hy.asarray(value))
        assert [t.item() for t in (h, *hs)] == [t.item() for t in (expected, *items)]
        assert (hs[-1] is h) == (items[-1] is expected)
