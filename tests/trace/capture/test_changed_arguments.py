"""Containers among the arguments: what a function does to them happens to the caller's own."""

from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.helpers import shown


def appended(xs):
    xs.append(xs[0] * 2)
    xs[0] = xs[0] + 1
    return hy.sum(xs[0])


def exchanged(xs):
    xs.reverse()
    return xs


def regrouped(tree):
    tree["pair"].append(tree["rest"])
    tree["rest"] = [tree["pair"][0] * 2]
    return tree["pair"]


def popped(tree):
    last = tree["pair"].pop()
    del tree["rest"]
    tree["n"] = 3
    return last * 2


def grown_by_plain_values(tree):
    tree["rest"].extend([1, "two", None])
    tree["n"] += 1
    return tree["n"]


def in_branches(tree):
    if hy.sum(tree["pair"][0]) > 0:
        tree["pair"][0] = tree["pair"][0] * 2
    else:
        tree["pair"][1] = tree["pair"][1] - 1
    return tree


def tree_of(x: float) -> dict[str, Any]:
    return {"pair": [hy.asarray([x, x]), hy.asarray([1.0, x])], "rest": [hy.ones(1)], "n": 2}


def list_of(x: float) -> list[Any]:
    return [hy.asarray([x, x]), hy.asarray([1.0, x])]


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (appended, list_of),
        (exchanged, list_of),
        (regrouped, tree_of),
        (popped, tree_of),
        (grown_by_plain_values, tree_of),
        (in_branches, tree_of),
    ],
    ids=lambda value: value.__name__,
)
def test_arguments_are_changed(function, make) -> None:
    hybridized = hy.hybridize(function)
    for x in (1.0, -2.0, 3.0):
        given, expected = make(x), make(x)
        inner = [id(item) for item in (given.values() if isinstance(given, dict) else given)]
        wanted = [
            id(item) for item in (expected.values() if isinstance(expected, dict) else expected)
        ]
        found, result = hybridized(given), function(expected)
        assert shown(found) == shown(result)
        assert shown(given) == shown(expected)
        assert (found is given) == (result is expected)
        now = given.values() if isinstance(given, dict) else given
        then = expected.values() if isinstance(expected, dict) else expected
        assert [inner.index(id(v)) if id(v) in inner else -1 for v in now] == [
            wanted.index(id(v)) if id(v) in wanted else -1 for v in then
        ]
    assert len(hybridized.plans) == 1


def test_keyword_arguments_are_changed() -> None:
    def run(x, *more, state, **others):
        state["h"] = state["h"] + x
        more[0].append(x)
        others["last"][0] = x * 3
        return state

    hybridized = hy.hybridize(run)
    for n in range(3):
        state, more, last = {"h": hy.ones(())}, [], [None]
        x = hy.asarray(float(n))
        assert hybridized(x, more, state=state, last=last) is state
        assert shown((state["h"], more, last)) == (tuple, [n + 1.0, (list, [n]), (list, [3.0 * n])])
    assert len(hybridized.plans) == 1


def test_an_argument_is_kept_and_what_was_kept_is_returned() -> None:
    kept: dict[str, Any] = {"batch": None}

    def run(batch):
        kept["batch"] = batch
        return kept

    hybridized = hy.hybridize(run)
    for _ in range(2):
        batch = [hy.ones(2)]
        assert hybridized(batch) is kept and kept["batch"] is batch


def test_one_list_in_two_ways_is_refused() -> None:
    outer = [hy.ones(1)]

    def run(xs, ys):
        xs[0] = xs[0] + 1
        return ys[0] + outer[0]

    hybridized = hy.hybridize(run)
    hybridized([hy.ones(1)], [hy.ones(1)])
    for args in ((outer, [hy.ones(1)]), ([hy.ones(1)], outer)):
        with pytest.raises(CaptureError, match="run got one list in two ways"):
            hybridized(*args)
    both = [hy.ones(1)]
    with pytest.raises(CaptureError, match="run got one list in two ways"):
        hybridized(both, both)
    assert shown([both, outer]) == (list, [(list, [[1.0]])] * 2)
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert hy.hybridize(run, fallback="eager")(both, both).tolist() == [3.0]


# NumPy arrays ------------------------------------------------------------------------------------


def sets_an_item(a):
    a[0] = 5.0
    return a * 1


def adds_in_place(a):
    a += 1
    return a * 1


def writes_on_a_path(a):
    if hy.sum(a) > 0:
        a[0:2] *= 2.0
    return a * 1


@pytest.mark.parametrize("function", [sets_an_item, adds_in_place, writes_on_a_path])
def test_writes_to_arrays_are_refused(function) -> None:
    hybridized = hy.hybridize(function)
    array = np.ones(3, np.float32)
    for _ in range(2):
        with pytest.raises(CaptureError) as caught:
            hybridized(array)
        assert array.tolist() == [1.0, 1.0, 1.0]
        assert caught.value.what == f"{function.__name__} writes to its argument a, a NumPy array"
    given, expected = hy.asarray(array), hy.asarray(array)
    assert hybridized(given).tolist() == function(expected).tolist()
    assert given.tolist() == expected.tolist() != [1.0, 1.0, 1.0]
    with pytest.raises(CaptureError):  # also when there is a plan
        hybridized(array)


def test_the_message_of_a_lost_write() -> None:
    def function(batch, rows):
        batch["a"][0] = 5.0
        return batch["a"] * rows

    line = function.__code__.co_firstlineno + 1
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)({"a": np.ones(3, np.float32)}, rows=np.ones(3, np.float32))
    assert str(caught.value) == (
        f"function writes to its argument batch['a'], a NumPy array ({__file__}:{line})\n"
        f'    {line} | batch["a"][0] = 5.0\n'
        "NumPy arrays among the arguments are tensors inside, made for the call: what is written "
        "to them would be lost.\n"
        "Fix: pass hybrid.asarray(batch['a']), which is a tensor that can be written to, or "
        "return the new values."
    )


def test_a_copy_of_an_array_can_be_written() -> None:
    def function(a):
        b = a * 1
        b[0] = 5.0
        return b

    array = np.ones(3, np.float32)
    assert hy.hybridize(function)(array).tolist() == [5.0, 1.0, 1.0]
    assert array.tolist() == [1.0, 1.0, 1.0]
