"""What lists of unknown length cannot do: the full text; FILE:LINE is a place in this file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid import config
from hybrid.errors import CaptureError
from tests.staging.harness import f32

X = f32(0.5)
WHERE = (
    "How many items it has depends on the value of a tensor where it grows (FILE:LINE).\n"
    "Fix: go over it with a for loop, take len(xs), xs[i] or xs[-1], or return it; or write the "
    "items into a tensor of fixed size (rows[i] = value) and count them."
)


def grow(x: hy.Tensor, limit: Any = 100) -> list[hy.Tensor]:
    ys = []
    while x < limit:
        ys.append(x)
        x = x * 2
    return ys


def comprehension(x):
    return {y * 2 for y in grow(x)}


def texts(x):
    return ",".join([str(y.item()) for y in grow(x)])


def unpacked(x):
    a, b = grow(x)
    return a + b


def counted(x):
    ys = grow(x)
    return ys.count(x)


def item_set(x):
    ys = grow(x)
    ys[0] = x
    return ys


def item_deleted(x):
    ys = grow(x)
    del ys[-1]
    return ys


def accumulated(x):
    return list(itertools.accumulate(grow(x)))


def item_written(x):
    ys = grow(x)
    y = ys[-1]
    y += 1
    return ys


def item_with_a_list(x):
    ys = []
    while x < 100:
        ys.append([x])
        x = x * 2
    return ys[-1]


def mixture(x):
    ys = []
    while x < 100:
        ys.append(x)
        ys.append(hy.stack([x, x]))
        x = x * 2
    return ys


def inner_loop(x):
    ys = []
    while x < 100:
        y = x
        while y < 100:
            ys.append(y)
            y = y * 3
        x = x * 2
    return ys


def read_in_the_loop(x):
    ys = [x]
    while x < 100:
        ys.append(x)
        x = x * 2 + ys[len(ys) - 2]
    return ys


def written_in_the_loop(x):
    ys = [x]
    while x < 100:
        ys.append(x)
        ys[0] = ys[-1] * 2
        x = x * 2
    return ys


class Thing:
    """Something that no row of a tensor can be."""


def objects(x):
    ys = []
    while x < 100:
        ys.append(Thing())
        x = x * 2
    return ys


def unlike(x):
    ys = [x]
    if x > 0:
        ys[0] = hy.stack([x, x])
    return ys[0]


def unlike_returned(x):
    ys = [x]
    if x > 0:
        ys[0] = hy.stack([x, x])
    return ys


def searched_for(x):
    return hy.searchsorted(grow(x), x)


def unpacked_into_a_call(x):
    return max(*grow(x))


def compared(x):
    return grow(x) == [x]


def sliced(x):
    return grow(x)[:: int(x)]


def searched(x):
    return x in grow(x)


def known(what: str, line: str) -> str:
    """What is said of something that needs the length."""
    return (
        f"a list is {what}, and its length is known only when the plan runs (FILE:LINE)\n"
        f"    LINE | {line}\n{WHERE}"
    )


UNLIKE = (
    "a list[0] is f32[2] (FILE:LINE) where the condition holds, and f32[] where it does not "
    "(FILE:LINE)\n"
    "    LINE | if x > 0:\n"
    "Which of the two it is depends on the value of a tensor, and a graph needs one type and "
    "structure.\n"
    "Fix: give a list the same type, shape and structure on both paths."
)
CASES: dict[Callable[..., Any], str] = {
    searched_for: known("given to searchsorted()", "return hy.searchsorted(grow(x), x)"),
    comprehension: known("gone over by a comprehension", "return {y * 2 for y in grow(x)}"),
    unpacked: known("unpacked", "a, b = grow(x)"),
    unpacked_into_a_call: known("unpacked", "return max(*grow(x))"),
    counted: known("given to list.count()", "return ys.count(x)"),
    item_set: known("changed: an item is set", "ys[0] = x"),
    item_deleted: known("changed: an item is deleted", "del ys[-1]"),
    accumulated: known("looked into", "return list(itertools.accumulate(grow(x)))"),
    compared: known("compared", "return grow(x) == [x]"),
    sliced: known("sliced", "return grow(x)[:: int(x)]"),
    searched: known("looked into", "return x in grow(x)"),
    texts: "the text of a traced value is appended to a list in every iteration of a loop "
    "(FILE:LINE)\n"
    '    LINE | return ",".join([str(y.item()) for y in grow(x)])\n'
    "What a loop node returns for each iteration are tensors and numbers.\n"
    "Fix: append tensors, and keep other values outside the loop.",
    item_written: "an item of a list that has grown in a loop is changed in place (FILE:LINE)\n"
    "    LINE | y = ys[-1]\n"
    "The items are rows of one tensor, and the one looked at here is a copy.\n"
    "Fix: compute a new tensor from the item (y = y + 1), and collect those.",
    item_with_a_list: "an item of a list that has grown in a loop is looked at, and it is a list "
    "or dict (FILE:LINE)\n"
    "    LINE | return ys[-1]\n"
    "What the list that grows at FILE:LINE holds are rows of tensors. Each look makes the item "
    "anew, and a change to that would be lost.\n"
    "Fix: append tuples.",
    mixture: "a loop appends f32[] and f32[2] (FILE:LINE) to one list (FILE:LINE)\n"
    "    LINE | while x < 100:\n"
    "How many iterations there are depends on the value of a tensor, so the items become rows of "
    "tensors, all of one type and structure.\n"
    "Fix: append one tuple in each iteration, or use a list for each kind of item.",
    inner_loop: "a loop inside a loop appends to a list, and both make as many iterations as "
    "tensors tell them to (FILE:LINE)\n"
    "    LINE | while y < 100:\n"
    "Each iteration of the outer loop would append another number of items.\n"
    "Fix: append to a list of the inner loop's own and join or sum that up, or write the items "
    "into a tensor of fixed size (rows[i] = value) and count them.",
    read_in_the_loop: "an item of a list is looked at in the loop that appends to it (FILE:LINE)\n"
    "    LINE | x = x * 2 + ys[len(ys) - 2]\n"
    "How many iterations there are depends on the value of a tensor, so the list is only put "
    "together after the loop. In the loop its length is known, and its last item (xs[-1]).\n"
    "Fix: write the items into a tensor of fixed size (rows[i] = value) and read that, or keep "
    "what the next iterations need in variables.",
    written_in_the_loop: "a list changes its length in a loop, and not by append alone "
    "(FILE:LINE)\n"
    "    LINE | while x < 100:\n"
    "How many iterations there are depends on the value of a tensor, so all its length can do is "
    "grow at the end.\n"
    "Fix: append only, and change the list after the loop; or let it keep its length "
    "(xs.append(v) and xs.pop(0)).",
    objects: "a Thing is appended to a list in every iteration of a loop (FILE:LINE)\n"
    "    LINE | while x < 100:\n"
    "What a loop node returns for each iteration are tensors and numbers.\n"
    "Fix: append tensors, and keep other values outside the loop.",
    unlike: UNLIKE,
    unlike_returned: UNLIKE,
}


def without_places(text: str) -> str:
    """``text`` with the places in this file that it names made the same everywhere."""
    text = re.sub(re.escape(__file__) + r":\d+", "FILE:LINE", text)
    return re.sub(r"(?m)^    \d+ \|", "    LINE |", text)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_the_text_of_a_message(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(X)
    assert without_places(str(caught.value)) == CASES[function]


def test_what_two_paths_leave_unlike_matters_to_those_who_look() -> None:
    @hy.hybridize
    def unused(x):
        ys = [x]
        if x > 0:
            ys[0] = hy.stack([x, x])
        ys.append(x)
        return x * 2

    assert unused(X).item() == 1.0


def test_a_list_has_room_for_a_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "RESIDUAL_NBYTES", 32 * 4 * 4)
    few = hy.hybridize(grow)
    assert len(few(f32(1.0), f32(2.0**32))) == 32
    with pytest.raises(CaptureError) as caught:
        few(f32(1.0), f32(2.0**33))
    assert without_places(str(caught.value)) == (
        "a list grew beyond 32 items (FILE:LINE)\n"
        "    LINE | while x < limit:\n"
        "How many iterations this loop makes depends on the value of a tensor. What such a loop "
        "appends goes to memory that is set aside before it begins.\n"
        "Fix: raise hybrid.config.RESIDUAL_NBYTES, of which lists may take a quarter, before the "
        "first call; or write the items into a tensor of fixed size (rows[i] = value)."
    )


def test_room_does_not_matter_to_the_length_and_the_last_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "RESIDUAL_NBYTES", 0)

    @hy.hybridize
    def last(x, limit):
        ys = grow(x, limit)
        return ys[-1], len(ys)

    assert [float(last(f32(1.0), f32(2.0**33))[0].item()), last(f32(1.0), f32(2.0**33))[1]] == [
        2.0**32,
        33,
    ]


def test_a_list_takes_the_memory_of_what_it_holds() -> None:
    @hy.hybridize
    def rows(x, limit):
        ys = []
        while x[0] < limit:
            x = x + 1
            ys.append(x)
        return ys

    def resident() -> int:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * 4096

    x = hy.zeros(4096)
    x.requires_grad = True
    sum(rows(x, f32(3.0)))  # the plan is made
    before = resident()
    found = rows(x, f32(20.0))
    hy.sum(sum(found)).backward()
    assert len(found) == 20
    assert resident() - before < 32 << 20  # half of what there is room for, thrice


def test_length_without_the_items_is_a_loop_without_stacks() -> None:
    @hy.hybridize
    def count(x):
        return len(grow(x))

    assert count(X) == 8
    assert "length=0" in str(count.plans and count._table.all()[0].plan.graph)


def one_by_one(x):
    return list(zip((y for y in x if y > 0), x, strict=False))


def one_by_one_in_a_loop(x):
    total = 0.0
    for y in (y for y in x if y > 0):
        total = total + y
    return total


@pytest.mark.parametrize("function", [one_by_one, one_by_one_in_a_loop])
def test_a_generator_is_asked_for_single_items(function: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(f32([1.0, -1.0]))
    line, text = caught.value.at.line, caught.value.at.text
    assert function.__code__.co_firstlineno < line
    assert str(caught.value) == (
        "the items of a generator are asked for one by one, and which there are is known only when "
        f"the plan runs ({__file__}:{line})\n"
        f"    {line} | {text}\n"
        "A condition on the value of a tensor decides whether the generator gives an item "
        f"({__file__}:{line}).\n"
        "Fix: make a list of it, [...] in place of (...), or give it to sum(), any(), all(), "
        "min(), max(), list() or tuple()."
    )
