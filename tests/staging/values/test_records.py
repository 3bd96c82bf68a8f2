"""Deques, named tuples, dataclasses and sets as the state of loops and branches."""

from __future__ import annotations

from collections import deque, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from tests.staging.harness import Program, Table, f32, i64

table = Table()
STARTS = [f32(v) for v in (0.5, 3.0, 50.0, 200.0)]
COUNTS = [i64(n) for n in (0, 1, 2, 5, -3)]
Pair = namedtuple("Pair", "a b")


@dataclass
class Record:
    a: Any
    n: int = 0


@table.runs(*STARTS)
def deque_of_the_latest(x):
    latest = deque([x * 0, x * 0], maxlen=2)
    while x < 100:
        latest.append(x)
        x = x * 2
    return latest[0], latest[1], list(latest), len(latest)


@table.runs(*STARTS)
def deque_as_a_queue(x):
    queue = deque([x, x + 1])
    while x < 100:
        queue.append(queue.popleft() * 0.5 + x)
        x = x * 2
    return list(queue)


@table.runs(*STARTS)
def deque_rotated_in_a_branch(x):
    queue = deque([x, x + 1, x + 2])
    for i in range(2):
        if x > i:
            queue.rotate(1)
            queue.appendleft(queue.pop() * 2)
    return list(queue)


@table.runs(*STARTS)
def named_tuple(x):
    pair, other = Pair(x, 0), Pair(x, x)
    while pair.a < 100:
        pair = Pair(pair.a * 2, pair.b + 1)
        other = other._replace(a=other.a + pair.a)
    if x > 10:
        pair = Pair(pair.a + 1, 2)
    return pair, other


@table.runs(*STARTS)
def dataclass_that_changes(x):
    record = Record(x)
    while record.a < 100:
        record.a = record.a * 2
        record.n += 1
    return record.a, record.n


@table.runs(*STARTS)
def set_that_stays_the_same(x):
    seen = {1, 2}
    n = 0
    while x < 100:
        seen.add(1)
        if x > 10:
            seen.add(2)
        n = n + 1 if 2 in seen else n
        x = x * 2
    return x, n, sorted(seen)


@table.runs(*COUNTS)
def numbers_keep_their_types(n):
    k = int(n)
    chosen = min(k, 3), max(k, 3), min([k, 2, 5]), min(k, 2, key=lambda v: -v), abs(k)
    rounded = round(k), round(k + 0.5), round(k * 0.7, 1), int(k * 0.7), float(k), bool(k)  # noqa: RUF057
    powers = divmod(k, 3), divmod(7, k + 10), pow(k, 2), pow(2, k + 3), pow(k, 2, 5), k // 2, k % 3
    return chosen, rounded, powers, sum([k, 1, 2]), sum([k, 0.5]), len(range(k, 10, 2))


@table.runs(*COUNTS)
def ranges_in_any_direction(n):
    k, total = int(n), 0
    for i in range(k, 0, -2):
        total = total * 3 + i
    for i in range(k, k + 3):
        total = total * 3 + i
    for i, v in enumerate([1, 2, 3], start=2):
        total = total + v * i * k
    return total, 3 in range(k), k in range(3), 0 < k < 3


@table.runs(*[f32(v) for v in (0.5, 3.0, 200.0)])
def another_object(x):
    record = Record(x)
    while record.a < 100:
        record = Record(record.a * 2)
    return record.a


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def growing_deque(x):
    queue = deque()
    while x < 100:  # here
        queue.append(x)
        x = x * 2
    return x


def growing_set(x):
    seen = {1}
    if x > 10:  # here
        seen.add(2)
    return sorted(seen)


REFUSED = {
    growing_deque: (
        "a deque is a deque of 1 before an iteration of this loop, and a deque of 2 after it",
        "The loop depends on the value of a tensor, so all its iterations are one piece of graph, "
        "with one type and structure for each variable.\n"
        "Fix: use a list, or let the deque keep its length (maxlen, or popleft for each append).",
    ),
    growing_set: (
        "a set is a set of 1, 2 where the condition holds, and a set of 1 where it does not",
        "Which of the two it is depends on the value of a tensor, and a graph needs one type and "
        "structure.\n"
        "Fix: keep what is in the set in a tensor of flags (seen[i] = True).",
    ),
}


@pytest.mark.parametrize("function", REFUSED)
def test_what_is_refused(function) -> None:
    with pytest.raises(CaptureError) as caught:
        hy.hybridize(function)(f32(0.5))
    line = function.__code__.co_firstlineno + 2
    what, rest = REFUSED[function]
    assert str(caught.value) == (
        f"{what} ({__file__}:{line})\n    {line} | {caught.value.at.text}\n{rest}"
    )
