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


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (init.kaiming_normal_, math.sqrt(2 / 200)),
        (
            lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"),
            math.sqrt(2 / 300),
        ),
        (lambda t: init.kaiming_normal_(t, a=math.sqrt(3)), math.sqrt(0.5 / 200)),
        (init.xavier_normal_, math.sqrt(2 / 500)),
        (lambda t: init.xavier_normal_(t, gain=3), 3 * math.sqrt(2 / 500)),
    ],
)
def test_normal_by_fans(fill, std):
    hy.random.seed(0)
    w = weight(300, 200)
    assert fill(w) is w
    assert abs(w.numpy().mean()) < 0.02 * std and abs(w.numpy().std() - std) < 0.02 * std


def test_truncated_normal():
    hy.random.seed(0)
    values = init.trunc_normal_(weight(300, 200), mean=1.0, std=2.0, a=-1.0, b=2.0).numpy()
    assert -1 <= values.min() < -0.95 and 1.95 < values.max() <= 2
    # The mean of a normal distribution between -1 and 1/2 standard deviations.
    phi, cdf = (lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi)), math.erf
    mass = (cdf(0.5 / math.sqrt(2)) + cdf(1 / math.sqrt(2))) / 2
    assert abs(values.mean() - (1 + 2 * (phi(-1) - phi(0.5)) / mass)) < 0.01
    plain = init.trunc_normal_(weight(300, 200), std=0.02).numpy()
    assert abs(plain.std() - 0.02) < 0.001  # the limits are absolute: here they cut nothing


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (20, 20), (20, 5, 3, 2)])
def test_orthogonal(shape):
    hy.random.seed(0)
    w = init.orthogonal_(weight(*shape), gain=2.0).numpy().astype(np.float64)
    flat = w.reshape(shape[0], -1)
    product = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
    assert init.orthogonal_(weight(0, 3)).shape == (0, 3)


def test_orthogonal_signs_are_even():
    hy.random.seed(0)
    first = [init.orthogonal_(weight(3, 3)).numpy()[0, 0] > 0 for _ in range(200)]
    assert 70 < sum(first) < 130


def test_eye_and_dirac():
    np.testing.assert_array_equal(init.eye_(weight(2, 3)).numpy(), np.eye(2, 3))
    x = hy.random.normal(size=(1, 4, 5, 7))
    for groups, shape in ((1, (4, 4, 3, 3)), (2, (4, 2, 3, 3))):
        w = init.dirac_(weight(*shape), groups)
        kept = hy.conv2d(x, w, padding=1, groups=groups)
        np.testing.assert_array_equal(kept.numpy(), x.numpy())
    assert init.dirac_(weight(5, 2, 3)).numpy()[2:].sum() == 0
    assert init.dirac_(weight(2, 2, 1, 3, 3)).numpy()[1, 1, 0, 1, 1] == 1


def test_sparse():
    hy.random.seed(0)
    values = init.sparse_(weight(100, 30), 0.25, std=0.1).numpy()
    assert ((values == 0).sum(0) == 25).all()
    assert abs(values[values != 0].std() - 0.1) < 0.01
    assert ((values == 0).sum(1) < 30).all()  # not the same places in every column
    assert not init.sparse_(weight(3, 2), 1.0).numpy().any()


@pytest.mark.parametrize(
    ("nonlinearity", "gain"),
    [
        ("linear", 1.0),
        ("conv2d", 1.0),
        ("conv_transpose3d", 1.0),
        ("sigmoid", 1.0),
        ("tanh", 5 / 3),
        ("relu", math.sqrt(2)),
        ("selu", 0.75),
        ("leaky_relu", math.sqrt(2 / 1.0001)),
    ],
)
def test_gains(nonlinearity, gain):
    assert init.calculate_gain(nonlinearity) == pytest.approx(gain)
    assert init.calculate_gain("leaky_relu", 0.5) == pytest.approx(math.sqrt(2 / 1.25))


def test_initialisers_write_parameters_inside_plans():
    w = weight(20, 10)
    hy.random.seed(3)
    hy.hybridize(lambda: init.kaiming_normal_(w) * 1)()
    first = w.numpy().copy()
    hy.random.seed(3)
    init.kaiming_normal_(w)
    assert first.tobytes() == w.numpy().tobytes() and first.any()


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
    for call, message in [
        (
            lambda: init.calculate_gain("leaky_relu", "0"),
            "the slope '0' is not a number\nFix: give a number.",
        ),
        (
            lambda: init.eye_(weight(3)),
            "eye_ cannot fill f32[3]\nIt takes tensors of 2 dimensions.\n"
            "Fix: use uniform_ or normal_.",
        ),
        (
            lambda: init.dirac_(weight(3, 2)),
            "dirac_ cannot fill f32[3,2]\nIt takes tensors of 3 to 5 dimensions.\n"
            "Fix: use uniform_ or normal_.",
        ),
        (
            lambda: init.dirac_(weight(3, 2, 1), 2),
            "dirac_ cannot make 2 groups of 3 outputs\nFix: give a divisor.",
        ),
        (
            lambda: init.sparse_(weight(3, 2), 2),
            "sparse_ got sparsity 2\nFix: give a number from 0 to 1.",
        ),
        (
            lambda: init.orthogonal_(weight(3)),
            "orthogonal_ cannot fill f32[3]\nIt takes tensors of 2 dimensions.\n"
            "Fix: use uniform_ or normal_.",
        ),
    ]:
        with pytest.raises(hy.HybridError) as caught:
            call()
        assert str(caught.value) == message
