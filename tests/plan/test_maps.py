"""Maps behind matrix products: operands of any shape that broadcasts."""

import numpy as np
import pytest

import hybrid as hy
from tests.helpers import same

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
