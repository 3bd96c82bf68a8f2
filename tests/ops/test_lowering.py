"""Which kernels ops become: no copy where a view will do, and the fewest steps."""

import pytest

from hybrid.ir import parse
from hybrid.plan.lower import lower

CASES = [  # (name, graph, the kernels of its steps; "map" for elementwise ones)
    (
        "a transposed weight is read in place",
        """graph @g(%x: f32[8,3], %w: f32[5,3]) {
          %t: f32[3,5] = permute_dims %w {axes=(1, 0)}
          %y: f32[8,5] = matmul %x, %t
          return %y }""",
        ["matmul"],
    ),
    (
        "a batch times one matrix is one tall product",
        """graph @g(%x: f32[2,4,8,3], %w: f32[3,5]) {
          %y: f32[2,4,8,5] = matmul %x, %w
          return %y }""",
        ["matmul"],
    ),
    (
        "one matrix times a batch",
        """graph @g(%x: f32[8,3], %w: f32[2,3,5]) {
          %y: f32[2,8,5] = matmul %x, %w
          return %y }""",
        ["matmul"],
    ),
    (
        "batches that only a copy brings together",
        """graph @g(%x: f32[2,1,8,3], %w: f32[4,3,5]) {
          %y: f32[2,4,8,5] = matmul %x, %w
          return %y }""",
        ["copy", "copy", "matmul"],
    ),
    (
        "a row of each matrix of a stack, in place",
        """graph @g(%x: f32[4,8,3], %w: f32[3,5]) {
          %s: f32[4,1,3] = slice %x {size=(4, 1, 3), start=(0, 7, 0), step=(1, 1, 1)}
          %y: f32[4,1,5] = matmul %s, %w
          return %y }""",
        ["matmul"],
    ),
    (
        "such rows of which not every item is taken",
        """graph @g(%x: f32[4,8,6], %w: f32[3,5]) {
          %s: f32[4,1,3] = slice %x {size=(4, 1, 3), start=(0, 7, 0), step=(1, 1, 2)}
          %y: f32[4,1,5] = matmul %s, %w
          return %y }""",
        ["copy", "matmul"],
    ),
    (
        "a stack in reverse has to be copied",
        """graph @g(%x: f32[4,8,3], %w: f32[3,5]) {
          %f: f32[4,8,3] = flip %x {axis=(0,)}
          %y: f32[4,8,5] = matmul %f, %w
          return %y }""",
        ["copy", "matmul"],
    ),
    (
        "every other column of a matrix has to be copied",
        """graph @g(%x: f32[8,6], %w: f32[3,5]) {
          %s: f32[8,3] = slice %x {size=(8, 3), start=(0, 0), step=(1, 2)}
          %y: f32[8,5] = matmul %s, %w
          return %y }""",
        ["copy", "matmul"],
    ),
    (
        "a product over nothing is zero",
        """graph @g(%x: f32[8,0], %w: f32[0,5]) {
          %y: f32[8,5] = matmul %x, %w
          return %y }""",
        ["copy"],
    ),
    (
        "adjacent axes are reduced in place",
        """graph @g(%x: f32[2,3,4,5]) {
          %y: f32[2,5] = sum %x {axis=(1, 2), keepdims=false}
          return %y }""",
        ["sum"],
    ),
    (
        "axes of size 1 do not separate others",
        """graph @g(%x: f32[2,3,1,5]) {
          %y: f32[2,1] = sum %x {axis=(1, 3), keepdims=false}
          return %y }""",
        ["sum"],
    ),
    (
        "axes apart are brought together",
        """graph @g(%x: f32[2,3,4]) {
          %y: f32[3] = max %x {axis=(0, 2), keepdims=false}
          return %y }""",
        ["copy", "max"],
    ),
    (
        "softmax along the last axis",
        """graph @g(%x: f32[2,3,4]) {
          %y: f32[2,3,4] = softmax %x {axis=2}
          return %y }""",
        ["softmax"],
    ),
    (
        "softmax along another axis",
        """graph @g(%x: f32[2,3,4]) {
          %y: f32[2,3,4] = softmax %x {axis=1}
          return %y }""",
        ["copy", "softmax", "copy"],
    ),
    (
        "concat copies every operand to its place, empty ones not",
        """graph @g(%x: f32[2,3], %y: f32[2,0], %z: f32[2,4]) {
          %c: f32[2,7] = concat %x, %y, %z {axis=1}
          return %c }""",
        ["copy", "copy"],
    ),
    (
        "views chain into elementwise nodes without copies",
        """graph @g(%x: f32[3,2], %y: f32[3]) {
          %t: f32[2,3] = permute_dims %x {axes=(1, 0)}
          %f: f32[2,3] = flip %t {axis=(0,)}
          %b: f32[2,3] = broadcast_to %y {shape=(2, 3)}
          %z: f32[2,3] = add %f, %b
          return %z }""",
        ["map"],
    ),
]


def test_rows_of_a_stack_are_the_rows_of_one_product():
    """As where they are dense: the kernel sums in another order where there is but one row."""
    text = next(text for name, text, _ in CASES if name.startswith("a row of each matrix"))
    (step,) = lower(parse(text)).steps
    shapes = [view.shape for view in (*step.inputs, *step.outputs)]
    assert shapes == [(1, 4, 3), (1, 3, 5), (1, 4, 5)]


@pytest.mark.parametrize(("_name", "text", "kernels"), CASES, ids=[c[0] for c in CASES])
def test_ops_become_these_kernels(_name, text, kernels):
    assert [step.kernel or "map" for step in lower(parse(text)).steps] == kernels
