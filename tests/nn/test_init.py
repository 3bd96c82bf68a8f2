"""Initialisers: they write in place, within the limits of their formulas, from the generator."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ShapeError
from hybrid.nn import Parameter, init


def weight(*shape):
    return Parameter(hy.zeros(shape))


@pytest.mark.parametrize(
    ("fill", "value"),
    [(init.zeros_, 0.0), (init.ones_, 1.0), (lambda t: init.constant_(t, 2.5), 2.5)],
)
def test_constants(fill, value):
    w = init.uniform_(weight(2, 3))
    assert fill(w) is w
    assert w.tolist() == [[value] * 3] * 2 and w.requires_grad


@pytest.mark.parametrize(
    ("fill", "low", "high"),
    [
        (init.uniform_, 0.0, 1.0),
        (lambda t: init.uniform_(t, -2, 5), -2.0, 5.0),
        (init.kaiming_uniform_, -math.sqrt(6 / 200), math.sqrt(6 / 200)),
        (
            lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)),
            -1 / math.sqrt(200),
            1 / math.sqrt(200),
        ),
        (
            lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="linear"),
            -math.sqrt(3 / 300),
            math.sqrt(3 / 300),
        ),
        (init.xavier_uniform_, -math.sqrt(6 / 500), math.sqrt(6 / 500)),
        (
            lambda t: init.xavier_uniform_(t, gain=2),
            -2 * math.sqrt(6 / 500),
            2 * math.sqrt(6 / 500),
        ),
    ],
)
def test_uniform(fill, low, high):
    hy.random.seed(0)
    w = weight(300, 200)
    assert fill(w) is w
    values, width = w.numpy(), high - low
    assert low <= values.min() < low + 0.01 * width
    assert high - 0.01 * width < values.max() <= high
    assert abs(values.mean() - (low + high) / 2) < 0.01 * width


def test_normal():
    hy.random.seed(0)
    values = init.normal_(weight(300, 200), mean=1.0, std=0.5).numpy()
    assert abs(values.mean() - 1) < 0.01 and abs(values.std() - 0.5) < 0.01


def test_draws_come_from_the_generator():
    first = init.normal_(weight(3, 2), generator=hy.random.Generator(1))
    again = init.normal_(weight(3, 2), generator=hy.random.Generator(1))
    other = init.normal_(weight(3, 2), generator=hy.random.Generator(2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_fans_count_the_field():
    assert init.fans(weight(8, 4)) == (4, 8)
    assert init.fans(weight(8, 4, 3, 5)) == (60, 120)
    assert np.all(init.kaiming_uniform_(weight(3, 0)).numpy() == 0)


def test_errors():
    with pytest.raises(ShapeError, match=r"f32\[3\] has no fans"):
        init.xavier_uniform_(weight(3))
    with pytest.raises(ArgumentError, match="mode='fan' is unknown"):
        init.kaiming_uniform_(weight(3, 2), mode="fan")
    with pytest.raises(ArgumentError, match="no gain for 'swish'"):
        init.calculate_gain("swish")
