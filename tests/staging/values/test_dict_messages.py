"""What dicts whose keys only the run knows cannot do: the full text; FILE:LINE is in this file."""

from __future__ import annotations

import re
from collections import Counter, UserDict, UserList, deque
from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import f32

X = f32([5.0, 1.0])
KEYS = (
    "and its keys are known only when the plan runs",
    "Whether it has 'a' depends on the value of a tensor (FILE:LINE).\n"
    "Fix: ask for one key at a time (key in d, d[key], d.get(key, other), len(d)), or set the same "
    "keys in the same order on every path.",
)
ORDER = (
    "and its order is known only when the plan runs",
    KEYS[1].replace("Whether it has 'a' depends", "Where among its keys 'a' stands depends"),
)
UNLIKE = (
    "Which of the two it is depends on the value of a tensor, and a graph needs one type and "
    "structure.\nFix: {}."
)


def some(x: hy.Tensor, d: Any = None) -> Any:
    d = {"b": x} if d is None else d
    if x[0] > 3:
        d["a"] = x * 2
    return d


def swapped(x: hy.Tensor) -> dict[str, hy.Tensor]:
    d = {}
    if x[0] > 3:
        d["a"] = x
        d["b"] = x
    else:
        d["b"] = x
        d["a"] = x
    return d


def over_keys(x):
    for k in some(x):
        x = x + len(k)
    return x


def over_values(x):
    return sum(some(x).values())


def comprehended(x):
    return [k for k in some(x)]


def listed(x):
    return list(some(x))


def starred(x):
    return [*some(x)]


def unpacked(x):
    a, b = some(x)
    return a, b


def extended(x):
    names = []
    names.extend(some(x))
    return names


def handed_on(x):
    return dict(**some(x))


def shown(x):
    return str(some(x))


def last_item(x):
    return some(x).popitem()


def matched(x):
    match some(x):
        case {"a": v}:
            return v
    return x


def compared(x):
    return some(x) == {"b": x, "a": x}


def ranked(x):
    return some(x, Counter()).most_common(1)


def through_another(x):
    return "a" in some(x, UserDict())


def in_some_order(x):
    return [k for k in swapped(x)]


def set_between(x):
    d = some(x)
    d["c"] = x
    d["a"] = x
    return list(d)


REFUSED: list[tuple[Callable[..., Any], str, str, str]] = [
    (over_keys, "a dict is gone over", "for k in some(x):", KEYS),
    (over_values, "a dict is asked for values()", "return sum(some(x).values())", KEYS),
    (
        comprehended,
        "a dict is gone over by a comprehension",
        "return [k for k in some(x)]",
        KEYS,
    ),
    (listed, "a dict is given to list()", "return list(some(x))", KEYS),
    (starred, "a dict is gone over", "return [*some(x)]", KEYS),
    (unpacked, "a dict is gone over", "a, b = some(x)", KEYS),
    (extended, "a dict is given to list.extend()", "names.extend(some(x))", KEYS),
    (
        handed_on,
        "a dict is handed on as keyword arguments",
        "return dict(**some(x))",
        KEYS,
    ),
    (shown, "a dict is looked into", "return str(some(x))", KEYS),
    (last_item, "a dict is asked for its last item", "return some(x).popitem()", KEYS),
    (matched, "a dict is matched", "match some(x):", KEYS),
    (compared, "a dict is compared", 'return some(x) == {"b": x, "a": x}', KEYS),
    (
        ranked,
        "a dict is given to Counter.most_common()",
        "return some(x, Counter()).most_common(1)",
        KEYS,
    ),
    (
        through_another,
        "a dict is looked into through a UserDict",
        'return "a" in some(x, UserDict())',
        KEYS,
    ),
    (
        in_some_order,
        "a dict is gone over by a comprehension",
        "return [k for k in swapped(x)]",
        ORDER,
    ),
    (set_between, "a dict is given to list()", "return list(d)", ORDER),
]


def text_of(function: Callable[..., Any]) -> str:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(X)
    text = re.sub(re.escape(__file__) + r":\d+", "FILE:LINE", str(caught.value))
    return re.sub(r"(?m)^ +\d+ \| ", "", text)


@pytest.mark.parametrize(
    ("function", "what", "line", "rest"), REFUSED, ids=[row[0].__name__ for row in REFUSED]
)
def test_what_needs_the_keys_is_refused(
    function: Callable[..., Any], what: str, line: str, rest: tuple[str, str]
) -> None:
    assert text_of(function) == f"{what}, {rest[0]} (FILE:LINE)\n{line}\n{rest[1]}"


def returned_in_some_order(x):
    return swapped(x)


def attributes_shown(x):
    class Owner:
        pass

    owner = Owner()
    if x[0] > 3:
        owner.v = x
    return str(vars(owner))


def set_grown(x):
    seen = {2}
    if x[0] > 3:
        seen.add(1)
    return 1 in seen


def deque_grown(x):
    q = deque([x])
    if x[0] > 3:
        q.append(x)
    return len(q)


def list_grown_inside_another(x):
    xs = UserList([x])
    if x[0] > 3:
        xs.append(x)
    return len(xs)


def work_list(x):
    stack = [x[0], x[1]]
    if stack[0] > 1:
        stack.append(x[0] / 2)
    return stack.index(x[0])


def pairs_that_tie(x):
    return sorted([("a", x[0]), ("a", x[1])])


def largest_of_pairs_that_tie(x):
    return max([("a", x[0]), ("a", x[1])])


def new_key(x):
    d = {0: x}
    d[int(x[1])] = x * 2
    return d


ORDERED = (
    "Their order would only be known when the plan runs.\n"
    "Fix: stack them into one tensor, and choose with hybrid.max, hybrid.argmax or hybrid.where; "
    "items whose keys differ are ordered by those (key=lambda item: item[0])."
)
LENGTH = (
    "How many items it has depends on the value of a tensor where it grows (FILE:LINE).\n"
    "Fix: go over it with a for loop, take len(xs), xs[i] or xs[-1], or return it; or write the "
    "items into a tensor of fixed size (rows[i] = value) and count them."
)
TEXTS = [
    (
        returned_in_some_order,
        "a dict is returned, and its order is known only when the plan runs (FILE:LINE)\n"
        "if x[0] > 3:\n" + ORDER[1].replace(" (FILE:LINE)", ""),
    ),
    (
        attributes_shown,
        "an object is looked into, and its attributes are known only when the plan runs "
        "(FILE:LINE)\nreturn str(vars(owner))\nWhether it has an attribute depends on the value of "
        "a tensor (FILE:LINE).\nFix: ask for the attribute with hasattr() or getattr(), or set it "
        "on every path.",
    ),
    (
        set_grown,
        "a set is a set of 1, 2 where the condition holds, and a set of 2 where it does not "
        "(FILE:LINE)\nif x[0] > 3:\n"
        + UNLIKE.format("keep what is in the set in a tensor of flags (seen[i] = True)"),
    ),
    (
        deque_grown,
        "a deque is a deque of 2 where the condition holds, and a deque of 1 where it does not "
        "(FILE:LINE)\nif x[0] > 3:\n"
        + UNLIKE.format(
            "use a list, or let the deque keep its length (maxlen, or popleft for each append)"
        ),
    ),
    (
        list_grown_inside_another,
        "a list is looked into through a UserList, and its length is known only when the plan runs "
        "(FILE:LINE)\nreturn len(xs)\n" + LENGTH,
    ),
    (
        work_list,
        "a list is given to list.index(), and its length is known only when the plan runs "
        "(FILE:LINE)\nreturn stack.index(x[0])\n" + LENGTH,
    ),
    (
        pairs_that_tie,
        "sorted() of traced values (FILE:LINE)\n"
        'return sorted([("a", x[0]), ("a", x[1])])\n' + ORDERED,
    ),
    (
        largest_of_pairs_that_tie,
        'max() of traced values (FILE:LINE)\nreturn max([("a", x[0]), ("a", x[1])])\n' + ORDERED,
    ),
    (
        new_key,
        "a dict gets a key that it did not have while the function was captured (FILE:LINE)\n"
        "d[int(x[1])] = x * 2\n"
        "The key is a number that only the run knows, and which keys a dict has is part of the "
        "plan.\nFix: let the dict have all keys before (dict.fromkeys(range(n), 0)), or write to a "
        "tensor (counts[k] += 1).",
    ),
]


@pytest.mark.parametrize(("function", "text"), TEXTS, ids=[row[0].__name__ for row in TEXTS])
def test_other_refusals(function: Callable[..., Any], text: str) -> None:
    assert text_of(function) == text


def test_what_only_python_can_index_needs_the_value() -> None:
    for function in (
        lambda x: ["a", "b"][int(x[1])],
        lambda x: [1, 2.5][int(x[1])],
        lambda x: {0: "a"}[int(x[1])],
        lambda x: [len, max][int(x[1])]([1]),
    ):
        with pytest.raises(hy.errors.NeedsValue, match="needs the value of a traced int"):
            hy.hybridize(function)(X)


def test_nothing_that_is_missing_is_shown() -> None:
    """What libraries find inside other structures refuses to be copied, compared or shown."""
    import copy

    for function in (
        lambda x: copy.deepcopy([some(x)]),
        lambda x: repr([some(x)]),
        lambda x: [some(x)] == [{"b": x, "a": x}],
        lambda x: [some(x)].index({"b": x}),
    ):
        with pytest.raises(CaptureError, match="its keys are known only when the plan runs"):
            hy.hybridize(function)(X)
