"""Keys and attributes that only some paths have set: what is asked of them and stored."""

# ruff: noqa: SIM401  the programs are about these forms

import copy
import operator
from collections import Counter, OrderedDict, defaultdict, deque

import pytest

import hybrid as hy
from tests.staging.harness import Program, Table, f32

table = Table()
NUMBERS = [f32(v) for v in (5.0, 1.0, -2.0)]
ROWS = [f32(v) for v in ([1.0, 3.0, -2.0], [-1.0, -3.0, -2.0], [-1.0, 2.0, 5.0])]


class Owner:
    pass


# Whether a key is there -------------------------------------------------------------------------


@table.runs(*NUMBERS)
def membership(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    return "a" in d, "a" not in d, "b" in d, "c" in d, d.__contains__("a")


@table.runs(*NUMBERS)
def length_and_truth(x):
    d = {}
    if x > 3:
        d["a"] = x * 2
    e = dict(d, b=x)
    return len(d), bool(d), not d, 1 if d else 0, len(e), bool(e), d.__len__()


@table.runs(*NUMBERS)
def truth_of_a_dict_tested(x):
    d = {}
    if x > 3:
        d["a"] = x * 2
    if d:
        return d["a"]
    while not d:
        d["a"] = x
    return d["a"] + 1


@table.runs(*NUMBERS)
def value_or_default(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    get = d.get
    return d.get("a", -x), get("a", x), d.get("b", 0), d.get("c", 7), dict.get(d, "a", x + 1)


@table.runs(*NUMBERS)
def default_of_none(x):
    d = {}
    if x > 3:
        d["a"] = x * 2
    found = d.get("a")
    if found is None:
        return x
    return found + 1


@table.runs(*NUMBERS)
def item_behind_a_test(x):
    d = {}
    if x > 3:
        d["a"] = x * 2
    y = d["a"] if "a" in d else -x
    if "a" in d:
        y = y + d["a"]
        del d["a"]
    return y, len(d)


@table.runs(*NUMBERS)
def missing_item(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    return d["a"], d["b"]


@table.runs(*NUMBERS)
def missing_item_deleted(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    del d["a"]
    return d


@table.runs(*NUMBERS)
def missing_item_popped(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    y = d.pop("a", -x)
    z = d.pop("b")
    return y, z, len(d), d.pop("a", 3)


@table.runs(*NUMBERS)
def popped_without_a_default(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    return d.pop("a")


@table.runs(*NUMBERS)
def taken_away_on_one_path(x):
    d = {"b": x, "a": x + 1}
    if x > 3:
        d.pop("b")
    elif x < 0:
        del d["a"]
    if "b" not in d:
        return x * 2
    return d["b"] + len(d) + ("a" in d)


@table.runs(*NUMBERS)
def looked_for_in_a_list(x):
    d = {"b": 1}
    if x > 3:
        d["a"] = 2
    return d in [{"b": 1}, 3], {"b": 1, "a": 2} in [d]


@table.runs(*NUMBERS)
def compared_by_keys(x):
    d = {"b": 1}
    if x > 3:
        d["a"] = 2
    return d == {"b": 1}, d != {"b": 1}, d == {"b": 1, "a": 2}, d == {"c": 1}, d == 5


@table.runs(*ROWS)
def last_and_count(x):
    d = {}
    for v in x:
        if v > 0:
            d["last"] = v
        if "last" in d:
            d["n"] = d.get("n", 0) + 1
    return d.get("n", 0), d.get("last", x[0] * 0)


@table.runs(*ROWS)
def best_so_far(x):
    d = {}
    for v in x:
        if "best" not in d or v > d["best"]:
            d["best"] = v
    return d["best"]


@table.runs(*NUMBERS)
def worked_off(x):
    d = {"b": x * 3}
    if x > 3:
        d["a"] = x * 2
    while "a" in d:
        x = x + d.pop("a")
    return x, len(d)


# What is stored ---------------------------------------------------------------------------------


@table.runs(*NUMBERS)
def set_by_default(x):
    d = {}
    if x > 3:
        d["a"] = x * 2
    y = d.setdefault("a", -x)
    z = d.setdefault("b", x * 5)
    return y, z, d


@table.runs(*NUMBERS)
def set_later(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 2
    d["a"] = x * 7
    return d, list(d)


@table.runs(*NUMBERS)
def changed_in_place(x):
    d = {"n": 1}
    if x > 3:
        d["a"] = 2
    d["a"] += 3
    d["n"] += 1
    return d


@table.runs(*NUMBERS)
def updated_with_it(x):
    d, e = {"a": x, "c": x * 3}, {}
    if x > 3:
        e["a"] = x * 5
    d.update(e)
    f = {"a": x} | e
    g = {"a": x}
    g |= e
    return d, f, g, {**{"a": x - 1}, **e}["a"]


@table.runs(*NUMBERS)
def updated_itself(x):
    d = {}
    if x > 3:
        d["a"] = x * 5
    e, f = d | {"b": x}, {**d, "b": x + 1}
    d.update({"c": x}, k=x * 2)
    return d, e, f, d.copy(), copy.copy(d), dict(d), [d]


@table.runs(*NUMBERS)
def cleared(x):
    d = {"b": x}
    if x > 3:
        d["a"] = x * 5
    e = d.copy()
    d.clear()
    return d, e


@table.runs(*NUMBERS)
def inside_other_structures(x):
    d = {"in": {}, "list": [{}]}
    if x > 3:
        d["in"]["a"] = x
        d["list"][0]["k"] = x * 2
    return d, "a" in d["in"], len(d["list"][0])


@table.runs(*NUMBERS)
def values_of_other_kinds(x):
    d = {}
    if x > 3:
        d["n"], d["s"], d["none"] = 1, "text", None
    return d, d.get("n", 0), "none" in d


# The order of keys ------------------------------------------------------------------------------


@table.runs(*NUMBERS)
def keys_of_one_path_between_others(x):
    d = {}
    if x > 3:
        d["a"] = x
        d["b"] = x * 2
    else:
        d["c"] = x * 3
        d["b"] = x * 4
    d["z"] = x
    return d


@table.runs(*NUMBERS)
def items_in_another_order_looked_up(x):
    d = {}
    if x > 3:
        d["a"] = x
        d["b"] = x * 2
    else:
        d["b"] = x * 3
        d["a"] = x * 4
    d["a"] = d["a"] + 1
    return d["a"], d["b"], len(d), "a" in d, bool(d)


@table.runs(*NUMBERS)
def order_forgotten(x):
    d = {"c": x}
    if x > 3:
        d["c"] = d.pop("c")
        d["a"] = x
    else:
        d["a"] = x * 2
        d["c"] = d.pop("c")
    y = d.pop("a")
    d["c"] = y
    return d


# Attributes -------------------------------------------------------------------------------------


@table.runs(*NUMBERS)
def attribute_of_one_path(x):
    s = Owner()
    if x > 3:
        s.v = x * 2
    y = s.v if hasattr(s, "v") else -x
    return y, hasattr(s, "v"), getattr(s, "v", x), getattr(s, "w", 3), "v" in vars(s)


@table.runs(*NUMBERS)
def attribute_missing(x):
    s = Owner()
    if x > 3:
        s.v = x * 2
    return s.v


@table.runs(*NUMBERS)
def attribute_deleted(x):
    s = Owner()
    if x > 3:
        s.v = x * 2
    del s.v
    return x, hasattr(s, "v")


@table.runs(*NUMBERS)
def attribute_deleted_by_name(x):
    s = Owner()
    s.v = x
    if x > 3:
        del s.v
    delattr(s, "v")
    return x


@table.runs(*NUMBERS)
def attribute_changed_in_place(x):
    s = Owner()
    if x > 3:
        s.n = 2
    s.n += 1
    return s.n


@table.runs(*ROWS)
def attribute_made_in_a_loop(x):
    s = Owner()
    for v in x:
        if v > 0:
            s.best = v if not hasattr(s, "best") else s.best + v
    return getattr(s, "best", x[0])


# Other kinds of dicts, deques and sets ----------------------------------------------------------


@table.runs(*NUMBERS)
def counters(x):
    c = Counter("aab")
    if x > 3:
        c["a"] += 1
        c["z"] += 2
    c["b"] += 1
    return c["a"], c["b"], c["z"], c["none"], len(c), "z" in c


@table.runs(*NUMBERS)
def counter_updated(x):
    c = Counter("aab")
    if x > 3:
        c.update("ab")
    return c["a"], c["b"]


@table.runs(*NUMBERS)
def dict_with_defaults(x):
    d = defaultdict(list)
    n = defaultdict(int)
    if x > 3:
        d["a"].append(x)
        n["read"]
        n["k"] += 1
    d["a"].append(x * 2)
    n["k"] += 1
    return len(d["a"]), d["a"][-1], len(n), n["k"], "read" in n, dict(n)


@table.runs(*NUMBERS)
def dict_in_order(x):
    d = OrderedDict(b=x)
    if x > 3:
        d["a"] = x * 2
    return d, "a" in d, len(d)


@table.runs(*NUMBERS)
def bounded_deque(x):
    q = deque([x, x * 2], maxlen=2)
    if x > 3:
        q.append(x * 3)
    else:
        q.rotate(1)
    return list(q), q[0], len(q), sum(q)


@table.runs(*NUMBERS)
def frames_kept(x):
    q = deque([x, x * 0 + 2], maxlen=2)
    while q[-1] < 50:
        q.append(hy.abs(q[0]) + q[1])
    return list(q)


@table.runs(*NUMBERS)
def set_that_stays_the_same(x):
    seen = {1, 2}
    while x < 10:
        seen.add(1)
        seen.discard(3)
        x = x * x + 1
    return x, len(seen), 1 in seen


@table.runs(*NUMBERS)
def operators_by_name(x):
    items, d = [x, x], {"a": x, "b": x}
    if x > 3:
        operator.setitem(items, 0, x * 2)
        operator.ior(d, {"a": x * 3})
        operator.delitem(d, "b")
    return items, operator.getitem(d, "a"), operator.contains(d, "b"), operator.eq(len(d), 1)


@table.runs(*NUMBERS)
def joined_by_name(x):
    items = [x]
    if x > 3:
        operator.iadd(items, [x * 2])
    return items, len(items)


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_a_dict_of_the_caller_keeps_its_keys() -> None:
    """A refused capture leaves no trace of the branches."""
    kept = {"b": f32(1.0)}

    def f(x, d):
        if x > 3:
            d["a"] = x
        return x * 2

    with pytest.raises(hy.errors.CaptureError, match="f sets an item on one path only"):
        hy.hybridize(f)(f32(5.0), kept)
    assert list(kept) == ["b"]
