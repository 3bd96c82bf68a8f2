"""What refusals of converted control flow advise: each is followed, and gives the eager bits."""

from __future__ import annotations

import contextlib
from collections import deque

import hybrid as hy
from tests.advice import P, Row, S, around, check, named


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


# Lists of unknown length -------------------------------------------------------------------------


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
    rows, n = hy.zeros((20, 3)), 0
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


# Dicts and attributes that may lack something ----------------------------------------------------


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


# Loops and branches ------------------------------------------------------------------------------


def another_shape_each_time(x):
    y = x
    while size(y) < 50:
        y = hy.concat([y, y])
    return y


def one_shape_all_the_time(x):
    y = hy.concat([x, x])
    while size(y) < 50:
        y = y * 2
    return y


def two_names_of_one_list(x):
    xs, ys = [x], [x]
    while size(xs[0]) < 50:
        xs[0] = xs[0] * 2 + hy.abs(ys[0])
        xs = ys = list(xs)
    return xs, ys


def one_name(x):
    xs = [x]
    while size(xs[0]) < 50:
        xs[0] = xs[0] * 3
        xs = list(xs)
    return xs


def a_copy_in_each_iteration(x):
    xs, ys = [x], [x]
    while size(xs[0]) < 50:
        xs[0] = xs[0] * 2 + hy.sign(xs[0]) * hy.abs(ys[0])
        ys = list(xs)
        xs = list(xs)
    return xs, ys


def another_kind_of_object(x):
    s = P(x, 1)
    while size(s.a) < 50:
        s = P(s.a * 2, [s.b])
    return s.a


def one_object(x):
    s = P(x, 1)
    while size(s.a) < 50:
        s.a = s.a * 2
    return s.a


def of_its_final_kind(x):
    s = P(x, [x])
    while size(s.a) < 50:
        s = P(s.a * 2, [s.a])
    return s.a, s.b


def endless(x):
    return x if size(x) > 50 else endless(x * 2)


def by_a_loop(x):
    while size(x) <= 50:
        x = x * 2
    return x


def up_to(x, depth):
    return x if depth == 0 else hy.where(size(x) > 50, x, up_to(x * 2, depth - 1))


def ended_by_a_number(x):
    return up_to(x, 3)


def yielding(x):
    if hy.sum(x) > 0:
        yield x
    yield x * 2


def going_over_it(x):
    total = x
    for v in yielding(x):
        total = total + v
    return total


def collected(x):
    found = []
    if hy.sum(x) > 0:
        found.append(x)
    found.append(x * 2)
    return found


def generator_of_a_run(x):
    total = x[0] * 0
    for y in (y for y in x if y > 0):
        total = total + y
    return total


def list_of_it(x):
    return [y * 2 for y in (x, x + 1)], list(y * 2 for y in (x, x * 3))


def given_to_functions(x):
    return sum(hy.sum(v) for v in (x, x)), any(hy.all(v > 0) for v in (x, x))


def filtered(x):
    return hy.sum(hy.stack(list(filter(lambda v: v > 0, [x[0], x[1]]))))


def where_in_its_place(x):
    return hy.sum(hy.where(x > 0, x, 0))


def loop_in_its_place(x):
    total = x[0] * 0
    for v in x:
        if v > 0:
            total = total + v
    return total


def used_up_twice(x):
    pairs = enumerate(grow(x))
    total = x * 0
    for _, y in pairs:
        total = total + y
    for _, y in pairs:
        total = total + y
    return total


def made_anew(x):
    total, ys = x * 0, grow(x)
    for i, y in enumerate(ys):
        total = total + y * i
    for i, y in enumerate(ys):
        total = total + y * i
    for y, z in zip(ys, reversed(ys), strict=True):
        total = total + y * z
    return total


def asked_by_python(x):
    match x.shape:
        case (n,) if hy.sum(x) > 0:
            found = n
        case _:
            found = 0

    class Inner:
        if hy.sum(x) > 0:  # noqa: SIM108
            value = 1
        else:
            value = 2

    return x * Inner.value + found


def asked_by_an_if(x):
    value = 2
    if hy.sum(x) > 0:
        value = 1
    return x * value, hy.where(hy.sum(x) > 0, x, -x)


def low(x):
    if hy.sum(x) < 0:
        raise ValueError("low")
    return x * 2


def caught_by_a_caller(x):
    try:
        return low(x)
    except ValueError:
        return x


def asked_first(x):
    return x if hy.sum(x) < 0 else x * 2


def chosen_with_where(x):
    return hy.where(hy.sum(x) < 0, x, x * 2)


@around
def try_around_the_call(wrap, x):
    try:
        return wrap(low)(x)
    except ValueError:
        return x


@around
def with_around_the_call(wrap, x):
    with contextlib.suppress(ValueError):
        return wrap(low)(x)
    return x


def suppressed_by_a_with(x):
    with contextlib.suppress(ValueError):
        return low(x)
    return x


def written_in_a_finally(x):
    try:
        if hy.sum(x) < 0:
            raise ValueError("low")
    finally:
        S.t += 1
    return x


@around
def written_after_the_try(wrap, x):
    def run(x):
        try:
            x = x * 2
        finally:
            x = x + 1
        S.t += 1
        return x

    return wrap(run)(x)


@around
def written_around_the_call(wrap, x):
    try:
        return wrap(low)(x)
    except ValueError:
        return x
    finally:
        S.t += 1


def making_effects(x):
    for v in x:
        S.t += 1
        yield v


def gone_over_with_a_break(x):
    total = x[0] * 0
    for v in making_effects(x):
        total = total + v
        if total > 2:
            break
    return total


def gone_over_as_a_list(x):
    total = x[0] * 0
    for v in list(making_effects(x)):
        total = total + v
        if total > 2:
            break
    return total


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
    Row(another_shape_each_time, "give y its final type, shape and structure before the loop",
        (one_shape_all_the_time,)),
    Row(two_names_of_one_list, "let only one name hold the list, or bind the name to a copy in "
        "each iteration", (one_name, a_copy_in_each_iteration)),
    Row(another_kind_of_object, "set the attributes of one P in place, or give them their final "
        "kind before it", (one_object, of_its_final_kind)),
    Row(endless, "write the recursion as a while loop, or let a Python value end it",
        (by_a_loop, ended_by_a_number)),
    Row(going_over_it, "collect the values in a list and return it", (collected,)),
    Row(generator_of_a_run, "make a list of it, [...] in place of (...), or give it to sum(), "
        "any(), all(), min(), max(), list() or tuple()", (list_of_it, given_to_functions)),
    Row(filtered, "use hybrid.where, or a loop with an if",
        (where_in_its_place, loop_in_its_place)),
    Row(used_up_twice, "make a new one with enumerate(), zip() or reversed()", (made_anew,)),
    Row(asked_by_python, "move the test into an if statement of its own, or choose with "
        "hybrid.where", (asked_by_an_if,)),
    Row(caught_by_a_caller, "test the condition and choose the value with if and else, or with "
        "hybrid.where; or put the try around the call of the hybridized function",
        (asked_first, chosen_with_where, try_around_the_call)),
    Row(suppressed_by_a_with, "or put the with around the call of the hybridized function",
        (with_around_the_call,)),
    Row(written_in_a_finally, "do it after the try, or put the try around the call of the "
        "hybridized function", (written_after_the_try, written_around_the_call)),
    Row(gone_over_with_a_break, "make a list of the items first (for item in list(...))",
        (gone_over_as_a_list,)),
]  # fmt: skip


@named(ROWS)
def test_the_advice_is_good(row: Row) -> None:
    check(row)
