"""Tensors of as many dimensions as there may be."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.core.types import MAX_RANK
from hybrid.memory import native
from tests.helpers import same

SHAPE = (1, 2, 1, 1, 2) * 6 + (1, 3)
TURNED = tuple(reversed(range(MAX_RANK)))
X = np.arange(float(np.prod(SHAPE))).reshape(SHAPE)
Y = np.arange(float(np.prod(SHAPE[10:]))).reshape(SHAPE[10:])


def test_python_and_c_agree_on_the_rank() -> None:
    assert native.lib.HYB_MAX_RANK == MAX_RANK == len(SHAPE)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (lambda x: hy.permute_dims(x, TURNED), lambda x: x.transpose(TURNED)),
        (lambda x: hy.permute_dims(x, TURNED) + 1.0, lambda x: x.transpose(TURNED) + 1.0),
        (lambda x: hy.flip(x), np.flip),
        (lambda x: hy.sum(x, axis=(1, 4, -1)), lambda x: x.sum((1, 4, -1))),
        (lambda x: hy.cumulative_sum(x, axis=6), lambda x: x.cumsum(6)),
        (lambda x: hy.reshape(x, (4, -1)), lambda x: x.reshape(4, -1)),
        (lambda x: x[..., ::-1, :, 1], lambda x: x[..., ::-1, :, 1]),
        (lambda x: x - hy.asarray(Y), lambda x: x - Y),
        (lambda x: hy.concat([x, x], axis=9), lambda x: np.concatenate([x, x], 9)),
        (lambda x: hy.broadcast_to(x[:, :1], SHAPE), lambda x: np.broadcast_to(x[:, :1], SHAPE)),
        (lambda x: hy.einsum("...i,...->...i", x, x[..., 0]), lambda x: x * x[..., :1]),
    ],
)
def test_the_last_rank_is_like_others(function, reference) -> None:
    x = hy.asarray(X)
    eager, captured = function(x), hy.hybridize(function)(x)
    assert same(eager, captured)
    np.testing.assert_array_equal(eager.numpy(), reference(X))
