"""The memory planner: offsets, lifetimes, reuse, donations."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybrid.errors import NativeError, OutOfMemoryError
from hybrid.ir import Graph, View
from hybrid.memory import native
from hybrid.passes import run_pipeline
from hybrid.plan import memory
from hybrid.plan.lower import Lowered, lower
from hybrid.plan.memory import ALIGNMENT, place
from tests.helpers import graph_of
from tests.random_graphs import all_ops, graphs


def placed(graph: Graph):
    lowered = lower(graph)
    return lowered, place(lowered)


def arena_views(lowered: Lowered) -> list[tuple[int, View]]:
    return [
        (at, view)
        for at, step in enumerate(lowered.steps)
        for view in step.operands
        if view.buffer.kind == "arena"
    ]


def lifetimes(lowered: Lowered) -> dict:
    spans: dict = {}
    for at, view in arena_views(lowered):
        first, _ = spans.get(view.buffer, (at, at))
        spans[view.buffer] = (first, at)
    return spans


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(all_ops, nodes=30))
def test_buffers_alive_together_do_not_overlap(graph: Graph) -> None:
    for version in (graph, run_pipeline(graph)):
        lowered, placement = placed(version)
        spans = lifetimes(lowered)
        for (a, (a0, a1)), (b, (b0, b1)) in itertools.combinations(spans.items(), 2):
            together = max(a0, b0) < min(a1, b1)  # a result may take over an operand that ends
            if together and a.nbytes and b.nbytes:
                apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
                assert apart
        for buffer in spans:
            assert buffer.offset % ALIGNMENT == 0
            assert 0 <= buffer.offset <= placement.arena_nbytes - buffer.nbytes


CHAIN = """
graph @chain(%x: f32[1000], %s: f32[1000]) {
  %a: f32[1000] = softmax %x {axis=0}
  %b: f32[1000] = exp %a
  %c: f32[1000] = softmax %b {axis=0}
  %d: f32[1000] = exp %c
  %e: f32[1000] = softmax %d {axis=0}
  return %e
}
"""


def test_a_chain_needs_two_buffers() -> None:
    """exp works in place; softmax does not."""
    _, placement = placed(graph_of(CHAIN))
    assert placement.arena_nbytes == 2 * 4032  # 4,000 bytes, rounded up to the alignment
    assert placement.scratch_nbytes == 4 * 4032


EMPTY = """
graph @empty(%x: f32[0,4]) {
  %a: f32[0,0] = matmul_nt %x, %x
  %b: f32[0,0] = exp %a
  %c: f32[0,0] = exp %b
  return %c
}
"""


def test_the_place_of_what_no_step_writes() -> None:
    """The product has no elements and no step; the map may not take over a place it never got."""
    lowered, placement = placed(graph_of(EMPTY))
    assert len(lowered.steps) == 2
    assert {view.buffer.offset for _, view in arena_views(lowered)} == {0, ALIGNMENT}
    assert placement.arena_nbytes == 2 * ALIGNMENT


@pytest.mark.parametrize("compared", [memory.COMPARED, 0])
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    spans=st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(0, 20)), max_size=30
    )
)
def test_places_in_use_together_do_not_overlap(
    compared: int, spans: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "COMPARED", compared)
    places = [memory._Place(64 * size, min(a, b), max(a, b), []) for size, a, b in sorted(spans)]
    offsets, end = memory.Layout(places).lay_out([place.size for place in places])
    laid = [
        (p, int(offset), int(offset) + p.size) for p, offset in zip(places, offsets, strict=True)
    ]
    assert end == max([after for *_, after in laid], default=0)
    for (one, start, stop), (other, begin, after) in itertools.combinations(laid, 2):
        if one.first <= other.last and other.first <= one.last:
            assert stop <= begin or after <= start


def test_large_places_come_first() -> None:
    """In the order of time the last one would find two gaps, each too small for it."""
    sizes_and_lives = [(64, 0, 2), (128, 2, 3), (128, 0, 0), (192, 3, 4)]
    places = [memory._Place(size, first, last, []) for size, first, last in sizes_and_lives]
    sizes = [place.size for place in places]
    assert memory._in_turn(places, sizes)[1] == 384
    offsets, end = memory.Layout(places).lay_out(sizes)
    assert end == 320  # as many bytes are in use at once
    assert offsets.tolist() == [128, 192, 0, 0]


def test_members_that_use_places_at_other_times_share_them() -> None:
    def place(member: int, inside: tuple[int, int]) -> memory._Place:
        return memory._Place(64, 0, 9, [], member=member, inside=inside)

    def offsets(*places: memory._Place) -> list[int]:
        return memory.Layout(list(places)).lay_out([64] * len(places))[0].tolist()

    assert offsets(place(1, (0, 3)), place(1, (4, 9))) == [0, 0]
    assert offsets(place(1, (0, 4)), place(1, (4, 9))) == [0, 64]
    assert offsets(place(1, (0, 3)), place(2, (4, 9))) == [0, 64]
    assert offsets(place(-1, (0, 3)), place(-1, (4, 9))) == [0, 64]


def test_a_layout_without_memory() -> None:
    layout = memory.Layout([memory._Place(64, 0, 1, [])])
    native.lib.hyb_fail_allocation(1)
    try:
        with pytest.raises(OutOfMemoryError, match="the order of 1 places"):
            layout.lay_out([64])
    finally:
        native.lib.hyb_fail_allocation(0)
    with pytest.raises(NativeError, match="place 0: -64 bytes"):
        layout.lay_out([-64])
    assert layout.lay_out([128])[1] == 128


UPDATE = """
graph @update(%p: f32[8], %g: f32[8], %q: f32[8]) {
  %new: f32[8] = subtract %p, %g
  %sum: f32[8] = add %p, %q
  return %new, %sum
}
"""
UPDATE_LAST = """
graph @update(%p: f32[8], %g: f32[8], %q: f32[8]) {
  %sum: f32[8] = add %p, %q
  %new: f32[8] = subtract %p, %g
  return %new, %sum
}
"""


def test_a_result_may_overwrite_an_input_at_its_last_use_only() -> None:
    assert placed(graph_of(UPDATE))[1].donations == {0: 1, 1: 0}  # p is read again: g gives way
    assert placed(graph_of(UPDATE_LAST))[1].donations == {1: 2, 0: 0}


PRODUCT = """
graph @update(%x: f32[4,8], %y: f32[8,4], %p: f32[4,4], %row: f32[4]) {
  %g: f32[4,4] = matmul %x, %y
  %new: f32[4,4] = subtract %p, %g
  %biased: f32[4,4] = add %g, %row
  return %g, %new, %biased
}
"""
SQUARE = """
graph @square(%p: f32[4,4]) {
  %g: f32[4,4] = matmul %p, %p
  %new: f32[4,4] = subtract %p, %g
  return %new
}
"""


def test_a_post_op_may_overwrite_what_the_product_does_not_read() -> None:
    for text, donations in ((PRODUCT, {1: 2}), (SQUARE, {})):
        lowered, placement = placed(run_pipeline(graph_of(text)))
        assert [step.kernel for step in lowered.steps] == ["matmul"]
        assert placement.donations == donations


EARLY = """
graph @early(%p: f32[8], %i: i64[1], %q: f32[8]) {
  %new: f32[8] = add %p, %p
  %row: f32[1] = take %q, %i {axis=0}
  %late: f32[8] = add %q, %row
  return %new, %late
}
"""


def test_no_input_is_overwritten_before_a_step_that_may_fail() -> None:
    placement = placed(graph_of(EARLY))[1]
    assert placement.donations == {1: 2}
    assert placement.exposed == {0}


BROADCAST = """
graph @f(%row: f32[4], %x: f32[4,4]) {
  %y: f32[4,4] = add %x, %row
  return %y
}
"""


def test_a_repeated_operand_is_not_overwritten() -> None:
    assert placed(graph_of(BROADCAST))[1].donations == {0: 1}
