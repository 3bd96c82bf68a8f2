"""Leaves are told of once, when nothing more arrives at them, and before the way back is over."""

from __future__ import annotations

from typing import Any

import pytest

import hybrid as hy
from hybrid.autodiff.tape import cotangents, pulled_back


def variables(n: int) -> list[hy.Tensor]:
    found = [hy.asarray([0.5 + i, 1.5]) for i in range(n)]
    for x in found:
        x.requires_grad = True
    return found


def told(root: hy.Tensor, leaves: list[hy.Tensor]) -> tuple[list[Any], list[Any]]:
    """Who was told of, with which cotangent; and the cotangents in the end."""
    found: list[Any] = []
    records = [x.record for x in leaves]
    with hy.no_grad():
        ends = pulled_back(
            [(root.record, hy.ones(()))], records, told=lambda leaf, ct: found.append((leaf, ct))
        )
    return [(records.index(leaf), ct) for leaf, ct in found], ends


def test_the_last_used_come_first() -> None:
    a, b, c = leaves = variables(3)
    y = ((a * 2).exp() * b).tanh() * c
    found, ends = told(y.sum(), leaves)
    assert [at for at, _ in found] == [2, 1, 0]
    assert all(ct is ends[at] for at, ct in found)


def test_a_leaf_is_final_behind_its_first_use() -> None:
    a, b = leaves = variables(2)
    y = (a * 3) * b  # a again below, as the last thing that is done
    found, ends = told((y * a + b).sum(), leaves)
    assert [at for at, _ in found] == [1, 0]
    assert all(ct is ends[at] for at, ct in found)
    assert ends[0].tolist() == (6 * a * b).tolist()


def test_what_nothing_arrives_at_is_final_too() -> None:
    a, b = leaves = variables(2)
    y = hy.stop_gradient(b * 2) + a
    found, ends = told((y * 1).sum(), leaves)
    assert [(at, ct is None) for at, ct in found] == [(0, False)] and ends[1] is None
    found, ends = told((hy.where(a > 9, b, 1.0) * a.detach()).sum(), leaves)
    assert ends[1].tolist() == [0.0, 0.0] and [at for at, _ in found] == [1]


def test_two_ways_to_one_leaf() -> None:
    (a,) = leaves = variables(1)
    y, z = a * 2, a * 3
    seen: list[int] = []

    @hy.custom_vjp
    def mark(x: hy.Tensor) -> hy.Tensor:
        return x * 1

    def back(_: Any, ct: hy.Tensor) -> tuple[hy.Tensor]:
        seen.append(len(found))
        return (ct,)

    mark.defvjp(lambda x: (x * 1, None), back)
    found: list[Any] = []
    root = (mark(y) + z).sum()
    with hy.no_grad():
        pulled_back([(root.record, hy.ones(()))], [a.record], told=lambda *_: found.append(0))
    assert seen == [0] and len(found) <= 1
    assert leaves[0] is a


def test_a_leaf_at_the_end_is_known_at_the_end() -> None:
    (a,) = leaves = variables(1)
    with hy.no_grad():
        found: list[Any] = []
        [ct] = pulled_back([(a.record, hy.ones(2))], [a.record], told=lambda *x: found.append(x))
    assert found == [] and ct.tolist() == [1.0, 1.0] and leaves


@pytest.mark.parametrize("run", ["plan", "checkpoint"])
def test_where_values_may_be_others_nobody_is_told(run: str) -> None:
    a, b = leaves = variables(2)

    def part(x: hy.Tensor) -> hy.Tensor:
        return hy.tanh(x * 2)

    call = hy.hybridize(part) if run == "plan" else hy.checkpoint(part)
    for _ in range(3):
        found, ends = told((call(a) * b).sum(), leaves)
    controls = any("regions" in node.attrs for node in _records((call(a) * b).sum()))
    assert controls or run == "plan"  # which may be found not to pay
    assert bool(found) is not controls
    wanted = cotangents([((part(a) * b).sum().record, hy.ones(()))], [x.record for x in leaves])
    assert [x.tolist() for x in ends] == [x.tolist() for x in wanted]


def _records(root: hy.Tensor) -> list[Any]:
    found, stack = [], [root.record]
    while stack:
        node = stack.pop()
        node = getattr(node, "record", node)
        if getattr(node, "attrs", None) is not None:
            found.append(node)
        stack += [p for p in node.parents if p is not None]
    return found
