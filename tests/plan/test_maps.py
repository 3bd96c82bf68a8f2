"""Maps behind matrix products: operands of any shape that broadcasts; maps in reductions."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.plan import interpret, make_plan
from tests.helpers import graph_of, same

BATCHES = [(), (4,), (2, 4), (1, 4), (4, 1)]
SHAPES = [(2,), (1,), (3, 2), (3, 1), (1, 1), (1, 2)]


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_follows_products_by_one_matrix(batch, shape) -> None:
    """All rows on the left are one tall matrix then; what is added may differ from row to row."""
    draw = np.random.default_rng(0).random
    a, b = hy.asarray(draw((*batch, 3, 3))), hy.asarray(draw((3, 2)))
    leads = [(), batch, (1,) * len(batch), batch[1:], (*batch[:1], *(1,) * len(batch[1:]))]
    for lead in leads if len(shape) == 2 else [()]:
        c = hy.asarray(draw((*lead, *shape)))

        def function(a, b, c):
            return hy.cos(a @ b) * c

        assert same(hy.hybridize(function)(a, b, c), function(a, b, c))


def test_what_a_reduction_makes_may_be_read_again() -> None:
    """By another of its pre-ops: the oracle sees it in the shape of what they walk."""
    graph = graph_of(
        """
        graph @again(%x: i8[4]) {
          %s: i8[4], %c: i8[4] = map_sum %x {axis=(), keepdims=false} {
            (%y: i8[4]) {
              %a: i8[4] = add %y, %y
              %b: i8[4] = add %y, %a
              return %a, %b
            }
          }
          return %s, %c
        }
        """
    )
    x = np.arange(4, dtype=np.int8)
    for found, wanted in zip(interpret(make_plan(graph), [x]), (2 * x, 3 * x), strict=True):
        np.testing.assert_array_equal(found, wanted)
