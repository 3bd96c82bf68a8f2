"""What refusals of lists and dicts of a run advise: each is followed, with the eager bits."""

from __future__ import annotations

from collections import deque

import pytest

import hybrid as hy
from hybrid import config
from hybrid.errors import CaptureError
from tests.advice import Row, S, check, named
from tests.staging.harness import describe, f32


def size(x):
    return hy.sum(hy.abs(x))


def grow(x):
    ys = []
    while size(x) < 50:
        ys.append(x)
        x = x * 2
    return ys


def some(x):
    d = {"b": x}
    if hy.sum(x) > 3:
        d["a"] = x * 2
    return d


# Lists of unknown length --------------------------------------------------------------------------


def looked_at_otherwise(x):
    a, b = grow(x)
    return a + b


def gone_over(x):
    total = x * 0
    ys = grow(x)
    for y in ys:
        total = total + y
    return total, len(ys), ys[0], ys[-1], ys


def in_rows_of_a_tensor(x):
    rows, n = hy.zeros((50, 3)), 0
    while size(x) < 50:
        rows[n] = x
        x = x * 2
        n = n + 1
    return rows, n


def unlike_items(x):
    ys = []
    while size(x) < 50:
        ys.append(x)
        ys.append(hy.sum(x))
        x = x * 2
    return ys


def one_tuple(x):
    ys = []
    while size(x) < 50:
        ys.append((x, hy.sum(x)))
        x = x * 2
    return ys


def a_list_for_each_kind(x):
    ys, sums = [], []
    while size(x) < 50:
        ys.append(x)
        sums.append(hy.sum(x))
        x = x * 2
    return ys, sums


def loop_in_a_loop(x):
    ys = []
    while size(x) < 50:
        y = x
        while size(y) < 50:
            ys.append(y)
            y = y * 3
        x = x * 2
    return ys


def summed_up_inside(x):
    ys = []
    while size(x) < 50:
        y, inner = x, []
        while size(y) < 50:
            inner.append(y)
            y = y * 3
        total = x * 0
        for v in inner:
            total = total + v
        ys.append(total)
        x = x * 2
    return ys


def counted_rows_inside(x):
    rows, n = hy.zeros((40, 3)), 0
    while size(x) < 50:
        y = x
        while size(y) < 50:
            rows[n] = y
            n = n + 1
            y = y * 3
        x = x * 2
    return rows, n


def read_where_it_grows(x):
    ys = [x]
    while size(x) < 50:
        ys.append(x)
        x = x * 2 + ys[len(ys) - 2]
    return x


def rows_read_where_they_grow(x):
    rows, n = hy.zeros((20, 3)), 1
    rows[0] = x
    while size(x) < 50:
        rows[n] = x
        n = n + 1
        x = x * 2 + rows[n - 2]
    return x


def in_a_variable(x):
    before = last = x
    while size(x) < 50:
        before, last = last, x
        x = x * 2 + before
    return x


def changed_where_it_grows(x):
    ys = [x]
    while size(x) < 50:
        ys.append(x)
        ys[0] = ys[-1] * 2
        x = x * 2
    return ys


def changed_after_the_loop(x):
    ys = [x]
    while size(x) < 50:
        ys.append(x)
        x = x * 2
    return [ys[-1] * 2], ys


def of_one_length(x):
    ys = [x, x]
    while size(x) < 50:
        ys.append(x)
        ys.pop(0)
        x = x * 2
    return ys


def lists_as_items(x):
    ys = []
    while size(x) < 50:
        ys.append([x, x * 2])
        x = x * 2
    return ys[-1]


def tuples_as_items(x):
    ys = []
    while size(x) < 50:
        ys.append((x, x * 2))
        x = x * 2
    return ys[-1] if len(ys) else (x, x)


def texts_as_items(x):
    ys, n = [], 0
    while size(x) < 50:
        ys.append(f"{n}")
        x = x * 2
        n = n + 1
    return x, ys


def numbers_as_items(x):
    ys, n, text = [], 0, "before"
    while size(x) < 50:
        ys.append(n)
        x = x * 2
        n = n + 1
    return x, ys, text


def item_written(x):
    y = grow(x)[-1] if size(x) < 50 else x
    ys = grow(x)
    if size(x) < 50:
        y = ys[-1]
        y += 1
    return y


def new_tensor_of_an_item(x):
    ys, changed = grow(x), []
    for y in ys:
        y = y + 1
        changed.append(y)
    return changed


def appended_and_written(x):
    h, hs = x * 1, []
    while size(x) < 50:
        hs.append(h)
        h += x
        x = x * 2
        if size(x) > 20:
            h = h * 2
    return hs, h


def a_copy_appended(x):
    h, hs = x * 1, []
    while size(x) < 50:
        hs.append(h * 1)
        h += x
        x = x * 2
        if size(x) > 20:
            h = h * 2
    return hs, h


def appended_and_bound_anew(x):
    h, hs = x * 1, []
    while size(x) < 50:
        hs.append(h)
        h = h + x
        x = x * 2
        if size(x) > 20:
            h = h * 2
    return hs, h


def floats_summed(x):
    return sum([v.item() for v in grow(x[0])]) if hy.all(x > 0) else 0.0


def floats_added_up(x):
    total, y = 0.0, hy.abs(x[0])
    while y < 50:
        total = total + y.item()
        y = y * 2
    return total


def kept_in_a_list_with_checks(x):
    for v in hy.concat([x] * 40):
        S.items.append(v)
        if v < -1:
            raise ValueError("low")
    return x


def a_list_of_its_own(x):
    own = []
    for v in hy.concat([x] * 40):
        own.append(v)
    S.items.extend(own)
    return x


def checked_after(x):
    for v in hy.concat([x] * 40):
        S.items.append(v)
    assert hy.all(x > -100)
    return x


def queue_grown(x):
    q = deque([x])
    if hy.sum(x) > 3:
        q.append(x)
    return x * len(q)


def list_in_its_place(x):
    q = [x]
    if hy.sum(x) > 3:
        q.append(x)
    return x * len(q)


def queue_of_one_length(x):
    q, r = deque([x], maxlen=1), deque([x])
    if hy.sum(x) > 3:
        q.append(x * 2)
        r.popleft()
        r.append(x * 3)
    return q[0], r[0]


# Dicts and attributes that may lack something -----------------------------------------------------


def keys_looked_at(x):
    return list(some(x))


def one_key_at_a_time(x):
    d = some(x)
    return d["a"] if "a" in d else d.get("c", d["b"]), len(d)


def the_same_keys(x):
    d = {"b": x, "a": x}
    if hy.sum(x) > 3:
        d["a"] = x * 2
    return list(d), d


class Owner:
    pass


def attributes_shown(x):
    owner = Owner()
    if hy.sum(x) > 3:
        owner.v = x
    return str(vars(owner))


def attribute_asked_for(x):
    owner = Owner()
    if hy.sum(x) > 3:
        owner.v = x
    if hasattr(owner, "v"):
        return owner.v * 2
    return getattr(owner, "v", x)


def attribute_on_every_path(x):
    owner = Owner()
    owner.v = x * 0
    if hy.sum(x) > 3:
        owner.v = x
    return sorted(vars(owner)), owner.v


def new_key(x):
    d = {5: x}
    d[int(hy.argmax(x))] = x * 2
    return d


def all_keys_before(x):
    d = dict.fromkeys(range(3), 0)
    d[int(hy.argmax(x))] = 2
    return d


def counts_in_a_tensor(x):
    counts = hy.zeros(3)
    counts[int(hy.argmax(x))] += 1
    return counts


def pairs_that_tie(x):
    return sorted([("a", x[0]), ("a", x[1])])


def stacked_and_chosen(x):
    both = hy.stack([x[0], x[1]])
    return hy.max(both), hy.argmax(both), hy.where(both[0] < both[1], both[0], both[1])


def ordered_by_keys(x):
    return sorted([("b", x[0]), ("a", x[1])], key=lambda item: item[0])


ROWS = [
    Row(looked_at_otherwise, "go over it with a for loop, take len(xs), xs[i] or xs[-1], or return "
        "it; or write the items into a tensor of fixed size (rows[i] = value) and count them",
        (gone_over, in_rows_of_a_tensor)),
    Row(unlike_items, "append one tuple in each iteration, or use a list for each kind of item",
        (one_tuple, a_list_for_each_kind)),
    Row(loop_in_a_loop, "append to a list of the inner loop's own and join or sum that up, or "
        "write the items into a tensor of fixed size (rows[i] = value) and count them",
        (summed_up_inside, counted_rows_inside)),
    Row(read_where_it_grows, "write the items into a tensor of fixed size (rows[i] = value) and "
        "read that, or keep what the next iterations need in variables",
        (rows_read_where_they_grow, in_a_variable)),
    Row(changed_where_it_grows, "append only, and change the list after the loop; or let it keep "
        "its length (xs.append(v) and xs.pop(0))", (changed_after_the_loop, of_one_length)),
    Row(lists_as_items, "append tuples", (tuples_as_items,)),
    Row(texts_as_items, "append tensors, and keep other values outside the loop",
        (numbers_as_items, gone_over)),
    Row(item_written, "compute a new tensor from the item (y = y + 1), and collect those",
        (new_tensor_of_an_item,)),
    Row(appended_and_written, "append a copy (xs.append(x * 1)), or bind the name to a new tensor "
        "(x = x + 1)", (a_copy_appended, appended_and_bound_anew)),
    Row(kept_in_a_list_with_checks, "append to a list of the function's own and keep that after "
        "the loop, or check after the loop", (a_list_of_its_own, checked_after)),
    Row(queue_grown, "use a list, or let the deque keep its length (maxlen, or popleft for each "
        "append)", (list_in_its_place, queue_of_one_length)),
    Row(keys_looked_at, "ask for one key at a time (key in d, d[key], d.get(key, other), len(d)), "
        "or set the same keys in the same order on every path",
        (one_key_at_a_time, the_same_keys)),
    Row(attributes_shown, "ask for the attribute with hasattr() or getattr(), or set it on every "
        "path", (attribute_asked_for, attribute_on_every_path)),
    Row(new_key, "let the dict have all keys before (dict.fromkeys(range(n), 0)), or write to a "
        "tensor (counts[k] += 1)", (all_keys_before, counts_in_a_tensor)),
    Row(pairs_that_tie, "stack them into one tensor, and choose with hybrid.max, hybrid.argmax or "
        "hybrid.where; items whose keys differ are ordered by those (key=lambda item: item[0])",
        (stacked_and_chosen, ordered_by_keys)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("advised", [grow, in_rows_of_a_tensor])
def test_room_for_what_lists_hold(advised, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a loop may append is part of a plan: a higher limit is for captures to come."""
    few = 4 * 32 * 12  # bytes: a quarter of them are for lists, and hold 32 items
    monkeypatch.setattr(config, "RESIDUAL_NBYTES", few)
    x = f32([1e-12, 2e-12, 3e-12])
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(grow)(x)
    assert caught.value.fix == (
        "raise hybrid.config.RESIDUAL_NBYTES, of which lists may take a quarter, before the first "
        "call; or write the items into a tensor of fixed size (rows[i] = value)"
    )
    if advised is grow:
        monkeypatch.setattr(config, "RESIDUAL_NBYTES", few * 100)
    assert describe(hy.hybridize(advised)(x)) == describe(advised(x))
