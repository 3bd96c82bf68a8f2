"""Parts of what is joined in place: which copies fall away, which stay, and that no bit changes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid as hy
from hybrid.calls.executable import optimized_plan
from hybrid.core.dataclass import replace
from hybrid.core.types import DType, float32, float64, int8, tensor_type
from hybrid.eager.launch import call_plan
from hybrid.ir import REGISTRY, Builder, Graph, Value, View
from hybrid.ir.bound_graphs import bind
from hybrid.ir.graph import sizes_of
from hybrid.passes import run_pipeline
from hybrid.plan import Plan, interpret, make_plan
from hybrid.plan.joined_parts import join_in_place
from hybrid.plan.lower import lower
from hybrid.plan.memory import place
from hybrid.plan.open_plan import OpenPlan
from hybrid.plan.steps import Buffer, Lowered, Step
from hybrid.trace.regions.build import replay
from tests.helpers import graph_of
from tests.random_graphs import opened, operands_of, outcome, unhurried

HEAD = "graph @f(%x: f32[8,16], %y: f32[8,16], %p: bool[], %n: i64[], %r: f32[16], %o: f32[16,16])"
A = "%a: f32[8,16] = softmax %x {axis=1}"
B = "%b: f32[8,16] = softmax %y {axis=1}"
JOINED = "%c: f32[16,16] = concat %a, %b {axis=0}"
EXP = "%e: f32[16,16] = exp %c"


def text_of(*lines: str, results: str = "%e") -> str:
    return "\n".join([f"{HEAD} {{", *lines, f"return {results}", "}"])


def copies(plan: Plan) -> list[Step]:
    steps = plan.lowered.walk()
    return [step for step in steps if step.kernel == "copy" and not step.moves]


def check_bits(graph: Graph, plan: Plan) -> None:
    """``plan`` gives the bits of ``graph`` node by node, and so do the oracle's steps."""
    given = operands_of(plan.input_types)
    wanted = [t.numpy().tobytes() for t in replay(graph, given)]
    for _ in range(2):  # the second run finds what the first one has left in the arena
        assert [t.numpy().tobytes() for t in call_plan(plan, given)] == wanted
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = interpret(plan, [t.numpy() for t in given])
    for ours, bits, type_ in zip(found, wanted, plan.output_types, strict=True):
        right = np.frombuffer(bits, type_.dtype.numpy).reshape(type_.shape)
        np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


IN_PLACE = {
    "rows": [A, B, JOINED, EXP],
    "lines": [
        A, B,
        "%s: f32[128] = reshape %a {shape=(128,)}",
        "%t: f32[128] = reshape %b {shape=(128,)}",
        "%c: f32[256] = concat %s, %t {axis=0}",
        "%e: f32[256] = exp %c",
    ],
    "a stack": [
        A, B,
        "%s: f32[1,8,16] = reshape %a {shape=(1, 8, 16)}",
        "%t: f32[1,8,16] = reshape %b {shape=(1, 8, 16)}",
        "%c: f32[2,8,16] = concat %s, %t {axis=0}",
        "%e: f32[2,8,16] = exp %c",
    ],
    "an axis behind one of size 1": [
        A, B,
        "%s: f32[1,8,16] = reshape %a {shape=(1, 8, 16)}",
        "%t: f32[1,8,16] = reshape %b {shape=(1, 8, 16)}",
        "%c: f32[1,16,16] = concat %s, %t {axis=1}",
        "%e: f32[1,16,16] = exp %c",
    ],
    "what is joined already": [
        A, B, JOINED,
        "%q: f32[8,16] = softmax %b {axis=1}",
        "%d: f32[24,16] = concat %c, %q {axis=0}",
        "%e: f32[24,16] = exp %d",
    ],
    "a result": [A, B, "%e: f32[16,16] = concat %a, %b {axis=0}"],
    "parts that others read, too": [
        A,
        "%b: f32[8,16] = softmax %a {axis=1}",
        JOINED,
        "%k: f32[8,16] = softmax %b {axis=1}",
        "%s: f32[8,16] = slice %c {size=(8, 16), start=(4, 0), step=(1, 1)}",
        "%e: f32[8,16] = add %k, %s",
    ],
    "parts at odd places": [
        "%a: f32[8] = sum %x {axis=(1,), keepdims=false}",
        "%s: f32[3] = slice %a {size=(3,), start=(1,), step=(1,)}",
        "%t: f32[3] = exp %s",
        B,
        "%u: f32[128] = reshape %b {shape=(128,)}",
        "%c: f32[131] = concat %t, %u {axis=0}",
        "%e: f32[131] = exp %c",
    ],
    "what both branches make": [
        """%a: f32[8,16] = cond %p, %x {
          (%u: f32[8,16]) {
            %v: f32[8,16] = softmax %u {axis=1}
            return %v
          }
          (%u: f32[8,16]) {
            %v: f32[8,16] = exp %u
            return %v
          }
        }""",
        B, JOINED, EXP,
    ],
    "parts inside of a branch": [
        """%e: f32[16,16] = cond %p, %x, %y {
          (%u: f32[8,16], %v: f32[8,16]) {
            %a: f32[8,16] = softmax %u {axis=1}
            %b: f32[8,16] = softmax %v {axis=1}
            %c: f32[16,16] = concat %a, %b {axis=0}
            %d: f32[16,16] = exp %c
            return %d
          }
          (%u: f32[8,16], %v: f32[8,16]) {
            %d: f32[16,16] = full {dtype=f32, shape=(16, 16), value=1.0}
            %q: f32[16,16] = exp %d
            return %q
          }
        }""",
    ],
    "what a loop reads row by row": [
        A, B, JOINED,
        """%q: f32[16] = for %n, %r, %c {carried=1, length=16, reverse=false, sliced=1} {
          (%i: i64[], %u: f32[16], %v: f32[16]) {
            %w: f32[16] = add %u, %v
            return %w
          }
        }""",
        "%e: f32[16,16] = add %c, %q",
    ],
    "parts inside of a loop": [
        """%q: f32[8,16], %e: f32[3,16,16] =
        for %n, %x, %y {carried=1, length=3, reverse=false, sliced=0} {
          (%i: i64[], %u: f32[8,16], %v: f32[8,16]) {
            %a: f32[8,16] = softmax %u {axis=1}
            %b: f32[8,16] = softmax %v {axis=1}
            %c: f32[16,16] = concat %a, %b {axis=0}
            %d: f32[16,16] = exp %c
            %w: f32[8,16] = add %a, %u
            return %w, %d
          }
        }""",
        "%z: f32[8,16] = exp %q",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_nothing_is_copied(name: str) -> None:
    lines = IN_PLACE[name]
    graph = graph_of(text_of(*lines, results="%z" if name.endswith("loop") else "%e"))
    plan = make_plan(graph)
    assert copies(plan) == []
    check_bits(graph, plan)


COPIED: dict[str, tuple[int, list[str], str]] = {
    "an input": (1, [B, "%c: f32[16,16] = concat %x, %b {axis=0}", EXP], "%e"),
    "a constant": (
        1,
        [B, "%a: f32[8,16] = full {dtype=f32, shape=(8, 16), value=2.0}", JOINED, EXP],
        "%e",
    ),
    "a result": (1, [A, B, JOINED, EXP], "%e, %b"),
    "two of one": (1, [A, "%c: f32[16,16] = concat %a, %a {axis=0}", EXP], "%e"),
    "of two": (
        2,
        [A, B, JOINED, "%d: f32[16,16] = concat %b, %a {axis=0}",
         "%e: f32[16,16] = matmul_nt %c, %d"],
        "%e",
    ),
    "a part of a part": (
        1,
        [A, B, "%s: f32[4,16] = slice %a {size=(4, 16), start=(2, 0), step=(1, 1)}",
         "%c: f32[12,16] = concat %s, %b {axis=0}", "%e: f32[12,16] = exp %c"],
        "%e",
    ),
    "another order": (
        1,
        ["%t: f32[8,8] = matmul_nt %x, %x", "%q: f32[8,8] = permute_dims %t {axes=(1, 0)}",
         "%u: f32[8,8] = matmul_nt %x, %y", "%c: f32[16,8] = concat %q, %u {axis=0}",
         "%e: f32[16,8] = exp %c"],
        "%e",
    ),
    "an inner axis": (2, [A, B, "%c: f32[8,32] = concat %a, %b {axis=1}",
                          "%e: f32[8,32] = exp %c"], "%e"),
    "padded": (  # the fill and the copy; the pair is joined, so there is something to look at
        2,
        [A, B, JOINED, EXP, "%h: f32[8,16] = softmax %x {axis=1}",
         "%g: f32[16,16] = pad %h {widths=((0, 8), (0, 0)), value=1.0}",
         "%z: f32[16,16] = matmul_nt %e, %g"],
        "%z",
    ),
    "carried by a loop": (
        2,  # one is of the loop's first value
        ["""%a: f32[8,16] = for %n, %x {carried=1, length=0, reverse=false, sliced=0} {
          (%i: i64[], %u: f32[8,16]) {
            %v: f32[8,16] = exp %u
            return %v
          }
        }""", B, JOINED, EXP],
        "%e",
    ),
    "rows that a loop has written": (
        2,  # one is of the loop's first value
        ["%m: i64[] = full {dtype=i64, shape=(), value=8}",
         """%q: f32[16], %a: f32[8,16] = for %m, %r {carried=1, length=8, reverse=false, sliced=0} {
          (%i: i64[], %u: f32[16]) {
            %v: f32[16] = sqrt %u
            return %v, %v
          }
        }""", B, JOINED, EXP],
        "%e",
    ),
    "rows that a loop reads": (
        2,  # one is of the loop's first value
        [A, """%q: f32[16] = for %n, %r, %a {carried=1, length=8, reverse=false, sliced=1} {
          (%i: i64[], %u: f32[16], %v: f32[16]) {
            %w: f32[16] = add %u, %v
            return %w
          }
        }""", B, JOINED, EXP, "%z: f32[16,16] = add %e, %q"],
        "%z",
    ),
    "made before the branch": (
        1,
        [A, """%e: f32[16,16] = cond %p, %a, %y {
          (%u: f32[8,16], %v: f32[8,16]) {
            %b: f32[8,16] = softmax %v {axis=1}
            %c: f32[16,16] = concat %u, %b {axis=0}
            %d: f32[16,16] = exp %c
            return %d
          }
          (%u: f32[8,16], %v: f32[8,16]) {
            %d: f32[16,16] = full {dtype=f32, shape=(16, 16), value=1.0}
            %c: f32[16,16] = exp %d
            return %c
          }
        }"""],
        "%e",
    ),
    "made before the loop": (
        2,  # one is of the loop's first value
        [A, """%q: f32[16,16] = for %n, %o, %a, %y {carried=1, length=0, reverse=false, sliced=0} {
          (%i: i64[], %u: f32[16,16], %v: f32[8,16], %w: f32[8,16]) {
            %b: f32[8,16] = softmax %w {axis=1}
            %c: f32[16,16] = concat %v, %b {axis=0}
            %d: f32[16,16] = matmul_nt %u, %c
            return %d
          }
        }""", "%e: f32[16,16] = exp %q"],
        "%e",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIED)
def test_what_keeps_its_copy(name: str) -> None:
    count, lines, result = COPIED[name]
    graph = graph_of(text_of(*lines, results=result))
    plan = make_plan(graph)
    assert sum(step.kernel == "copy" for step in plan.lowered.walk()) == count
    check_bits(graph, plan)


def test_an_early_part_that_would_need_memory_is_copied() -> None:
    """Else room for what is joined would be there while the large products are."""
    graph = graph_of("""
    graph @f(%x: f32[64,64]) {
      %a: f32[64,64] = softmax %x {axis=1}
      %s: f32[4096,1] = reshape %a {shape=(4096, 1)}
      %t: f32[1,4096] = reshape %a {shape=(1, 4096)}
      %l: f32[4096,4096] = matmul %s, %t
      %m: f32[4096] = sum %l {axis=(1,), keepdims=false}
      %n: f32[64,64] = reshape %m {shape=(64, 64)}
      %b: f32[64,64] = softmax %n {axis=1}
      %d: f32[64,64] = softmax %b {axis=1}
      %c: f32[192,64] = concat %a, %b, %d {axis=0}
      %e: f32[192,64] = exp %c
      return %e
    }""")
    plan = make_plan(graph)
    [copy] = copies(plan)
    assert copy.outputs[0].offset == 0  # %a
    assert plan.arena_nbytes == place(lower(graph)).arena_nbytes


def test_no_result_is_written_over_what_parts_are_joined_to() -> None:
    """The first part of %c has as many bytes as the line that it dies in, not its place."""
    graph = graph_of("""
    graph @f(%x: f32[16], %y: f32[16]) {
      %a: f32[16] = softmax %x {axis=0}
      %b: f32[16] = softmax %y {axis=0}
      %c: f32[32] = concat %a, %b {axis=0}
      %s: f32[16] = slice %c {size=(16,), start=(16,), step=(1,)}
      %t: f32[16] = slice %c {size=(16,), start=(8,), step=(1,)}
      %u: f32[16] = add %s, %t
      %v: f32[16] = softmax %u {axis=0}
      %d: f32[32] = concat %v, %u {axis=0}
      %e: f32[32] = softmax %d {axis=0}
      return %e
    }""")
    plan = make_plan(graph)
    assert copies(plan) == []
    check_bits(graph, plan)


def test_no_update_is_made_over_what_parts_are_joined_to() -> None:
    """The line of %a dies where the first part of another one, as large, is written."""
    graph = graph_of("""
    graph @f(%x: f32[8,4], %y: f32[4,4], %i: i64[1], %u: f32[1,4], %o: f32[64,64]) {
      %m: f32[64,64] = softmax %o {axis=1}
      %n: f32[64,64] = softmax %m {axis=1}
      %b: f32[4,4] = softmax %y {axis=1}
      %a: f32[8,4] = softmax %x {axis=1}
      %k: f32[4,4] = matmul_nt %y, %y
      %c: f32[16,4] = concat %b, %a, %k {axis=0}
      %s: f32[16,16] = matmul_nt %c, %c
      %t: f32[8,4] = slice %s {size=(8, 4), start=(0, 0), step=(1, 1)}
      %g: f32[8,4] = scatter %a, %i, %u {axis=0}
      %d: f32[8,4] = softmax %t {axis=1}
      %h: f32[16,4] = concat %g, %d {axis=0}
      %e: f32[16,4] = softmax %h {axis=1}
      return %e, %n
    }""")
    for parallel in (True, False):
        plan = make_plan(graph, parallel=parallel)
        joins = [s for s in copies(plan) if s.outputs[0].type.nbytes < s.outputs[0].buffer.nbytes]
        assert joins == []
        given = operands_of(plan.input_types)
        given[2] = hy.zeros((1,), dtype=hy.int64)
        wanted = [t.numpy().tobytes() for t in replay(graph, given)]
        assert [t.numpy().tobytes() for t in call_plan(plan, given)] == wanted


def kept(change: Callable[[list[Step], Buffer, Buffer, Buffer], None]) -> int:
    """Of two copies to a line, how many are kept, after ``change`` of the steps around them."""
    x, a, b, line, out = [
        Buffer(kind=kind, nbytes=n)
        for kind, n in [
            ("input", 64),
            ("arena", 64),
            ("arena", 64),
            ("arena", 128),
            ("output", 128),
        ]
    ]
    steps = [
        kernel("abs", seen(x, 16), seen(a, 16)),
        kernel("negative", seen(x, 16), seen(b, 16)),
        kernel("copy", seen(a, 16), seen(line, 16)),
        kernel("copy", seen(b, 16), seen(line, 16, 16)),
        kernel("negative", seen(line, 32), seen(out, 32)),
    ]
    change(steps, a, b, line)
    lowered = Lowered(steps, [x], [out])
    join_in_place(lowered)
    return sum(step.kernel == "copy" for step in lowered.steps)


def seen(buffer: Buffer, count: int, start: int = 0, dtype: DType = float32) -> View:
    return View(buffer, dtype, (count,), (1,), start)


def kernel(name: str, source: View, target: View) -> Step:
    return Step(kernel=name, inputs=[source], outputs=[target])


def test_what_is_not_seen_to_be_right_is_copied() -> None:
    """Steps that no graph has now: each of them makes a copy needed."""
    assert kept(lambda steps, a, b, line: None) == 0

    def written_later(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps.insert(3, kernel("abs", seen(b, 16), seen(a, 16)))

    def read_between(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps.insert(3, kernel("abs", seen(line, 16), seen(Buffer(kind="arena", nbytes=64), 16)))

    def seen_as_bytes(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps.insert(3, kernel("abs", seen(a, 64, 0, int8), seen(Buffer("arena", 64), 64, 0, int8)))

    def updated(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps.append(kernel("abs", seen(b, 16), seen(line, 16)))

    def copied_over(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps.append(kernel("copy", seen(b, 16), seen(line, 16, 8)))

    def cut_short(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps[2] = kernel("copy", seen(a, 8), seen(line, 8))

    def cut_off(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        steps[2] = kernel("copy", seen(a, 8, 8), seen(line, 8))

    changes = [written_later, read_between, seen_as_bytes, cut_short, cut_off]
    assert [kept(change) for change in changes] == [1] * 5
    assert [kept(change) for change in (updated, copied_over)] == [2, 3]


def test_sizes_that_are_open() -> None:
    """All sizes have the same steps, and nothing more is asked of them."""
    graph = graph_of("""
    graph @f<n = 37>(%x: f32[n,4], %y: f32[2*n,4]) {
      %a: f32[n,4] = softmax %x {axis=1}
      %b: f32[2*n,4] = softmax %y {axis=1}
      %c: f32[3*n,4] = concat %a, %b {axis=0}
      %e: f32[3*n,4] = exp %c
      %s: f32[n,4] = softmax %a {axis=1}
      %d: f32[n,8] = concat %s, %a {axis=1}
      return %e, %d
    }""")
    sizes = sizes_of(graph)
    assert sizes is not None
    plan = OpenPlan(graph, sizes)
    assert len([s for s in plan.lowered.walk() if s.kernel == "copy"]) == 2
    assert sizes.conditions == {}
    for n in (2, 37, 1000):
        assert outcome(plan.bound((n,))) == outcome(make_plan(bind(graph, (n,))))


def test_what_waits_for_a_part_waits_for_where_it_lies() -> None:
    waiting: list[Step] = []

    def waits(steps: list[Step], a: Buffer, b: Buffer, line: Buffer) -> None:
        target = Buffer(kind="arena", nbytes=64)
        waiting.append(
            replace(kernel("abs", seen(target, 16), seen(target, 16)), after=[seen(b, 16)])
        )
        steps += waiting

    assert kept(waits) == 0
    [view] = waiting[0].after
    assert view.buffer.nbytes == 128 and view.offset == 16


# Random graphs -----------------------------------------------------------------------------------

ROWS, COLUMNS = (1, 2, 4, 8), 3
ELEMENTWISE = ("add", "multiply", "maximum", "negative", "abs", "floor", "subtract")


class _Joining:
    """Draws the nodes of a graph of rows, most of them joined to others."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.builder = draw, Builder("random")
        dtypes = st.sampled_from([float32, float32, float64])
        self.values: list[Value] = [
            self.builder.param(tensor_type(draw(dtypes), (draw(st.sampled_from(ROWS)), COLUMNS)))
            for _ in range(draw(st.integers(1, 3)))
        ]

    def apply(self, name: str, *operands: Value, **attrs: Any) -> Value:
        [result] = self.builder.apply(REGISTRY[name], operands, attrs)
        return result

    def rows(self, value: Value) -> int:
        return value.type.shape[0]

    def any(self) -> Value:
        return self.draw(st.sampled_from(self.values[-8:]))

    def alike(self, value: Value) -> list[Value]:
        return [v for v in self.values if v.type is value.type]

    def node(self) -> None:
        kinds = [self.compute, self.compute, self.part, self.join, self.join, self.join, self.put]
        self.values.append(self.draw(st.sampled_from(kinds))())

    def compute(self) -> Value:
        x, name = self.any(), self.draw(st.sampled_from((*ELEMENTWISE, "sum", "flip")))
        if name == "flip":
            return self.apply("flip", x, axis=(0,))
        if name == "sum":
            total = self.apply("sum", x, axis=(1,), keepdims=True)
            return self.apply("broadcast_to", total, shape=x.type.shape)
        count = len(REGISTRY[name].operand_names)
        return self.apply(name, x, *[self.draw(st.sampled_from(self.alike(x)))][: count - 1])

    def part(self) -> Value:
        x = self.any()
        size = self.draw(st.integers(1, self.rows(x)))
        start = self.draw(st.integers(0, self.rows(x) - size))
        attrs = {"start": (start, 0), "size": (size, COLUMNS), "step": (1, 1)}
        return self.apply("slice", x, **attrs)

    def join(self) -> Value:
        """Rows behind rows, rows of an image of them, a stack, or columns beside columns."""
        x, kind = self.any(), self.draw(st.integers(0, 4))
        dtype = [v for v in self.values if v.type.dtype is x.type.dtype]
        pool = self.alike(x) if kind > 2 else dtype
        parts = [x, *self.draw(st.lists(st.sampled_from(pool[-6:]), min_size=1, max_size=3))]
        parts = self.draw(st.permutations(parts))
        total = sum(map(self.rows, parts))
        if kind < 2:
            return self.apply("concat", *parts, axis=0)
        if kind == 4:
            wide = self.apply("concat", *parts, axis=1)
            return self.apply("reshape", wide, shape=(total, COLUMNS))
        lines = [self.apply("reshape", p, shape=(1, *p.type.shape)) for p in parts]
        whole = self.apply("concat", *lines, axis=1 if kind == 2 else 0)
        return self.apply("reshape", whole, shape=(total, COLUMNS))

    def put(self) -> Value:
        """Some rows of one value in another one."""
        x, values = self.any(), self.part()
        if values.type.dtype is not x.type.dtype or self.rows(values) > self.rows(x):
            return values
        start = self.draw(st.integers(0, self.rows(x) - self.rows(values)))
        attrs = {"start": (start, 0), "size": values.type.shape, "step": (1, 1)}
        return self.apply("slice_assign", x, values, **attrs)


@st.composite
def joining(draw: Any) -> Graph:
    """A graph with many concats, whose parts are used in all ways."""
    made = _Joining(draw)
    for _ in range(draw(st.integers(2, 20))):
        made.node()
    return made.builder.finish(draw(st.lists(st.sampled_from(made.values), min_size=1, max_size=3)))


def check_modes(graph: Graph) -> None:
    for plan in (make_plan(graph), make_plan(run_pipeline(graph)), optimized_plan(graph)):
        check_bits(graph, plan)


def test_random_joins() -> None:
    seen = [0, 0]

    @settings(unhurried, max_examples=100)
    @given(joining())
    def run(graph: Graph) -> None:
        check_modes(graph)
        before, after = lower(graph), lower(graph)
        join_in_place(after)
        seen[0] += sum(1 for _ in before.walk())
        seen[1] += sum(1 for _ in after.walk())
        assert place(after).arena_nbytes <= place(before).arena_nbytes

    run()
    assert seen[0] - seen[1] > 50


@pytest.mark.nightly
@settings(unhurried, max_examples=3000)
@given(joining())
def test_many_random_joins(graph: Graph) -> None:
    check_modes(graph)


def test_random_joins_of_open_sizes() -> None:
    @settings(unhurried, max_examples=40)
    @given(joining())
    def run(graph: Graph) -> None:
        made, sizes = opened(graph)
        plan = OpenPlan(run_pipeline(made), sizes)
        for values in [(4, 2), (5, 2), (16, 7)]:
            if sizes.holds(values):
                whole = make_plan(run_pipeline(bind(made, values)))
                assert outcome(plan.bound(values)) == outcome(whole)

    run()
