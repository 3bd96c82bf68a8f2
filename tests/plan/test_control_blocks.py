"""Branches and loops as plans: what they compute, and where their values lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid.core.types import float32, int64, tensor_type
from hybrid.eager.execution import as_tensor
from hybrid.eager.launch import call_plan
from hybrid.errors import Location, OutOfRangeError
from hybrid.ir import Builder, get_op
from hybrid.ops.flow.control import run_region
from hybrid.plan import Plan, interpret, make_plan
from hybrid.plan.steps import Step
from tests.helpers import graph_of

F4 = np.arange(4, dtype=np.float32)
WIDE = np.arange(16, dtype=np.float32)


def run(plan: Plan, *arrays: Any) -> list[np.ndarray]:
    return [t.numpy() for t in call_plan(plan, [as_tensor(np.asarray(a)) for a in arrays])]


def check(text: str, *arrays: Any) -> list[np.ndarray]:
    """What the plan of ``text`` gives, which is what the references of its ops give."""
    graph = graph_of(text)
    inputs = [np.asarray(a) for a in arrays]
    wanted = run_region(graph, inputs)
    plan = make_plan(graph)
    for found in (run(plan, *inputs), run(plan, *inputs), interpret(plan, inputs)):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
    return [np.asarray(a) for a in wanted]


@pytest.fixture(autouse=True, params=["0", "1"], ids=["", "poison"])
def poison(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_POISON", request.param)


# What they compute ------------------------------------------------------------------------------

COND = """
graph @f(%p: bool[], %x: f32[4], %y: f32[4]) {
  %a: f32[4], %b: f32[4], %c: f32[4] = cond %p, %x, %y {
    then(%x: f32[4], %y: f32[4]) { %z: f32[4] = add %x, %y return %z, %x, %z }
    else(%x: f32[4], %y: f32[4]) {
      %z: f32[4] = full {dtype=f32, shape=(4,), value=2}
      return %y, %x, %z
    }
  }
  return %a, %b, %c, %a
}
"""


@pytest.mark.parametrize("p", [True, False])
def test_a_cond_returns_values_operands_and_constants(p: bool) -> None:
    check(COND, p, F4, F4 + 10)


FOR = """
graph @f(%n: i64[], %a: f32[4], %b: f32[4], %xs: f32[5,4], %w: f32[4]) {
  %a1: f32[4], %b1: f32[4], %rows: f32[5,4], %at: i64[5] = for %n, %a, %b, %xs, %w
      {carried=2, length=5, reverse=REVERSE, sliced=1} {
    body(%i: i64[], %a: f32[4], %b: f32[4], %x: f32[4], %w: f32[4]) {
      %c: f32[4] = add %b, %x
      %d: f32[4] = add %c, %w
      return %b, %d, %c, %i
    }
  }
  %numbers: i64[5] = literal {data=NUMBERS, dtype=i64, shape=(5,)}
  %reach: i64[5] = broadcast_to %n {shape=(5,)}
  %in: bool[5] = less %numbers, %reach
  %in2: bool[5,1] = reshape %in {shape=(5,1)}
  %in3: bool[5,4] = broadcast_to %in2 {shape=(5,4)}
  %none: f32[5,4] = full {dtype=f32, shape=(5,4), value=0}
  %reached: f32[5,4] = where %in3, %rows, %none
  %w1: f32[4] = add %w, %w
  return %a1, %b1, %reached, %w1
}
""".replace("NUMBERS", "0x" + np.arange(5).tobytes().hex())


@pytest.mark.parametrize("reverse", ["true", "false"])
@pytest.mark.parametrize("n", [-(2**63), -1, 0, 1, 2, 3, 5, 6, 2**62])
def test_a_for_slices_stacks_and_counts(n: int, reverse: str) -> None:
    xs = np.arange(20, dtype=np.float32).reshape(5, 4)
    check(FOR.replace("REVERSE", reverse), np.int64(n), F4, F4 + 1, xs, F4 * 2)


OVERRUNS = """
graph @f(%n: i64[], %a: f32[4], %w: f32[4]) {
  %b: f32[4], %rows: f32[3,4] = for %n, %a, %w {carried=1, length=3, overruns=true} {
    body(%i: i64[], %a: f32[4], %w: f32[4]) {
      %b: f32[4] = add %a, %w
      %c: f32[4] = multiply %b, %w
      return %b, %c
    }
  }
  return %b, %rows
}
"""


@pytest.mark.parametrize("n", [3, 4, 9])
def test_a_for_that_overruns_keeps_the_first_rows(n: int) -> None:
    check(OVERRUNS, np.int64(n), F4, F4 * 2)


SWAP = """
graph @f(%n: i64[], %a: f32[4], %b: f32[4], %c: f32[4]) {
  %x: f32[4], %y: f32[4], %z: f32[4] = for %n, %a, %b, %c {carried=3, length=0} {
    body(%i: i64[], %a: f32[4], %b: f32[4], %c: f32[4]) { return RETURNED }
  }
  return %x, %y, %z
}
"""


@pytest.mark.parametrize(
    "returned", ["%b, %a, %c", "%b, %c, %a", "%c, %a, %b", "%a, %a, %a", "%b, %b, %a", "%a, %c, %b"]
)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_values_change_places(returned: str, n: int) -> None:
    check(SWAP.replace("RETURNED", returned), np.int64(n), F4, F4 + 10, F4 + 20)


WHILE = """
graph @f(%go: bool[], %x: f32[4], %w: f32[4]) {
  %n: i64[], %y: f32[4], %rows: f32[3,4] = while %go, %x, %w {carried=1, length=3} {
    body(%x: f32[4], %w: f32[4]) {
      %y: f32[4] = add %x, %w
      %s: f32[] = max %y {axis=(0,), keepdims=false}
      %most: f32[] = full {dtype=f32, shape=(), value=MOST}
      %go: bool[] = less %s, %most
      return %go, %y, %x
    }
  }
  %row: f32[1,4] = slice %rows {start=(0,0), size=(1,4), step=(1,1)}
  %z: f32[4] = add %y, %w
  return %n, %y, %z
}
"""


@pytest.mark.parametrize("most", [0, 6, 9, 15, 30])
@pytest.mark.parametrize("go", [True, False])
def test_a_while_runs_past_its_rows_or_not_at_all(most: int, go: bool) -> None:
    n, *_ = check(WHILE.replace("MOST", str(most)), go, F4, np.ones(4, np.float32) * 3)
    assert n == (max(-(-(most - 3) // 3), 1) if go else 0)


NESTED = """
graph @f(%go: bool[], %x: f32[4], %xs: f32[3,2,4], %p: bool[]) {
  %zero: i64[] = full {dtype=i64, shape=(), value=0}
  %trips: i64[], %k: i64[], %y: f32[4] = while %go, %zero, %x, %xs, %p {carried=2, length=0} {
    body(%k: i64[], %x: f32[4], %xs: f32[3,2,4], %p: bool[]) {
      %one: i64[] = full {dtype=i64, shape=(), value=1}
      %three: i64[] = full {dtype=i64, shape=(), value=3}
      %k1: i64[] = add %k, %one
      %go: bool[] = less %k1, %three
      %y: f32[4], %m: f32[3] = for %k1, %x, %xs, %p {carried=1, length=3, sliced=1} {
        body(%i: i64[], %x: f32[4], %rows: f32[2,4], %p: bool[]) {
          %two: i64[] = full {dtype=i64, shape=(), value=2}
          %y: f32[4] = for %two, %x, %rows, %p {carried=1, length=2, sliced=1} {
            body(%j: i64[], %x: f32[4], %row: f32[4], %p: bool[]) {
              %y: f32[4] = cond %p, %x, %row {
                then(%x: f32[4], %row: f32[4]) { %y: f32[4] = add %x, %row return %y }
                else(%x: f32[4], %row: f32[4]) { return %x }
              }
              return %y
            }
          }
          %m: f32[] = sum %y {axis=(0,), keepdims=false}
          return %y, %m
        }
      }
      return %go, %k1, %y
    }
  }
  return %trips, %k, %y
}
"""


@pytest.mark.parametrize("p", [True, False])
def test_a_cond_in_a_for_in_a_for_in_a_while(p: bool) -> None:
    xs = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    trips, _, y = check(NESTED, True, F4, xs, p)
    assert trips == 3
    assert np.array_equal(y, F4 + p * sum(xs[: k + 1].sum((0, 1)) for k in range(3)))


def test_a_plan_may_return_what_a_loop_was_given() -> None:
    text = """
graph @f(%n: i64[], %x: f32[4]) {
  %c: f32[4] = full {dtype=f32, shape=(4,), value=7}
  %y: f32[4], %z: f32[4] = for %n, %x, %c {carried=2, length=0} {
    body(%i: i64[], %x: f32[4], %c: f32[4]) { return %x, %c }
  }
  return %y, %x, %z, %z, %n
}
"""
    check(text, np.int64(3), F4)


def test_values_of_nothing_go_round() -> None:
    text = """
graph @f(%n: i64[], %x: f32[0,4], %xs: f32[3,0]) {
  %y: f32[0,4], %rows: f32[3,0,4] = for %n, %x, %xs {carried=1, length=3, sliced=1} {
    body(%i: i64[], %x: f32[0,4], %row: f32[0]) { %y: f32[0,4] = add %x, %x return %y, %y }
  }
  return %y, %rows
}
"""
    check(text, np.int64(3), np.empty((0, 4), np.float32), np.empty((3, 0), np.float32))


def test_sliced_views_of_any_kind() -> None:
    """Turned, flipped, repeated: rows that are dense are read where they lie."""
    text = """
graph @f(%n: i64[], %s: f32[4], %x: f32[4,3], %r: f32[4]) {
  %turned: f32[3,4] = permute_dims %x {axes=(1,0)}
  %flipped: f32[3,4] = flip %turned {axis=(0,)}
  %wide: f32[3,4] = broadcast_to %r {shape=(3,4)}
  %last: f32[3,4] = flip %wide {axis=(1,)}
  %y: f32[4] = for %n, %s, %turned, %flipped, %wide, %last {carried=1, length=3, sliced=4} {
    body(%i: i64[], %s: f32[4], %a: f32[4], %b: f32[4], %c: f32[4], %d: f32[4]) {
      %e: f32[4] = multiply %s, %a
      %f: f32[4] = add %e, %b
      %g: f32[4] = multiply %f, %c
      %h: f32[4] = add %g, %d
      return %h
    }
  }
  return %y
}
"""
    check(text, np.int64(3), F4, np.arange(12, dtype=np.float32).reshape(4, 3), F4 + 1)


def test_an_error_inside_a_loop_has_the_authors_line() -> None:
    """Also when one line of the author's made several steps."""
    row, table = tensor_type(float32, (1,)), tensor_type(float32, (4,))
    line = Location("model.py", 9, "y = x[i * i]")
    body = Builder("body")
    index, _, x = body.param(tensor_type(int64, ())), body.param(row), body.param(table)
    (at,) = body.apply(get_op("reshape"), [index], {"shape": (1,)})
    (square,) = body.apply(get_op("multiply"), [at, at], {}, location=line)
    picked = body.apply(get_op("take"), [x, square], {"axis": 0}, location=line)
    builder = Builder("loop")
    params = [builder.param(t) for t in (tensor_type(int64, ()), row, table)]
    attrs = {"carried": 1, "length": 0, "reverse": False, "sliced": 0}
    region = body.finish(picked)
    plan = make_plan(builder.finish(builder.apply(get_op("for"), params, attrs, regions=(region,))))
    assert run(plan, np.int64(2), F4[:1], F4)[0] == 1
    with pytest.raises(OutOfRangeError) as caught:
        run(plan, np.int64(3), F4[:1], F4)
    assert caught.value.at == line


# Where values lie -------------------------------------------------------------------------------


def steps_of(text: str) -> tuple[Plan, list[Step]]:
    """The plan and its steps but for copies between arguments and the loop."""
    plan = make_plan(graph_of(text))
    return plan, list(plan.lowered.walk())


def copies(steps: list[Step]) -> int:
    return sum(step.kernel == "copy" for step in steps)


STATE = """
graph @f(%n: i64[], %x: f32[16], %w: f32[16]) {
  %y: f32[16] = for %n, %x, %w {carried=1, length=0} {
    body(%i: i64[], %x: f32[16], %w: f32[16]) {
      %a: f32[16] = multiply %x, %w
      %b: f32[16] = OP
      return %b
    }
  }
  return %y
}
"""


def test_an_elementwise_update_is_in_place_in_the_result_itself() -> None:
    plan, steps = steps_of(STATE.replace("OP", "add %a, %x"))
    loop = next(step for step in steps if step.control)
    assert [b.kind for b in loop.control.homes] == ["output"]
    assert not loop.control.moves and copies(steps) == 1 and copies(loop.blocks[0]) == 0
    assert not plan.donations  # a run that Ctrl-C ends leaves the argument as it was
    assert plan.arena_nbytes == 64


@pytest.mark.parametrize(
    "op",
    [
        "slice_assign %x, %v {start=(3,), size=(1,), step=(1,)}",
        "scatter %x, %at, %v {axis=0}",
        "scatter_add %x, %at, %v {axis=0}",
        "scatter_along_add %x, %at, %v",
    ],
)
def test_an_element_is_updated_where_it_lies(op: str) -> None:
    text = """
graph @f(%n: i64[], %x: f32[4096]) {
  %y: f32[4096] = for %n, %x {carried=1, length=0} {
    body(%i: i64[], %x: f32[4096]) {
      %at: i64[1] = reshape %i {shape=(1,)}
      %f: f32[1] = cast %at {dtype=f32}
      %old: f32[1] = take %x, %at {axis=0}
      %v: f32[1] = add %f, %old
      %y: f32[4096] = OP
      return %y
    }
  }
  return %y
}
""".replace("OP", op)
    plan, steps = steps_of(text)
    loop = next(step for step in steps if step.control)
    assert len(loop.control.homes) == 1 and plan.arena_nbytes < 1000
    assert all(v.size == 1 for step in loop.blocks[0] for v in step.inputs[1:])
    x = np.arange(4096, dtype=np.float32)
    check(text, np.int64(5), x)


def test_a_value_that_is_read_later_takes_turns() -> None:
    _, steps = steps_of(STATE.replace("OP", "flip %a {axis=(0,)}"))
    loop = next(step for step in steps if step.control)
    assert len(loop.control.moves) == 2 and not loop.control.homes


def test_loops_inside_loops_update_one_place() -> None:
    plan, steps = steps_of(NESTED)
    loops = [step.control for step in steps if step.control and step.control.kind != "cond"]
    assert [len(loop.moves) for loop in loops] == [0, 0, 0]
    assert copies(steps) == 2  # the initial values of the outermost loop
    assert len({home.root for loop in loops for home in loop.homes if home.nbytes == 16}) == 1
    assert plan.arena_nbytes <= 8 * 64


def test_a_break_updates_in_place() -> None:
    """What is left of an iteration after a break is a cond that gives back what it was given."""
    text = """
graph @f(%n: i64[], %x: f32[16], %p: bool[]) {
  %y: f32[16] = for %n, %x, %p {carried=1, length=0} {
    body(%i: i64[], %x: f32[16], %p: bool[]) {
      %y: f32[16] = cond %p, %x {
        then(%x: f32[16]) { %a: f32[16] = exp %x %b: f32[16] = sin %a return %b }
        else(%x: f32[16]) { return %x }
      }
      return %y
    }
  }
  return %y
}
"""
    _, steps = steps_of(text)
    loop, cond = (step for step in steps if step.control)
    assert len(loop.control.homes) == 1 and copies(steps) == 1
    assert cond.blocks[1] == []


def test_what_neither_branch_changes_is_not_copied() -> None:
    text = """
graph @f(%p: bool[], %x: f32[16]) {
  %a: f32[16], %b: f32[] = cond %p, %x {
    then(%x: f32[16]) { %s: f32[] = sum %x {axis=(0,), keepdims=false} return %x, %s }
    else(%x: f32[16]) { %s: f32[] = max %x {axis=(0,), keepdims=false} return %x, %s }
  }
  %c: f32[16] = add %a, %a
  return %b, %c
}
"""
    _, steps = steps_of(text)
    assert copies(steps) == 0
    check(text, True, WIDE)


STACKED = """
graph @f(%n: i64[], %h: f32[4,SIZE], %xs: f32[5,4,SIZE], %w: f32[SIZE,SIZE]) {
  %y: f32[4,SIZE], %hs: f32[5,4,SIZE] = for %n, %h, %xs, %w {carried=1, length=5, sliced=1} {
    body(%i: i64[], %h: f32[4,SIZE], %x: f32[4,SIZE], %w: f32[SIZE,SIZE]) {
      %p: f32[4,SIZE] = matmul %h, %w
      %g: f32[4,SIZE] = add %p, %x
      return %g, %g
    }
  }
  return %y, %hs
}
"""


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_state_that_is_stacked_stays_in_its_row(size: int, n: int) -> None:
    """If rows are aligned, that is."""
    text = STACKED.replace("SIZE", str(size))
    _, steps = steps_of(text)
    loop = next(step for step in steps if step.control)
    aligned = size == 4
    assert [source.kind for _, source in loop.control.moves].count("row") == aligned
    assert copies(loop.blocks[0]) == (not aligned)
    h, xs = np.ones((4, size), np.float32), np.ones((5, 4, size), np.float32)
    w = np.eye(size, dtype=np.float32)
    y, hs = run(make_plan(graph_of(text)), np.int64(n), h, xs, w)
    assert (y == n + 1).all()
    for i in range(n):
        assert (hs[i] == i + 2).all()


def test_dense_copies_of_what_a_loop_does_not_change_are_made_before_it() -> None:
    text = """
graph @f(%n: i64[], %m: i64[], %x: f32[4,4], %w: f32[4,4,2]) {
  %y: f32[4,4] = for %n, %x, %m, %w {carried=1, length=0} {
    body(%i: i64[], %x: f32[4,4], %m: i64[], %w: f32[4,4,2]) {
      %y: f32[4,4] = for %m, %x, %w {carried=1, length=0} {
        body(%j: i64[], %x: f32[4,4], %w: f32[4,4,2]) {
          %v: f32[2,4,4] = permute_dims %w {axes=(2,0,1)}
          %p: f32[2,4,4] = flip %v {axis=(2,)}
          %q: f32[2,4] = sum %p {axis=(1,), keepdims=false}
          %r: f32[4] = sum %q {axis=(0,), keepdims=false}
          %s: f32[4,4] = broadcast_to %r {shape=(4,4)}
          %y: f32[4,4] = add %x, %s
          return %y
        }
      }
      return %y
    }
  }
  return %y
}
"""
    plan, steps = steps_of(text)
    inner = [step for step in steps if step.control][-1]
    assert copies(inner.blocks[0]) == 0
    assert sum(step.kernel == "copy" for step in plan.lowered.steps) == 2
    w = np.arange(32, dtype=np.float32).reshape(4, 4, 2)
    check(text, np.int64(2), np.int64(2), np.ones((4, 4), np.float32), w)


def test_rows_that_are_never_reached_are_not_touched() -> None:
    """A gigabyte of rows, of which three are written."""
    text = """
graph @f(%go: bool[], %x: f32[256]) {
  %zero: i64[] = full {dtype=i64, shape=(), value=0}
  %n: i64[], %k: i64[], %rows: f32[1048576,256] = while %go, %zero, %x
      {carried=1, length=1048576} {
    body(%k: i64[], %x: f32[256]) {
      %one: i64[] = full {dtype=i64, shape=(), value=1}
      %three: i64[] = full {dtype=i64, shape=(), value=3}
      %k1: i64[] = add %k, %one
      %go: bool[] = less %k1, %three
      %row: f32[256] = add %x, %x
      return %go, %k1, %row
    }
  }
  %some: f32[3,256] = slice %rows {start=(0,0), size=(3,256), step=(1,1)}
  %sum: f32[] = sum %some {axis=(0,1), keepdims=false}
  return %n, %sum
}
"""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    plan = make_plan(graph_of(text))
    before = resident()
    n, total = run(plan, True, np.ones(256, np.float32))
    assert (n, total) == (3, 3 * 512)
    assert plan.arena_nbytes >= 1 << 30
    assert resident() - before < 64 << 20
