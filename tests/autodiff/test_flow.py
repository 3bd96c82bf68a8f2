"""Gradient flow through control flow: to which results, and from which operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybrid as hy
from hybrid.autodiff.flow import control_flows, control_sources
from tests.helpers import graph_of

LOOP = """
graph @f(%n: i64[], %a: f32[2], %b: f32[2], %c: f32[2], %w: f32[2]) {
  %x: f32[2], %y: f32[2], %z: f32[2], %r: f32[4, 2] = for %n, %a, %b, %c, %w
    {carried=3, length=4, reverse=false, sliced=0} {
    body(%i: i64[], %p: f32[2], %q: f32[2], %s: f32[2], %v: f32[2]) {
      %1: f32[2] = add %p, %p
      %2: f32[2] = multiply %s, %v
      return %1, %p, %2, %q
    }
  }
  return %x, %y, %z, %r
}
"""
BRANCH = """
graph @f(%go: bool[], %a: f32[2], %b: f32[2], %k: i64[2]) {
  %x: f32[2], %y: f32[2] = cond %go, %a, %b, %k {
    then(%p: f32[2], %q: f32[2], %m: i64[2]) {
      %1: f32[2] = cast %m {dtype=f32}
      return %p, %1
    }
    else(%p: f32[2], %q: f32[2], %m: i64[2]) {
      return %q, %q
    }
  }
  return %x, %y
}
"""
WHILE = """
graph @f(%go: bool[], %a: f32[2], %b: f32[2], %lim: f32[]) {
  %n: i64[], %x: f32[2], %y: f32[2] = while %go, %a, %b, %lim {carried=2, length=0} {
    body(%p: f32[2], %q: f32[2], %l: f32[]) {
      %1: f32[2] = sin %q
      %2: f32[] = sum %1 {axis=(0,), keepdims=false}
      %3: bool[] = less %2, %l
      return %3, %1, %q
    }
  }
  return %n, %x, %y
}
"""
ROWS = {  # results that are asked for: the operands that may matter
    "the body's own value": (LOOP, "x", "a"),
    "one iteration later": (LOOP, "y", "a b"),
    "with what all iterations read": (LOOP, "z", "c w"),
    "rows": (LOOP, "r", "a b"),
    "no result": (LOOP, "", ""),
    "either branch": (BRANCH, "x", "a b"),
    "integers lead nowhere": (BRANCH, "y", "b"),
    "a value, not the test": (WHILE, "y", "b"),
    "before and behind": (WHILE, "x", "a b"),
    "the count": (WHILE, "n", ""),
}


@pytest.mark.parametrize("what", ROWS)
def test_sources(what: str) -> None:
    text, results, operands = ROWS[what]
    node = graph_of(text).nodes[-1]
    named = [value.hint in results.split() for value in node.results]
    found = control_sources(node.op, named, node.attributes, node.regions)
    names = [v.hint for v, flag in zip(node.operands, found, strict=True) if flag]
    assert " ".join(names) == operands


@pytest.mark.parametrize("text", [LOOP, BRANCH, WHILE], ids=["for", "cond", "while"])
def test_both_directions_agree(text: str) -> None:
    node = graph_of(text).nodes[-1]

    def one(count: int, index: int) -> list[bool]:
        return [i == index for i in range(count)]

    floats = [v.type.floating for v in node.operands]
    forth = [
        control_flows(node.op, one(len(floats), i), node.attributes, node.regions)
        for i in range(1, len(floats))
    ]
    back = [
        control_sources(node.op, one(len(node.results), i), node.attributes, node.regions)
        for i in range(len(node.results))
    ]
    for operand in range(1, len(floats)):
        if floats[operand]:
            for result in range(len(node.results)):
                assert forth[operand - 1][result] == back[result][operand]


class Kept:
    """What a function leaves its last value in."""

    value: Any


def for_with_a_target(kept: Kept, x: Any) -> Any:
    for _ in range(3):
        x = x + x
        kept.value = x
    return hy.sum(x * x)


def for_with_a_choice(kept: Kept, x: Any) -> Any:
    rows = [x * 3]
    for _ in range(3):
        x = (x + x) if rows else x
        kept.value = x
    return hy.sum(x * x)


def for_that_reads_it(kept: Kept, x: Any) -> Any:
    for _ in range(3):
        x = x + kept.value
        kept.value = x
    return hy.sum(x * x)


def for_beside_it(kept: Kept, x: Any) -> Any:
    for _ in range(3):
        kept.value = kept.value * 2
        x = x + x
    return hy.sum(x * x)


TRANSFORMS: list[Callable[..., Any]] = [
    hy.grad, hy.value_and_grad,
    lambda f: lambda x: hy.vjp(f, x)[0],
    lambda f: lambda x: hy.vjp(f, x)[1](hy.ones(())),
    lambda f: lambda x: hy.jvp(f, (x,), (hy.ones(3),)),
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS, ids=["grad", "value", "vjp", "pullback", "jvp"])
@pytest.mark.parametrize(
    "program", [for_with_a_target, for_with_a_choice, for_that_reads_it, for_beside_it]
)
def test_a_history_is_only_of_what_was_computed_from(
    program: Callable[..., Any], transform: Callable[..., Any]
) -> None:
    """A variable that a loop overwrites or goes beside of does not make its results variables."""

    def called(hybridized: bool) -> list[Any]:
        kept = Kept()
        kept.value = hy.full((3,), 2.0)
        kept.value.requires_grad = True

        def function(x: Any) -> Any:
            return transform(lambda v: program(kept, v))(x)

        made = hy.hybridize(function) if hybridized else function
        flags = []
        for _ in range(3):
            found = made(hy.asarray([0.5, -1.0, 2.0]))
            leaves = found if isinstance(found, tuple) else (found,)
            flags.append([(t.requires_grad, t.tolist()) for t in (*leaves, kept.value)])
        return flags

    assert called(True) == called(False)
