"""canonical turns products of transposed operands into transposes and products."""

import pytest

from hybrid.passes import canonical
from tests.helpers import assert_rewrites

CASES = {
    "the right operand transposed": (
        """
        graph @f(%x: f32[2,3], %w: f32[5,3]) {
          %y: f32[2,5] = matmul_nt %x, %w
          return %y
        }
        """,
        """
        graph @f(%x: f32[2,3], %w: f32[5,3]) {
          %t: f32[3,5] = permute_dims %w {axes=(1, 0)}
          %y: f32[2,5] = matmul %x, %t
          return %y
        }
        """,
    ),
    "the right operand of a product of bytes": (
        """
        graph @f(%x: u8[2,3], %w: i8[5,3]) {
          %y: i32[2,5] = matmul_integer_nt %x, %w
          return %y
        }
        """,
        """
        graph @f(%x: u8[2,3], %w: i8[5,3]) {
          %t: i8[3,5] = permute_dims %w {axes=(1, 0)}
          %y: i32[2,5] = matmul_integer %x, %t
          return %y
        }
        """,
    ),
    "the left operand transposed, in a batch": (
        """
        graph @f(%x: f64[4,3,2], %w: f64[4,3,5]) {
          %y: f64[4,2,5] = matmul_tn %x, %w
          return %y
        }
        """,
        """
        graph @f(%x: f64[4,3,2], %w: f64[4,3,5]) {
          %t: f64[4,2,3] = permute_dims %x {axes=(0, 2, 1)}
          %y: f64[4,2,5] = matmul %t, %w
          return %y
        }
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_canonical(before: str, after: str) -> None:
    assert_rewrites(canonical, before, after)
